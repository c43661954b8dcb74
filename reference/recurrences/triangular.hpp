// Unit lower triangular systems of the chunk forms, [I + L] X = B with L strictly lower, by forward
// substitution; no inverse is formed.
#pragma once

#include <cstdint>

#include "reference/scalars/scalars.hpp"

namespace assay {

/// out [n] += a row, as part of a matrix product, whose operands a kernel may cast.
template <class Real>
void add_row_of_product(std::int64_t n, const Real& a, const Real* row, Real* out) {
  la::ger_add(1, n, &a, row, out);
}

/// Solves [I + L] X = B in place of B. L [n,n] row-major, only entries j < i are read; B [n,V].
template <class Real>
void solve_unit_lower(std::int64_t n, std::int64_t V, const Real* L, Real* B) {
  for (std::int64_t i = 1; i < n; ++i) la::gemv_t_sub(i, V, B, L + i * n, B + i * V);
}

/// Solves [I + L]^T X = B in place of B, the adjoint of the above.
template <class Real>
void solve_unit_lower_transposed(std::int64_t n, std::int64_t V, const Real* L, Real* B) {
  for (std::int64_t j = n - 1; j-- > 0;) {
    for (std::int64_t i = j + 1; i < n; ++i) {
      const Real minus = -L[i * n + j];
      add_row_of_product(V, minus, B + i * V, B + j * V);
    }
  }
}

}  // namespace assay
