// Small dense algebra on row-major blocks. Products go through Eigen, which vectorises sums with
// instructions; the element loops here are written so that compilers vectorise them.
#pragma once

// Blocking buffers of the chunk products stay on the stack up to this size, off the heap.
#define EIGEN_STACK_ALLOCATION_LIMIT 1048576
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>
#include <cstdint>

#include "kernels/common/variant.hpp"

ASSAY_CPU_BEGIN

template <class Real>
using Matrix = Eigen::Map<Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
template <class Real>
using ConstMatrix =
    Eigen::Map<const Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
template <class Real>
using Vector = Eigen::Map<Eigen::Matrix<Real, Eigen::Dynamic, 1>>;
template <class Real>
using ConstVector = Eigen::Map<const Eigen::Matrix<Real, Eigen::Dynamic, 1>>;

template <class Real>
void copy(std::int64_t n, const Real* from, Real* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
}
template <class Real>
void set(std::int64_t n, Real value, Real* x) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = value;
}
/// y += a x
template <class Real>
void axpy(std::int64_t n, Real a, const Real* __restrict x, Real* __restrict y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}
/// y = a x
template <class Real>
void scaled(std::int64_t n, Real a, const Real* x, Real* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = a * x[i];
}
template <class Real>
Real dot(std::int64_t n, const Real* x, const Real* y) {
  return ConstVector<Real>(x, n).dot(ConstVector<Real>(y, n));
}

/// y [V] += a S^T x, S [K,V]
template <class Real>
void add_transposed(std::int64_t K, std::int64_t V, Real a, const Real* S, const Real* x, Real* y) {
  for (std::int64_t i = 0; i < K; ++i) axpy(V, a * x[i], S + i * V, y);
}
/// y [K] += a S x, S [K,V]
template <class Real>
void add_product(std::int64_t K, std::int64_t V, Real a, const Real* S, const Real* x, Real* y) {
  for (std::int64_t i = 0; i < K; ++i) y[i] += a * dot(V, S + i * V, x);
}
/// S [K,V] += a x y^T
template <class Real>
void add_outer(std::int64_t K, std::int64_t V, Real a, const Real* x, const Real* y, Real* S) {
  for (std::int64_t i = 0; i < K; ++i) axpy(V, a * x[i], y, S + i * V);
}

/// Solves [I + L] X = B in place of B [n,V]; only entries j < i of L [n,n] are read.
template <class Real>
void solve_unit_lower(std::int64_t n, std::int64_t V, const Real* L, Real* B) {
  // Blocks of rows: all but the triangle on the diagonal is a matrix product.
  constexpr std::int64_t kBlock = 16;
  const ConstMatrix<Real> A(L, n, n);
  Matrix<Real> X(B, n, V);
  for (std::int64_t first = 0; first < n; first += kBlock) {
    const std::int64_t rows = n - first < kBlock ? n - first : kBlock;
    if (first > 0) {
      X.middleRows(first, rows).noalias() -= A.block(first, 0, rows, first) * X.topRows(first);
    }
    for (std::int64_t i = first + 1; i < first + rows; ++i) {
      for (std::int64_t j = first; j < i; ++j) axpy(V, -L[i * n + j], B + j * V, B + i * V);
    }
  }
}
/// Solves [I + L]^T X = B in place of B.
template <class Real>
void solve_unit_lower_transposed(std::int64_t n, std::int64_t V, const Real* L, Real* B) {
  constexpr std::int64_t kBlock = 16;
  const ConstMatrix<Real> A(L, n, n);
  Matrix<Real> X(B, n, V);
  for (std::int64_t end = n; end > 0;) {
    const std::int64_t first = (end - 1) / kBlock * kBlock;
    if (end < n) {
      X.middleRows(first, end - first).noalias() -=
          A.block(end, first, n - end, end - first).transpose() * X.bottomRows(n - end);
    }
    for (std::int64_t i = end; i-- > first + 1;) {
      for (std::int64_t j = first; j < i; ++j) axpy(V, -L[i * n + j], B + i * V, B + j * V);
    }
    end = first;
  }
}

ASSAY_CPU_END
