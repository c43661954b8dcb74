// Portable kernels, and the choice between them and AVX2.
#include "reference/scalars/double_double.hpp"

namespace assay {
namespace {

using detail::dd::Factor;
using detail::dd::Triple;
using One = Triple<double>;

One load(const double* p) { return {p[0], p[1], p[2]}; }
void store(double* p, const One& x) {
  p[0] = x.hi;
  p[1] = x.lo;
  p[2] = x.err;
}
One negated(const One& x) { return {-x.hi, -x.lo, x.err}; }
Factor<double> load_factor(const double* p, bool negate = false) {
  return factor(negate ? negated(load(p)) : load(p));
}

void axpy(long n, const double* a, const double* x, double* y, bool subtract) {
  Factor<double> fa = load_factor(a, subtract);
  for (long i = 0; i < n; ++i) {
    store(y + 3 * i, multiply_add(load(y + 3 * i), fa, load_factor(x + 3 * i)));
  }
}

void scale(long n, const double* a, double* x) {
  Factor<double> fa = load_factor(a);
  for (long i = 0; i < n; ++i) store(x + 3 * i, multiply(load_factor(x + 3 * i), fa));
}

void axpby(long n, const double* a, const double* x, const double* b, double* y) {
  Factor<double> fa = load_factor(a);
  Factor<double> fb = load_factor(b);
  for (long i = 0; i < n; ++i) {
    One scaled = multiply(load_factor(y + 3 * i), fb);
    store(y + 3 * i, multiply_add(scaled, fa, load_factor(x + 3 * i)));
  }
}

void gemv_t(long rows, long cols, const double* S, const double* x, double* out, bool subtract) {
  for (long i = 0; i < rows; ++i) axpy(cols, x + 3 * i, S + 3 * i * cols, out, subtract);
}

// Eight interleaved sums, the tail filled with zeros, then a tree: the order of the AVX2 version.
void dot(double* acc, long n, const double* x, long incx, const double* y, long incy,
         bool subtract) {
  if (n == 0) return;
  constexpr long kLanes = 8;
  constexpr double kZero[3] = {0, 0, 0};
  One lane[kLanes] = {};
  for (long i = 0; i < (n + kLanes - 1) / kLanes * kLanes; ++i) {
    Factor<double> fx = load_factor(i < n ? x + 3 * i * incx : kZero);
    Factor<double> fy = load_factor(i < n ? y + 3 * i * incy : kZero);
    lane[i % kLanes] = multiply_add(lane[i % kLanes], fx, fy);
  }
  for (long width = kLanes / 2; width > 0; width /= 2) {
    for (long k = 0; k < width; ++k) lane[k] = add(lane[k], lane[k + width]);
  }
  store(acc, add(load(acc), subtract ? negated(lane[0]) : lane[0]));
}

const double* raw(const DoubleDouble* x) { return reinterpret_cast<const double*>(x); }
double* raw(DoubleDouble* x) { return reinterpret_cast<double*>(x); }

}  // namespace

const detail::DoubleDoubleKernels& detail::double_double_portable() {
  static constexpr DoubleDoubleKernels kernels{axpy, scale, axpby, gemv_t, dot};
  return kernels;
}

const detail::DoubleDoubleKernels& detail::double_double_kernels() {
  static const DoubleDoubleKernels& best =
      double_double_avx2() ? *double_double_avx2() : double_double_portable();
  return best;
}

namespace la {

void Kernels<DoubleDouble>::dot_add(D& acc, long n, const D* x, long incx, const D* y, long incy) {
  detail::double_double_kernels().dot(raw(&acc), n, raw(x), incx, raw(y), incy, false);
}
void Kernels<DoubleDouble>::dot_sub(D& acc, long n, const D* x, long incx, const D* y, long incy) {
  detail::double_double_kernels().dot(raw(&acc), n, raw(x), incx, raw(y), incy, true);
}
void Kernels<DoubleDouble>::axpy(long n, const D& a, const D* x, D* y) {
  detail::double_double_kernels().axpy(n, raw(&a), raw(x), raw(y), false);
}
void Kernels<DoubleDouble>::axmy(long n, const D& a, const D* x, D* y) {
  detail::double_double_kernels().axpy(n, raw(&a), raw(x), raw(y), true);
}
void Kernels<DoubleDouble>::scale(long n, const D& a, D* x) {
  detail::double_double_kernels().scale(n, raw(&a), raw(x));
}
void Kernels<DoubleDouble>::axpby(long n, const D& a, const D* x, const D& b, D* y) {
  detail::double_double_kernels().axpby(n, raw(&a), raw(x), raw(&b), raw(y));
}
void Kernels<DoubleDouble>::gemv_t_add(long rows, long cols, const D* S, const D* x, D* out) {
  detail::double_double_kernels().gemv_t(rows, cols, raw(S), raw(x), raw(out), false);
}
void Kernels<DoubleDouble>::gemv_t_sub(long rows, long cols, const D* S, const D* x, D* out) {
  detail::double_double_kernels().gemv_t(rows, cols, raw(S), raw(x), raw(out), true);
}

}  // namespace la
}  // namespace assay
