// Retention (RetNet): a fixed decay per head.   [RetNet]
//
//   S_t = γ_h S_{t-1} + k_t v_t^T
#pragma once

#include "reference/recurrences/scalar_decay.hpp"

namespace assay {

struct Retention : FastWeightOperation<Retention> {
  enum Input { k, v, gamma };

  static UpdateSpec spec() {
    return {"retention",
            "RetNet, S = gamma_h S' + k v^T",
            "[RetNet]",
            {key_input(), value_input(), {"gamma", "H", Role::param, "decay of the head", {0, 1}}}};
  }

  template <class Real>
  static std::int64_t saved_size(const Context<Real>&) {
    return 0;
  }

  template <class Real>
  static void step(Context<Real>& c, const Fields<Real>& x, Real* S, Real*) {
    scalar_decay_step(c, *x[gamma], x[k], x[v], S);
  }

  // d_γ = Σ_t <d_S_t, S_{t-1}>
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Fields<Real>& x, const Real* S_prev, const Real*,
                           const Real*, Real* d_S, const Fields<Real>& d_x) {
    scalar_decay_adjoint(c, *x[gamma], x[k], x[v], S_prev, d_S, *d_x[gamma], d_x[k], d_x[v]);
  }

  template <class Real>
  static void transition(Context<Real>& c, const Fields<Real>& x, Real* A) {
    scalar_decay_transition(c, *x[gamma], A);
  }
};

}  // namespace assay

ASSAY_OPERATION(Retention, retention)
