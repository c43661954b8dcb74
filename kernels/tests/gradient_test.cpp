// The adjoints, in the kernels' own fp64 instantiation, against central differences.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "kernels/tests/problem.hpp"

using namespace assay::cpu;
using namespace assay::cpu::testing;

namespace {

double objective(const Problem& p) {
  RunSettings settings;
  settings.gradients = false;
  const Tensors outputs = run(p, settings);
  double sum = 0;
  for (const auto& [name, v] : outputs) {
    const auto d = p.cotangents.find("d_" + name);
    if (d == p.cotangents.end()) continue;
    for (std::size_t i = 0; i < v.data.size(); ++i) sum += v.data[i] * d->second.data[i];
  }
  return sum;
}

Problem moved(const Problem& p, const std::string& input, const std::vector<double>& direction,
              double h) {
  Problem r = p;
  std::vector<double>& data = r.inputs.at(input).data;
  for (std::size_t i = 0; i < data.size(); ++i) data[i] += h * direction[i];
  return r;
}

// Along one random direction per input, by the five-point formula. Its error is h^4 / 30 of the
// fifth derivative, 4e-10 of the derivative for the most curved operation here (the norm of
// m2rnn_block), plus 1e-12 of rounding.
void require_adjoint(const Problem& p, std::uint64_t seed) {
  const Tensors analytic = run(p);
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  for (const auto& [name, v] : p.inputs) {
    std::vector<double> direction(v.data.size());
    for (double& x : direction) x = normal(engine);
    const double h = 1e-4;
    const auto f = [&](double step) { return objective(moved(p, name, direction, step)); };
    const double numeric = (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h);
    double exact = 0, scale = 1;
    const std::vector<double>& d = analytic.at("d_" + name).data;
    for (std::size_t i = 0; i < d.size(); ++i) {
      exact += d[i] * direction[i];
      scale += std::fabs(d[i] * direction[i]);
    }
    CAPTURE(p.op, name, seed, numeric, exact);
    REQUIRE(std::fabs(numeric - exact) <= 1e-8 * scale);
  }
}

}  // namespace

TEST_CASE("cpu/gradient: every adjoint is the derivative of its forward pass", "[cpu][gradient]") {
  for (const std::string& op : all_operations()) {
    for (std::uint64_t seed : {1, 2}) require_adjoint(random_problem(op, seed), seed);
  }
}

TEST_CASE("cpu/gradient: chunk forms, over several chunks and a short last one",
          "[cpu][gradient]") {
  for (const std::string& op : chunked_operations()) {
    for (std::int64_t chunk : {1, 2, 4, 64}) {
      require_adjoint(random_problem(op, 3, [&](Problem& p) { p.options.chunk = chunk; }), 3);
    }
  }
}

TEST_CASE("cpu/gradient: normalised queries and keys, corrected queries, a given scale",
          "[cpu][gradient]") {
  for (const char* op :
       {"mdn", "mdn_fused_gates", "comba", "kda", "gated_delta_product", "hgrn2", "mom"}) {
    require_adjoint(random_problem(op, 4,
                                   [](Problem& p) {
                                     p.options.qk_l2norm = true;
                                     p.options.l2norm_eps = 0.25;
                                     p.options.has_scale = true;
                                     p.options.scale = 0.75;
                                   }),
                    4);
  }
}

TEST_CASE("cpu/gradient: head groups and packed sequences", "[cpu][gradient]") {
  const auto packed = [](Problem& p) {
    p.size['B'] = 1;
    p.size['H'] = p.size['N'] = 4;
    p.cu_seqlens = {0, 0, 4, 9, 9};
  };
  require_adjoint(random_problem("mdn", 5, packed, {{"q", 1}, {"k", 2}, {"mu", 2}, {"eta", 1}}), 5);
  require_adjoint(random_problem("mdn_fused_gates", 15, packed,
                                 {{"q", 1}, {"x_alpha", 2}, {"x_eta", 1}, {"a_mu", 2}}),
                  15);
  require_adjoint(random_problem("kda", 6, packed, {{"q", 2}, {"alpha", 1}, {"v", 2}}), 6);
  require_adjoint(random_problem("m2rnn", 7, packed, {{"q", 1}, {"w", 2}, {"f", 2}}), 7);
  require_adjoint(random_problem("mom", 8, packed, {{"q", 1}, {"k_mem", 2}, {"v_shared", 1}}), 8);
  require_adjoint(random_problem("lstm", 9, packed, {{"x", 2}, {"w_hh", 1}}), 9);
  require_adjoint(random_problem("m2rnn_block", 10, packed, {{"w_q", 2}, {"w_o", 1}, {"a", 1}}),
                  10);
}

TEST_CASE("cpu/gradient: mom over every update", "[cpu][gradient]") {
  // The default lines are those of gdn; additive updates read no beta, and mdn needs mu besides.
  Problem p = random_problem("mom", 11);
  for (const char* name : {"beta_mem", "beta_shared"}) p.inputs.erase(name);
  p.options.update = "ssd";
  require_adjoint(p, 11);
  Problem m = random_problem("mom", 12);
  m.options.update = "mdn";
  m.inputs["mu_mem"] = m.inputs["beta_mem"];
  m.inputs["mu_shared"] = m.inputs["beta_shared"];
  m.inputs["m0"] = m.inputs["s0"];
  require_adjoint(m, 12);
}

TEST_CASE("cpu/gradient: SiLU after the convolution", "[cpu][gradient]") {
  require_adjoint(random_problem("causal_conv1d", 13, [](Problem& p) { p.options.silu = true; }),
                  13);
}

TEST_CASE("cpu/gradient: state_grad_clip clamps the cotangent of the state", "[cpu][gradient]") {
  // One step: C_T itself is clamped, and d_h0 is not.
  Problem p = random_problem("m2rnn", 14, [](Problem& q) { q.size['T'] = 1; });
  Problem clamped = p;
  for (double& x : clamped.cotangents.at("d_h_final").data) {
    x = std::fmin(std::fmax(x, -0.25), 0.25);
  }
  p.options.has_state_grad_clip = true;
  p.options.state_grad_clip = 0.25;
  REQUIRE(same_bits(run(p), run(clamped)));
}
