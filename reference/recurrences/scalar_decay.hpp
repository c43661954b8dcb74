// S = a S' + k v^T with one scalar decay per step: the shared part of `retention` and `ssd`.
#pragma once

#include "reference/recurrences/fast_weight.hpp"

namespace assay {

template <class Real>
void scalar_decay_step(Context<Real>& c, const Real& a, const Real* k, const Real* v, Real* S) {
  la::scale_ger_add(c.K, c.V, a, k, v, S);
}

/// d_k = d_S v     d_v = d_S^T k     d_a = <d_S, S'>     d_S' = a d_S
template <class Real>
void scalar_decay_adjoint(Context<Real>& c, const Real& a, const Real* k, const Real* v,
                          const Real* S_prev, Real* d_S, Real& d_a, Real* d_k, Real* d_v) {
  la::gemv_add(c.K, c.V, d_S, v, d_k);
  la::gemv_t_add(c.K, c.V, d_S, k, d_v);
  la::dot_add(d_a, c.K * c.V, d_S, 1, S_prev, 1);
  la::scale(c.K * c.V, a, d_S);
}

/// A = a I
template <class Real>
void scalar_decay_transition(Context<Real>& c, const Real& a, Real* A) {
  for (std::int64_t i = 0; i < c.K; ++i) A[i * c.K + i] = a;
}

}  // namespace assay
