// Causal depthwise convolution of a block of n steps over D channels with W taps:
//
//   a_t[d] = Σ_{j<W} weight[d,j] x_{t-(W-1)+j}[d]
//
// `padded` [W-1+n,D] holds the W-1 inputs before the block and then the block itself.
#pragma once

#include "kernels/common/linalg.hpp"

ASSAY_CPU_BEGIN

/// a [n,D] is added to.
template <class Real>
void conv_forward(std::int64_t n, std::int64_t D, std::int64_t W, const Real* weight,
                  const Real* padded, Real* a) {
  for (std::int64_t s = 0; s < n; ++s) {
    for (std::int64_t j = 0; j < W; ++j) {
      const Real* row = padded + (s + j) * D;
      for (std::int64_t c = 0; c < D; ++c) a[s * D + c] += weight[c * W + j] * row[c];
    }
  }
}

/// d_padded [W-1+n,D] and d_weight [D,W] are added to.
template <class Real>
void conv_backward(std::int64_t n, std::int64_t D, std::int64_t W, const Real* weight,
                   const Real* padded, const Real* d_a, Real* d_padded, Real* d_weight) {
  for (std::int64_t s = 0; s < n; ++s) {
    for (std::int64_t j = 0; j < W; ++j) {
      const Real *row = padded + (s + j) * D, *d = d_a + s * D;
      Real* d_row = d_padded + (s + j) * D;
      for (std::int64_t c = 0; c < D; ++c) {
        d_row[c] += weight[c * W + j] * d[c];
        d_weight[c * W + j] += row[c] * d[c];
      }
    }
  }
}

ASSAY_CPU_END
