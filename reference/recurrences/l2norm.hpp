// L2 normalisation of rows, with its adjoint; the option `qk_l2norm`.
//
//   n = sqrt(Σ_i x_i² + eps)      y = x / n
//   d_x = (d_y - y (y · d_y)) / n
#pragma once

#include <cstdint>
#include <string>

#include "reference/case/tensor.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay {

/// Normalises x [rows,K] in place and writes the norms [rows]. Throws InputError for a zero row
/// when eps is 0; `name` is the tensor the message speaks of.
template <class Real>
void l2norm_rows(std::int64_t rows, std::int64_t K, const Real& eps, Real* x, Real* norms,
                 const std::string& name) {
  for (std::int64_t r = 0; r < rows; ++r) {
    Real* row = x + r * K;
    Real sum = eps;
    la::reduce_add(sum, K, row, row);
    if (fn::is_zero(sum)) {
      throw InputError("tensor '" + name +
                       "': a zero vector cannot be L2-normalised with l2norm_eps 0");
    }
    norms[r] = fn::sqrt(sum);
    for (std::int64_t i = 0; i < K; ++i) row[i] = row[i] / norms[r];
  }
}

/// Turns d_y [rows,K] into d_x in place, given the normalised y and the norms.
template <class Real>
void l2norm_rows_adjoint(std::int64_t rows, std::int64_t K, const Real* y, const Real* norms,
                         Real* d) {
  for (std::int64_t r = 0; r < rows; ++r) {
    Real along = 0;
    la::reduce_add(along, K, y + r * K, d + r * K);
    for (std::int64_t i = 0; i < K; ++i) {
      d[r * K + i] = (d[r * K + i] - y[r * K + i] * along) / norms[r];
    }
  }
}

}  // namespace assay
