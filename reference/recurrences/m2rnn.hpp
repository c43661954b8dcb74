// M²RNN, the matrix-state non-linear RNN.   [M2RNN v2, Eqs. 10-12]
//
//   Z_t = tanh(H_{t-1} W + k_t v_t^T)
//   H_t = f_t H_{t-1} + (1 - f_t) Z_t
//   y_t = H_t^T q_t + w_residual ∘ v_t
//
// Adjoint, backward from C_T = d_h_final, u_t = d_y_t (derived by the chain rule; the paper's
// Algorithm 2 drops terms and is not followed):
//
//   R_t = C_t + q_t u_t^T          D_t = (1 - f_t) R_t ∘ (1 - Z_t ∘ Z_t)
//   C_{t-1} = f_t R_t + D_t W^T
//   d_f = <R_t, H_{t-1} - Z_t>     d_w = Σ H_{t-1}^T D_t
//   d_k = D_t v_t                  d_v = D_t^T k_t + w_residual ∘ u_t
//   d_q = H_t u_t                  d_w_residual = Σ v_t ∘ u_t            d_h0 = C_0
//
// With `state_grad_clip` c the training rule clamps C_t to [-c, c] before R_t is formed (at T too;
// d_h0 is not clamped). Then the result is by definition not the gradient.
#pragma once

#include "reference/recurrences/step_recurrence.hpp"

namespace assay {

/// The inputs of one step of one head, or their cotangents. q, k [K], v [V], w [V,V], f [1],
/// w_residual [V].
template <class Real>
struct M2rnnCell {
  Real *q, *k, *v, *w, *f, *w_residual;
};

/// H [K,V] is advanced; y [V] is written unless null; Z [K,V] is written.
template <class Real>
void m2rnn_cell(Context<Real>& c, const M2rnnCell<Real>& x, Real* H, Real* y, Real* Z) {
  const std::int64_t KV = c.K * c.V;
  for (std::int64_t i = 0; i < KV; ++i) Z[i] = 0;
  la::gemm_add(c.K, c.V, c.V, H, x.w, Z);
  la::ger_add(c.K, c.V, x.k, x.v, Z);
  for (std::int64_t i = 0; i < KV; ++i) Z[i] = fn::tanh(Z[i]);
  const Real rest = Real(1) - *x.f;
  la::axpby(KV, rest, Z, *x.f, H);
  if (!y) return;
  for (std::int64_t j = 0; j < c.V; ++j) y[j] = x.w_residual[j] * x.v[j];
  la::gemv_t_add(c.K, c.V, H, x.q, y);
}

/// The steps of the adjoint that carry the cotangent of the state back.
struct M2rnnRule {
  /// D = (1 - f) R ∘ (1 - Z ∘ Z), all [K,V]. (H_t is there for a rule that reads it by mistake.)
  template <class Real>
  static void through_tanh(std::int64_t KV, const Real& f, const Real* R, const Real* Z,
                           const Real* /*H*/, Real* D) {
    const Real rest = Real(1) - f;
    for (std::int64_t i = 0; i < KV; ++i) {
      D[i] = 1;
      fn::mul_sub(D[i], Z[i], Z[i]);
      D[i] *= R[i];
    }
    la::scale(KV, rest, D);
  }
  /// R [K,V] becomes C_{t-1} = f R + D W^T.
  template <class Real>
  static void carry(const Context<Real>& c, const Real& f, const Real* D, const Real* w, Real* R) {
    la::scale(c.K * c.V, f, R);
    la::gemm_nt_add(c.K, c.V, c.V, D, w, R);
  }
};

/// The adjoint above: u [V], d_H holds C_t and becomes C_{t-1}, d is added to.
template <class Rule = M2rnnRule, class Real>
void m2rnn_cell_adjoint(Context<Real>& c, const M2rnnCell<Real>& x, const Real* H_prev,
                        const Real* H, const Real* Z, const Real* u, Real* d_H,
                        const M2rnnCell<Real>& d) {
  const std::int64_t KV = c.K * c.V;
  la::gemv_add(c.K, c.V, H, u, d.q);
  for (std::int64_t j = 0; j < c.V; ++j) {
    fn::mul_add(d.w_residual[j], x.v[j], u[j]);
    fn::mul_add(d.v[j], x.w_residual[j], u[j]);
  }
  Real* R = d_H;
  la::ger_add(c.K, c.V, x.q, u, R);
  la::dot_add(*d.f, KV, R, 1, H_prev, 1);
  la::dot_sub(*d.f, KV, R, 1, Z, 1);

  Real* D = c.arena->zeros(KV);
  Rule::through_tanh(KV, *x.f, R, Z, H, D);
  la::gemm_tn_add(c.V, c.K, c.V, H_prev, D, d.w);
  la::gemv_add(c.K, c.V, D, x.v, d.k);
  la::gemv_t_add(c.K, c.V, D, x.k, d.v);
  Rule::carry(c, *x.f, D, x.w, R);
}

struct M2rnn : StepOperation<M2rnn> {
  enum Input { q, k, v, w, f, w_residual };
  enum Output { y };

