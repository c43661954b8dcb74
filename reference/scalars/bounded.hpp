// Bounded: a double with proved bounds on what a kernel in declared arithmetic may compute instead.
//
// Four quantities belong to every value of a step: x, its true value; x*, what exact arithmetic
// makes of the kernel's own (erroneous) incoming state; x^, what the kernel computes; and `v`, what
// plain double computes, which is one legal kernel among others. The class keeps
//
//   M >= |x*|, |x^ - x*| <= e (after settling), |x* - x| <= p
//
// M is the value of the expression with every term replaced by its magnitude, so M and e hold for
// every rearrangement by the commutative, associative and distributive laws that sends no term
// through more roundings than the expression as written, sums of any length in any order included.
// `r` is the sum of the unit roundoffs of the roundings that are pending on the whole value: a sum
// of n terms adds n units, and the first use as an operand settles them,
//
//   e <- e + r/(1-r) (M + e).
//
// Derivation, with the second order and the errors of these doubles: checks/verdict/HARD_BOUND.md.
// Division and elementary functions use |x^ - v|, |x* - v|, |x - v| <= 2 (e + p).
#pragma once

#include <cmath>
#include <concepts>
#include <limits>

#include "reference/scalars/double.hpp"
#include "reference/scalars/functions.hpp"
#include "reference/scalars/linalg.hpp"
#include "reference/scalars/rounded.hpp"

namespace assay {

/// Bounds of the declared arithmetic: unit roundoffs of matrix operands, of sums of matrix products
/// and of everything else, relative errors of elementary functions, and absolute errors near zero.
struct BoundModel {
  double operand = 0, accumulator = 0x1p-24, elementwise = 0x1p-24;
  /// An operand of a matrix product is rounded to this format, if `operand` is not 0.
  Format operand_format = Format::fp32;
  double operand_tiny = 0;
  /// Given numbers that this format cannot hold are rounded when they are read.
  bool given_exactly = false;
  Format given_format = Format::fp32;
  double exp_error = 0, tanh_error = 0, softplus_error = 0, rsqrt_error = 0;
  double tiny = 0x1p-126;
};

/// The arithmetic of `double` itself, with a C library whose functions err by some ulps.
BoundModel double_bound_model();

namespace detail {
extern constinit thread_local BoundModel tls_bound __attribute__((tls_model("initial-exec")));
}

/// Sets the model of the calling thread until the end of the block.
class BoundScope {
 public:
  explicit BoundScope(const BoundModel& model) : saved_(detail::tls_bound) {
    detail::tls_bound = model;
  }
  ~BoundScope() { detail::tls_bound = saved_; }
  BoundScope(const BoundScope&) = delete;
  BoundScope& operator=(const BoundScope&) = delete;

 private:
  BoundModel saved_;
};

class Bounded {
 public:
  double v = 0, M = 0, e = 0, p = 0, r = 0;

  Bounded() = default;
  template <std::integral Integer>
  Bounded(Integer n)  // NOLINT: implicit by contract
      : v(static_cast<double>(n)), M(std::fabs(v)) {}
  static Bounded exactly(double x) {
    Bounded b;
    b.v = x;
    b.M = std::fabs(x);
    return b;
  }
  /// A carried state: v in double, the kernel's within p of the true one.
  static Bounded state(double v, double p) {
    Bounded b;
    b.v = v;
    b.M = std::fabs(v) + 2 * p;
    b.p = p;
    return b;
  }

  /// e with the pending roundings settled; infinite where they do not converge.
  double error() const {
    if (r == 0) return e;
    if (!(r < 0.9)) return std::numeric_limits<double>::infinity();  // nearer to 1, 1 - r is noise
    return e + r / (1 - r) * (M + e);
  }
  /// |computed - true|; infinite where an infinite bound met a zero.
  double total() const {
    const double sum = error() + p;
    return std::isnan(sum) ? std::numeric_limits<double>::infinity() : sum;
  }
  /// Bounds |v|, |x|, |x*| and |computed| without the rearrangement: for p, not for e.
  double reach() const { return std::fabs(v) + 2 * total(); }
  bool is_exact() const { return e == 0 && p == 0 && r == 0; }
  bool is_exact_zero() const { return M == 0 && e == 0 && p == 0; }

