// Small dense linear algebra on every scalar: row-major, plain pointers, no allocation per element.
//
// The public functions forward to la::Kernels<Real>. The primary template is the definition: plain
// loops over fn::mul_add in the order written here. Mpfr, Ball and DoubleDouble specialise it
// beside their class for speed (Ball and DoubleDouble also sum in another order; each kernel is
// deterministic). Nothing is skipped because a factor is zero. Outputs must not overlap inputs,
// except where a parameter is documented as both.
#pragma once

#include <type_traits>

#include "reference/scalars/functions.hpp"

namespace assay::la {

// Loops shared by all specialisations; K derives from it and may hide any of these.
template <class Real, class K>
struct GenericKernels {
  static void dot_add(Real& acc, long n, const Real* x, long incx, const Real* y, long incy) {
    for (long i = 0; i < n; ++i) Functions<Real>::mul_add(acc, x[i * incx], y[i * incy]);
  }
  static void dot_sub(Real& acc, long n, const Real* x, long incx, const Real* y, long incy) {
    for (long i = 0; i < n; ++i) Functions<Real>::mul_sub(acc, x[i * incx], y[i * incy]);
  }
  static void reduce_add(Real& acc, long n, const Real* x, const Real* y) {
    K::dot_add(acc, n, x, 1, y, 1);
  }
  static void axpy(long n, const Real& a, const Real* x, Real* y) {
    for (long i = 0; i < n; ++i) Functions<Real>::mul_add(y[i], a, x[i]);
  }
  static void axmy(long n, const Real& a, const Real* x, Real* y) {
    for (long i = 0; i < n; ++i) Functions<Real>::mul_sub(y[i], a, x[i]);
  }
  static void scale(long n, const Real& a, Real* x) {
    for (long i = 0; i < n; ++i) x[i] *= a;
  }
  static void axpby(long n, const Real& a, const Real* x, const Real& b, Real* y) {
    for (long i = 0; i < n; ++i) {
      y[i] *= b;
      Functions<Real>::mul_add(y[i], a, x[i]);
    }
  }
  static void gemv_t_add(long rows, long cols, const Real* S, const Real* x, Real* out) {
    for (long i = 0; i < rows; ++i) K::axpy(cols, x[i], S + i * cols, out);
  }
  static void gemv_t_sub(long rows, long cols, const Real* S, const Real* x, Real* out) {
    for (long i = 0; i < rows; ++i) K::axmy(cols, x[i], S + i * cols, out);
  }
  static void gemv_add(long rows, long cols, const Real* S, const Real* y, Real* out) {
    for (long i = 0; i < rows; ++i) K::dot_add(out[i], cols, S + i * cols, 1, y, 1);
  }
  static void ger_add(long rows, long cols, const Real* x, const Real* y, Real* S) {
    for (long i = 0; i < rows; ++i) K::axpy(cols, x[i], y, S + i * cols);
  }
  static void ger_sub(long rows, long cols, const Real* x, const Real* y, Real* S) {
    for (long i = 0; i < rows; ++i) K::axmy(cols, x[i], y, S + i * cols);
  }
  static void scale_ger_add(long rows, long cols, const Real& a, const Real* x, const Real* y,
                            Real* S) {
    for (long i = 0; i < rows; ++i) K::axpby(cols, x[i], y, a, S + i * cols);
  }
  static void scale_rows(long rows, long cols, const Real* a, Real* S) {
    for (long i = 0; i < rows; ++i) K::scale(cols, a[i], S + i * cols);
  }
  static void gemm_add(long m, long n, long p, const Real* A, const Real* B, Real* C) {
    for (long i = 0; i < m; ++i) K::gemv_t_add(n, p, B, A + i * n, C + i * p);
  }
  static void gemm_tn_add(long m, long n, long p, const Real* A, const Real* B, Real* C) {
    for (long i = 0; i < n; ++i) K::ger_add(m, p, A + i * m, B + i * p, C);
  }
  static void gemm_nt_add(long m, long n, long p, const Real* A, const Real* B, Real* C) {
    for (long i = 0; i < m; ++i) K::gemv_add(p, n, B, A + i * n, C + i * p);
  }
};

template <class Real>
struct Kernels : GenericKernels<Real, Kernels<Real>> {};

// acc += sum_i x[i incx] y[i incy]; dot_sub subtracts. acc must not be an element of x or y.
template <class Real>
void dot_add(Real& acc, long n, const Real* x, long incx, const Real* y, long incy) {
  Kernels<Real>::dot_add(acc, n, x, incx, y, incy);
}
template <class Real>
void dot_sub(Real& acc, long n, const Real* x, long incx, const Real* y, long incy) {
  Kernels<Real>::dot_sub(acc, n, x, incx, y, incy);
}

// acc += sum_i x_i y_i, outside of any matrix product: the norm of a row and the like. An
// arithmetic that casts the operands of products casts none here.
template <class Real>
void reduce_add(Real& acc, long n, const Real* x, const Real* y) {
  Kernels<Real>::reduce_add(acc, n, x, y);
}

// y += a x, with y[n], x[n]
template <class Real>
void axpy(long n, const std::type_identity_t<Real>& a, const Real* x, Real* y) {
  Kernels<Real>::axpy(n, a, x, y);
}

// y -= a x
template <class Real>
void axmy(long n, const std::type_identity_t<Real>& a, const Real* x, Real* y) {
  Kernels<Real>::axmy(n, a, x, y);
}

// x *= a. a must not be an element of x.
template <class Real>
void scale(long n, const std::type_identity_t<Real>& a, Real* x) {
  Kernels<Real>::scale(n, a, x);
}

// y = a x + b y
template <class Real>
void axpby(long n, const std::type_identity_t<Real>& a, const Real* x,
           const std::type_identity_t<Real>& b, Real* y) {
  Kernels<Real>::axpby(n, a, x, b, y);
}

// out_j += sum_i S_ij x_i, with S[K,V], x[K], out[V]; gemv_t_sub subtracts.
template <class Real>
void gemv_t_add(long K, long V, const Real* S, const Real* x, Real* out) {
  Kernels<Real>::gemv_t_add(K, V, S, x, out);
}
template <class Real>
void gemv_t_sub(long K, long V, const Real* S, const Real* x, Real* out) {
  Kernels<Real>::gemv_t_sub(K, V, S, x, out);
}

// out_i += sum_j S_ij y_j, with S[K,V], y[V], out[K]
template <class Real>
void gemv_add(long K, long V, const Real* S, const Real* y, Real* out) {
  Kernels<Real>::gemv_add(K, V, S, y, out);
}

// S_ij += x_i y_j, with x[K], y[V], S[K,V]; ger_sub subtracts.
template <class Real>
void ger_add(long K, long V, const Real* x, const Real* y, Real* S) {
  Kernels<Real>::ger_add(K, V, x, y, S);
}
template <class Real>
void ger_sub(long K, long V, const Real* x, const Real* y, Real* S) {
  Kernels<Real>::ger_sub(K, V, x, y, S);
}

// S_ij = a S_ij + x_i y_j
template <class Real>
void scale_ger_add(long K, long V, const std::type_identity_t<Real>& a, const Real* x,
                   const Real* y, Real* S) {
  Kernels<Real>::scale_ger_add(K, V, a, x, y, S);
}

// S_ij *= a_i, with a[K]
template <class Real>
void scale_rows(long K, long V, const Real* a, Real* S) {
  Kernels<Real>::scale_rows(K, V, a, S);
}

// C[m,p] += A[m,n] B[n,p]
template <class Real>
void gemm_add(long m, long n, long p, const Real* A, const Real* B, Real* C) {
  Kernels<Real>::gemm_add(m, n, p, A, B, C);
}

// C[m,p] += A^T B, A stored as [n,m]
template <class Real>
void gemm_tn_add(long m, long n, long p, const Real* A, const Real* B, Real* C) {
  Kernels<Real>::gemm_tn_add(m, n, p, A, B, C);
}

// C[m,p] += A B^T, B stored as [p,n]
template <class Real>
void gemm_nt_add(long m, long n, long p, const Real* A, const Real* B, Real* C) {
  Kernels<Real>::gemm_nt_add(m, n, p, A, B, C);
}

}  // namespace assay::la
