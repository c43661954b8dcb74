#include "reference/scalars/ball.hpp"

#include "reference/scalars/ball_rank_one.hpp"

namespace assay {
namespace {

template <class Operation>
Ball unary(const Ball& x, Operation operation) {
  Ball y;
  operation(y.raw(), x.raw(), working_precision());
  return y;
}

bool is_minus_infinity(const Ball& x) {
  return arf_is_neg_inf(arb_midref(x.raw())) && mag_is_zero(arb_radref(x.raw()));
}

}  // namespace

double Ball::radius() const { return mag_get_d(arb_radref(x_)); }

std::string Ball::to_string(long digits) const {
  char* text = arb_get_str(x_, digits, 0);
  std::string result(text);
  flint_free(text);
  return result;
}

Ball Ball::from_midpoint_radius(double midpoint, double radius) {
  Ball result;
  arb_set_d(result.x_, midpoint);
  mag_set_d(arb_radref(result.x_), radius);
  return result;
}

Ball Functions<Ball>::exp(const Ball& x) { return unary(x, arb_exp); }
Ball Functions<Ball>::log(const Ball& x) { return unary(x, arb_log); }
Ball Functions<Ball>::log1p(const Ball& x) { return unary(x, arb_log1p); }
Ball Functions<Ball>::sqrt(const Ball& x) { return unary(x, arb_sqrt); }
Ball Functions<Ball>::tanh(const Ball& x) { return unary(x, arb_tanh); }

// x stands once in the formula, so a wide x is not overestimated.
Ball Functions<Ball>::sigmoid(const Ball& x) {
  if (is_minus_infinity(x)) return 0;  // 1 / (1 + inf) is indeterminate in ball arithmetic
  return unary(x, [](arb_ptr y, arb_srcptr v, slong bits) {
    arb_neg(y, v);
    arb_exp(y, y, bits + 4);
    arb_add_ui(y, y, 1, bits + 4);
    arb_inv(y, y, bits);
  });
}

// For positive x the form x + log1p(exp(-x)) keeps the exponential small; its two uses of x widen
// the ball by at most a factor of 1.5, since the derivative of log1p(exp(-x)) is above -1/2 there.
Ball Functions<Ball>::softplus(const Ball& x) {
  return unary(x, [](arb_ptr y, arb_srcptr v, slong bits) {
    bool positive = arb_is_positive(v) != 0;
    if (positive) {
      arb_neg(y, v);
    } else {
      arb_set(y, v);
    }
    arb_exp(y, y, bits + 4);
    arb_log1p(y, y, bits + 4);
    if (positive) arb_add(y, y, v, bits);
  });
}

Ball Functions<Ball>::max(const Ball& a, const Ball& b) {
  Ball y;
  arb_max(y.raw(), a.raw(), b.raw(), working_precision());
  return y;
}

Ball Functions<Ball>::clamp(const Ball& x, const Ball& lo, const Ball& hi) {
  Ball y;
  arb_max(y.raw(), x.raw(), lo.raw(), working_precision());
  arb_min(y.raw(), y.raw(), hi.raw(), working_precision());
  return y;
}

Ball Functions<Ball>::heaviside(const Ball& x) {
  if (arb_is_positive(x.raw())) return 1;
  if (arb_is_nonpositive(x.raw())) return 0;
  Ball y;
  arb_unit_interval(y.raw());
  return y;
}

Ball Functions<Ball>::from_double(double x) {
  Ball y;
  arb_set_d(y.raw(), x);
  return y;
}

double Functions<Ball>::to_double(const Ball& x) {
  return arf_get_d(arb_midref(x.raw()), ARF_RND_NEAR);
}

namespace la {

void Kernels<Ball>::dot_add(Ball& acc, long n, const Ball* x, long incx, const Ball* y, long incy) {
  if (n == 0) return;
  arb_dot(acc.raw(), acc.raw(), 0, x->raw(), incx, y->raw(), incy, n, working_precision());
}

// arb_dot with subtract = 1 computes initial - sum.
void Kernels<Ball>::dot_sub(Ball& acc, long n, const Ball* x, long incx, const Ball* y, long incy) {
  if (n == 0) return;
  arb_dot(acc.raw(), acc.raw(), 1, x->raw(), incx, y->raw(), incy, n, working_precision());
}

void Kernels<Ball>::axpy(long n, const Ball& a, const Ball* x, Ball* y) {
  detail::ball_rank_one(1, n, nullptr, &a, false, x, y, working_precision());
}

void Kernels<Ball>::axmy(long n, const Ball& a, const Ball* x, Ball* y) {
  detail::ball_rank_one(1, n, nullptr, &a, true, x, y, working_precision());
}

void Kernels<Ball>::scale(long n, const Ball& a, Ball* x) {
  slong bits = working_precision();
  for (long i = 0; i < n; ++i) arb_mul(x[i].raw(), x[i].raw(), a.raw(), bits);
}

void Kernels<Ball>::axpby(long n, const Ball& a, const Ball* x, const Ball& b, Ball* y) {
  detail::ball_rank_one(1, n, &b, &a, false, x, y, working_precision());
}

void Kernels<Ball>::ger_add(long rows, long cols, const Ball* x, const Ball* y, Ball* S) {
  detail::ball_rank_one(rows, cols, nullptr, x, false, y, S, working_precision());
}

void Kernels<Ball>::ger_sub(long rows, long cols, const Ball* x, const Ball* y, Ball* S) {
  detail::ball_rank_one(rows, cols, nullptr, x, true, y, S, working_precision());
}

void Kernels<Ball>::scale_ger_add(long rows, long cols, const Ball& a, const Ball* x, const Ball* y,
                                  Ball* S) {
  detail::ball_rank_one(rows, cols, &a, x, false, y, S, working_precision());
}

void Kernels<Ball>::gemv_t_add(long rows, long cols, const Ball* S, const Ball* x, Ball* out) {
  for (long j = 0; j < cols; ++j) dot_add(out[j], rows, S + j, cols, x, 1);
}

void Kernels<Ball>::gemv_t_sub(long rows, long cols, const Ball* S, const Ball* x, Ball* out) {
  for (long j = 0; j < cols; ++j) dot_sub(out[j], rows, S + j, cols, x, 1);
}

void Kernels<Ball>::gemm_tn_add(long m, long n, long p, const Ball* A, const Ball* B, Ball* C) {
  for (long i = 0; i < m; ++i) {
    for (long j = 0; j < p; ++j) dot_add(C[i * p + j], n, A + i, m, B + j, p);
  }
}

}  // namespace la
}  // namespace assay
