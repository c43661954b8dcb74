// Comba: the delta rule reads with a key p of its own.   [Comba]
//
//   D_t = α_t S_{t-1}          S_t = D_t + β_t k_t (v_t - D_t^T p_t)^T
#pragma once

#include "reference/recurrences/delta_chunk.hpp"

namespace assay {

struct Comba : FastWeightOperation<Comba>, DeltaChunk<Comba> {
  enum Input { k, v, p, alpha, beta };
  static constexpr int kReadKey = p, kDecay = alpha;

  static UpdateSpec spec() {
    UpdateSpec s{"comba",
                 "Comba, D = alpha S'; S = D + beta k (v - D^T p)^T",
                 "[Comba]",
                 {key_input(),
                  value_input(),
                  {"p", "BTHK", Role::token, "read key of the residual", {}},
                  decay_input("BTH"),
                  write_input()}};
    s.has_q_correction = true;
    s.forms = {Form::recurrent, Form::chunk};
    return s;
  }

  template <class Real>
  static std::int64_t saved_size(const Context<Real>& c) {
    return c.V;
  }

  template <class Real>
  static void step(Context<Real>& c, const Fields<Real>& x, Real* S, Real* r) {
    la::scale(c.K * c.V, *x[alpha], S);
    delta_write(c, x[k], x[p], x[v], *x[beta], S, r);
  }

  // As gdn, but the read path ends in p: d_p -= α S' d_r.
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Fields<Real>& x, const Real* S_prev, const Real*,
                           const Real* r, Real* d_S, const Fields<Real>& d_x) {
    const Real* d_r =
        delta_write_adjoint(c, x[k], x[p], *x[beta], r, d_S, d_x[k], d_x[v], *d_x[beta]);
    Real* read = c.arena->zeros(c.K);
    la::gemv_add(c.K, c.V, S_prev, d_r, read);
    for (std::int64_t i = 0; i < c.K; ++i) fn::mul_sub(d_x[p][i], *x[alpha], read[i]);
    la::dot_add(*d_x[alpha], c.K * c.V, d_S, 1, S_prev, 1);
    la::scale(c.K * c.V, *x[alpha], d_S);
  }

  // A = α (I - β k p^T)
  template <class Real>
  static void transition(Context<Real>& c, const Fields<Real>& x, Real* A) {
    delta_transition(
        c, x[k], x[p], *x[beta], [&](std::int64_t) { return *x[alpha]; }, A);
  }
};

}  // namespace assay

ASSAY_OPERATION(Comba, comba)
