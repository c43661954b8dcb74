// The delta rule on a decayed state D, shared by delta, gdn, kda, comba and gated_delta_product:
//
//   r = v - D^T p          S = D + k (β r)^T           (p is k itself except in comba)
//
// and its adjoint: with w = d_S^T k,
//
//   d_k += d_S (β r)     d_β += r · w     d_r = β w     d_v += d_r
//   d_p -= D d_r         d_D = d_S - p d_r^T
#pragma once

#include "reference/recurrences/fast_weight.hpp"

namespace assay {

/// r [V] is written; D [K,V] becomes S.
template <class Real>
void delta_write(Context<Real>& c, const Real* k, const Real* p, const Real* v, const Real& beta,
                 Real* D, Real* r) {
  for (std::int64_t j = 0; j < c.V; ++j) r[j] = v[j];
  la::gemv_t_sub(c.K, c.V, D, p, r);
  Real* write = c.arena->zeros(c.V);
  la::axpy(c.V, beta, r, write);
  la::ger_add(c.K, c.V, k, write, D);
}

/// d_S becomes d_D; returns d_r [V], from which the caller forms d_p -= D d_r, since only it knows
/// D.
template <class Real>
Real* delta_write_adjoint(Context<Real>& c, const Real* k, const Real* p, const Real& beta,
                          const Real* r, Real* d_S, Real* d_k, Real* d_v, Real& d_beta) {
  Real* w = c.arena->zeros(c.V);
  la::gemv_t_add(c.K, c.V, d_S, k, w);
  Real* write = c.arena->zeros(c.V);
  la::axpy(c.V, beta, r, write);
  la::gemv_add(c.K, c.V, d_S, write, d_k);
  la::dot_add(d_beta, c.V, r, 1, w, 1);
  la::scale(c.V, beta, w);  // now d_r
  for (std::int64_t j = 0; j < c.V; ++j) d_v[j] += w[j];
  la::ger_sub(c.K, c.V, p, w, d_S);
  return w;
}

/// A = (I - β k p^T) diag(a), a given per channel as decay(i).
template <class Real, class Decay>
void delta_transition(Context<Real>& c, const Real* k, const Real* p, const Real& beta,
                      const Decay& decay, Real* A) {
  for (std::int64_t i = 0; i < c.K; ++i) {
    for (std::int64_t j = 0; j < c.K; ++j) {
      Real& a = A[i * c.K + j];
      a = i == j ? 1 : 0;
      fn::mul_sub(a, beta * k[i], p[j]);
      a *= decay(j);
    }
  }
}

}  // namespace assay
