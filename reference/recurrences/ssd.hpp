// SSD (Mamba-2): a scalar decay per step; v is Δ x of the paper, q and k are its C and B.
//                                                                     [Mamba-2]
//   S_t = α_t S_{t-1} + k_t v_t^T          o_t = scale S_t^T q_t + skip_h v_t
#pragma once

#include "reference/recurrences/scalar_decay.hpp"

namespace assay {

struct Ssd : FastWeightOperation<Ssd> {
  enum Input { k, v, alpha };

  static UpdateSpec spec() {
    UpdateSpec s{"ssd",
                 "Mamba-2, S = alpha S' + k v^T",
                 "[Mamba-2]",
                 {key_input(), value_input(), decay_input("BTH")}};
    s.has_skip = true;
    return s;
  }

  template <class Real>
  static std::int64_t saved_size(const Context<Real>&) {
    return 0;
  }

  template <class Real>
  static void step(Context<Real>& c, const Fields<Real>& x, Real* S, Real*) {
    scalar_decay_step(c, *x[alpha], x[k], x[v], S);
  }

  // d_α = <d_S, S'>
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Fields<Real>& x, const Real* S_prev, const Real*,
                           const Real*, Real* d_S, const Fields<Real>& d_x) {
    scalar_decay_adjoint(c, *x[alpha], x[k], x[v], S_prev, d_S, *d_x[alpha], d_x[k], d_x[v]);
  }

  template <class Real>
  static void transition(Context<Real>& c, const Fields<Real>& x, Real* A) {
    scalar_decay_transition(c, *x[alpha], A);
  }
};

}  // namespace assay

ASSAY_OPERATION(Ssd, ssd)
