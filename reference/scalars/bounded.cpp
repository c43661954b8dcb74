#include "reference/scalars/bounded.hpp"

#include <algorithm>
#include <vector>

namespace assay {
namespace detail {

constinit thread_local BoundModel tls_bound;

}  // namespace detail

namespace {

using D = Functions<double>;
constexpr double kInfinite = std::numeric_limits<double>::infinity();
/// Relative error that the C library's double functions are trusted to keep (some ulps).
constexpr double kLibrary = 0x1p-50;

double largest(Format format) {
  return format == Format::fp16 ? 65504.0 : 0x1p127 * (2 - unit_roundoff(format) * 2);
}

double elementwise() { return detail::tls_bound.elementwise; }

/// An operand of a product, its pending roundings settled.
struct Operand {
  double v, M, e, p, reach;

  explicit Operand(const Bounded& x) : v(x.v), M(x.M), e(x.error()), p(x.p) {
    reach = std::fabs(v) + 2 * (e + p);
  }
  /// Rounded to the operand format: relative above its underflow, absolute below.
  void cast(const BoundModel& m) {
    if (M == 0 && e == 0) return;
    e += m.operand * (M + e) + m.operand_tiny;
    if (!(M + e <= largest(m.operand_format))) e = kInfinite;
    reach = std::fabs(v) + 2 * (e + p);
  }
  bool is_exact_zero() const { return M == 0 && e == 0 && p == 0; }
};

/// acc += sign a b, without the rounding of the sum.
[[gnu::always_inline]] inline void add_product(Bounded& acc, const Operand& a, const Operand& b,
                                               double sign, double tiny) {
  acc.v += sign * (a.v * b.v);
  acc.M += a.M * b.M;
  // x^a x^b - x*a x*b and x*a x*b - xa xb. A subnormal factor may be taken for zero.
  acc.e += a.e * (b.M + b.e) + a.M * b.e + tiny * (2 + a.M + a.e + b.M + b.e);
  acc.p += a.p * b.reach + a.reach * b.p;
}

Bounded map(const Bounded& x, double y, double slope, double magnitude, double error) {
  const double e = x.error();
  Bounded b;
  b.v = y;
  b.M = magnitude;
  b.e = e == 0 ? 0 : slope * e;
  b.p = x.p == 0 ? 0 : slope * x.p;
  b.r = std::max({error, elementwise(), kLibrary});
  b.e += detail::tls_bound.tiny;
  return b;
}

/// Of an interval around v that holds x, x* and what is computed.
double radius(const Bounded& x) {
  return 2 * x.total() * (1 + 0x1p-26) + std::fabs(x.v) * kLibrary;
}
/// Its point nearest to zero, as a magnitude.
double innermost(const Bounded& x) { return std::max(0.0, std::fabs(x.v) - radius(x)); }

}  // namespace

BoundModel double_bound_model() {
  BoundModel m;
  m.accumulator = m.elementwise = 0x1p-53;
  m.given_exactly = true;
  m.tiny = 0x1p-1022;
  return m;
}

Bounded operator*(const Bounded& a, const Bounded& b) {
  Bounded c;
  if (a.is_exact_zero() || b.is_exact_zero()) return c;
  add_product(c, Operand(a), Operand(b), 1, detail::tls_bound.tiny);
  c.r = elementwise();
  return c;
}

// With |x^b|, |x*b| >= near: |x^a/x^b - x*a/x*b| <= ea/near + Ma eb/near². Two roundings: a kernel
// may multiply by the reciprocal.
Bounded operator/(const Bounded& a, const Bounded& b) {
  Bounded c;
  if (a.is_exact_zero()) return c;
  const double near = innermost(b), ea = a.error(), eb = b.error();
  c.v = a.v / b.v;
  c.M = a.M / near;
  c.e = ea / near + (eb == 0 ? 0 : a.M * eb / near / near) + detail::tls_bound.tiny;
  c.p = a.p / near + (b.p == 0 ? 0 : a.reach() * b.p / near / near);
  if (near == 0) c.M = c.e = c.p = kInfinite;
  c.r = 2 * elementwise();
  return c;
}

using F = Functions<Bounded>;

Bounded F::exp(const Bounded& x) {
  if (std::isinf(x.v) && x.v < 0) return Bounded();  // a gate of exactly zero
  const double far = std::exp(x.v + radius(x)) * (1 + kLibrary);
  return map(x, std::exp(x.v), far, far, detail::tls_bound.exp_error);
}
Bounded F::log(const Bounded& x) {
  const double y = std::log(x.v), slope = 1 / std::max(0.0, x.v - radius(x));
  return map(x, y, slope, std::fabs(y) + (x.total() == 0 ? 0 : slope * radius(x)) + kLibrary,
             detail::tls_bound.exp_error);
}
Bounded F::log1p(const Bounded& x) {
  const double y = std::log1p(x.v), slope = 1 / std::max(0.0, 1 + x.v - radius(x));
  return map(x, y, slope, std::fabs(y) + (x.total() == 0 ? 0 : slope * radius(x)) + kLibrary,
             detail::tls_bound.exp_error);
}
Bounded F::sqrt(const Bounded& x) {
  if (x.is_exact_zero()) return x;
  const double near = std::max(0.0, x.v - radius(x));
  const double far = std::sqrt(x.v + radius(x)) * (1 + kLibrary);
  return map(x, std::sqrt(x.v), 0.5 / std::sqrt(near) * (1 + kLibrary), far,
             detail::tls_bound.rsqrt_error);
}
Bounded F::tanh(const Bounded& x) {
  if (x.is_exact_zero()) return x;
  const double y = std::tanh(x.v), inner = std::tanh(innermost(x));
  const double slope = 1 - inner * inner + kLibrary;
  const double far = std::min(1.0, std::fabs(y) * (1 + kLibrary) + slope * radius(x));
  return map(x, y, slope, far, detail::tls_bound.tanh_error);
}
Bounded F::sigmoid(const Bounded& x) {
  const double y = D::sigmoid(x.v), inner = D::sigmoid(innermost(x));
  const double slope = inner * (1 - inner) + kLibrary;
  const double far = std::min(1.0, y * (1 + kLibrary) + slope * radius(x));
  return map(x, y, slope, far, detail::tls_bound.exp_error);
}
Bounded F::softplus(const Bounded& x) {
  const double y = D::softplus(x.v), slope = D::sigmoid(x.v + radius(x)) * (1 + kLibrary);
  return map(x, y, slope, y * (1 + kLibrary) + slope * radius(x), detail::tls_bound.softplus_error);
}

Bounded F::max(const Bounded& a, const Bounded& b) {
  Bounded c = a.v > b.v || std::isnan(a.v) ? a : b;
  c.M = std::max(a.M, b.M);
  c.e = std::max(a.error(), b.error());
  c.p = std::max(a.p, b.p);
  c.r = 0;
  return c;
}
Bounded F::clamp(const Bounded& x, const Bounded& lo, const Bounded& hi) {
  Bounded c = x;
  c.v = D::clamp(x.v, lo.v, hi.v);
  c.M = std::max({x.M, lo.M, hi.M});
  return c;
}
Bounded F::heaviside(const Bounded& x) {
  if (std::fabs(x.v) > radius(x) || x.is_exact_zero()) return x.v > 0 ? 1 : 0;
  Bounded c = x.v > 0 ? 1 : 0;
  c.M = c.e = c.p = 1;
  return c;
}
Bounded F::from_double(double x) {
  Bounded b = Bounded::exactly(x);
  const BoundModel& m = detail::tls_bound;
  if (m.given_exactly || std::isinf(x) || round_to(m.given_format, x) == x) return b;
  b.e = std::max(m.accumulator, m.elementwise) * b.M + m.tiny;
  if (!(b.M <= largest(m.given_format))) b.e = kInfinite;
  return b;
}

// One product and one sum, as elementwise work.
void F::mul_add(Bounded& acc, const Bounded& a, const Bounded& b) {
  if (a.is_exact_zero() || b.is_exact_zero()) return;
  add_product(acc, Operand(a), Operand(b), 1, detail::tls_bound.tiny);
  acc.r += 2 * elementwise();
}
void F::mul_sub(Bounded& acc, const Bounded& a, const Bounded& b) {
  if (a.is_exact_zero() || b.is_exact_zero()) return;
  add_product(acc, Operand(a), Operand(b), -1, detail::tls_bound.tiny);
  acc.r += 2 * elementwise();
}

namespace la {
namespace {

/// Operands settled and cast: all of them, numbers of the operand format too, because a kernel may
/// have scaled one (by a gate, by `scale`) before it casts.
struct Operands {
  std::vector<Operand> x, y;

