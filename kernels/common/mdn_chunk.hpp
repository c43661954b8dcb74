// Chunk form of Momentum DeltaNet. Within n steps from S_0, M_0, with k̂ = η k, p = α k,
//
//   m_jj = 1, γ_jj = β_j;    m_ij = μ_i m_{i-1,j}    γ_ij = α_i γ_{i-1,j} + β_i m_ij   (j < i)
//   ᾱ_i = α_i ᾱ_{i-1}    μ̄_i = μ_i μ̄_{i-1}    b_i = α_i b_{i-1} + β_i μ̄_i   (ᾱ = μ̄ = 1, b = 0
//   before) Γ⁻_ij = γ_{i-1,j} (j < i): Γ moved down one row L = (P K̂^T) ∘ Γ⁻         [I + L] R = V
//   - diag(ᾱ⁻) P S_0 + diag(b⁻) P M_0 W = (Q K̂^T) ∘ Γ          O = diag(ᾱ) Q S_0 - diag(b) Q M_0 +
//   W R S_n = ᾱ_n S_0 - b_n M_0 + [diag(γ_n) K̂]^T R        M_n = μ̄_n M_0 - [diag(m_n) K̂]^T R
//
// The coefficients come from this recursion, which has no subtraction and no division: for gates
// >= 0 each has a small relative error whatever the gates, 0 included. (Taken from logarithms, the
// same coefficients lose all digits where μ decays faster than α.)
#pragma once

#include "kernels/common/fast_weight.hpp"

ASSAY_CPU_BEGIN

/// Coefficients of a chunk, or their cotangents. Lower triangles of [n,n] are used.
template <class Real>
struct MdnCoefficients {
  Real *gamma, *m;               // [n,n]
  Real *alpha_bar, *mu_bar, *b;  // [n+1], entry i+1 belongs to step i
  MdnCoefficients(std::int64_t n, Arena& arena)
      : gamma(arena.zeros<Real>(n * n)),
        m(arena.zeros<Real>(n * n)),
        alpha_bar(arena.zeros<Real>(n + 1)),
        mu_bar(arena.zeros<Real>(n + 1)),
        b(arena.zeros<Real>(n + 1)) {}
};

template <class Real>
void mdn_coefficients(std::int64_t n, const FastWeightRows<Real>& x,
                      const MdnCoefficients<Real>& c) {
  c.alpha_bar[0] = c.mu_bar[0] = 1;
  for (std::int64_t i = 0; i < n; ++i) {
    const Real alpha = x.decay[i], mu = x.mu[i], beta = x.beta[i];
    c.alpha_bar[i + 1] = alpha * c.alpha_bar[i];
    c.mu_bar[i + 1] = mu * c.mu_bar[i];
    c.b[i + 1] = alpha * c.b[i] + beta * c.mu_bar[i + 1];
    Real *m = c.m + i * n, *gamma = c.gamma + i * n;
    for (std::int64_t j = 0; j < i; ++j) {
      m[j] = mu * m[j - n];
      gamma[j] = alpha * gamma[j - n] + beta * m[j];
    }
    m[i] = 1;
    gamma[i] = beta;
  }
}

/// The recursion backward; d_c is used up.
template <class Real>
void mdn_coefficients_adjoint(std::int64_t n, const FastWeightRows<Real>& x,
                              const MdnCoefficients<Real>& c, const MdnCoefficients<Real>& d_c,
                              const FastWeightRows<Real>& d) {
  for (std::int64_t i = n; i-- > 0;) {
    const Real alpha = x.decay[i], mu = x.mu[i], beta = x.beta[i], d_b = d_c.b[i + 1];
    Real *d_gamma = d_c.gamma + i * n, *d_m = d_c.m + i * n;
    const Real *m = c.m + i * n, *gamma = c.gamma + i * n;
    d_c.mu_bar[i + 1] += beta * d_b;
    d_c.b[i] += alpha * d_b;
    d.beta[i] += d_b * c.mu_bar[i + 1] + d_gamma[i] + dot(i, d_gamma, m);
    d.decay[i] += d_b * c.b[i] + d_c.alpha_bar[i + 1] * c.alpha_bar[i];
    d_c.alpha_bar[i] += alpha * d_c.alpha_bar[i + 1];
    axpy(i, beta, d_gamma, d_m);
    d.mu[i] += d_c.mu_bar[i + 1] * c.mu_bar[i];
    d_c.mu_bar[i] += mu * d_c.mu_bar[i + 1];
    if (i == 0) continue;
    d.decay[i] += dot(i, d_gamma, gamma - n);
    d.mu[i] += dot(i, d_m, m - n);
    axpy(i, alpha, d_gamma, d_gamma - n);
    axpy(i, mu, d_m, d_m - n);
  }
}

