// The error bound of DoubleDouble against exact rationals (arithmetic) and balls (functions), and
// the AVX2 kernels against the portable ones, bit for bit.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "reference/scalars/ball.hpp"
#include "reference/scalars/double_double.hpp"
#include "reference/scalars/rational.hpp"

using namespace assay;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Rational exact(double x) { return fn::from_double<Rational>(x); }

bool contains(const DoubleDouble& x, const Rational& truth) {
  Rational error = truth - exact(x.hi()) - exact(x.lo());
  if (fn::less(error, 0)) error = -error;
  return !(exact(x.err()) < error);
}

struct Pair {
  DoubleDouble x;
  Rational truth;
};

using Generator = std::mt19937_64;

double random_double(Generator& g, int exponent_range) {
  double mantissa = static_cast<double>(g() >> 11) * 0x1p-53 + 0.5;
  int exponent = static_cast<int>(g() % static_cast<unsigned>(2 * exponent_range + 1));
  return std::ldexp(g() & 1 ? mantissa : -mantissa, exponent - exponent_range);
}

// A leaf: an exact double, a number of two parts, or one with an error and the truth at its edge.
Pair leaf(Generator& g, int exponent_range) {
  double hi = random_double(g, exponent_range);
  switch (g() % 4) {
    case 0:
      return {fn::from_double<DoubleDouble>(hi), exact(hi)};
    case 1:
      return {0, 0};
    case 2: {
      double lo = random_double(g, 3) * hi * 0x1p-56;
      return {DoubleDouble::from_parts(hi, lo, 0), exact(hi) + exact(lo)};
    }
    default: {
      double err = std::fabs(hi) * std::ldexp(1.0, -static_cast<int>(g() % 80));
      Rational offset = g() & 1 ? exact(err) : -exact(err);
      return {DoubleDouble::from_parts(hi, 0, err), exact(hi) + offset};
    }
  }
}

Pair expression(Generator& g, int depth, int exponent_range) {
  if (depth == 0) return leaf(g, exponent_range);
  Pair a = expression(g, depth - 1, exponent_range);
  Pair b = g() % 3 ? expression(g, depth - 1, exponent_range) : a;
  switch (g() % 5) {
    case 0:
      return {a.x + b.x, a.truth + b.truth};
    case 1:
      return {a.x - b.x, a.truth - b.truth};
    case 2:
      return {a.x * b.x, a.truth * b.truth};
    case 3:
      if (fn::is_zero(b.truth)) return a;
      return {a.x / b.x, a.truth / b.truth};
    default: {
      Pair c = leaf(g, exponent_range);
      fn::mul_add(c.x, a.x, b.x);
      c.truth += a.truth * b.truth;
      return c;
    }
  }
}

Ball hull(const DoubleDouble& x) {
  return fn::from_double<Ball>(x.hi()) + fn::from_double<Ball>(x.lo()) +
         Ball::from_midpoint_radius(0, x.err());
}

}  // namespace

TEST_CASE("scalars/double_double: the bound contains the exact result of random expressions",
          "[scalars][double_double]") {
  long bounded = 0;
  for (int range : {2, 40, 300, 520}) {  // the last two underflow
    Generator g(static_cast<std::uint64_t>(range));
    for (int n = 0; n < 4000; ++n) {
      Pair p = expression(g, 1 + n % 4, range);
      if (!fn::is_finite(p.x)) continue;
      ++bounded;
      INFO("range " << range << ", expression " << n);
      if (!contains(p.x, p.truth)) FAIL_CHECK("truth outside the bound");
      if (!(std::fabs(p.x.lo()) <= std::fabs(p.x.hi()) * 0x1p-53)) FAIL_CHECK("not normalised");
    }
  }
  CHECK(bounded > 10000);
}

TEST_CASE("scalars/double_double: the bound is sharp enough for an oracle",
          "[scalars][double_double]") {
  DoubleDouble acc;
  Generator g(3);
  double magnitude = 0;
  for (int n = 0; n < 1000; ++n) {
    DoubleDouble a = fn::from_double<DoubleDouble>(random_double(g, 0)) / 3;
    DoubleDouble b = fn::from_double<DoubleDouble>(random_double(g, 0)) / 7;
    magnitude += std::fabs(fn::to_double(a * b));
    fn::mul_add(acc, a, b);
  }
  CHECK(acc.err() < magnitude * 1000 * 0x1p-102);
  CHECK((DoubleDouble(1) / 3).err() < 0x1p-100);
  CHECK(fn::sqrt(DoubleDouble(2)).err() < 0x1p-100);
}