  void settle(long nx, const Bounded* from_x, long incx, long ny, const Bounded* from_y,
              long incy) {
    const BoundModel& m = detail::tls_bound;
    x.clear(), y.clear();
    for (long i = 0; i < nx; ++i) x.emplace_back(from_x[i * incx]);
    for (long i = 0; i < ny; ++i) y.emplace_back(from_y[i * incy]);
    if (m.operand == 0) return;
    for (Operand& o : x) o.cast(m);
    for (Operand& o : y) o.cast(m);
  }
};
thread_local Operands operands;

// n products: n - 1 sums and the one with what was there, and the product's own rounding.
void dot(Bounded& acc, long n, const Bounded* x, long incx, const Bounded* y, long incy,
         double sign) {
  operands.settle(n, x, incx, n, y, incy);
  const BoundModel& m = detail::tls_bound;
  for (long i = 0; i < n; ++i) {
    const Operand &a = operands.x[i], &b = operands.y[i];
    if (a.is_exact_zero() || b.is_exact_zero()) continue;
    add_product(acc, a, b, sign, m.tiny);
  }
  acc.r += static_cast<double>(n + 1) * m.accumulator;
}

void gemv_t(long rows, long cols, const Bounded* S, const Bounded* x, Bounded* out, double sign) {
  operands.settle(rows, x, 1, rows * cols, S, 1);
  const BoundModel& m = detail::tls_bound;
  for (long i = 0; i < rows; ++i) {
    const Operand& a = operands.x[i];
    if (a.is_exact_zero()) continue;
    const Operand* row = operands.y.data() + i * cols;
    for (long j = 0; j < cols; ++j) {
      if (!row[j].is_exact_zero()) add_product(out[j], row[j], a, sign, m.tiny);
    }
  }
  for (long j = 0; j < cols; ++j) out[j].r += static_cast<double>(rows + 1) * m.accumulator;
}

void ger(long rows, long cols, const Bounded* x, const Bounded* y, Bounded* S, double sign) {
  operands.settle(rows, x, 1, cols, y, 1);
  const BoundModel& m = detail::tls_bound;
  for (long i = 0; i < rows; ++i) {
    const Operand& a = operands.x[i];
    if (a.is_exact_zero()) continue;
    for (long j = 0; j < cols; ++j) {
      const Operand& b = operands.y[j];
      if (b.is_exact_zero()) continue;
      Bounded& s = S[i * cols + j];
      add_product(s, a, b, sign, m.tiny);
      s.r += 2 * m.accumulator;
    }
  }
}

}  // namespace

using K = Kernels<Bounded>;
void K::dot_add(Bounded& acc, long n, const Bounded* x, long incx, const Bounded* y, long incy) {
  dot(acc, n, x, incx, y, incy, 1);
}
void K::dot_sub(Bounded& acc, long n, const Bounded* x, long incx, const Bounded* y, long incy) {
  dot(acc, n, x, incx, y, incy, -1);
}
void K::gemv_t_add(long rows, long cols, const Bounded* S, const Bounded* x, Bounded* out) {
  gemv_t(rows, cols, S, x, out, 1);
}
void K::gemv_t_sub(long rows, long cols, const Bounded* S, const Bounded* x, Bounded* out) {
  gemv_t(rows, cols, S, x, out, -1);
}
void K::ger_add(long rows, long cols, const Bounded* x, const Bounded* y, Bounded* S) {
  ger(rows, cols, x, y, S, 1);
}
void K::ger_sub(long rows, long cols, const Bounded* x, const Bounded* y, Bounded* S) {
  ger(rows, cols, x, y, S, -1);
}
void K::scale_ger_add(long rows, long cols, const Bounded& a, const Bounded* x, const Bounded* y,
                      Bounded* S) {
  for (long i = 0; i < rows * cols; ++i) S[i] *= a;
  ger(rows, cols, x, y, S, 1);
}

}  // namespace la
}  // namespace assay
