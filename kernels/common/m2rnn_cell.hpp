// The recurrence of M²RNN over a block of steps of one head, shared by m2rnn and m2rnn_block:
//
//   Z_t = tanh(H_{t-1} W + k_t v_t^T)     H_t = f_t H_{t-1} + (1 - f_t) Z_t
//   y_t = H_t^T q_t + w_residual ∘ v_t
//
// backward, with u_t the cotangent of y_t and C_t that of H_t from later steps:
//
//   R_t = C_t + q_t u_t^T                 D_t = (1 - f_t) R_t ∘ (1 - Z_t ∘ Z_t)
//   C_{t-1} = f_t R_t + D_t W^T           d_w = Σ H_{t-1}^T D_t        d_f = <R_t, H_{t-1} - Z_t>
//   d_k = D_t v_t    d_v = D_t^T k_t + w_residual ∘ u_t    d_q = H_t u_t    d_w_residual = Σ v_t ∘
//   u_t
#pragma once

#include "kernels/common/arena.hpp"
#include "kernels/common/elementary.hpp"
#include "kernels/common/linalg.hpp"

ASSAY_CPU_BEGIN

/// n steps of one head, or their gradients: q k [n,K], v [n,V], f [n], w [V,V], w_residual [V].
template <class Real>
struct M2rnnRows {
  std::int64_t K, V;
  Real *q, *k, *v, *w, *f, *w_residual;
};

/// H' becomes H of step s; Z [K,V] is written.
template <class Real>
void m2rnn_step(const M2rnnRows<Real>& x, std::int64_t s, const Real* H_prev, Real* H, Real* Z) {
  const std::int64_t K = x.K, V = x.V;
  Matrix<Real>(Z, K, V).noalias() = ConstMatrix<Real>(H_prev, K, V) * ConstMatrix<Real>(x.w, V, V);
  add_outer(K, V, Real(1), x.k + s * K, x.v + s * V, Z);
  tanh_rows(K * V, Z);
  const Real f = x.f[s], rest = Real(1) - f;
  for (std::int64_t i = 0; i < K * V; ++i) H[i] = f * H_prev[i] + rest * Z[i];
}

/// H [K,V] is advanced; y [n,V] is written unless null.
template <class Real>
void m2rnn_forward(std::int64_t n, const M2rnnRows<Real>& x, Real* H, Real* y, Arena& arena) {
  const std::int64_t K = x.K, V = x.V;
  Real* Z = arena.take<Real>(K * V);
  for (std::int64_t s = 0; s < n; ++s) {
    m2rnn_step(x, s, H, H, Z);
    if (!y) continue;
    for (std::int64_t j = 0; j < V; ++j) y[s * V + j] = x.w_residual[j] * x.v[s * V + j];
    add_transposed(K, V, Real(1), H, x.q + s * K, y + s * V);
  }
}

/// u [n,V]; d_H holds C_n and becomes C_0; d is added to. clip < 0: none.
template <class Real>
void m2rnn_backward(std::int64_t n, const M2rnnRows<Real>& x, const Real* H0, const Real* u,
                    Real clip, Real* d_H, const M2rnnRows<Real>& d, Arena& arena) {
  const std::int64_t K = x.K, V = x.V, KV = K * V;
  Real *H = arena.take<Real>((n + 1) * KV), *Z = arena.take<Real>(n * KV);
  copy(KV, H0, H);
  for (std::int64_t s = 0; s < n; ++s) m2rnn_step(x, s, H + s * KV, H + (s + 1) * KV, Z + s * KV);

  const ConstMatrix<Real> w(x.w, V, V);
  for (std::int64_t s = n; s-- > 0;) {
    const Real *H_prev = H + s * KV, *u_s = u + s * V, *v = x.v + s * V;
    if (clip >= Real(0)) {  // comparisons let NaN pass
      for (std::int64_t i = 0; i < KV; ++i) {
        d_H[i] = d_H[i] > clip ? clip : d_H[i] < -clip ? -clip : d_H[i];
      }
    }
    add_product(K, V, Real(1), H_prev + KV, u_s, d.q + s * K);
    for (std::int64_t j = 0; j < V; ++j) {
      d.w_residual[j] += v[j] * u_s[j];
      d.v[s * V + j] += x.w_residual[j] * u_s[j];
    }
    add_outer(K, V, Real(1), x.q + s * K, u_s, d_H);  // now R
    Real* D = Z + s * KV;                             // takes the place of Z_t
    const Real f = x.f[s], rest = Real(1) - f;
    Real d_f = 0;
    for (std::int64_t i = 0; i < K; ++i) {
      const std::int64_t at = i * V;
      d_f += dot(V, d_H + at, H_prev + at) - dot(V, d_H + at, D + at);
    }
    d.f[s] += d_f;
    for (std::int64_t i = 0; i < KV; ++i) {
      D[i] = rest * d_H[i] * ((Real(1) - D[i]) * (Real(1) + D[i]));
      d_H[i] *= f;
    }
    add_product(K, V, Real(1), D, v, d.k + s * K);
    add_transposed(K, V, Real(1), D, x.k + s * K, d.v + s * V);
    Matrix<Real>(d_H, K, V).noalias() += ConstMatrix<Real>(D, K, V) * w.transpose();
  }
  // All steps of d_w at once: the states before, and the D, lie one below the other.
  Matrix<Real>(d.w, V, V).noalias() +=
      ConstMatrix<Real>(H, n * K, V).transpose() * ConstMatrix<Real>(Z, n * K, V);
}

ASSAY_CPU_END
