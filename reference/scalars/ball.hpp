// Ball: midpoint and radius with a proved enclosure (Arb). Every operation returns a ball that
// contains the exact result for every choice of points in its operands, rounded to the calling
// thread's working precision.
//
// Comparisons are three-valued in truth: fn::less is "certainly". Dividing by a ball that contains
// zero gives the indeterminate ball, for which fn::is_finite is false.
#pragma once

#include <arb.h>

#include <concepts>
#include <string>
#include <utility>

#include "reference/scalars/functions.hpp"
#include "reference/scalars/linalg.hpp"
#include "reference/scalars/precision.hpp"

namespace assay {

// Wraps one arb_t and nothing else: an array of Ball is an array of arb_struct.
class Ball {
 public:
  Ball() { arb_init(x_); }
  // Integers only: a floating literal must not be cut to an integer in silence.
  template <std::integral Integer>
  Ball(Integer n) {  // NOLINT: implicit by contract
    arb_init(x_);
    arb_set_si(x_, static_cast<slong>(n));
  }
  Ball(const Ball& o) {
    arb_init(x_);
    arb_set(x_, o.x_);
  }
  Ball(Ball&& o) noexcept {
    *x_ = *o.x_;
    arb_init(o.x_);
  }
  ~Ball() { arb_clear(x_); }
  Ball& operator=(const Ball& o) {
    if (this != &o) arb_set(x_, o.x_);
    return *this;
  }
  Ball& operator=(Ball&& o) noexcept {
    arb_swap(x_, o.x_);
    return *this;
  }

  arb_ptr raw() { return x_; }
  arb_srcptr raw() const { return x_; }

  Ball& operator+=(const Ball& o) {
    arb_add(x_, x_, o.x_, working_precision());
    return *this;
  }
  Ball& operator-=(const Ball& o) {
    arb_sub(x_, x_, o.x_, working_precision());
    return *this;
  }
  Ball& operator*=(const Ball& o) {
    arb_mul(x_, x_, o.x_, working_precision());
    return *this;
  }
  Ball& operator/=(const Ball& o) {
    arb_div(x_, x_, o.x_, working_precision());
    return *this;
  }
  friend Ball operator+(const Ball& a, const Ball& b) {
    Ball r;
    arb_add(r.x_, a.x_, b.x_, working_precision());
    return r;
  }
  friend Ball operator-(const Ball& a, const Ball& b) {
    Ball r;
    arb_sub(r.x_, a.x_, b.x_, working_precision());
    return r;
  }
  friend Ball operator*(const Ball& a, const Ball& b) {
    Ball r;
    arb_mul(r.x_, a.x_, b.x_, working_precision());
    return r;
  }
  friend Ball operator/(const Ball& a, const Ball& b) {
    Ball r;
    arb_div(r.x_, a.x_, b.x_, working_precision());
    return r;
  }
  friend Ball operator-(const Ball& a) {
    Ball r;
    arb_neg(r.x_, a.x_);
    return r;
  }

  // The two enclosures have a point in common; they share none when one of them must be wrong.
  bool overlaps(const Ball& o) const { return arb_overlaps(x_, o.x_) != 0; }
  bool contains(const Ball& o) const { return arb_contains(x_, o.x_) != 0; }
  bool contains_zero() const { return arb_contains_zero(x_) != 0; }

  // Upper bound of the radius, rounded up; +inf if unbounded.
  double radius() const;

  // Bits to which the midpoint is certain, relative to the value (Arb's definition). Negative when
  // not even the sign is.
  long accuracy_bits() const { return arb_rel_accuracy_bits(x_); }

  // "[m +/- r]" with at most `digits` significant digits, all of them certain.
  std::string to_string(long digits) const;

  // The ball with this midpoint and radius. Both exact; radius must be >= 0.
  static Ball from_midpoint_radius(double midpoint, double radius);

 private:
  arb_t x_;
};

static_assert(sizeof(Ball) == sizeof(arb_struct));

template <>
struct Functions<Ball> {
  static constexpr const char* kName = "Ball";

  static Ball exp(const Ball& x);
  static Ball log(const Ball& x);
  static Ball log1p(const Ball& x);
  static Ball sqrt(const Ball& x);
  static Ball tanh(const Ball& x);
  static Ball sigmoid(const Ball& x);
  static Ball softplus(const Ball& x);
  static bool less(const Ball& a, const Ball& b) { return arb_lt(a.raw(), b.raw()) != 0; }
  static bool is_zero(const Ball& x) { return arb_is_zero(x.raw()) != 0; }
  static Ball max(const Ball& a, const Ball& b);
  static Ball clamp(const Ball& x, const Ball& lo, const Ball& hi);
  static Ball heaviside(const Ball& x);
  static Ball from_double(double x);
  static double to_double(const Ball& x);
  static bool is_finite(const Ball& x) { return arb_is_finite(x.raw()) != 0; }
  static void mul_add(Ball& acc, const Ball& a, const Ball& b) {
    arb_addmul(acc.raw(), a.raw(), b.raw(), working_precision());
  }
  static void mul_sub(Ball& acc, const Ball& a, const Ball& b) {
    arb_submul(acc.raw(), a.raw(), b.raw(), working_precision());
  }
};

namespace la {

// Sums are arb_dot (one rounding per sum, not one per term), updates are ball_rank_one.cpp. Both
// add a rounding error of about 2^-precision even where a result is exact.
template <>
struct Kernels<Ball> : GenericKernels<Ball, Kernels<Ball>> {
  static void dot_add(Ball& acc, long n, const Ball* x, long incx, const Ball* y, long incy);
  static void dot_sub(Ball& acc, long n, const Ball* x, long incx, const Ball* y, long incy);
  static void axpy(long n, const Ball& a, const Ball* x, Ball* y);
  static void axmy(long n, const Ball& a, const Ball* x, Ball* y);
  static void scale(long n, const Ball& a, Ball* x);
  static void axpby(long n, const Ball& a, const Ball* x, const Ball& b, Ball* y);
  static void gemv_t_add(long rows, long cols, const Ball* S, const Ball* x, Ball* out);
  static void gemv_t_sub(long rows, long cols, const Ball* S, const Ball* x, Ball* out);
  static void ger_add(long rows, long cols, const Ball* x, const Ball* y, Ball* S);
  static void ger_sub(long rows, long cols, const Ball* x, const Ball* y, Ball* S);
  static void scale_ger_add(long rows, long cols, const Ball& a, const Ball* x, const Ball* y,
                            Ball* S);
  static void gemm_tn_add(long m, long n, long p, const Ball* A, const Ball* B, Ball* C);
};

}  // namespace la
}  // namespace assay