/// Everything of a chunk that forward and backward share.
template <class Real>
struct MdnChunkTerms {
  MdnCoefficients<Real> c;
  Real *k_hat, *p;                    // [n,K]
  Real *QK, *PK, *W, *L;              // [n,n]
  Real *Qa, *Qb, *Pa, *Pb, *Kg, *Km;  // [n,K]: Q, P, K̂ times ᾱ, b, ᾱ⁻, b⁻, γ_n, m_n
  Real* R;                            // [n,V]

  MdnChunkTerms(std::int64_t n, const FastWeightRows<Real>& x, const Real* state0, Arena& arena)
      : c(n, arena) {
    const std::int64_t K = x.K;
    mdn_coefficients(n, x, c);
    for (Real** block : {&k_hat, &p, &Qa, &Qb, &Pa, &Pb, &Kg, &Km}) {
      *block = arena.take<Real>(n * K);
    }
    for (Real** block : {&QK, &PK}) *block = arena.take<Real>(n * n);
    for (Real** block : {&W, &L}) *block = arena.zeros<Real>(n * n);
    R = arena.take<Real>(n * x.V);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = i * K;
      scaled(K, x.eta[i], x.k + at, k_hat + at);
      scaled(K, x.decay[i], x.k + at, p + at);
      scaled(K, c.alpha_bar[i + 1], x.q + at, Qa + at);
      scaled(K, c.b[i + 1], x.q + at, Qb + at);
      scaled(K, c.alpha_bar[i], p + at, Pa + at);
      scaled(K, c.b[i], p + at, Pb + at);
      scaled(K, c.gamma[(n - 1) * n + i], k_hat + at, Kg + at);
      scaled(K, c.m[(n - 1) * n + i], k_hat + at, Km + at);
    }
    products(n, x);
    residuals(n, x, state0);
  }

 private:
  void products(std::int64_t n, const FastWeightRows<Real>& x) {
    const ConstMatrix<Real> key(k_hat, n, x.K);
    Matrix<Real>(QK, n, n).noalias() = ConstMatrix<Real>(x.q, n, x.K) * key.transpose();
    Matrix<Real>(PK, n, n).noalias() = ConstMatrix<Real>(p, n, x.K) * key.transpose();
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t row = i * n, before = row - n;
      for (std::int64_t j = 0; j <= i; ++j) W[row + j] = QK[row + j] * c.gamma[row + j];
      for (std::int64_t j = 0; j < i; ++j) L[row + j] = PK[row + j] * c.gamma[before + j];
    }
  }
  void residuals(std::int64_t n, const FastWeightRows<Real>& x, const Real* state0) {
    const std::int64_t K = x.K, V = x.V;
    Matrix<Real> r(R, n, V);
    copy(n * V, x.v, R);
    r.noalias() -= ConstMatrix<Real>(Pa, n, K) * ConstMatrix<Real>(state0, K, V);
    r.noalias() += ConstMatrix<Real>(Pb, n, K) * ConstMatrix<Real>(state0 + K * V, K, V);
    solve_unit_lower(n, V, L, R);
  }
};

template <class Real>
struct MomentumChunk : Momentum<Real> {
  static void chunk_forward(std::int64_t n, const FastWeightRows<Real>& x, Real* state, Real* o,
                            Arena& arena) {
    const std::int64_t K = x.K, V = x.V, KV = K * V;
    const MdnChunkTerms<Real> t(n, x, state, arena);
    const ConstMatrix<Real> R(t.R, n, V);
    Matrix<Real> S(state, K, V), M(state + KV, K, V);
    if (o) {
      Matrix<Real> out(o, n, V);
      out.noalias() = ConstMatrix<Real>(t.Qa, n, K) * S;
      out.noalias() -= ConstMatrix<Real>(t.Qb, n, K) * M;
      out.noalias() += ConstMatrix<Real>(t.W, n, n) * R;
    }
    // S first: it needs the old M.
    const Real alpha_bar = t.c.alpha_bar[n], b = t.c.b[n], mu_bar = t.c.mu_bar[n];
    for (std::int64_t i = 0; i < KV; ++i) state[i] = alpha_bar * state[i] - b * state[KV + i];
    scaled(KV, mu_bar, state + KV, state + KV);
    S.noalias() += ConstMatrix<Real>(t.Kg, n, K).transpose() * R;
    M.noalias() -= ConstMatrix<Real>(t.Km, n, K).transpose() * R;
  }