namespace {

// Arguments exact or with an error; f on all points of the interval must lie inside.
template <class Function>
void check_function(const char* name, double lo, double hi, double accuracy, Function f) {
  PrecisionScope precision(300);
  Generator g(17);
  for (int n = 0; n < 1500; ++n) {
    double x = lo + (hi - lo) * static_cast<double>(g() >> 11) * 0x1p-53;
    if (n % 5 == 0) x *= std::ldexp(1.0, -static_cast<int>(g() % 60));
    if (!(x >= lo && x <= hi)) continue;
    double err = n % 3 == 0 ? std::fabs(x) * std::ldexp(0.5, -static_cast<int>(g() % 90)) : 0;
    if (x - err < lo) err = 0;
    DoubleDouble argument = DoubleDouble::from_parts(x, x * 0x1p-55, err);
    DoubleDouble y = f(argument);
    INFO(name << " of " << x << " +- " << err);
    if (std::isinf(std::exp(x + err)) && std::isinf(y.err())) continue;  // beyond double's range
    Ball center = fn::from_double<Ball>(x) + fn::from_double<Ball>(argument.lo());
    for (double side : {-1.0, 0.0, 1.0}) {
      Ball truth = f(center + fn::from_double<Ball>(side * err));
      if (!(fn::is_finite(y) && hull(y).contains(truth))) FAIL_CHECK("truth outside the bound");
    }
    double scale = std::fmax(1, std::fabs(x)) * std::fmax(std::fabs(y.hi()), 0x1p-60);
    if (err == 0 && !(y.err() <= accuracy * scale)) FAIL_CHECK("bound too wide: " << y.err());
  }
}

}  // namespace

TEST_CASE("scalars/double_double: elementary functions contain the ball, within 2^-95",
          "[scalars][double_double]") {
  const double kAccuracy = 0x1p-95;
  auto exp = [](const auto& x) { return fn::exp(x); };
  auto log = [](const auto& x) { return fn::log(x); };
  auto log1p = [](const auto& x) { return fn::log1p(x); };
  auto sqrt = [](const auto& x) { return fn::sqrt(x); };
  auto tanh = [](const auto& x) { return fn::tanh(x); };
  auto sigmoid = [](const auto& x) { return fn::sigmoid(x); };
  auto softplus = [](const auto& x) { return fn::softplus(x); };
  check_function("exp", -30, 30, kAccuracy, exp);
  check_function("exp", -760, -600, 1, exp);
  check_function("exp", 600, 709, kAccuracy, exp);
  check_function("log", 1e-9, 3, 0x1p-40, log);  // relative to a result that may be near 0
  check_function("log", 1e-300, 1e300, kAccuracy, log);
  check_function("log1p", -0.9, 4, kAccuracy, log1p);
  check_function("sqrt", 0, 1e10, kAccuracy, sqrt);
  check_function("tanh", -45, 45, kAccuracy, tanh);
  check_function("tanh", -1, 1, kAccuracy, tanh);
  check_function("sigmoid", -60, 60, kAccuracy, sigmoid);
  check_function("softplus", -40, 60, kAccuracy, softplus);
}

