// Exponents and norms of products against systems whose values are known.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "reports/stability/qr_product.hpp"
#include "reports/stability/stability.hpp"
#include "reports/tests/traces.hpp"

using namespace assay;
using namespace assay::reports;

TEST_CASE("lyapunov: diagonal factors give the mean logarithms", "[stability]") {
  QrProduct product(3, 3, 4);
  // Alternating diag(2, 1/2, 1) and diag(3, 1/3, 1/5): means of the logarithms, in order.
  for (int t = 0; t < 1000; ++t) {
    const Eigen::Vector3d d = t % 2 ? Eigen::Vector3d(3, 1.0 / 3, 0.2) : Eigen::Vector3d(2, 0.5, 1);
    product.columns() = d.asDiagonal() * product.columns();
    product.stepped();
  }
  const Exponents e = product.exponents();
  CHECK(e.value[0] == Approx(std::log(6.0) / 2).epsilon(1e-12));
  CHECK(e.value[1] == Approx(std::log(0.2) / 2).epsilon(1e-12));
  CHECK(e.value[2] == Approx(std::log(1.0 / 6) / 2).epsilon(1e-12));
  CHECK(product.log_norm() == Approx(500 * std::log(6.0)).epsilon(1e-12));
  CHECK(e.half_width[0] < 0.02);
}

TEST_CASE("lyapunov: rotation and scaling give the logarithm of the scale twice", "[stability]") {
  QrProduct product(2, 2, 8);
  Eigen::Matrix2d A;
  A << std::cos(0.7), -std::sin(0.7), std::sin(0.7), std::cos(0.7);
  A *= 1.01;
  for (int t = 0; t < 20000; ++t) {
    product.columns() = A * product.columns();
    product.stepped();
  }
  const Exponents e = product.exponents();
  CHECK(e.value[0] == Approx(std::log(1.01)).epsilon(1e-10));
  CHECK(e.value[1] == Approx(std::log(1.01)).epsilon(1e-10));
  CHECK(product.log_norm() == Approx(20000 * std::log(1.01)).epsilon(1e-10));  // 10^86
}

TEST_CASE("lyapunov: the random Fibonacci sequence grows at Viswanath's constant", "[stability]") {
  // Products of [[0, 1], [1, ±1]] with a fair coin: 0.12397559880...   [Viswanath, Math. Comp. 69
  // (2000)]; |det| = 1, so the other exponent is the negative.
  std::mt19937_64 coin(1);
  QrProduct product(2, 2, 4);
  for (int t = 0; t < 1000000; ++t) {
    Eigen::Matrix2d A;
    A << 0, 1, 1, coin() >> 63 ? 1 : -1;
    product.columns() = A * product.columns();
    product.stepped();
  }
  const Exponents e = product.exponents();
  INFO(e.value[0] << " ± " << e.half_width[0]);
  CHECK(std::abs(e.value[0] - 0.1239755988) < 2 * e.half_width[0]);
  CHECK(e.half_width[0] < 2e-3);  // and the band says something
  CHECK(e.value[0] + e.value[1] == Approx(0.0).margin(1e-12));
}

TEST_CASE("stability/m2rnn: at the zero state W = c orthogonal gives |f + (1-f) c e^iφ|",
          "[stability]") {
  // Without input H stays 0 and J = f I + (1-f) W^T; W is normal, so the exponents are those of its
  // eigenvalues: rotations by 0.3 and 1.9 here.
  for (const double c : {1.0, 1.2, 1.5, 2.0}) {
    for (const double f : {0.0, 0.5}) {
      TemporaryTrace file("m2rnn", "B=1,T=400,N=1,K=2,V=4");
      file.change([&](Case& data) {
        for (auto& [name, tensor] : data.tensors) {
          std::fill(tensor.values.begin(), tensor.values.end(), name == "f" ? f : 0.0);
        }
        std::vector<double>& w = data.tensors.at("w").values;
        for (const int at : {0, 2}) {
          const double angle = at == 0 ? 0.3 : 1.9;
          w[at * 4 + at] = w[(at + 1) * 4 + at + 1] = c * std::cos(angle);
          w[at * 4 + at + 1] = -c * std::sin(angle);
          w[(at + 1) * 4 + at] = c * std::sin(angle);
        }
      });
      const UnitStability u = trace_stability(Trace(file.path()), {}).front();
      const auto exponent = [&](double angle) {
        return std::log(std::abs(f + (1 - f) * std::polar(c, angle)));
      };
      INFO("c = " << c << ", f = " << f);
      CHECK(u.exponents.value[0] == Approx(exponent(0.3)).margin(1e-9));
      CHECK(u.exponents.value[3] == Approx(exponent(1.9)).margin(1e-9));
      CHECK(u.forward.log10_norm.back() == Approx(400 * exponent(0.3) / std::log(10)).margin(1e-6));
      CHECK(u.backward.log10_norm.back() == Approx(u.forward.log10_norm.back()).margin(1e-6));
      CHECK(u.jacobian->norm_w == Approx(c));
      CHECK(u.jacobian->mean_log == Approx(std::log(f + (1 - f) * c)).margin(1e-12));
      CHECK(u.exponents.value[0] <= u.jacobian->mean_log + 1e-9);
    }
  }
}

