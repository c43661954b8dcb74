// HGRN2: the forget gate and its complement take the place of the key.   [HGRN2]
//
//   S_t = diag(f_t) S_{t-1} + (1 - f_t) v_t^T
#pragma once

#include "reference/recurrences/fast_weight.hpp"

namespace assay {

struct Hgrn2 : FastWeightOperation<Hgrn2> {
  enum Input { v, f };

  static UpdateSpec spec() {
    return {"hgrn2",
            "HGRN2, S = diag(f) S' + (1-f) v^T",
            "[HGRN2]",
            {value_input(), {"f", "BTHK", Role::token, "forget gate", {0, 1}}}};
  }

  template <class Real>
  static std::int64_t saved_size(const Context<Real>&) {
    return 0;
  }

  template <class Real>
  static Real* complement(Context<Real>& c, const Real* f_t) {
    Real* g = c.arena->zeros(c.K);
    for (std::int64_t i = 0; i < c.K; ++i) g[i] = Real(1) - f_t[i];
    return g;
  }

  template <class Real>
  static void step(Context<Real>& c, const Fields<Real>& x, Real* S, Real*) {
    la::scale_rows(c.K, c.V, x[f], S);
    la::ger_add(c.K, c.V, complement(c, x[f]), x[v], S);
  }

  // d_v = d_S^T (1-f)     d_f_i = <d_S_i, S'_i - v>     d_S' = diag(f) d_S
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Fields<Real>& x, const Real* S_prev, const Real*,
                           const Real*, Real* d_S, const Fields<Real>& d_x) {
    la::gemv_t_add(c.K, c.V, d_S, complement(c, x[f]), d_x[v]);
    for (std::int64_t i = 0; i < c.K; ++i) {
      la::dot_add(d_x[f][i], c.V, d_S + i * c.V, 1, S_prev + i * c.V, 1);
      la::dot_sub(d_x[f][i], c.V, d_S + i * c.V, 1, x[v], 1);
    }
    la::scale_rows(c.K, c.V, x[f], d_S);
  }

  // A = diag(f)
  template <class Real>
  static void transition(Context<Real>& c, const Fields<Real>& x, Real* A) {
    for (std::int64_t i = 0; i < c.K; ++i) A[i * c.K + i] = x[f][i];
  }
};

}  // namespace assay

ASSAY_OPERATION(Hgrn2, hgrn2)
