// Momentum DeltaNet.   [MDN v1, Eqs. 3-5]
//
//   p_t = α_t k_t                      r_t = v_t - S_{t-1}^T p_t
//   M_t = μ_t M_{t-1} - η_t k_t r_t^T
//   S_t = α_t S_{t-1} - β_t M_t
//
// State: S then M.
#pragma once

#include "reference/recurrences/mdn_chunk.hpp"

namespace assay {

struct Mdn : FastWeightOperation<Mdn>, MdnChunk<Mdn> {
  enum Input { k, v, alpha, mu, beta, eta };

  static UpdateSpec spec() {
    UpdateSpec s{
        "mdn",
        "Momentum DeltaNet, M = mu M' - eta k (v - alpha S'^T k)^T; S = alpha S' - beta M",
        "[MDN v1, Eqs. 3-5]",
        {key_input(),
         value_input(),
         decay_input("BTH"),
         {"mu", "BTH", Role::token, "decay of the momentum", {0, 1}, false, 0, "log_mu"},
         write_input(),
         {"eta", "BTH", Role::token, "scale of the residual (default 1)", {0, 2}, true, 1}}};
    s.states = 2;
    s.has_q_correction = true;
    s.forms = {Form::recurrent, Form::chunk, Form::chunk_log};
    return s;
  }

  /// The residual r_t.
  template <class Real>
  static std::int64_t saved_size(const Context<Real>& c) {
    return c.V;
  }

  /// p_t = α_t k_t, added to zeros.
  template <class Real>
  static void residual_key(const Context<Real>& c, const Fields<Real>& x, Real* p) {
    la::axpy(c.K, *x[alpha], x[k], p);
  }

  /// Rule supplies the residual's key.
  template <class Rule = Mdn, class Real>
  static void step(Context<Real>& c, const Fields<Real>& x, Real* S, Real* r) {
    const std::int64_t KV = c.K * c.V;
    Real* M = S + KV;
    Real* p = c.arena->zeros(c.K);
    Rule::residual_key(c, x, p);
    for (std::int64_t j = 0; j < c.V; ++j) r[j] = x[v][j];
    la::gemv_t_sub(c.K, c.V, S, p, r);

    Real* k_hat = c.arena->zeros(c.K);
    const Real minus_eta = -*x[eta], minus_beta = -*x[beta];
    la::axpy(c.K, minus_eta, x[k], k_hat);
    la::scale_ger_add(c.K, c.V, *x[mu], k_hat, r, M);
    la::axpby(KV, minus_beta, M, *x[alpha], S);
  }

  // With d_S, d_M the cotangents of S_t, M_t:
  //   d_β = -<d_S, M_t>          d_α = <d_S, S'>          d_M <- d_M - β d_S
  //   d_μ = <d_M, M'>            w = d_M^T k              d_η = -w · r
  //   d_r = -η w                 d_k = -η d_M r           d_v = d_r
  //   y = S' d_r                 d_k -= α y               d_α -= k · y
  //   d_S' = α d_S - p d_r^T     d_M' = μ d_M
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Fields<Real>& x, const Real* S_prev,
                           const Real* S, const Real* r, Real* d_S, const Fields<Real>& d_x) {
    const std::int64_t KV = c.K * c.V;
    const Real *M_prev = S_prev + KV, *M = S + KV;
    Real* d_M = d_S + KV;
    const Real minus_beta = -*x[beta], minus_eta = -*x[eta];
    la::dot_sub(*d_x[beta], KV, d_S, 1, M, 1);
    la::dot_add(*d_x[alpha], KV, d_S, 1, S_prev, 1);
    la::axpy(KV, minus_beta, d_S, d_M);
    la::dot_add(*d_x[mu], KV, d_M, 1, M_prev, 1);

    Real* w = c.arena->zeros(c.V);
    la::gemv_t_add(c.K, c.V, d_M, x[k], w);
    la::dot_sub(*d_x[eta], c.V, w, 1, r, 1);
    Real* eta_r = c.arena->zeros(c.V);
    la::axpy(c.V, minus_eta, r, eta_r);
    la::gemv_add(c.K, c.V, d_M, eta_r, d_x[k]);
    la::scale(c.V, minus_eta, w);  // now d_r
    for (std::int64_t j = 0; j < c.V; ++j) d_x[v][j] += w[j];

    Real* y = c.arena->zeros(c.K);
    la::gemv_add(c.K, c.V, S_prev, w, y);
    for (std::int64_t i = 0; i < c.K; ++i) fn::mul_sub(d_x[k][i], *x[alpha], y[i]);
    la::dot_sub(*d_x[alpha], c.K, x[k], 1, y, 1);

    Real* minus_p = c.arena->zeros(c.K);
    la::axpy(c.K, Real(-*x[alpha]), x[k], minus_p);
    la::scale_ger_add(c.K, c.V, *x[alpha], minus_p, w, d_S);
    la::scale(KV, *x[mu], d_M);
  }

  // A = [[α I - αβη k k^T, -βμ I], [αη k k^T, μ I]] on the stacked (S, M)   [MDN v1, Eq. 55]
  template <class Real>
  static void transition(Context<Real>& c, const Fields<Real>& x, Real* A) {
    const std::int64_t K = c.K, n = 2 * K;
    const Real ae = *x[alpha] * *x[eta];
    for (std::int64_t i = 0; i < K; ++i) {
      for (std::int64_t j = 0; j < K; ++j) {
        const Real kk = ae * x[k][i] * x[k][j];
        A[(K + i) * n + j] = kk;
        A[i * n + j] = -*x[beta] * kk;
      }
      A[i * n + i] += *x[alpha];
      A[i * n + K + i] = -*x[beta] * *x[mu];
      A[(K + i) * n + K + i] = *x[mu];
    }
  }
};

}  // namespace assay

ASSAY_OPERATION(Mdn, mdn)
