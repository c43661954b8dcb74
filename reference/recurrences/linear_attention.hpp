// Linear attention: a sum of outer products.   [MoM v4, Eq. 2]
//
//   S_t = S_{t-1} + k_t v_t^T
#pragma once

#include "reference/recurrences/fast_weight.hpp"

namespace assay {

struct LinearAttention : FastWeightOperation<LinearAttention> {
  enum Input { k, v };

  static UpdateSpec spec() {
    return {"linear_attention",
            "linear attention, S = S' + k v^T",
            "[MoM v4, Eq. 2]",
            {key_input(), value_input()}};
  }

  template <class Real>
  static std::int64_t saved_size(const Context<Real>&) {
    return 0;
  }

  template <class Real>
  static void step(Context<Real>& c, const Fields<Real>& x, Real* S, Real*) {
    la::ger_add(c.K, c.V, x[k], x[v], S);
  }

  // d_k = d_S v     d_v = d_S^T k     d_S' = d_S
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Fields<Real>& x, const Real*, const Real*,
                           const Real*, Real* d_S, const Fields<Real>& d_x) {
    la::gemv_add(c.K, c.V, d_S, x[v], d_x[k]);
    la::gemv_t_add(c.K, c.V, d_S, x[k], d_x[v]);
  }

  // A = I
  template <class Real>
  static void transition(Context<Real>& c, const Fields<Real>&, Real* A) {
    for (std::int64_t i = 0; i < c.K; ++i) A[i * c.K + i] = 1;
  }
};

}  // namespace assay

ASSAY_OPERATION(LinearAttention, linear_attention)
