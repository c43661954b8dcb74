// DoubleDouble: about 32 digits with a running, rigorous error bound. The fast oracle for shapes
// that balls are too slow for.
//
// A value stands for every real within err() of hi() + lo(). err contains all rounding, truncation
// and underflow errors of the number's history and the propagated errors of its inputs; derivation
// in double_double_core.inc. One multiply-add adds at most 16 u^2 (|a b| + |c|), u = 2^-53.
// Bounds hold in round-to-nearest without contraction or fast-math. A result that overflows has an
// infinite or NaN hi and err = inf; infinities given as input are kept (err = 0).
#pragma once

#include <cmath>
#include <concepts>

#include "reference/scalars/functions.hpp"
#include "reference/scalars/linalg.hpp"

namespace assay {

namespace detail::dd {
inline double fma(double a, double b, double c) { return std::fma(a, b, c); }
inline double abs(double a) { return std::fabs(a); }
inline double min(double a, double b) { return a < b ? a : b; }
#include "reference/scalars/double_double_core.inc"
}  // namespace detail::dd

class DoubleDouble {
 public:
  using Triple = detail::dd::Triple<double>;

  DoubleDouble() = default;
  template <std::integral Integer>
  DoubleDouble(Integer n) {  // NOLINT: implicit by contract
    t_.hi = static_cast<double>(n);
    t_.lo = static_cast<double>(static_cast<__int128>(n) - static_cast<__int128>(t_.hi));
  }
  // hi + lo, normalised exactly, with error bound err >= 0.
  static DoubleDouble from_parts(double hi, double lo, double err) {
    DoubleDouble x;
    x.t_.hi = detail::dd::two_sum(hi, lo, x.t_.lo);
    x.t_.err = err;
    return x.t_.hi - x.t_.hi == 0 ? x : not_finite(hi + lo, std::isinf(hi) ? err : kUnbounded);
  }

  double hi() const { return t_.hi; }
  double lo() const { return t_.lo; }
  double err() const { return t_.err; }
  const Triple& triple() const { return t_; }

  friend DoubleDouble operator+(const DoubleDouble& a, const DoubleDouble& b) {
    DoubleDouble r(detail::dd::add(a.t_, b.t_));
    if (r.finite()) return r;
    return not_finite(a.t_.hi + b.t_.hi, a, b);
  }
  friend DoubleDouble operator-(const DoubleDouble& a, const DoubleDouble& b) { return a + -b; }
  friend DoubleDouble operator*(const DoubleDouble& a, const DoubleDouble& b) {
    DoubleDouble r(detail::dd::multiply(detail::dd::factor(a.t_), detail::dd::factor(b.t_)));
    if (r.finite()) return r;
    return not_finite(a.t_.hi * b.t_.hi, a, b);
  }
  friend DoubleDouble operator/(const DoubleDouble& a, const DoubleDouble& b);
  DoubleDouble operator-() const { return DoubleDouble(Triple{-t_.hi, -t_.lo, t_.err}); }
  DoubleDouble& operator+=(const DoubleDouble& o) { return *this = *this + o; }
  DoubleDouble& operator-=(const DoubleDouble& o) { return *this = *this - o; }
  DoubleDouble& operator*=(const DoubleDouble& o) { return *this = *this * o; }
  DoubleDouble& operator/=(const DoubleDouble& o) { return *this = *this / o; }

  // this += a b with one normalisation; the kernels compute the same bits.
  void add_product(const DoubleDouble& a, const DoubleDouble& b) {
    DoubleDouble r(
        detail::dd::multiply_add(t_, detail::dd::factor(a.t_), detail::dd::factor(b.t_)));
    *this = r.finite() ? r : *this + a * b;
  }

  bool finite() const { return t_.hi - t_.hi == 0; }

