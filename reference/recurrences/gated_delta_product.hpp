// Gated DeltaProduct: J Householder-like factors per token.   [DeltaProduct]
//
//   D_0 = α_t S_{t-1}
//   D_j = D_{j-1} + β_j k_j (v_j - D_{j-1}^T k_j)^T,  j = 1..J          S_t = D_J
#pragma once

#include "reference/recurrences/delta_rule.hpp"

namespace assay {

struct GatedDeltaProduct : FastWeightOperation<GatedDeltaProduct> {
  enum Input { k, v, beta, alpha };

  static UpdateSpec spec() {
    return {"gated_delta_product",
            "Gated DeltaProduct, D = alpha S'; J times D += beta_j k_j (v_j - D^T k_j)^T",
            "[DeltaProduct]",
            {{"k", "BTJHK", Role::token, "keys of the J factors", {}},
             {"v", "BTJHV", Role::token, "values of the J factors", {}},
             {"beta", "BTJH", Role::token, "write strengths", {0, 2}},
             decay_input("BTH")}};
  }

  /// r_j [J,V], then D_0 … D_{J-1} [J,K,V]: the adjoint reads every intermediate state.
  template <class Real>
  static std::int64_t saved_size(const Context<Real>& c) {
    return c.size('J') * (c.V + c.K * c.V);
  }

  template <class Real>
  static void step(Context<Real>& c, const Fields<Real>& x, Real* S, Real* saved) {
    const std::int64_t J = c.size('J'), KV = c.K * c.V;
    Real* D = saved + J * c.V;
    la::scale(KV, *x[alpha], S);
    for (std::int64_t j = 0; j < J; ++j) {
      for (std::int64_t i = 0; i < KV; ++i) D[j * KV + i] = S[i];
      delta_write(c, x[k] + j * c.K, x[k] + j * c.K, x[v] + j * c.V, x[beta][j], S,
                  saved + j * c.V);
    }
  }

  // The factors backward, each by the delta rule's adjoint with D = D_{j-1}:
  //   d_k_j -= D_{j-1} d_r_j;   then d_α += <d_D_0, S'>, d_S' = α d_D_0
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Fields<Real>& x, const Real* S_prev, const Real*,
                           const Real* saved, Real* d_S, const Fields<Real>& d_x) {
    const std::int64_t J = c.size('J'), KV = c.K * c.V;
    const Real* D = saved + J * c.V;
    for (std::int64_t j = J; j-- > 0;) {
      const Real* k_j = x[k] + j * c.K;
      Real* d_k_j = d_x[k] + j * c.K;
      const Real* d_r = delta_write_adjoint(c, k_j, k_j, x[beta][j], saved + j * c.V, d_S, d_k_j,
                                            d_x[v] + j * c.V, d_x[beta][j]);
      Real* read = c.arena->zeros(c.K);
      la::gemv_add(c.K, c.V, D + j * KV, d_r, read);
      for (std::int64_t i = 0; i < c.K; ++i) d_k_j[i] -= read[i];
    }
    la::dot_add(*d_x[alpha], KV, d_S, 1, S_prev, 1);
    la::scale(KV, *x[alpha], d_S);
  }

  // A = Π_{j=J..1} (I - β_j k_j k_j^T) α
  template <class Real>
  static void transition(Context<Real>& c, const Fields<Real>& x, Real* A) {
    const std::int64_t K = c.K;
    for (std::int64_t i = 0; i < K; ++i) A[i * K + i] = *x[alpha];
    for (std::int64_t j = 0; j < c.size('J'); ++j) {
      const Real* k_j = x[k] + j * K;
      Real* row = c.arena->zeros(K);
      la::gemv_t_add(K, K, A, k_j, row);
      la::scale(K, x[beta][j], row);
      la::ger_sub(K, K, k_j, row, A);
    }
  }
};

}  // namespace assay

ASSAY_OPERATION(GatedDeltaProduct, gated_delta_product)
