// Kimi delta attention: Gated DeltaNet with a decay per key channel.   [Kimi Linear]
//
//   D_t = diag(α_t) S_{t-1}          S_t = D_t + β_t k_t (v_t - D_t^T k_t)^T
#pragma once

#include "reference/recurrences/delta_chunk.hpp"

namespace assay {

struct Kda : FastWeightOperation<Kda>, DeltaChunk<Kda> {
  enum Input { k, v, alpha, beta };
  static constexpr int kReadKey = k, kDecay = alpha;

  static UpdateSpec spec() {
    UpdateSpec s{"kda",
                 "Kimi delta attention, D = diag(alpha) S'; S = D + beta k (v - D^T k)^T",
                 "[Kimi Linear]",
                 {key_input(), value_input(), decay_input("BTHK"), write_input()}};
    s.forms = {Form::recurrent, Form::chunk};
    return s;
  }

  template <class Real>
  static std::int64_t saved_size(const Context<Real>& c) {
    return c.V;
  }

  template <class Real>
  static void step(Context<Real>& c, const Fields<Real>& x, Real* S, Real* r) {
    la::scale_rows(c.K, c.V, x[alpha], S);
    delta_write(c, x[k], x[k], x[v], *x[beta], S, r);
  }

  // The delta rule's adjoint gives d_r and d_D; then, row i of D being α_i times row i of S',
  //   d_k_i -= α_i (S' d_r)_i     d_α_i += <d_D_i, S'_i>     d_S' = diag(α) d_D
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Fields<Real>& x, const Real* S_prev, const Real*,
                           const Real* r, Real* d_S, const Fields<Real>& d_x) {
    const Real* d_r =
        delta_write_adjoint(c, x[k], x[k], *x[beta], r, d_S, d_x[k], d_x[v], *d_x[beta]);
    Real* read = c.arena->zeros(c.K);
    la::gemv_add(c.K, c.V, S_prev, d_r, read);
    for (std::int64_t i = 0; i < c.K; ++i) {
      fn::mul_sub(d_x[k][i], x[alpha][i], read[i]);
      la::dot_add(d_x[alpha][i], c.V, d_S + i * c.V, 1, S_prev + i * c.V, 1);
    }
    la::scale_rows(c.K, c.V, x[alpha], d_S);
  }

  // A = (I - β k k^T) diag(α)
  template <class Real>
  static void transition(Context<Real>& c, const Fields<Real>& x, Real* A) {
    delta_transition(
        c, x[k], x[k], *x[beta], [&](std::int64_t i) { return x[alpha][i]; }, A);
  }
};

}  // namespace assay

ASSAY_OPERATION(Kda, kda)
