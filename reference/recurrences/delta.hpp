// DeltaNet.   [DeltaNet]
//
//   r_t = v_t - S_{t-1}^T k_t          S_t = S_{t-1} + β_t k_t r_t^T
#pragma once

#include "reference/recurrences/delta_chunk.hpp"

namespace assay {

struct Delta : FastWeightOperation<Delta>, DeltaChunk<Delta> {
  enum Input { k, v, beta };
  static constexpr int kReadKey = k, kDecay = -1;

  static UpdateSpec spec() {
    UpdateSpec s{"delta",
                 "DeltaNet, S = S' + beta k (v - S'^T k)^T",
                 "[DeltaNet]",
                 {key_input(), value_input(), write_input()}};
    s.forms = {Form::recurrent, Form::chunk};
    return s;
  }

  template <class Real>
  static std::int64_t saved_size(const Context<Real>& c) {
    return c.V;
  }

  template <class Real>
  static void step(Context<Real>& c, const Fields<Real>& x, Real* S, Real* r) {
    delta_write(c, x[k], x[k], x[v], *x[beta], S, r);
  }

  // As in delta_rule.hpp with D = S', p = k.
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Fields<Real>& x, const Real* S_prev, const Real*,
                           const Real* r, Real* d_S, const Fields<Real>& d_x) {
    const Real* d_r =
        delta_write_adjoint(c, x[k], x[k], *x[beta], r, d_S, d_x[k], d_x[v], *d_x[beta]);
    Real* read = c.arena->zeros(c.K);
    la::gemv_add(c.K, c.V, S_prev, d_r, read);
    for (std::int64_t i = 0; i < c.K; ++i) d_x[k][i] -= read[i];
  }

  template <class Real>
  static void transition(Context<Real>& c, const Fields<Real>& x, Real* A) {
    delta_transition(
        c, x[k], x[k], *x[beta], [](std::int64_t) { return Real(1); }, A);
  }
};

}  // namespace assay

ASSAY_OPERATION(Delta, delta)
