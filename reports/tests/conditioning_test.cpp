// Coefficients and condition numbers against numbers from a numpy prototype that shares no code.
#include "reports/conditioning/conditioning.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "reports/tests/traces.hpp"

using namespace assay;
using namespace assay::reports;

namespace {

double fp32(double x) { return static_cast<double>(static_cast<float>(x)); }

/// 64 equal steps with one key.
ChunkGates constant(double log_alpha, double beta, double log_mu, double eta = 1) {
  ChunkGates g;
  g.alpha.assign(64, fp32(std::exp(log_alpha)));
  g.beta.assign(64, fp32(beta));
  g.mu.assign(64, fp32(std::exp(log_mu)));
  g.eta.assign(64, eta);
  g.k.assign(64, 1.0);
  g.K = 1;
  return g;
}

CoefficientError error_of(const ChunkGates& g, CoefficientForm form, Format format = Format::fp32) {
  return coefficient_error(true_coefficients(g), coefficients(g, form, format), g.n());
}

}  // namespace

TEST_CASE("conditioning/coefficients: the true ones are the division-free sum", "[conditioning]") {
  ChunkGates g = constant(0, 0, 0);
  for (int i = 0; i < 64; ++i) {
    g.alpha[i] = 0.5 + 0.4 * std::sin(i);
    g.beta[i] = 0.3 + 0.2 * std::cos(3 * i);
    g.mu[i] = 0.6 + 0.3 * std::sin(5 * i);
  }
  const std::vector<double> gamma = true_coefficients(g);
  for (int i = 0; i < 64; i += 7) {
    for (int j = 0; j <= i; ++j) {
      double sum = 0;  // Σ_r β_r Π_{u>r} α_u Π_{u=j+1..r} μ_u
      for (int r = j; r <= i; ++r) {
        double term = g.beta[r];
        for (int u = r + 1; u <= i; ++u) term *= g.alpha[u];
        for (int u = j + 1; u <= r; ++u) term *= g.mu[u];
        sum += term;
      }
      CHECK(gamma[i * 64 + j] == Approx(sum).epsilon(1e-13));
    }
  }
  // Mild gates: all three forms agree to a few digits less than fp32 has.
  const ChunkGates mild = constant(-0.05, 0.05, -0.06);
  CHECK(error_of(mild, CoefficientForm::recursion).relative < 1e-5);
  CHECK(error_of(mild, CoefficientForm::log).relative < 1e-3);
  CHECK(error_of(mild, CoefficientForm::direct).relative < 1e-3);
}

TEST_CASE("conditioning/coefficients: where fp32 overflows is where the prototype saw it",
          "[conditioning]") {
  CHECK(error_of(constant(-0.01, 0.00995, -1.357), CoefficientForm::log).non_finite == 0);
  CHECK(error_of(constant(-0.01, 0.00995, -1.5), CoefficientForm::log).non_finite == 1);
  CHECK(error_of(constant(-0.01, 0.00995, -2), CoefficientForm::log).non_finite == 153);
  CHECK(error_of(constant(-1.36, 0.3, -0.05), CoefficientForm::direct).non_finite == 0);
  CHECK(error_of(constant(-1.65, 0.3, -0.05), CoefficientForm::direct).non_finite == 484);
  CHECK(error_of(constant(-5, 0.3, -0.05), CoefficientForm::direct).non_finite == 1909);
}

TEST_CASE("conditioning/coefficients: the log domain cancels where mu decays faster than alpha",
          "[conditioning]") {
  const ChunkGates g = constant(-0.01, 0.00995, -1);
  CHECK(error_of(g, CoefficientForm::log).relative > 0.99);  // nothing is left
  CHECK(error_of(g, CoefficientForm::recursion).relative < 2.1e-6);
  CHECK(chunk_range(g).cancelled_digits == 16);
  CHECK(chunk_range(g).largest_exponent > 50);
  // Gates of exactly 0 are no trouble for the recursion and undefined for the logarithm.
  ChunkGates zero = constant(-0.1, 0.5, -0.1);
  zero.alpha[10] = zero.mu[20] = zero.beta[30] = 0;
  CHECK(error_of(zero, CoefficientForm::recursion).relative < 1e-5);
  CHECK(error_of(zero, CoefficientForm::log).non_finite == 64 * 65 / 2);
}

TEST_CASE("conditioning/system: norms of the inverse are those of the prototype",
          "[conditioning]") {
  CHECK(chunk_range(constant(0, 1, 0, 2)).inverse_norm == Approx(41).epsilon(0.02));
  ChunkGates g;
  g.K = 1;
  const double mus[3] = {0.001, 0.999, 0.999}, alphas[3] = {0.999, 0.999, 0.001};
  for (int i = 0; i < 64; ++i) {
    g.alpha.push_back(alphas[i % 3]);
    g.beta.push_back(i % 3 == 2 ? 0.999 : 0.001);
    g.mu.push_back(mus[i % 3]);
    g.eta.push_back(1.999);
    g.k.push_back(1);
  }
  const ChunkRange range = chunk_range(g);
  CHECK(range.inverse_norm == Approx(3.7e12).epsilon(0.02));
  CHECK(range.condition >= range.inverse_norm);
  // Orthogonal keys: the system is the identity.
  ChunkGates apart = constant(-0.1, 0.5, -0.1);
  apart.K = 64;
  apart.k.assign(64 * 64, 0.0);
  for (int i = 0; i < 64; ++i) apart.k[i * 65] = 1;
  CHECK(chunk_range(apart).condition == Approx(1.0));
}

TEST_CASE("conditioning/delta: mu = 0 makes the delta rule", "[conditioning]") {
  ChunkGates g = constant(-0.2, 0.4, 0);
  g.mu.clear();
  const std::vector<double> gamma = true_coefficients(g);
  CHECK(gamma[10 * 64 + 7] == Approx(g.beta[7] * std::pow(g.alpha[0], 3)).epsilon(1e-13));
  for (const auto form :
       {CoefficientForm::direct, CoefficientForm::log, CoefficientForm::recursion}) {
    CHECK(error_of(g, form).relative < 1e-4);
  }
}

TEST_CASE("conditioning/report: the traces, one line for what has no chunk form",
          "[conditioning]") {
  const auto units = trace_conditioning(Trace(sample("mdn_mqar")), {});
  REQUIRE(units.size() == 2);
  CHECK(units[0].lengths[2].C == 64);
  CHECK(units[0].lengths[2].chunks == 4);
  CHECK(trace_conditioning(Trace(sample("mom_mqar")), {}).size() == 20);
  CHECK_THROWS_AS(trace_conditioning(Trace(sample("m2rnn_s3")), {}), InputError);
  const UnitConditioning box =
      box_conditioning(parse_box("mdn:coupled,s=1,mu=0.135:0.2,alpha=0.9:1"), 2);
  CHECK(box.lengths[2].error[1][0].non_finite + box.lengths[2].error[1][0].scaled > 1);
  CHECK(box.lengths[2].error[2][0].scaled < 1e-5);
}
