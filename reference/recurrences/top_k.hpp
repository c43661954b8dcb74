// Top-k routing shared by mom, mom_dispatch and mom_aux_loss.   [MoM v4, Eqs. 3-4]
//
// softmax is monotonic, so the top_k scores are the top_k logits; ties go to the lower index.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "reference/scalars/scalars.hpp"

namespace assay {

/// Indices of the k largest of logits [M], best first.
template <class Real>
std::vector<std::int64_t> select_top_k(std::int64_t M, std::int64_t k, const Real* logits) {
  std::vector<std::int64_t> order(M);
  for (std::int64_t m = 0; m < M; ++m) order[m] = m;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return fn::less(logits[b], logits[a]); });
  order.resize(k);
  return order;
}

/// softmax of the chosen logits: w_i = exp(l_i - max) / Σ exp(l_j - max).
template <class Real>
std::vector<Real> softmax_over(const std::vector<std::int64_t>& chosen, const Real* logits) {
  std::vector<Real> w(chosen.size());
  std::int64_t top = chosen[0];
  for (std::int64_t m : chosen) {
    if (fn::less(logits[top], logits[m])) top = m;
  }
  Real sum = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    w[i] = fn::exp(logits[chosen[i]] - logits[top]);
    sum += w[i];
  }
  for (Real& value : w) value = value / sum;
  return w;
}

/// d_l_i += w_i (d_w_i - Σ_j w_j d_w_j)
template <class Real>
void softmax_adjoint(const std::vector<std::int64_t>& chosen, const std::vector<Real>& w,
                     const std::vector<Real>& d_w, Real* d_logits) {
  Real mean = 0;
  for (std::size_t i = 0; i < w.size(); ++i) fn::mul_add(mean, w[i], d_w[i]);
  for (std::size_t i = 0; i < w.size(); ++i) {
    fn::mul_add(d_logits[chosen[i]], w[i], Real(d_w[i] - mean));
  }
}

}  // namespace assay