TEST_CASE("scalars/double_double: special values", "[scalars][double_double]") {
  auto from = [](double x) { return fn::from_double<DoubleDouble>(x); };
  CHECK(fn::is_zero(fn::exp(from(-kInfinity))));
  CHECK(fn::exp(DoubleDouble(0)).hi() == 1);
  CHECK(fn::exp(DoubleDouble(0)).err() == 0);
  CHECK(fn::log(DoubleDouble(1)).hi() == 0);
  CHECK(fn::is_zero(DoubleDouble(0) * from(0.1)));
  CHECK((from(-kInfinity) + 1).hi() == -kInfinity);
  CHECK((from(-kInfinity) + 1).err() == 0);
  CHECK(std::isinf((from(1e300) * from(1e300)).err()));
  CHECK(std::isinf(fn::exp(from(709.9)).err()));
  CHECK(std::isinf((DoubleDouble(1) / 0).err()));
  CHECK(std::isinf((DoubleDouble(1) / DoubleDouble::from_parts(1, 0, 2)).err()));
  CHECK(std::isnan((from(kInfinity) - from(kInfinity)).hi()));
  CHECK(std::isnan(fn::sqrt(DoubleDouble(-1)).hi()));
  CHECK_FALSE(fn::is_finite(fn::sqrt(DoubleDouble(-1))));
  CHECK_THROWS_AS(from(std::nan("")), std::invalid_argument);

  long big = (1L << 60) + 1;
  CHECK(contains(DoubleDouble(big), Rational(big)));
  DoubleDouble wide = DoubleDouble::from_parts(0.25, 0, 1);
  CHECK_FALSE(fn::less(0, wide));
  CHECK(fn::heaviside(wide).err() == 0.5);
  CHECK(fn::heaviside(DoubleDouble(0)).hi() == 0);
  CHECK(fn::heaviside(DoubleDouble(2)).hi() == 1);
  DoubleDouble top = fn::max(wide, DoubleDouble::from_parts(0.5, 0, 0.125));
  CHECK(contains(top, Rational::ratio(5, 4)));
  CHECK(contains(top, Rational::ratio(3, 8)));
  CHECK(fn::clamp(DoubleDouble(5), -1, 1).hi() == 1);
}

namespace {

using Array = std::vector<DoubleDouble>;

Array random_array(Generator& g, long n, int range) {
  Array a(static_cast<std::size_t>(n));
  for (DoubleDouble& x : a) x = leaf(g, range).x;
  return a;
}
double* raw(Array& a) { return reinterpret_cast<double*>(a.data()); }
bool same_bits(const Array& a, const Array& b) {
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(DoubleDouble)) == 0;
}

// Runs `call` with both sets of kernels on copies of `output`.
template <class Call>
bool agree(const Array& output, Call call) {
  Array one = output, two = output;
  call(detail::double_double_portable(), raw(one));
  call(*detail::double_double_avx2(), raw(two));
  return same_bits(one, two);
}

}  // namespace

TEST_CASE("scalars/double_double: AVX2 and portable kernels give the same bits",
          "[scalars][double_double]") {
  if (!detail::double_double_avx2()) {
    WARN("skipped: this machine has no AVX2 with FMA, so only the portable kernels can run");
    return;
  }
  Generator g(23);
  using Kernels = detail::DoubleDoubleKernels;
  for (long n = 0; n <= 37; ++n) {
    for (int range : {1, 30, 250}) {
      INFO("n = " << n << ", exponents within " << range);
      long rows = 1 + n % 5;
      bool subtract = n % 2;
      Array x = random_array(g, 3 * n + 1, range), y = random_array(g, n, range);
      Array S = random_array(g, rows * n, range), a = random_array(g, rows + 2, range);
      CHECK(agree(
          y, [&](const Kernels& k, double* out) { k.axpy(n, raw(a), raw(x), out, subtract); }));
      CHECK(agree(y, [&](const Kernels& k, double* out) { k.scale(n, raw(a), out); }));
      CHECK(agree(
          y, [&](const Kernels& k, double* out) { k.axpby(n, raw(a), raw(x), raw(a) + 3, out); }));
      CHECK(agree(y, [&](const Kernels& k, double* out) {
        k.gemv_t(rows, n, raw(S), raw(a), out, subtract);
      }));
      CHECK(agree(a, [&](const Kernels& k, double* out) {
        k.dot(out, n, raw(x), 3, raw(y), 1, subtract);
      }));
      CHECK(agree(a, [&](const Kernels& k, double* out) {
        k.dot(out, n, raw(x), 1, raw(y), 1, subtract);
      }));
    }
  }
}

TEST_CASE("scalars/double_double: scalar operations and elementwise kernels give the same bits",
          "[scalars][double_double]") {
  Generator g(29);
  Array x = random_array(g, 21, 20), y = random_array(g, 21, 20), expected = y;
  DoubleDouble a = DoubleDouble(1) / 3, b = DoubleDouble(5) / 7;
  for (std::size_t i = 0; i < x.size(); ++i) {
    expected[i] *= b;
    fn::mul_add(expected[i], a, x[i]);
  }
  la::axpby(21, a, x.data(), b, y.data());
  CHECK(same_bits(y, expected));
}
