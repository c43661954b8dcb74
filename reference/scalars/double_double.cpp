// Division, square root and elementary functions of DoubleDouble, each with its error bound.
//
// Pattern: the function is evaluated at the point c = hi + lo, taken as exact, by DoubleDouble
// arithmetic, whose bound comes along by itself; truncation is added; then the error of the
// argument is added as (largest slope between c - err and c + err) * err. Slopes use the C library,
// whose results are wrong by a few ulps at most; kSlack = 1.001 pays for that many times over.
#include "reference/scalars/double_double.hpp"

#include <array>
#include <limits>

#include "reference/scalars/ball.hpp"

namespace assay {
namespace {

using D = DoubleDouble;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kSlack = 1.001;

D point(const D& x) { return D::from_parts(x.hi(), x.lo(), 0); }
// Adds an error; a bound that is itself NaN (inf - inf, 0 inf) means that nothing is known.
D widened(const D& x, double error) {
  double err = (x.err() + error) * (1 + 0x1p-50);
  return D::from_parts(x.hi(), x.lo(), err >= 0 ? err : kInfinity);
}
// y = f(c) for the midpoint c; the argument's error times the slope is added. The last term covers
// an underflow of the product.
D with_argument_error(const D& y, double err, double slope) {
  return err == 0 ? y : widened(y, err * slope + std::numeric_limits<double>::denorm_min());
}
D unknown(double value) { return D::from_parts(value, 0, kInfinity); }
// Upper bound of |x|, and a lower bound of x (x > 0).
double upper(const D& x) { return (std::fabs(x.hi()) + x.err()) * (1 + 0x1p-50); }
double lower(const D& x) { return x.hi() * (1 - 0x1p-50) - x.err() * (1 + 0x1p-50); }

// The ball as hi + lo with the remainder and the radius as error.
D from_ball(const Ball& x) {
  double hi = fn::to_double(x);
  Ball rest = x - fn::from_double<Ball>(hi);
  double lo = fn::to_double(rest);
  rest -= fn::from_double<Ball>(lo);
  return D::from_parts(hi, lo, (std::fabs(fn::to_double(rest)) + rest.radius()) * kSlack);
}

constexpr int kSteps = 64;   // table of 2^(j/64)
constexpr int kDegree = 12;  // Taylor polynomial of (e^r - 1) / r - 1, |r| < 0.0055

struct ExpTable {
  D step;  // log(2) / 64
  D log2;
  std::array<D, kSteps> power;                   // 2^(j/64)
  std::array<D, kDegree + 1> inverse_factorial;  // 1 / j!

