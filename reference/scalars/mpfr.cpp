#include "reference/scalars/mpfr.hpp"

#include <algorithm>

namespace assay {
namespace {

mpfr_ptr raw(Mpfr& x) { return x.backend().data(); }
mpfr_srcptr raw(const Mpfr& x) { return x.backend().data(); }

// One scratch number per thread. The pointer is what hot code reads (initial-exec, no guard); the
// owner exists only to free it when the thread ends.
constinit thread_local mpfr_ptr tls_scratch __attribute__((tls_model("initial-exec"))) = nullptr;

struct ScratchOwner {
  mpfr_t number;
  ScratchOwner() {
    mpfr_init2(number, kDefaultPrecision);
    tls_scratch = number;
  }
  ~ScratchOwner() {
    tls_scratch = nullptr;
    mpfr_clear(number);
  }
};

[[gnu::noinline]] mpfr_ptr make_scratch() {
  static thread_local ScratchOwner owner;
  return owner.number;
}

// Precision in which a kernel rounds products: the working precision, or that of the first output
// if it is wider.
mpfr_prec_t kernel_precision(const Mpfr& acc) {
  return std::max<mpfr_prec_t>(working_precision(), mpfr_get_prec(raw(acc)));
}

mpfr_ptr scratch(mpfr_prec_t bits) {
  mpfr_ptr t = tls_scratch ? tls_scratch : make_scratch();
  if (mpfr_get_prec(t) != bits) mpfr_set_prec(t, bits);
  return t;
}

// An accumulator made under a lower precision would silently round every sum to it.
mpfr_ptr widened(Mpfr& x, mpfr_prec_t bits) {
  mpfr_ptr p = raw(x);
  if (__builtin_expect(mpfr_get_prec(p) < bits, 0)) mpfr_prec_round(p, bits, MPFR_RNDN);
  return p;
}

template <class Operation>
Mpfr unary(const Mpfr& x, Operation operation) {
  Mpfr y;
  mpfr_ptr p = widened(y, mpfr_get_prec(raw(x)));
  operation(p, raw(x));
  return y;
}

}  // namespace

Mpfr Functions<Mpfr>::exp(const Mpfr& x) {
  return unary(x, [](mpfr_ptr y, mpfr_srcptr v) { mpfr_exp(y, v, MPFR_RNDN); });
}
Mpfr Functions<Mpfr>::log(const Mpfr& x) {
  return unary(x, [](mpfr_ptr y, mpfr_srcptr v) { mpfr_log(y, v, MPFR_RNDN); });
}
Mpfr Functions<Mpfr>::log1p(const Mpfr& x) {
  return unary(x, [](mpfr_ptr y, mpfr_srcptr v) { mpfr_log1p(y, v, MPFR_RNDN); });
}
Mpfr Functions<Mpfr>::sqrt(const Mpfr& x) {
  return unary(x, [](mpfr_ptr y, mpfr_srcptr v) { mpfr_sqrt(y, v, MPFR_RNDN); });
}
Mpfr Functions<Mpfr>::tanh(const Mpfr& x) {
  return unary(x, [](mpfr_ptr y, mpfr_srcptr v) { mpfr_tanh(y, v, MPFR_RNDN); });
}

// MPFR's exponents are wide enough that exp(-x) overflows only beyond |x| = 2^61, where the
// quotient is then 0 as it should be.
Mpfr Functions<Mpfr>::sigmoid(const Mpfr& x) {
  return unary(x, [](mpfr_ptr y, mpfr_srcptr v) {
    mpfr_neg(y, v, MPFR_RNDN);
    mpfr_exp(y, y, MPFR_RNDN);
    mpfr_add_ui(y, y, 1, MPFR_RNDN);
    mpfr_ui_div(y, 1, y, MPFR_RNDN);
  });
}

// max(x, 0) + log1p(exp(-|x|)): both terms non-negative, so nothing cancels.
Mpfr Functions<Mpfr>::softplus(const Mpfr& x) {
  return unary(x, [](mpfr_ptr y, mpfr_srcptr v) {
    bool positive = mpfr_sgn(v) > 0;
    if (positive) {
      mpfr_neg(y, v, MPFR_RNDN);
    } else {
      mpfr_set(y, v, MPFR_RNDN);
    }
    mpfr_exp(y, y, MPFR_RNDN);
    mpfr_log1p(y, y, MPFR_RNDN);
    if (positive) mpfr_add(y, y, v, MPFR_RNDN);
  });
}

bool Functions<Mpfr>::less(const Mpfr& a, const Mpfr& b) {
  return mpfr_less_p(raw(a), raw(b)) != 0;
}
bool Functions<Mpfr>::is_zero(const Mpfr& x) { return mpfr_zero_p(raw(x)) != 0; }
Mpfr Functions<Mpfr>::max(const Mpfr& a, const Mpfr& b) {
  return mpfr_greater_p(raw(a), raw(b)) || mpfr_nan_p(raw(a)) ? a : b;
}
Mpfr Functions<Mpfr>::clamp(const Mpfr& x, const Mpfr& lo, const Mpfr& hi) {
  return less(x, lo) ? lo : less(hi, x) ? hi : x;
}
Mpfr Functions<Mpfr>::heaviside(const Mpfr& x) {
  return !mpfr_nan_p(raw(x)) && mpfr_sgn(raw(x)) > 0 ? 1 : 0;
}
Mpfr Functions<Mpfr>::from_double(double x) {
  Mpfr y;
  mpfr_set_d(raw(y), x, MPFR_RNDN);
  return y;
}
double Functions<Mpfr>::to_double(const Mpfr& x) { return mpfr_get_d(raw(x), MPFR_RNDN); }
bool Functions<Mpfr>::is_finite(const Mpfr& x) { return mpfr_number_p(raw(x)) != 0; }

void Functions<Mpfr>::mul_add(Mpfr& acc, const Mpfr& a, const Mpfr& b) {
  mpfr_prec_t bits = kernel_precision(acc);
  mpfr_ptr t = scratch(bits);
  mpfr_mul(t, raw(a), raw(b), MPFR_RNDN);
  mpfr_ptr sum = widened(acc, bits);
  mpfr_add(sum, sum, t, MPFR_RNDN);
}

void Functions<Mpfr>::mul_sub(Mpfr& acc, const Mpfr& a, const Mpfr& b) {
  mpfr_prec_t bits = kernel_precision(acc);
  mpfr_ptr t = scratch(bits);
  mpfr_mul(t, raw(a), raw(b), MPFR_RNDN);
  mpfr_ptr sum = widened(acc, bits);
  mpfr_sub(sum, sum, t, MPFR_RNDN);
}

namespace la {

void Kernels<Mpfr>::dot_add(Mpfr& acc, long n, const Mpfr* x, long incx, const Mpfr* y, long incy) {
  mpfr_prec_t bits = kernel_precision(acc);
  mpfr_ptr t = scratch(bits);
  mpfr_ptr sum = widened(acc, bits);
  for (long i = 0; i < n; ++i) {
    mpfr_mul(t, raw(x[i * incx]), raw(y[i * incy]), MPFR_RNDN);
    mpfr_add(sum, sum, t, MPFR_RNDN);
  }
}

void Kernels<Mpfr>::dot_sub(Mpfr& acc, long n, const Mpfr* x, long incx, const Mpfr* y, long incy) {
  mpfr_prec_t bits = kernel_precision(acc);
  mpfr_ptr t = scratch(bits);
  mpfr_ptr sum = widened(acc, bits);
  for (long i = 0; i < n; ++i) {
    mpfr_mul(t, raw(x[i * incx]), raw(y[i * incy]), MPFR_RNDN);
    mpfr_sub(sum, sum, t, MPFR_RNDN);
  }
}

void Kernels<Mpfr>::axpy(long n, const Mpfr& a, const Mpfr* x, Mpfr* y) {
  if (n == 0) return;
  mpfr_prec_t bits = kernel_precision(y[0]);
  mpfr_ptr t = scratch(bits);
  for (long i = 0; i < n; ++i) {
    mpfr_mul(t, raw(a), raw(x[i]), MPFR_RNDN);
    mpfr_ptr sum = widened(y[i], bits);
    mpfr_add(sum, sum, t, MPFR_RNDN);
  }
}

void Kernels<Mpfr>::axmy(long n, const Mpfr& a, const Mpfr* x, Mpfr* y) {
  if (n == 0) return;
  mpfr_prec_t bits = kernel_precision(y[0]);
  mpfr_ptr t = scratch(bits);
  for (long i = 0; i < n; ++i) {
    mpfr_mul(t, raw(a), raw(x[i]), MPFR_RNDN);
    mpfr_ptr sum = widened(y[i], bits);
    mpfr_sub(sum, sum, t, MPFR_RNDN);
  }
}

void Kernels<Mpfr>::scale(long n, const Mpfr& a, Mpfr* x) {
  if (n == 0) return;
  mpfr_prec_t bits = kernel_precision(x[0]);
  for (long i = 0; i < n; ++i) {
    mpfr_ptr p = widened(x[i], bits);
    mpfr_mul(p, p, raw(a), MPFR_RNDN);
  }
}

void Kernels<Mpfr>::axpby(long n, const Mpfr& a, const Mpfr* x, const Mpfr& b, Mpfr* y) {
  if (n == 0) return;
  mpfr_prec_t bits = kernel_precision(y[0]);
  mpfr_ptr t = scratch(bits);
  for (long i = 0; i < n; ++i) {
    mpfr_mul(t, raw(a), raw(x[i]), MPFR_RNDN);
    mpfr_ptr sum = widened(y[i], bits);
    mpfr_mul(sum, sum, raw(b), MPFR_RNDN);
    mpfr_add(sum, sum, t, MPFR_RNDN);
  }
}

}  // namespace la
}  // namespace assay