 private:
  static constexpr double kUnbounded = HUGE_VAL;
  explicit DoubleDouble(const Triple& t) : t_(t) {}
  static DoubleDouble not_finite(double value, double err) {
    return DoubleDouble(Triple{value, 0, std::isnan(value) ? kUnbounded : err});
  }
  // Overflow of finite operands says nothing about the value; an operand that is exactly infinite
  // gives an exact infinity.
  static DoubleDouble not_finite(double value, const DoubleDouble& a, const DoubleDouble& b) {
    bool exact = !(a.finite() && b.finite()) && std::isfinite(a.err()) && std::isfinite(b.err());
    return not_finite(value, exact ? 0 : kUnbounded);
  }

  Triple t_{0, 0, 0};
};

// Kernels address arrays of DoubleDouble as doubles hi, lo, err, hi, lo, err, ...
static_assert(sizeof(DoubleDouble) == 3 * sizeof(double));

template <>
struct Functions<DoubleDouble> {
  static constexpr const char* kName = "DoubleDouble";

  static DoubleDouble exp(const DoubleDouble& x);
  static DoubleDouble log(const DoubleDouble& x);
  static DoubleDouble log1p(const DoubleDouble& x);
  static DoubleDouble sqrt(const DoubleDouble& x);
  static DoubleDouble tanh(const DoubleDouble& x);
  static DoubleDouble sigmoid(const DoubleDouble& x);
  static DoubleDouble softplus(const DoubleDouble& x);
  static bool less(const DoubleDouble& a, const DoubleDouble& b);
  static bool is_zero(const DoubleDouble& x) { return x.hi() == 0 && x.lo() == 0 && x.err() == 0; }
  static DoubleDouble max(const DoubleDouble& a, const DoubleDouble& b);
  static DoubleDouble clamp(const DoubleDouble& x, const DoubleDouble& lo, const DoubleDouble& hi);
  static DoubleDouble heaviside(const DoubleDouble& x);  // 1/2 +- 1/2 where undecided
  static DoubleDouble from_double(double x) { return DoubleDouble::from_parts(x, 0, 0); }
  static double to_double(const DoubleDouble& x) { return x.hi(); }
  static bool is_finite(const DoubleDouble& x) { return x.finite() && std::isfinite(x.err()); }
  static void mul_add(DoubleDouble& acc, const DoubleDouble& a, const DoubleDouble& b) {
    acc.add_product(a, b);
  }
  static void mul_sub(DoubleDouble& acc, const DoubleDouble& a, const DoubleDouble& b) {
    acc.add_product(-a, b);
  }
};

namespace detail {

// The kernels on arrays of (hi, lo, err). Sign: subtract turns += into -=.
struct DoubleDoubleKernels {
  void (*axpy)(long n, const double* a, const double* x, double* y, bool subtract);
  void (*scale)(long n, const double* a, double* x);
  void (*axpby)(long n, const double* a, const double* x, const double* b, double* y);
  void (*gemv_t)(long rows, long cols, const double* S, const double* x, double* out,
                 bool subtract);
  void (*dot)(double* acc, long n, const double* x, long incx, const double* y, long incy,
              bool subtract);
};

const DoubleDoubleKernels& double_double_portable();
const DoubleDoubleKernels* double_double_avx2();     // null where the machine lacks AVX2 or FMA
const DoubleDoubleKernels& double_double_kernels();  // the best for this machine

}  // namespace detail

namespace la {

// AVX2 with FMA where the machine has both (chosen at run time), otherwise portable: same bits.
// dot sums eight interleaved partial sums. Overflow inside a kernel gives NaN.
template <>
struct Kernels<DoubleDouble> : GenericKernels<DoubleDouble, Kernels<DoubleDouble>> {
  using D = DoubleDouble;
  static void dot_add(D& acc, long n, const D* x, long incx, const D* y, long incy);
  static void dot_sub(D& acc, long n, const D* x, long incx, const D* y, long incy);
  static void axpy(long n, const D& a, const D* x, D* y);
  static void axmy(long n, const D& a, const D* x, D* y);
  static void scale(long n, const D& a, D* x);
  static void axpby(long n, const D& a, const D* x, const D& b, D* y);
  static void gemv_t_add(long rows, long cols, const D* S, const D* x, D* out);
  static void gemv_t_sub(long rows, long cols, const D* S, const D* x, D* out);
};

}  // namespace la
}  // namespace assay
