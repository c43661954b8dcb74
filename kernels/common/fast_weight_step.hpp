// The updates of the fast-weight family, one step at a time, each with its adjoint.
//
//   additive   S = a ∘ S' + k v^T
//   delta      D = a ∘ S';  J times  D += β_j k_j r_j^T,  r_j = v_j - D^T p_j;  S = D
//   momentum   r = v - α S'^T k;  M = μ M' - η k r^T;  S = α S' - β M
//
// The decay a is 1, one scalar, or one value per key channel (row of S).
#pragma once

#include "kernels/common/arena.hpp"
#include "kernels/common/linalg.hpp"

ASSAY_CPU_BEGIN

/// Rows of consecutive steps, or their gradients: q [n,K], k p [n,J,K], v [n,J,V], beta [n,J],
/// decay [n,decay_width], mu eta [n]. p is k where there is no read key of its own.
template <class Real>
struct FastWeightRows {
  std::int64_t K = 0, V = 0, J = 1, decay_width = 0, decay_stride = 0;
  Real *q = nullptr, *k = nullptr, *p = nullptr, *v = nullptr, *decay = nullptr, *mu = nullptr,
       *beta = nullptr, *eta = nullptr;

  /// The same from step s on.
  FastWeightRows at(std::int64_t s) const {
    FastWeightRows r = *this;
    const auto advance = [s](Real*& x, std::int64_t width) {
      if (x) x += s * width;
    };
    advance(r.q, K), advance(r.k, J * K), advance(r.p, J * K), advance(r.v, J * V);
    advance(r.decay, decay_stride), advance(r.mu, 1), advance(r.beta, J), advance(r.eta, 1);
    return r;
  }
  Real decay_of_row(std::int64_t i) const {
    return decay_width == 0 ? Real(1) : decay[decay_width == 1 ? 0 : i];
  }
};

/// d_a of D = a ∘ S', given d_D; then d_D becomes d_S'.
template <class Real>
void decay_adjoint(const FastWeightRows<Real>& x, const Real* S_prev, Real* d_D,
                   const FastWeightRows<Real>& d) {
  if (x.decay_width == 0) return;
  for (std::int64_t i = 0; i < x.K; ++i) {
    Real* row = d_D + i * x.V;
    d.decay[x.decay_width == 1 ? 0 : i] += dot(x.V, row, S_prev + i * x.V);
    scaled(x.V, x.decay_of_row(i), row, row);
  }
}

template <class Real>
struct Additive {
  static constexpr int kStates = 1;
  static std::int64_t saved_size(const FastWeightRows<Real>&) { return 0; }

  static void step(const FastWeightRows<Real>& x, Real* S, Real*, Real*) {
    for (std::int64_t i = 0; i < x.K; ++i) {
      const Real a = x.decay_of_row(i), k = x.k[i];
      Real* __restrict row = S + i * x.V;
      const Real* __restrict v = x.v;
      for (std::int64_t j = 0; j < x.V; ++j) row[j] = a * row[j] + k * v[j];
    }
  }

  // d_k = d_S v     d_v = d_S^T k     then the decay's adjoint
  static void adjoint(const FastWeightRows<Real>& x, const Real* S_prev, const Real*, const Real*,
                      Real* d_S, const FastWeightRows<Real>& d, Arena&) {
    add_product(x.K, x.V, Real(1), d_S, x.v, d.k);
    add_transposed(x.K, x.V, Real(1), d_S, x.k, d.v);
    decay_adjoint(x, S_prev, d_S, d);
  }
};

template <class Real>
struct Delta {
  static constexpr int kStates = 1;
  /// r_j [J,V], then D after each factor but the last [J-1,K,V].
  static std::int64_t saved_size(const FastWeightRows<Real>& x) {
    return x.J * x.V + (x.J - 1) * x.K * x.V;
  }

  static void step(const FastWeightRows<Real>& x, Real* S, Real* saved, Real* write) {
    const std::int64_t K = x.K, V = x.V;
    if (x.decay_width > 0) {
      for (std::int64_t i = 0; i < K; ++i) scaled(V, x.decay_of_row(i), S + i * V, S + i * V);
    }
    for (std::int64_t j = 0; j < x.J; ++j) {
      Real* r = saved + j * V;
      copy(V, x.v + j * V, r);
      add_transposed(K, V, Real(-1), S, x.p + j * K, r);
      scaled(V, x.beta[j], r, write);
      add_outer(K, V, Real(1), x.k + j * K, write, S);
      if (j + 1 < x.J) copy(K * V, S, saved + x.J * V + j * K * V);
    }
  }

  // Per factor, backward, with w = d_S^T k:
  //   d_k += d_S (β r)     d_β += r · w     d_r = β w     d_v += d_r
  //   d_p -= D d_r         d_D = d_S - p d_r^T
  static void adjoint(const FastWeightRows<Real>& x, const Real* S_prev, const Real*,
                      const Real* saved, Real* d_S, const FastWeightRows<Real>& d, Arena& arena) {
    const ArenaScope scope(arena);
    const std::int64_t K = x.K, V = x.V;
    Real *w = arena.take<Real>(V), *write = arena.take<Real>(V);
    for (std::int64_t j = x.J; j-- > 0;) {
      const Real *k = x.k + j * K, *p = x.p + j * K, *r = saved + j * V;
      set(V, Real(0), w);
      add_transposed(K, V, Real(1), d_S, k, w);
      scaled(V, x.beta[j], r, write);
      add_product(K, V, Real(1), d_S, write, d.k + j * K);
      d.beta[j] += dot(V, r, w);
      scaled(V, x.beta[j], w, w);  // d_r
      axpy(V, Real(1), w, d.v + j * V);
      const Real* D = j > 0 ? saved + x.J * V + (j - 1) * K * V : S_prev;
      for (std::int64_t i = 0; i < K; ++i) {
        const Real a = j > 0 ? Real(1) : x.decay_of_row(i);
        d.p[j * K + i] -= a * dot(V, D + i * V, w);
      }
      add_outer(K, V, Real(-1), p, w, d_S);
    }
    decay_adjoint(x, S_prev, d_S, d);
  }
};

