// Derivative rules of Dual against central differences of balls, and their algebraic form over the
// field.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "reference/scalars/scalars.hpp"

using namespace assay;

namespace {

// |f' - (f(x + h) - f(x - h)) / 2h| <= h^2 max|f'''| / 6; the third derivatives of the functions
// below are smaller than 6000 at the points used.
constexpr double kStep = 0x1p-60;

template <class Function>
Ball difference_quotient(Function f, const Ball& x) {
  Ball h = fn::from_double<Ball>(kStep);
  return (f(x + h) - f(x - h)) / (2 * h);
}

template <class Function>
void check_derivative(const char* name, double x, Function f) {
  PrecisionScope precision(400);
  Ball point = fn::from_double<Ball>(x);
  Ball tangent = fn::from_double<Ball>(-0.375);
  Dual<Ball> y = f(Dual<Ball>(point, tangent));
  Ball expected = difference_quotient(f, point) * tangent;
  Ball tolerance = Ball::from_midpoint_radius(0, 1000 * kStep * kStep);
  INFO(name << " at " << x);
  CHECK((y.d - expected).overlaps(tolerance));
  CHECK(y.d.radius() < 1e-90);
  CHECK(y.v.overlaps(f(point)));
  // The same rule on the other real scalars.
  Dual<double> z = f(Dual<double>(x, -0.375));
  CHECK(z.d == Approx(fn::to_double(y.d)).epsilon(1e-12));
  Dual<Mpfr> w = f(Dual<Mpfr>(fn::from_double<Mpfr>(x), fn::from_double<Mpfr>(-0.375)));
  CHECK(fn::to_double(w.d) == Approx(fn::to_double(y.d)).epsilon(1e-15));
}

}  // namespace

TEST_CASE("scalars/dual: every rule agrees with central differences of balls", "[scalars][dual]") {
  for (double x : {0.125, 0.75, 1.5, 3.0}) {
    check_derivative("exp", x, [](const auto& t) { return fn::exp(t); });
    check_derivative("log", x, [](const auto& t) { return fn::log(t); });
    check_derivative("log1p", x, [](const auto& t) { return fn::log1p(t); });
    check_derivative("sqrt", x, [](const auto& t) { return fn::sqrt(t); });
    for (double s : {x, -x}) {
      check_derivative("tanh", s, [](const auto& t) { return fn::tanh(t); });
      check_derivative("sigmoid", s, [](const auto& t) { return fn::sigmoid(t); });
      check_derivative("softplus", s, [](const auto& t) { return fn::softplus(t); });
      check_derivative("quotient", s, [](const auto& t) { return (t - 3) / (t * t + 1); });
      check_derivative("max", s, [](const auto& t) { return fn::max(t * t, 1 - t); });
      check_derivative("clamp", s, [](const auto& t) { return fn::clamp(2 * t, -1, 2); });
      check_derivative("mul_add", s, [](const auto& t) {
        auto acc = t;
        fn::mul_add(acc, t, t + 1);
        fn::mul_sub(acc, t * t, t);
        return acc;
      });
    }
  }
}

TEST_CASE("scalars/dual: over the field each derivative is polynomial in the symbol",
          "[scalars][dual][field]") {
  std::mt19937_64 generator(31);
  Field x = Field::random(generator, 0.75), d = Field::random(generator, 2);
  Dual<Field> t(x, d);
  auto check = [&](const Dual<Field>& y, const Field& value, const Field& slope) {
    CHECK(y.v == value);
    CHECK(y.d == slope * d);
  };
  Field e = fn::exp(x), h = fn::tanh(x), s = fn::sigmoid(x), r = fn::sqrt(x);
  check(fn::exp(t), e, e);
  check(fn::tanh(t), h, 1 - h * h);
  check(fn::sigmoid(t), s, s * (1 - s));
  check(fn::sqrt(t), r, 1 / (2 * r));
  check(fn::softplus(t), fn::softplus(x), s);
  check(fn::log(t), fn::log(x), 1 / x);
  check(fn::log1p(t), fn::log1p(x), 1 / (1 + x));
  CHECK(fn::heaviside(t).d == Field(0));
}

TEST_CASE("scalars/dual: constants stay constant where a derivative does not exist",
          "[scalars][dual]") {
  double minus_infinity = -std::numeric_limits<double>::infinity();
  CHECK(fn::is_zero(fn::sqrt(Dual<double>(0))));
  CHECK(fn::sqrt(Dual<Ball>(0)).d.radius() == 0);
  CHECK_THROWS_AS(fn::sqrt(Dual<Field>(0, 1)), std::domain_error);
  Dual<Rational> off(fn::from_double<Rational>(minus_infinity), 1);
  CHECK(fn::exp(off).v == Rational(0));
  CHECK(fn::exp(off).d == Rational(0));
  CHECK(fn::exp(Dual<Rational>(0, 7)).d == Rational(7));
  CHECK(fn::sigmoid(Dual<Rational>(0, 4)).d == Rational(1));
  CHECK(fn::exp(Dual<double>(minus_infinity, 3.0)).d == 0);
  CHECK_FALSE(fn::is_zero(Dual<double>(0.0, 1.0)));
}

TEST_CASE("scalars/dual: an undecided ball takes the hull of both tangents", "[scalars][dual]") {
  Dual<Ball> wide(Ball::from_midpoint_radius(0, 1), 4);
  Dual<Ball> y = fn::max(wide, 0);
  CHECK(y.d.contains(0));
  CHECK(y.d.contains(4));
  CHECK_FALSE(y.d.contains(5));
  Dual<Ball> z = fn::clamp(wide, -2, Ball::from_midpoint_radius(0.5, 0));
  CHECK(z.d.contains(0));
  CHECK(z.d.contains(4));
}
