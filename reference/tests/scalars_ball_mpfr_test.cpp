// The two arbitrary-precision engines against each other: they share no arithmetic, so an MPFR
// value at a higher precision must lie in the ball.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "reference/scalars/ball.hpp"
#include "reference/scalars/mpfr.hpp"

using namespace assay;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool contains(const Ball& ball, const Mpfr& value) {
  return arb_contains_mpfr(ball.raw(), value.backend().data()) != 0;
}

// f in balls at 100 bits on [x - r, x + r] must contain f in MPFR at 400 bits on points of it.
template <class Function>
void check_function(const char* name, double lo, double hi, double radius, Function f) {
  std::mt19937_64 g(5);
  std::uniform_real_distribution<double> uniform(lo, hi);
  for (int n = 0; n < 200; ++n) {
    double x = uniform(g);
    if (n % 4 == 0) x *= std::ldexp(1.0, -static_cast<int>(g() % 40));
    if (!(x >= lo && x <= hi)) continue;
    double r = n % 2 == 0 ? 0 : std::fmin(radius, (x - lo) / 2);
    Ball y;
    {
      PrecisionScope precision(100);
      y = f(Ball::from_midpoint_radius(x, r));
    }
    PrecisionScope precision(400);
    INFO(name << " of " << x << " +- " << r);
    for (double side : {-1.0, -0.5, 0.0, 1.0}) {
      Mpfr point =
          fn::from_double<Mpfr>(x) + fn::from_double<Mpfr>(side) * fn::from_double<Mpfr>(r);
      CHECK(contains(y, f(point)));
    }
    if (r == 0) CHECK(y.accuracy_bits() > 90);
  }
}

}  // namespace

TEST_CASE("scalars/ball: elementary functions contain MPFR at higher precision",
          "[scalars][ball][mpfr]") {
  check_function("exp", -50, 50, 0.25, [](const auto& x) { return fn::exp(x); });
  check_function("log", 1e-3, 50, 1, [](const auto& x) { return fn::log(x); });
  check_function("log1p", -0.75, 5, 0.1, [](const auto& x) { return fn::log1p(x); });
  check_function("sqrt", 0, 50, 1, [](const auto& x) { return fn::sqrt(x); });
  check_function("tanh", -8, 8, 0.25, [](const auto& x) { return fn::tanh(x); });
  check_function("sigmoid", -80, 80, 0.5, [](const auto& x) { return fn::sigmoid(x); });
  check_function("softplus", -60, 80, 0.5, [](const auto& x) { return fn::softplus(x); });
  check_function("quotient", 0.5, 2, 0.125, [](const auto& x) { return 1 / (x * x + 1) - x; });
}

TEST_CASE("scalars/ball: undecided comparisons enclose both branches", "[scalars][ball]") {
  Ball wide = Ball::from_midpoint_radius(0.25, 1);
  CHECK_FALSE(fn::less(0, wide));
  CHECK_FALSE(fn::less(wide, 0));
  CHECK(fn::less(Ball::from_midpoint_radius(0.25, 0.125), 1));
  Ball step = fn::heaviside(wide);
  CHECK(step.contains(0));
  CHECK(step.contains(1));
  CHECK(fn::is_zero(fn::heaviside(Ball(0))));
  CHECK(fn::heaviside(Ball(1)).contains(1));
  CHECK(fn::heaviside(Ball(1)).radius() == 0);
  Ball clamped = fn::clamp(wide, -1, 1);
  for (double x : {-0.75, 0.0, 1.0}) CHECK(clamped.contains(fn::from_double<Ball>(x)));
  CHECK_FALSE(fn::clamp(wide, -1, Ball(2) / 4).contains(Ball(2)));
  Ball top = fn::max(wide, fn::from_double<Ball>(0.5));
  CHECK(top.contains(fn::from_double<Ball>(0.5)));
  CHECK(top.contains(fn::from_double<Ball>(1.25)));
}