TEST_CASE("stability/mdn: an unstable period whose spectral radius is known exactly",
          "[stability]") {
  // Two steps with one key, gates (α,β,μ,η) = (.1,.9,.9,1.9) and (.9,.1,.1,1.9): the product on
  // (k, k) has trace -1348759/10^6 and determinant 81/10^4.
  const double trace = -1348759e-6, det = 81e-4;
  const double radius = (-trace + std::sqrt(trace * trace - 4 * det)) / 2;
  TemporaryTrace file("mdn", "B=1,T=512,H=1,K=3,V=1");
  file.change([](Case& c) {
    for (auto& [name, tensor] : c.tensors) {
      for (std::size_t i = 0; i < tensor.values.size(); ++i) {
        double& x = tensor.values[i];
        if (name == "alpha") x = i % 2 ? 0.9 : 0.1;
        if (name == "beta") x = i % 2 ? 0.1 : 0.9;
        if (name == "mu") x = i % 2 ? 0.1 : 0.9;
        if (name == "eta") x = 1.9;
        if (name == "k") x = i % 3 == 1;
      }
    }
  });
  const UnitStability u = trace_stability(Trace(file.path()), {}).front();
  CHECK(u.exact);
  CHECK(u.exponents.value[0] == Approx(std::log(radius) / 2).epsilon(2e-3));  // transient: 1/T
  const double slope = (u.forward.log10_norm[509] - u.forward.log10_norm[309]) / 200;
  CHECK(slope == Approx(std::log10(radius) / 2).epsilon(1e-9));
  CHECK(u.backward.log10_norm.back() == Approx(u.forward.log10_norm.back()).epsilon(1e-12));
  // Frozen, every one of these steps is stable.
  CHECK(trace_spectrum(Trace(file.path()), {}).front().outside_steps == 0);
}

TEST_CASE("stability: applying a step equals its transition, and its transpose is the adjoint",
          "[stability]") {
  const TemporaryTrace file("mdn", "B=1,T=4,H=1,K=3,V=2");
  const Trace trace(file.path());
  const TraceUnit& unit = trace.units().front();
  SliceInMemory slice(trace, unit, 0, 4, 6);
  REQUIRE(slice.order() == 6);
  for (std::int64_t s = 0; s < 4; ++s) {
    std::vector<double> A;
    Step step = slice.step(s);
    REQUIRE(step.recurrence->transition(*step.context, step.x, nullptr, A) == 6);
    RowMatrix X = RowMatrix::Identity(6, 6), Y = X;
    slice.apply(s, X.data());
    slice.apply_transposed(s, Y.data());
    const Eigen::Map<const RowMatrix> dense(A.data(), 6, 6);
    CHECK((X - dense).cwiseAbs().maxCoeff() < 1e-15);
    CHECK((Y - dense.transpose()).cwiseAbs().maxCoeff() < 1e-15);
  }
}

TEST_CASE("stability/clip: the shares count what lies beyond the threshold", "[stability]") {
  TemporaryTrace file("m2rnn", "B=1,T=8,N=1,K=2,V=2");
  file.change([](Case& c) {
    c.options["state_grad_clip"] = 0.5;
    for (auto& [name, tensor] : c.tensors) {
      double value = 0;  // no state, no input: C_{t-1} = f (C_t + q u^T)
      if (name == "f") value = 1;
      if (name == "q" || name == "d_y") value = 1;
      std::fill(tensor.values.begin(), tensor.values.end(), value);
    }
  });
  const UnitStability u = trace_stability(Trace(file.path()), {}).front();
  REQUIRE(u.clip);
  REQUIRE(u.clip->option);
  // Without the clamp C is 1, 2, ..., 8 going back.
  CHECK(u.clip->largest == 8);
  for (std::size_t i = 0; i < u.clip->threshold.size(); ++i) {
    const double beyond = u.clip->threshold[i] < 1 ? 1 : u.clip->threshold[i] < 8 ? 7.0 / 8 : 0;
    CHECK(u.clip->steps[i] == beyond);
    CHECK(u.clip->elements[i] == beyond);
  }
}