template <class Real>
struct Momentum {
  static constexpr int kStates = 2;
  static std::int64_t saved_size(const FastWeightRows<Real>& x) { return x.V; }

  static void step(const FastWeightRows<Real>& x, Real* S, Real* r, Real*) {
    const std::int64_t K = x.K, V = x.V;
    const Real alpha = *x.decay, mu = *x.mu, beta = *x.beta, eta = *x.eta;
    copy(V, x.v, r);
    add_transposed(K, V, -alpha, S, x.k, r);
    for (std::int64_t i = 0; i < K; ++i) {
      Real* __restrict s = S + i * V, * __restrict m = S + (K + i) * V;
      const Real* __restrict residual = r;
      const Real k = -eta * x.k[i];
      for (std::int64_t j = 0; j < V; ++j) {
        m[j] = mu * m[j] + k * residual[j];
        s[j] = alpha * s[j] - beta * m[j];
      }
    }
  }

  //   d_β = -<d_S, M>     d_α = <d_S, S'>     d_M -= β d_S     d_μ = <d_M, M'>
  //   w = d_M^T k         d_η = -w · r        d_k -= η d_M r   d_r = -η w     d_v += d_r
  //   y = S' d_r          d_k -= α y          d_α -= k · y
  //   d_S' = α d_S - α k d_r^T                d_M' = μ d_M
  static void adjoint(const FastWeightRows<Real>& x, const Real* S_prev, const Real* S,
                      const Real* r, Real* d_S, const FastWeightRows<Real>& d, Arena& arena) {
    const ArenaScope scope(arena);
    const std::int64_t K = x.K, V = x.V, KV = K * V;
    const Real alpha = *x.decay, mu = *x.mu, beta = *x.beta, eta = *x.eta;
    Real *d_M = d_S + KV, *w = arena.zeros<Real>(V);
    *d.beta -= dot(KV, d_S, S + KV);
    axpy(KV, -beta, d_S, d_M);
    *d.mu += dot(KV, d_M, S_prev + KV);
    add_transposed(K, V, Real(1), d_M, x.k, w);
    *d.eta -= dot(V, w, r);
    add_product(K, V, -eta, d_M, r, d.k);
    scaled(V, -eta, w, w);  // d_r
    axpy(V, Real(1), w, d.v);
    Real d_alpha = 0;
    for (std::int64_t i = 0; i < K; ++i) {
      Real* row = d_S + i * V;
      const Real y = dot(V, S_prev + i * V, w);
      d.k[i] -= alpha * y;
      d_alpha += dot(V, row, S_prev + i * V) - x.k[i] * y;
      const Real p = -alpha * x.k[i];
      for (std::int64_t j = 0; j < V; ++j) row[j] = alpha * row[j] + p * w[j];
    }
    *d.decay += d_alpha;
    scaled(KV, mu, d_M, d_M);
  }
};

/// n steps; o [n,V] = S_t^T q_t, not scaled, unless null.
template <class Real, class Update>
void recurrent_forward(std::int64_t n, const FastWeightRows<Real>& x, Real* state, Real* o,
                       Arena& arena) {
  Real* saved = arena.take<Real>(Update::saved_size(x));
  Real* write = arena.take<Real>(x.V);
  for (std::int64_t s = 0; s < n; ++s) {
    const FastWeightRows<Real> row = x.at(s);
    Update::step(row, state, saved, write);
    if (!o) continue;
    set(x.V, Real(0), o + s * x.V);
    add_transposed(x.K, x.V, Real(1), state, row.q, o + s * x.V);
  }
}

/// u [n,V] is the cotangent of S_t^T q_t.
template <class Real, class Update>
void recurrent_backward(std::int64_t n, const FastWeightRows<Real>& x, const Real* state0,
                        const Real* u, Real* d_state, const FastWeightRows<Real>& d, Arena& arena) {
  const std::int64_t size = Update::kStates * x.K * x.V, kept = Update::saved_size(x);
  Real* states = arena.take<Real>((n + 1) * size);
  Real* saved = arena.take<Real>(n * kept);
  Real* write = arena.take<Real>(x.V);
  copy(size, state0, states);
  for (std::int64_t s = 0; s < n; ++s) {
    copy(size, states + s * size, states + (s + 1) * size);
    Update::step(x.at(s), states + (s + 1) * size, saved + s * kept, write);
  }
  for (std::int64_t s = n; s-- > 0;) {
    const FastWeightRows<Real> row = x.at(s), d_row = d.at(s);
    const Real *before = states + s * size, *after = before + size, *u_s = u + s * x.V;
    add_product(x.K, x.V, Real(1), after, u_s, d_row.q);
    add_outer(x.K, x.V, Real(1), row.q, u_s, d_state);
    Update::adjoint(row, before, after, saved + s * kept, d_state, d_row, arena);
  }
}

ASSAY_CPU_END