TEST_CASE("scalars/ball: special values", "[scalars][ball][mpfr]") {
  Ball minus_infinity = fn::from_double<Ball>(-kInfinity);
  CHECK(fn::is_zero(fn::exp(minus_infinity)));
  CHECK(fn::is_zero(fn::sigmoid(minus_infinity)));
  CHECK(fn::is_zero(fn::softplus(minus_infinity)));
  CHECK(fn::to_double(minus_infinity + 1) == -kInfinity);
  CHECK(fn::exp(Ball(0)).radius() == 0);
  CHECK_FALSE(fn::is_finite(Ball(1) / 0));
  CHECK_FALSE(fn::is_zero(Ball::from_midpoint_radius(0, 1e-300)));
  CHECK_THROWS_AS(fn::from_double<Ball>(std::nan("")), std::invalid_argument);
  CHECK_THROWS_AS(fn::from_double<Mpfr>(std::nan("")), std::invalid_argument);

  Mpfr gate_off = fn::from_double<Mpfr>(-kInfinity);
  CHECK(fn::is_zero(fn::exp(gate_off)));
  CHECK(fn::is_zero(fn::sigmoid(gate_off)));
  CHECK(fn::is_zero(fn::softplus(gate_off)));
  CHECK(fn::exp(Mpfr(0)) == 1);
  CHECK(fn::less(gate_off, 0));
  CHECK_FALSE(fn::is_finite(gate_off));
  CHECK(fn::clamp(Mpfr(5), -1, 1) == 1);
  CHECK(fn::heaviside(Mpfr(0)) == 0);
  CHECK(fn::to_double(fn::from_double<Mpfr>(5e-324)) == 5e-324);
}

TEST_CASE("scalars/precision: each thread has at least the bits it asked for",
          "[scalars][precision]") {
  const std::vector<long> requests{53, 64, 100, 168, 170, 192, 256, 333, 1000, 4097};
  std::vector<int> good(requests.size(), 0);
  std::vector<std::thread> threads;
  for (std::size_t k = 0; k < requests.size(); ++k) {
    threads.emplace_back([&, k] {
      bool ok = working_precision() == kDefaultPrecision;
      for (int round = 0; round < 50; ++round) {
        PrecisionScope scope(requests[k]);
        Mpfr third = Mpfr(1) / 3;
        Mpfr sum = third;
        fn::mul_add(sum, third, third);
        long bits = precision_of(third);
        ok = ok && working_precision() == requests[k] && bits >= requests[k] &&
             bits <= requests[k] + 5 && precision_of(sum) >= requests[k] &&
             (Ball(1) / 3).accuracy_bits() >= requests[k] - 2;
      }
      good[k] = ok && working_precision() == kDefaultPrecision &&
                precision_of(Mpfr(1)) == kDefaultPrecision;
    });
  }
  for (std::thread& t : threads) t.join();
  for (std::size_t k = 0; k < requests.size(); ++k) {
    INFO(requests[k] << " bits");
    CHECK(good[k] == 1);
  }
}

TEST_CASE("scalars/precision: scopes nest, bad requests are refused, old numbers are widened",
          "[scalars][precision]") {
  for (long bits = 53; bits < 2000; ++bits) {
    PrecisionScope scope(bits);
    if (!(precision_of(Mpfr(1)) >= bits)) FAIL_CHECK("narrower than " << bits);
  }
  PrecisionScope outer(64);
  Mpfr old = Mpfr(1) / 3;
  std::vector<Mpfr> sums(3);
  {
    PrecisionScope inner(512);
    Mpfr a = Mpfr(1) / 3;
    la::axpy(3, a, std::vector<Mpfr>(3, a).data(), sums.data());
    fn::mul_add(old, a, a);
    for (const Mpfr& s : sums) CHECK(abs(s - a * a) < Mpfr(1) / Mpfr(1e150));
    CHECK(precision_of(old) >= 512);
    CHECK(precision_of(fn::exp(a)) >= 512);
  }
  CHECK(working_precision() == 64);
  CHECK(precision_of(Mpfr(1)) < 70);
  CHECK_THROWS_AS(PrecisionScope(52), std::invalid_argument);
  CHECK_THROWS_AS(PrecisionScope(0), std::invalid_argument);
  CHECK_THROWS_AS(PrecisionScope(1L << 40), std::invalid_argument);
  CHECK(working_precision() == 64);
}