  static void chunk_backward(std::int64_t n, const FastWeightRows<Real>& x, const Real* state0,
                             const Real* u, Real* d_state, const FastWeightRows<Real>& d,
                             Arena& arena) {
    const std::int64_t K = x.K, V = x.V, KV = K * V;
    const MdnChunkTerms<Real> t(n, x, state0, arena);
    const MdnCoefficients<Real> d_c(n, arena);
    Real *d_r = arena.take<Real>(n * V), *d_k_hat = arena.zeros<Real>(n * K),
         *d_p = arena.zeros<Real>(n * K);
    // R enters O through W, S_n through γ_n, M_n through -m_n; then the solve backward.
    Matrix<Real> d_R(d_r, n, V);
    const ConstMatrix<Real> d_S(d_state, K, V), d_M(d_state + KV, K, V), U(u, n, V);
    d_R.noalias() = ConstMatrix<Real>(t.W, n, n).transpose() * U;
    d_R.noalias() += ConstMatrix<Real>(t.Kg, n, K) * d_S;
    d_R.noalias() -= ConstMatrix<Real>(t.Km, n, K) * d_M;
    solve_unit_lower_transposed(n, V, t.L, d_r);
    axpy(n * V, Real(1), d_r, d.v);

    final_writes(n, x, t, d_state, d_c, d_k_hat, arena);
    inner_products(n, x, t, u, d_r, d_c, d, d_k_hat, d_p, arena);
    reads(n, x, t, state0, u, d_r, d_c, d, d_p, arena);
    initial_state(n, x, t, state0, u, d_r, d_state, d_c);
    mdn_coefficients_adjoint(n, x, t.c, d_c, d);
    for (std::int64_t i = 0; i < n; ++i) {  // k̂ = η k, p = α k
      const std::int64_t at = i * K;
      d.eta[i] += dot(K, x.k + at, d_k_hat + at);
      d.decay[i] += dot(K, x.k + at, d_p + at);
      axpy(K, x.eta[i], d_k_hat + at, d.k + at);
      axpy(K, x.decay[i], d_p + at, d.k + at);
    }
  }

 private:
  using Terms = MdnChunkTerms<Real>;
  using Rows = FastWeightRows<Real>;

