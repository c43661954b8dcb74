// Top-k routing: the k largest of M logits (ties: the lower index wins), and the softmax over them.
// softmax is monotonic, so the largest logits are the largest scores.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/common/variant.hpp"

ASSAY_CPU_BEGIN

/// Indices of the k largest, best first. Always k different indices, also among NaNs.
template <class Real>
void select_top_k(std::int64_t M, std::int64_t k, const Real* logits, std::int64_t* chosen) {
  for (std::int64_t i = 0; i < k; ++i) {
    std::int64_t best = -1;
    for (std::int64_t m = 0; m < M; ++m) {
      bool taken = false;
      for (std::int64_t j = 0; j < i; ++j) taken = taken || chosen[j] == m;
      if (!taken && (best < 0 || logits[m] > logits[best])) best = m;
    }
    chosen[i] = best;
  }
}

/// w_i = exp(l_i - l_0) / Σ_j exp(l_j - l_0) over the chosen, of which the first is the largest.
template <class Real>
void softmax_chosen(std::int64_t k, const std::int64_t* chosen, const Real* logits, Real* w) {
  Real sum = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    w[i] = std::exp(logits[chosen[i]] - logits[chosen[0]]);
    sum += w[i];
  }
  for (std::int64_t i = 0; i < k; ++i) w[i] /= sum;
}

/// d_l_i += w_i (d_w_i - Σ_j w_j d_w_j)
template <class Real>
void softmax_chosen_adjoint(std::int64_t k, const std::int64_t* chosen, const Real* w,
                            const Real* d_w, Real* d_logits) {
  Real mean = 0;
  for (std::int64_t i = 0; i < k; ++i) mean += w[i] * d_w[i];
  for (std::int64_t i = 0; i < k; ++i) d_logits[chosen[i]] += w[i] * (d_w[i] - mean);
}

ASSAY_CPU_END