  ExpTable() {
    PrecisionScope precision(200);
    Ball log_two = fn::log(Ball(2));
    log2 = from_ball(log_two);
    step = from_ball(log_two / kSteps);
    for (int j = 0; j < kSteps; ++j) power[j] = from_ball(fn::exp(log_two * j / kSteps));
    Ball factorial = 1;
    for (int j = 0; j <= kDegree; ++j) {
      if (j > 0) factorial *= j;
      inverse_factorial[j] = from_ball(Ball(1) / factorial);
    }
    power[0] = 1;
    inverse_factorial[0] = inverse_factorial[1] = 1;
  }
};

const ExpTable& table() {
  static const ExpTable instance;
  return instance;
}

// c = n log(2) / 64 + r; e^c = 2^(n/64) (1 + m) with m = e^r - 1.
struct Reduced {
  int n;
  D m;
};

// For |c| < 2^20. The truncated series errs by at most |r|^13 / 13! * 1.001 < |r| 2^-122.
Reduced reduce(const D& c) {
  const ExpTable& t = table();
  Reduced result;
  result.n = static_cast<int>(std::nearbyint(c.hi() * (kSteps / 0.693147180559945309)));
  D r = c;
  r.add_product(-result.n, t.step);
  D sum = t.inverse_factorial[kDegree];
  for (int j = kDegree - 1; j >= 1; --j) {
    D next = t.inverse_factorial[j];
    next.add_product(r, sum);
    sum = next;
  }
  result.m = widened(r * sum, upper(r) * 0x1p-120);
  return result;
}

// x 2^n. Where the result is subnormal, hi, lo and err may each lose half of 2^-1074.
D scaled(const D& x, int n) {
  double hi = std::ldexp(x.hi(), n);
  if (std::isinf(hi)) return unknown(hi);
  double err = std::ldexp(x.err(), n);
  if (std::fabs(hi) < 0x1p-900) err += 2 * std::numeric_limits<double>::denorm_min();
  return D::from_parts(hi, std::ldexp(x.lo(), n), err);
}

D exp_from(const Reduced& e) {
  int j = e.n & (kSteps - 1);
  D y = table().power[j];
  y.add_product(table().power[j], e.m);
  return scaled(y, (e.n - j) / kSteps);
}

D exp_point(const D& c) {
  if (c.hi() == 0) return 1;
  if (c.hi() > 710) return unknown(kInfinity);  // overflows
  if (c.hi() < -746) return D::from_parts(0, 0, std::numeric_limits<double>::denorm_min());
  return exp_from(reduce(c));
}

// e^c - 1 with small error relative to the result also near 0; |c| < 700.
D expm1_point(const D& c) {
  Reduced e = reduce(c);
  return e.n == 0 ? e.m : exp_from(e) - 1;
}

// One Newton step from y0 = log1p(w) in double: log1p(w) = y0 + log1p(z) with
// z = (1 + w) e^-y0 - 1 = m + w + w m, m = e^-y0 - 1, and |z| < 2^-45, so that log1p(z) is
// z - z^2 / 2 up to |z|^3. w > -1/2.
D log1p_point(const D& w) {
  double y0 = std::log1p(w.hi());
  D m = expm1_point(D::from_parts(-y0, 0, 0));
  D z = m + w;
  z.add_product(w, m);
  D y = D::from_parts(y0, 0, 0) + z;
  y.add_product(z * D::from_parts(-0.5, 0, 0), z);
  double bound = upper(z);
  return bound < 0x1p-40 ? widened(y, bound * bound * bound) : unknown(y.hi());
}

// c = f 2^e with f in [1/sqrt(2), sqrt(2)): e = 0 near 1, where f - 1 is exact.
D log_point(const D& c) {
  int e = 0;
  double f = std::frexp(c.hi(), &e);
  if (f < 0.70710678) {
    f *= 2;
    --e;
  }
  D w = D::from_parts(f, std::ldexp(c.lo(), -e), 0) - 1;
  if (c.hi() == 1) w = D::from_parts(c.lo(), 0, 0);
  D y = w.hi() == 0 && w.err() == 0 ? w : log1p_point(point(w));
  // |w| < 1/2: an error of w moves the result by at most 2.1 times as much (f > 0.7, less error).
  y = widened(y, 2.1 * w.err());
  if (e != 0) y.add_product(e, table().log2);
  return y;
}

D sigmoid_point(const D& c) {
  if (c.hi() >= 0) return D(1) / (D(1) + exp_point(-c));
  D e = exp_point(c);
  return e / (D(1) + e);
}

// log(1 + e), e in (0, 1].
D softplus_point(const D& c) {
  D e = exp_point(c.hi() > 0 ? -c : c);
  D y = widened(log1p_point(point(e)), e.err());
  return c.hi() > 0 ? y + c : y;
}

}  // namespace

// Any approximation q serves: the residual a - q b, bounded rigorously for all a and b in their
// intervals, gives |a / b - q| = |a - q b| / |b|.
DoubleDouble operator/(const DoubleDouble& a, const DoubleDouble& b) {
  double q1 = a.hi() / b.hi();
  if (!std::isfinite(q1) || !b.finite()) {
    bool exact = std::isfinite(a.err()) && std::isfinite(b.err()) && a.finite() != b.finite();
    return D::from_parts(q1, 0, exact ? 0 : kInfinity);
  }
  D r = point(a);
  r.add_product(D::from_parts(-q1, 0, 0), point(b));
  double q2 = r.hi() / b.hi();
  D q = D::from_parts(q1, q2, 0);
  D residual = a;
  residual.add_product(-q, b);
  double smallest = lower(b.hi() < 0 ? -b : b);
  if (!(smallest > 0)) return unknown(q1);
  double tiny = a.hi() == 0 && a.err() == 0 ? 0 : std::numeric_limits<double>::denorm_min();
  double bound = upper(residual) / smallest;
  return widened(q, bound + tiny);
}

D Functions<D>::sqrt(const D& x) {
  if (is_zero(x)) return 0;
  if (std::isinf(x.hi()) && x.hi() > 0) return D::from_parts(kInfinity, 0, x.err());
  if (x.hi() < 0 && -x.hi() > x.err()) return unknown(kNaN);
  if (!(lower(x) > 0)) {
    double largest = std::sqrt(upper(x)) * kSlack;  // somewhere in [0, largest]
    return D::from_parts(0, 0, largest >= 0 ? largest : kInfinity);
  }
  double s = std::sqrt(x.hi());
  D root = D::from_parts(s, 0, 0);
  D r = point(x);
  r.add_product(-root, root);
  D y = D::from_parts(s, r.hi() / (2 * s), 0);
  // |sqrt(X) - y| = |X - y^2| / (sqrt(X) + y) for every X in the interval.
  D residual = x;
  residual.add_product(-y, y);
  return widened(y, upper(residual) / (y.hi() * (1 - 0x1p-50)));
}

// e^(c + d) - e^c = e^c (e^d - 1)
D Functions<D>::exp(const D& x) {
  if (x.hi() == -kInfinity && x.err() == 0) return 0;
  if (!is_finite(x)) return x.err() == 0 ? D::from_parts(std::exp(x.hi()), 0, 0) : unknown(kNaN);
  D y = exp_point(point(x));
  if (x.err() == 0) return y;
  return with_argument_error(y, upper(y), std::expm1(x.err()) * kSlack);
}

D Functions<D>::log(const D& x) {
  if (is_zero(x)) return D::from_parts(-kInfinity, 0, 0);
  if (!(lower(x) > 0) || !is_finite(x)) {
    bool infinite = x.hi() == kInfinity && x.err() == 0;
    return infinite ? x : unknown(std::log(x.hi()));
  }
  return with_argument_error(log_point(point(x)), x.err(), 1 / lower(x));
}

D Functions<D>::log1p(const D& x) {
  double smallest = lower(x + 1);
  if (!is_finite(x) || !(smallest > 0) || std::fabs(x.hi()) > 0.25) return log(x + 1);
  D y = x.hi() == 0 ? D(0) : log1p_point(point(x));
  return with_argument_error(y, x.err(), kSlack / smallest);
}

// Slope 1 - t^2, which changes by at most 0.77 per unit of x.
D Functions<D>::tanh(const D& x) {
  if (std::isnan(x.hi())) return unknown(kNaN);
  if (!std::isfinite(x.err())) return D::from_parts(0, 0, 1);
  if (x.hi() == 0) return D::from_parts(0, 0, x.err());
  D a = x.hi() < 0 ? -point(x) : point(x);
  D t = 1;
  if (a.hi() > 40) {
    t = std::isinf(a.hi()) ? t : widened(t, 0x1p-113);  // 2 e^-80 < 2^-114
  } else {
    D m = expm1_point(a * -2);
    t = -m / (m + 2);
  }
  double slope = (1 - t.hi()) * (1 + t.hi()) + 0x1p-50 + 0.78 * x.err();
  t = with_argument_error(t, x.err(), std::fmin(1, slope * kSlack));
  return x.hi() < 0 ? -t : t;
}

// Slope y (1 - y) <= min(1/4, y), and y grows by at most e^err.
D Functions<D>::sigmoid(const D& x) {
  if (std::isinf(x.hi()) && x.err() == 0) return x.hi() > 0 ? 1 : 0;
  if (std::isnan(x.hi())) return unknown(kNaN);
  if (!is_finite(x)) return D::from_parts(0.5, 0, 0.5);
  D y = sigmoid_point(point(x));
  double slope = std::fmin(0.25, upper(y) * std::exp(x.err()) * kSlack);
  return with_argument_error(y, x.err(), slope);
}

// Slope sigmoid(x) <= min(1, e^x).
D Functions<D>::softplus(const D& x) {
  if (std::isinf(x.hi()) && x.err() == 0) return x.hi() > 0 ? x : 0;
  if (!is_finite(x)) return unknown(kNaN);
  double slope = std::fmin(1, std::exp(x.hi() + x.err()) * kSlack);
  return with_argument_error(softplus_point(point(x)), x.err(), slope);
}

bool Functions<D>::less(const D& a, const D& b) {
  if (!a.finite() || !b.finite()) return a.hi() < b.hi() && a.err() + b.err() < kInfinity;
  return lower(b - a) > 0;
}

// Undecided: with m the larger midpoint, the maximum is at least m - err of that one and at most
// m + the larger err. Normalised numbers are ordered like their pairs (hi, lo).
D Functions<D>::max(const D& a, const D& b) {
  if (less(b, a)) return a;
  if (less(a, b)) return b;
  if (std::isnan(a.hi()) || std::isnan(b.hi())) return unknown(kNaN);
  bool first = a.hi() > b.hi() || (a.hi() == b.hi() && a.lo() > b.lo());
  const D& larger = first ? a : b;
  double err = a.err() > b.err() || std::isnan(a.err()) ? a.err() : b.err();
  return D::from_parts(larger.hi(), larger.lo(), err);
}
D Functions<D>::clamp(const D& x, const D& lo, const D& hi) { return -max(-max(x, lo), -hi); }

D Functions<D>::heaviside(const D& x) {
  if (less(0, x)) return 1;
  if (x.hi() <= 0 && (x.err() == 0 || -x.hi() * (1 - 0x1p-50) >= x.err())) return 0;
  return D::from_parts(0.5, 0, 0.5);
}

}  // namespace assay