  friend Bounded operator+(const Bounded& a, const Bounded& b) { return sum(a, b, a.v + b.v); }
  friend Bounded operator-(const Bounded& a, const Bounded& b) { return sum(a, b, a.v - b.v); }
  friend Bounded operator*(const Bounded& a, const Bounded& b);
  friend Bounded operator/(const Bounded& a, const Bounded& b);
  Bounded operator-() const {
    Bounded b = *this;
    b.v = -v;
    return b;
  }
  Bounded& operator+=(const Bounded& o) { return *this = *this + o; }
  Bounded& operator-=(const Bounded& o) { return *this = *this - o; }
  Bounded& operator*=(const Bounded& o) { return *this = *this * o; }
  Bounded& operator/=(const Bounded& o) { return *this = *this / o; }

 private:
  // Terms of a chain of sums may be added in any order: no term meets more roundings than all.
  static Bounded sum(const Bounded& a, const Bounded& b, double value) {
    Bounded c;
    c.v = value;
    c.M = a.M + b.M;
    c.e = a.e + b.e;
    c.p = a.p + b.p;
    c.r = a.r + b.r;
    if (!a.is_exact_zero() && !b.is_exact_zero()) {
      c.r += detail::tls_bound.elementwise;
      c.e += detail::tls_bound.tiny;
    }
    return c;
  }
};

template <>
struct Functions<Bounded> {
  using D = Functions<double>;
  static constexpr const char* kName = "Bounded";

  static Bounded exp(const Bounded& x);
  static Bounded log(const Bounded& x);
  static Bounded log1p(const Bounded& x);
  static Bounded sqrt(const Bounded& x);
  static Bounded tanh(const Bounded& x);
  static Bounded sigmoid(const Bounded& x);
  static Bounded softplus(const Bounded& x);
  static bool less(const Bounded& a, const Bounded& b) { return a.v < b.v; }
  static bool is_zero(const Bounded& x) { return x.is_exact_zero(); }
  static Bounded max(const Bounded& a, const Bounded& b);
  static Bounded clamp(const Bounded& x, const Bounded& lo, const Bounded& hi);
  static Bounded heaviside(const Bounded& x);
  static Bounded from_double(double x);
  static double to_double(const Bounded& x) { return x.v; }
  static bool is_finite(const Bounded& x) { return std::isfinite(x.v); }
  static void mul_add(Bounded& acc, const Bounded& a, const Bounded& b);
  static void mul_sub(Bounded& acc, const Bounded& a, const Bounded& b);
};

namespace la {

// Matrix products: operands are cast to the operand format, products summed in the accumulator.
template <>
struct Kernels<Bounded> : GenericKernels<Bounded, Kernels<Bounded>> {
  static void dot_add(Bounded& acc, long n, const Bounded* x, long incx, const Bounded* y,
                      long incy);
  static void dot_sub(Bounded& acc, long n, const Bounded* x, long incx, const Bounded* y,
                      long incy);
  static void gemv_t_add(long rows, long cols, const Bounded* S, const Bounded* x, Bounded* out);
  static void gemv_t_sub(long rows, long cols, const Bounded* S, const Bounded* x, Bounded* out);
  static void ger_add(long rows, long cols, const Bounded* x, const Bounded* y, Bounded* S);
  static void ger_sub(long rows, long cols, const Bounded* x, const Bounded* y, Bounded* S);
  static void scale_ger_add(long rows, long cols, const Bounded& a, const Bounded* x,
                            const Bounded* y, Bounded* S);
};

}  // namespace la
}  // namespace assay
