// Mpfr: the arbitrary-precision reference. Every operation rounds to nearest at the precision of
// its result (PrecisionScope); errors are not tracked, the ball engine does that.
//
// Boost keeps the wider precision of operands and working precision, so a value made under a higher
// precision never loses digits in an expression. Elementary functions: correctly rounded by MPFR,
// except sigmoid and softplus, which are compositions with relative error below 2^(3 - precision).
#pragma once

#include <boost/multiprecision/mpfr.hpp>

#include "reference/scalars/functions.hpp"
#include "reference/scalars/linalg.hpp"
#include "reference/scalars/precision.hpp"

namespace assay {

using Mpfr = boost::multiprecision::number<boost::multiprecision::mpfr_float_backend<0>,
                                           boost::multiprecision::et_off>;

namespace detail {
// Boost starts with 20 digits; this sets kDefaultPrecision for threads without a PrecisionScope.
// In the header, so that it runs before any later static object of the including file.
bool install_default_precision();
inline const bool default_precision_installed = install_default_precision();
}  // namespace detail

// Bits of x itself. For reports and tests.
inline long precision_of(const Mpfr& x) { return mpfr_get_prec(x.backend().data()); }

template <>
struct Functions<Mpfr> {
  static constexpr const char* kName = "Mpfr";

  static Mpfr exp(const Mpfr& x);
  static Mpfr log(const Mpfr& x);
  static Mpfr log1p(const Mpfr& x);
  static Mpfr sqrt(const Mpfr& x);
  static Mpfr tanh(const Mpfr& x);
  static Mpfr sigmoid(const Mpfr& x);
  static Mpfr softplus(const Mpfr& x);
  static bool less(const Mpfr& a, const Mpfr& b);
  static bool is_zero(const Mpfr& x);
  static Mpfr max(const Mpfr& a, const Mpfr& b);  // NaN in either argument gives NaN
  static Mpfr clamp(const Mpfr& x, const Mpfr& lo, const Mpfr& hi);
  static Mpfr heaviside(const Mpfr& x);
  static Mpfr from_double(double x);
  static double to_double(const Mpfr& x);
  static bool is_finite(const Mpfr& x);
  static void mul_add(Mpfr& acc, const Mpfr& a, const Mpfr& b);
  static void mul_sub(Mpfr& acc, const Mpfr& a, const Mpfr& b);
};

namespace la {

// In place on mpfr_t: the product is rounded to the working precision, then the sum, in the order
// of GenericKernels. Same bits as the generic loops.
template <>
struct Kernels<Mpfr> : GenericKernels<Mpfr, Kernels<Mpfr>> {
  static void dot_add(Mpfr& acc, long n, const Mpfr* x, long incx, const Mpfr* y, long incy);
  static void dot_sub(Mpfr& acc, long n, const Mpfr* x, long incx, const Mpfr* y, long incy);
  static void axpy(long n, const Mpfr& a, const Mpfr* x, Mpfr* y);
  static void axmy(long n, const Mpfr& a, const Mpfr* x, Mpfr* y);
  static void scale(long n, const Mpfr& a, Mpfr* x);
  static void axpby(long n, const Mpfr& a, const Mpfr* x, const Mpfr& b, Mpfr* y);
};

}  // namespace la
}  // namespace assay
