// Gated linear attention: a decay per key channel.   [GLA]
//
//   S_t = diag(α_t) S_{t-1} + k_t v_t^T
#pragma once

#include "reference/recurrences/fast_weight.hpp"

namespace assay {

struct Gla : FastWeightOperation<Gla> {
  enum Input { k, v, alpha };

  static UpdateSpec spec() {
    return {"gla",
            "gated linear attention, S = diag(alpha) S' + k v^T",
            "[GLA]",
            {key_input(), value_input(), decay_input("BTHK")}};
  }

  template <class Real>
  static std::int64_t saved_size(const Context<Real>&) {
    return 0;
  }

  template <class Real>
  static void step(Context<Real>& c, const Fields<Real>& x, Real* S, Real*) {
    la::scale_rows(c.K, c.V, x[alpha], S);
    la::ger_add(c.K, c.V, x[k], x[v], S);
  }

  // d_k = d_S v     d_v = d_S^T k     d_α_i = <d_S_i, S'_i> over row i     d_S' = diag(α) d_S
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Fields<Real>& x, const Real* S_prev, const Real*,
                           const Real*, Real* d_S, const Fields<Real>& d_x) {
    la::gemv_add(c.K, c.V, d_S, x[v], d_x[k]);
    la::gemv_t_add(c.K, c.V, d_S, x[k], d_x[v]);
    for (std::int64_t i = 0; i < c.K; ++i) {
      la::dot_add(d_x[alpha][i], c.V, d_S + i * c.V, 1, S_prev + i * c.V, 1);
    }
    la::scale_rows(c.K, c.V, x[alpha], d_S);
  }

  // A = diag(α)
  template <class Real>
  static void transition(Context<Real>& c, const Fields<Real>& x, Real* A) {
    for (std::int64_t i = 0; i < c.K; ++i) A[i * c.K + i] = x[alpha][i];
  }
};

}  // namespace assay

ASSAY_OPERATION(Gla, gla)