  static Schema schema(const Case*) {
    Schema s;
    s.op = "m2rnn";
    s.title = "matrix-state non-linear RNN, Z = tanh(H' W + k v^T); H = f H' + (1-f) Z";
    s.source = "[M2RNN v2, Eqs. 10-12]";
    s.head_axis = 'N';
    s.inputs = {
        {"q", "BTNK", Role::token, "query", {}},
        {"k", "BTNK", Role::token, "key", {}},
        {"v", "BTNV", Role::token, "value", {}},
        {"w", "NVV", Role::param, "state transition matrix", {}},
        {"f", "BTN", Role::token, "forget gate: share of the old state that is kept", {0, 1}},
        {"w_residual", "NV", Role::param, "direct path from v to y", {}, true},
        {"h0", "BNKV", Role::state, "initial state H_0", {}, true},
    };
    s.outputs = {{"y", "BTNV", "read-out"}, {"h_final", "BNKV", "state after the last step", true}};
    s.options = {{"state_grad_clip", OptionType::real, std::nullopt,
                  "clamp of the state's cotangent at every step (not a gradient any more)", 0.0,
                  kInf}};
    return s;
  }

  /// Z_t.
  template <class Real>
  static std::int64_t saved_size(const Context<Real>& c) {
    return c.K * c.V;
  }

  template <class Real>
  static void step(Context<Real>& c, const Block<Real>& x, Real* H, const Block<Real>& out,
                   Real* Z) {
    const M2rnnCell<Real> in{x(q), x(k), x(v), x(w), x(f), x(w_residual)};
    m2rnn_cell(c, in, H, c.readout ? out(y) : nullptr, Z);
  }

  template <class Rule = M2rnnRule, class Real>
  static void adjoint_step(Context<Real>& c, const Block<Real>& x, const Real* H_prev,
                           const Real* H, const Real* Z, const Block<Real>& d_out, Real* d_H,
                           const Block<Real>& d_x) {
    if (const auto clip = option_real(*c.problem, "state_grad_clip")) {
      const Real hi = fn::from_double<Real>(*clip), lo = -hi;
      for (std::int64_t i = 0; i < c.K * c.V; ++i) d_H[i] = fn::clamp(d_H[i], lo, hi);
    }
    const M2rnnCell<Real> in{x(q), x(k), x(v), x(w), x(f), x(w_residual)};
    const M2rnnCell<Real> d{d_x(q), d_x(k), d_x(v), d_x(w), d_x(f), d_x(w_residual)};
    m2rnn_cell_adjoint<Rule>(c, in, H_prev, H, Z, d_out(y), d_H, d);
  }

  // Rows of H are independent. For row i, with z_i row i of Z_t and column vectors,
  //   d h_i = A d h'_i,  A = f I + (1-f) diag(1 - z_i²) W^T
  // A depends on the row; all K of them are stacked, [K*V, V], and the order returned is V.
  template <class Real>
  static std::int64_t transition(Context<Real>& c, const Block<Real>& x, const Real* H_prev,
                                 std::vector<Real>& A) {
    const std::int64_t K = c.K, V = c.V;
    std::vector<Real> Z(K * V);
    la::gemm_add(K, V, V, H_prev, x(w), Z.data());
    la::ger_add(K, V, x(k), x(v), Z.data());
    A.assign(K * V * V, Real(0));
    const Real rest = Real(1) - *x(f);
    for (std::int64_t i = 0; i < K; ++i) {
      for (std::int64_t a = 0; a < V; ++a) {
        const Real z = fn::tanh(Z[i * V + a]);
        const Real slope = rest * (Real(1) - z * z);
        Real* row = A.data() + (i * V + a) * V;
        for (std::int64_t b = 0; b < V; ++b) row[b] = slope * x(w)[b * V + a];
        row[a] += *x(f);
      }
    }
    return V;
  }
};

}  // namespace assay

ASSAY_OPERATION(M2rnn, m2rnn)