  // S_n += [diag(γ_n) K̂]^T R,  M_n -= [diag(m_n) K̂]^T R
  static void final_writes(std::int64_t n, const Rows& x, const Terms& t, const Real* d_state,
                           const MdnCoefficients<Real>& d_c, Real* d_k_hat, Arena& arena) {
    const ArenaScope scope(arena);
    const std::int64_t K = x.K, V = x.V, last = (n - 1) * n;
    Real *via_S = arena.take<Real>(n * K), *via_M = arena.take<Real>(n * K);
    const ConstMatrix<Real> R(t.R, n, V), d_S(d_state, K, V), d_M(d_state + K * V, K, V);
    Matrix<Real>(via_S, n, K).noalias() = R * d_S.transpose();
    Matrix<Real>(via_M, n, K).noalias() = R * d_M.transpose();
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t at = j * K;
      d_c.gamma[last + j] += dot(K, t.k_hat + at, via_S + at);
      d_c.m[last + j] -= dot(K, t.k_hat + at, via_M + at);
      axpy(K, t.c.gamma[last + j], via_S + at, d_k_hat + at);
      axpy(K, -t.c.m[last + j], via_M + at, d_k_hat + at);
    }
  }

  // d_W = U R^T, d_L = -d_R R^T, through the coefficients to q, k̂ and p.
  static void inner_products(std::int64_t n, const Rows& x, const Terms& t, const Real* u,
                             const Real* d_r, const MdnCoefficients<Real>& d_c, const Rows& d,
                             Real* d_k_hat, Real* d_p, Arena& arena) {
    const ArenaScope scope(arena);
    const std::int64_t K = x.K, V = x.V;
    Real *w = arena.take<Real>(n * n), *l = arena.take<Real>(n * n);
    Matrix<Real> d_W(w, n, n), d_L(l, n, n), d_key(d_k_hat, n, K);
    const ConstMatrix<Real> R(t.R, n, V), key(t.k_hat, n, K);
    d_W.noalias() = ConstMatrix<Real>(u, n, V) * R.transpose();
    d_L.noalias() = -ConstMatrix<Real>(d_r, n, V) * R.transpose();
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t row = i * n, before = row - n;
      for (std::int64_t j = 0; j <= i; ++j) {
        d_c.gamma[row + j] += w[row + j] * t.QK[row + j];
        w[row + j] *= t.c.gamma[row + j];
      }
      for (std::int64_t j = 0; j < i; ++j) {
        d_c.gamma[before + j] += l[row + j] * t.PK[row + j];
        l[row + j] *= t.c.gamma[before + j];
      }
      for (std::int64_t j = i; j < n; ++j) l[row + j] = 0;
      for (std::int64_t j = i + 1; j < n; ++j) w[row + j] = 0;
    }
    Matrix<Real>(d.q, n, K).noalias() += d_W * key;
    Matrix<Real>(d_p, n, K).noalias() += d_L * key;
    d_key.noalias() += d_W.transpose() * ConstMatrix<Real>(x.q, n, K);
    d_key.noalias() += d_L.transpose() * ConstMatrix<Real>(t.p, n, K);
  }

  // The reads of S_0 and M_0 by q (into O) and by p (out of the right-hand side).
  static void reads(std::int64_t n, const Rows& x, const Terms& t, const Real* state0,
                    const Real* u, const Real* d_r, const MdnCoefficients<Real>& d_c, const Rows& d,
                    Real* d_p, Arena& arena) {
    const ArenaScope scope(arena);
    const std::int64_t K = x.K, V = x.V;
    Real *via_S = arena.take<Real>(n * K), *via_M = arena.take<Real>(n * K);
    const ConstMatrix<Real> S0(state0, K, V), M0(state0 + K * V, K, V);
    const auto read = [&](const Real* d_y, const Real* rows, Real sign, std::int64_t shift,
                          Real* d_rows) {
      Matrix<Real>(via_S, n, K).noalias() = ConstMatrix<Real>(d_y, n, V) * S0.transpose();
      Matrix<Real>(via_M, n, K).noalias() = ConstMatrix<Real>(d_y, n, V) * M0.transpose();
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t at = i * K, step = i + shift;
        d_c.alpha_bar[step] += sign * dot(K, rows + at, via_S + at);
        d_c.b[step] -= sign * dot(K, rows + at, via_M + at);
        axpy(K, sign * t.c.alpha_bar[step], via_S + at, d_rows + at);
        axpy(K, -sign * t.c.b[step], via_M + at, d_rows + at);
      }
    };
    read(u, x.q, Real(1), 1, d.q);
    read(d_r, t.p, Real(-1), 0, d_p);
  }

  // S_n = ᾱ_n S_0 - b_n M_0 + ...,  M_n = μ̄_n M_0 - ..., and the transposed reads.
  static void initial_state(std::int64_t n, const Rows& x, const Terms& t, const Real* state0,
                            const Real* u, const Real* d_r, Real* d_state,
                            const MdnCoefficients<Real>& d_c) {
    const std::int64_t K = x.K, V = x.V, KV = K * V;
    Real *d_S = d_state, *d_M = d_state + KV;
    d_c.alpha_bar[n] += dot(KV, d_S, state0);
    d_c.b[n] -= dot(KV, d_S, state0 + KV);
    d_c.mu_bar[n] += dot(KV, d_M, state0 + KV);
    const Real alpha_bar = t.c.alpha_bar[n], b = t.c.b[n], mu_bar = t.c.mu_bar[n];
    for (std::int64_t i = 0; i < KV; ++i) {
      d_M[i] = mu_bar * d_M[i] - b * d_S[i];
      d_S[i] *= alpha_bar;
    }
    const ConstMatrix<Real> U(u, n, V), d_R(d_r, n, V);
    Matrix<Real> S(d_S, K, V), M(d_M, K, V);
    S.noalias() += ConstMatrix<Real>(t.Qa, n, K).transpose() * U;
    S.noalias() -= ConstMatrix<Real>(t.Pa, n, K).transpose() * d_R;
    M.noalias() -= ConstMatrix<Real>(t.Qb, n, K).transpose() * U;
    M.noalias() += ConstMatrix<Real>(t.Pb, n, K).transpose() * d_R;
  }
};

template <class Real>
using ChunkedMomentumWeights = FastWeight<Real, MomentumChunk>;

extern template class FastWeight<float, MomentumChunk>;
extern template class FastWeight<double, MomentumChunk>;
extern template void run_sequences<FastWeight<float, MomentumChunk>>(const Binding&, const Call&);
extern template void run_sequences<FastWeight<double, MomentumChunk>>(const Binding&, const Call&);

ASSAY_CPU_END
