// Chunk form of Momentum DeltaNet.   [MDN v1, Eqs. 6-18, corrected]
//
// Within a chunk of n steps from S_0, M_0, with k̂ = η k, p = α k and cumulative products ᾱ, μ̄
// (ᾱ_0 = μ̄_0 = 1, b_0 = 0), the coefficients obey a recursion without subtraction or division,
// defined for gates of exactly 0 and, for gates >= 0, accurate to a small relative error whatever
// the gates:
//
//   m_jj = 1, γ_jj = β_j;    m_ij = μ_i m_{i-1,j}    γ_ij = α_i γ_{i-1,j} + β_i m_ij   (j < i)
//   b_i = α_i b_{i-1} + β_i μ̄_i
//
// Γ = (γ_ij), and Γ⁻_ij = γ_{i-1,j} for j < i is Γ moved down one row (not Γ with its diagonal
// zeroed, as the paper's text has it). Then
//
//   [I + (P K̂^T) ∘ Γ⁻] R = V - diag(ᾱ⁻) P S_0 + diag(b⁻) P M_0       ᾱ⁻_i = ᾱ_{i-1}, b⁻_i = b_{i-1}
//   O     = diag(ᾱ) Q S_0 - diag(b) Q M_0 + [(Q K̂^T) ∘ Γ] R
//   S_n   = ᾱ_n S_0 - b_n M_0 + [diag(Γ_n,:) K̂]^T R
//   M_n   = μ̄_n M_0 - [diag(m_n,:) K̂]^T R
//
// The form `chunk_log` takes γ and b from the paper's log domain instead (Sec. 3.1, App. D, with
// b_i = exp(A_i + ℓ_i)); it needs gates > 0, and loses digits when μ decays faster than α.
#pragma once

#include <utility>
#include <vector>

#include "reference/recurrences/delta_rule.hpp"
#include "reference/recurrences/triangular.hpp"

namespace assay {

/// γ [n,n], m [n,n] (lower triangles), ᾱ, μ̄, b [n].
template <class Real>
struct MdnCoefficients {
  std::int64_t n = 0;
  std::vector<Real> gamma, m, alpha_bar, mu_bar, b;
  std::int64_t shift = 1;  // rows by which Γ⁻ is Γ moved down; anything but 1 is an error to study

  const Real& gamma_shifted(std::int64_t i, std::int64_t j) const {
    return gamma[(i - shift) * n + j];
  }
  /// ᾱ_{i-1} and b_{i-1}, with ᾱ_{-1} = 1 and b_{-1} = 0 in this 0-based count.
  Real alpha_bar_before(std::int64_t i) const { return i == 0 ? Real(1) : alpha_bar[i - 1]; }
  Real b_before(std::int64_t i) const { return i == 0 ? Real(0) : b[i - 1]; }
};

/// The subtraction-free recursion above. alpha, beta, mu [n].
template <class Real>
MdnCoefficients<Real> mdn_coefficients(std::int64_t n, const Real* alpha, const Real* beta,
                                       const Real* mu) {
  MdnCoefficients<Real> c;
  c.n = n;
  c.gamma.resize(n * n);
  c.m.resize(n * n);
  c.alpha_bar.resize(n);
  c.mu_bar.resize(n);
  c.b.resize(n);
  for (std::int64_t i = 0; i < n; ++i) {
    c.alpha_bar[i] = i == 0 ? alpha[0] : alpha[i] * c.alpha_bar[i - 1];
    c.mu_bar[i] = i == 0 ? mu[0] : mu[i] * c.mu_bar[i - 1];
    c.b[i] = beta[i] * c.mu_bar[i];
    if (i > 0) fn::mul_add(c.b[i], alpha[i], c.b[i - 1]);
    for (std::int64_t j = 0; j < i; ++j) {
      c.m[i * n + j] = mu[i] * c.m[(i - 1) * n + j];
      c.gamma[i * n + j] = beta[i] * c.m[i * n + j];
      fn::mul_add(c.gamma[i * n + j], alpha[i], c.gamma[(i - 1) * n + j]);
    }
    c.m[i * n + i] = 1;
    c.gamma[i * n + i] = beta[i];
  }
  return c;
}

/// The paper's log domain: A = cumsum log α, U = cumsum log μ,
/// ℓ_i = log Σ_{r<=i} exp(log β_r + U_r - A_r), b_i = exp(A_i + ℓ_i),
/// γ_ij = exp(A_i + ℓ_i - U_j) (1 - exp(ℓ_{j-1} - ℓ_i)).   [MDN v1, App. D]
/// Throws InputError for a gate that is exactly 0.
template <class Real>
MdnCoefficients<Real> mdn_coefficients_log(std::int64_t n, const Real* alpha, const Real* beta,
                                           const Real* mu) {
  MdnCoefficients<Real> c = mdn_coefficients(n, alpha, beta, mu);
  std::vector<Real> A(n), U(n), l(n);
  for (std::int64_t i = 0; i < n; ++i) {
    if (fn::is_zero(alpha[i]) || fn::is_zero(beta[i]) || fn::is_zero(mu[i])) {
      throw InputError(
          "form chunk_log takes the logarithm of alpha, mu and beta; one of them is 0");
    }
    A[i] = fn::log(alpha[i]);
    U[i] = fn::log(mu[i]);
    if (i > 0) A[i] += A[i - 1];
    if (i > 0) U[i] += U[i - 1];
    l[i] = fn::log(beta[i]) + U[i] - A[i];
    if (i > 0) {
      const bool bigger = fn::less(l[i - 1], l[i]);
      const Real high = bigger ? l[i] : l[i - 1], low = bigger ? l[i - 1] : l[i];
      l[i] = high + fn::log1p(fn::exp(low - high));
    }
    c.b[i] = fn::exp(A[i] + l[i]);
    for (std::int64_t j = 0; j <= i; ++j) {
      Real& gamma = c.gamma[i * n + j];
      gamma = fn::exp(A[i] + l[i] - U[j]);
      if (j > 0) gamma *= Real(1) - fn::exp(l[j - 1] - l[i]);
    }
  }
  return c;
}

/// The inputs of a chunk: q, k [n,K], v [n,V], gates [n].
template <class Real>
struct MdnChunkInputs {
  std::int64_t n, K, V;
  Real *q, *k, *v, *alpha, *mu, *beta, *eta;

  /// k̂ = η k and p = α k, [n,K] each.
  std::pair<std::vector<Real>, std::vector<Real>> keys() const {
    std::vector<Real> k_hat(n * K), p(n * K);
    for (std::int64_t i = 0; i < n; ++i) {
      la::axpy(K, eta[i], k + i * K, k_hat.data() + i * K);
      la::axpy(K, alpha[i], k + i * K, p.data() + i * K);
    }
    return {std::move(k_hat), std::move(p)};
  }
};

/// (P K̂^T) ∘ Γ⁻, strictly lower [n,n].
template <class Real>
std::vector<Real> mdn_residual_matrix(const MdnCoefficients<Real>& c, std::int64_t K, const Real* p,
                                      const Real* k_hat) {
  std::vector<Real> L(c.n * c.n);
  for (std::int64_t i = 0; i < c.n; ++i) {
    for (std::int64_t j = 0; j < i; ++j) {
      Real product = 0;
      la::dot_add(product, K, p + i * K, 1, k_hat + j * K, 1);
      L[i * c.n + j] = product * c.gamma_shifted(i, j);
    }
  }
  return L;
}

/// The Γ⁻-shifted triangular solve: R [n,V] of
///   [I + (P K̂^T) ∘ Γ⁻] R = V - diag(ᾱ⁻) P S_0 + diag(b⁻) P M_0      [MDN v1, Eqs. 15-18]
/// p, k_hat [n,K], v [n,V], S0, M0 [K,V].
template <class Real>
void solve_shifted_residual(const MdnCoefficients<Real>& c, std::int64_t K, std::int64_t V,
                            const Real* p, const Real* k_hat, const Real* v, const Real* S0,
                            const Real* M0, Real* R) {
  std::vector<Real> t(K);
  for (std::int64_t i = 0; i < c.n; ++i) {
    for (std::int64_t j = 0; j < V; ++j) R[i * V + j] = v[i * V + j];
    const Real a = c.alpha_bar_before(i), b = c.b_before(i);
    for (std::int64_t l = 0; l < K; ++l) t[l] = a * p[i * K + l];
    la::gemv_t_sub(K, V, S0, t.data(), R + i * V);
    for (std::int64_t l = 0; l < K; ++l) t[l] = b * p[i * K + l];
    la::gemv_t_add(K, V, M0, t.data(), R + i * V);
  }
  const std::vector<Real> L = mdn_residual_matrix(c, K, p, k_hat);
  solve_unit_lower(c.n, V, L.data(), R);
}

/// What one chunk reads from S_0, M_0 [K,V]: R [n,V], and o [n,V] unless null.
template <class Real>
void mdn_chunk_read(const MdnChunkInputs<Real>& x, const MdnCoefficients<Real>& c, const Real* S,
                    const Real* M, Real* o, Real* R) {
  const std::int64_t n = x.n, K = x.K, V = x.V;
  const auto [k_hat, p] = x.keys();
  solve_shifted_residual(c, K, V, p.data(), k_hat.data(), x.v, S, M, R);
  std::vector<Real> t(K), row(n);
  for (std::int64_t i = 0; o && i < n; ++i) {
    for (std::int64_t j = 0; j < V; ++j) o[i * V + j] = 0;
    for (std::int64_t l = 0; l < K; ++l) t[l] = c.alpha_bar[i] * x.q[i * K + l];
    la::gemv_t_add(K, V, S, t.data(), o + i * V);
    for (std::int64_t l = 0; l < K; ++l) t[l] = c.b[i] * x.q[i * K + l];
    la::gemv_t_sub(K, V, M, t.data(), o + i * V);
    for (std::int64_t j = 0; j <= i; ++j) {
      row[j] = 0;
      la::dot_add(row[j], K, x.q + i * K, 1, k_hat.data() + j * K, 1);
      row[j] *= c.gamma[i * n + j];
    }
    la::gemv_t_add(i + 1, V, R, row.data(), o + i * V);
  }
}

/// S_n and M_n [K,V] together from their old values S_0, M_0, in place.
template <class Real>
void mdn_chunk_advance(const MdnChunkInputs<Real>& x, const MdnCoefficients<Real>& c, const Real* R,
                       Real* S, Real* M) {
  const std::int64_t n = x.n, K = x.K, V = x.V;
  const auto [k_hat, p] = x.keys();
  std::vector<Real> t(K);
  const Real minus_b = -c.b[n - 1];
  la::axpby(K * V, minus_b, M, c.alpha_bar[n - 1], S);
  la::scale(K * V, c.mu_bar[n - 1], M);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t l = 0; l < K; ++l) t[l] = c.gamma[(n - 1) * n + j] * k_hat[j * K + l];
    la::ger_add(K, V, t.data(), R + j * V, S);
    for (std::int64_t l = 0; l < K; ++l) t[l] = c.m[(n - 1) * n + j] * k_hat[j * K + l];
    la::ger_sub(K, V, t.data(), R + j * V, M);
  }
}

/// Cotangents of the coefficients, and their way back to the gates through the recursion.
template <class Real>
struct MdnCoefficientCotangents {
  std::int64_t n;
  std::vector<Real> gamma, m, alpha_bar, mu_bar, b;
  explicit MdnCoefficientCotangents(std::int64_t steps)
      : n(steps), gamma(n * n), m(n * n), alpha_bar(n), mu_bar(n), b(n) {}

  void to_gates(const MdnCoefficients<Real>& c, const MdnChunkInputs<Real>& x, Real* d_alpha,
                Real* d_mu, Real* d_beta) {
    for (std::int64_t i = n; i-- > 0;) {
      // b_i = α_i b_{i-1} + β_i μ̄_i
      fn::mul_add(d_beta[i], b[i], c.mu_bar[i]);
      fn::mul_add(mu_bar[i], x.beta[i], b[i]);
      d_beta[i] += gamma[i * n + i];  // γ_ii = β_i
      if (i == 0) {
        d_alpha[0] += alpha_bar[0];
        d_mu[0] += mu_bar[0];
        continue;
      }
      fn::mul_add(d_alpha[i], b[i], c.b[i - 1]);
      fn::mul_add(b[i - 1], x.alpha[i], b[i]);
      // ᾱ_i = α_i ᾱ_{i-1},  μ̄_i = μ_i μ̄_{i-1}
      fn::mul_add(d_alpha[i], alpha_bar[i], c.alpha_bar[i - 1]);
      fn::mul_add(alpha_bar[i - 1], x.alpha[i], alpha_bar[i]);
      fn::mul_add(d_mu[i], mu_bar[i], c.mu_bar[i - 1]);
      fn::mul_add(mu_bar[i - 1], x.mu[i], mu_bar[i]);
      for (std::int64_t j = 0; j < i; ++j) {
        const std::int64_t ij = i * n + j, before = (i - 1) * n + j;
        // γ_ij = α_i γ_{i-1,j} + β_i m_ij
        fn::mul_add(d_alpha[i], gamma[ij], c.gamma[before]);
        fn::mul_add(gamma[before], x.alpha[i], gamma[ij]);
        fn::mul_add(d_beta[i], gamma[ij], c.m[ij]);
        fn::mul_add(m[ij], x.beta[i], gamma[ij]);
        // m_ij = μ_i m_{i-1,j}
        fn::mul_add(d_mu[i], m[ij], c.m[before]);
        fn::mul_add(m[before], x.mu[i], m[ij]);
      }
    }
  }
};

/// One chunk backward. u [n,V]: cotangent of o; d_S, d_M: cotangents of S_n, M_n in, of S_0, M_0
/// out; the members of d are added to.
template <class Real>
void mdn_chunk_backward(const MdnChunkInputs<Real>& x, const MdnCoefficients<Real>& c,
                        const Real* S0, const Real* M0, const Real* R, const Real* u, Real* d_S,
                        Real* d_M, const MdnChunkInputs<Real>& d) {
  const std::int64_t n = x.n, K = x.K, V = x.V, last = (n - 1) * n;
  const auto [k_hat, p] = x.keys();
  MdnCoefficientCotangents<Real> d_c(n);
  std::vector<Real> d_k_hat(n * K), d_p(n * K), d_R(n * V), t(K), W(n * n);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      la::dot_add(W[i * n + j], K, x.q + i * K, 1, k_hat.data() + j * K, 1);
    }
  }
  const auto product = [&](const Real* S, const Real* y) {  // t = S y
    for (std::int64_t l = 0; l < K; ++l) t[l] = 0;
    la::gemv_add(K, V, S, y, t.data());
  };
  // R enters O through W_ij γ_ij, S_n through γ_nj k̂_j, M_n through -m_nj k̂_j.
  for (std::int64_t j = 0; j < n; ++j) {
    Real* d_R_j = d_R.data() + j * V;
    const Real *k_hat_j = k_hat.data() + j * K, *R_j = R + j * V;
    for (std::int64_t i = j; i < n; ++i) {
      const Real weight = W[i * n + j] * c.gamma[i * n + j];
      add_row_of_product(V, weight, u + i * V, d_R_j);
    }
    for (std::int64_t l = 0; l < K; ++l) t[l] = c.gamma[last + j] * k_hat_j[l];
    la::gemv_t_add(K, V, d_S, t.data(), d_R_j);
    for (std::int64_t l = 0; l < K; ++l) t[l] = c.m[last + j] * k_hat_j[l];
    la::gemv_t_sub(K, V, d_M, t.data(), d_R_j);
    product(d_S, R_j);
    la::axpy(K, c.gamma[last + j], t.data(), d_k_hat.data() + j * K);
    la::dot_add(d_c.gamma[last + j], K, k_hat_j, 1, t.data(), 1);
    product(d_M, R_j);
    for (std::int64_t l = 0; l < K; ++l) fn::mul_sub(d_k_hat[j * K + l], c.m[last + j], t[l]);
    la::dot_sub(d_c.m[last + j], K, k_hat_j, 1, t.data(), 1);
  }
  // The solve backward: d_R becomes the cotangent of the right-hand side.
  const std::vector<Real> L = mdn_residual_matrix(c, K, p.data(), k_hat.data());
  solve_unit_lower_transposed(n, V, L.data(), d_R.data());

  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      Real d_W = 0;
      la::dot_add(d_W, V, u + i * V, 1, R + j * V, 1);
      fn::mul_add(d_c.gamma[i * n + j], d_W, W[i * n + j]);
      d_W *= c.gamma[i * n + j];
      add_row_of_product(K, d_W, k_hat.data() + j * K, d.q + i * K);
      add_row_of_product(K, d_W, x.q + i * K, d_k_hat.data() + j * K);
      if (j == i) continue;
      Real d_L = 0, pk = 0;
      la::dot_sub(d_L, V, d_R.data() + i * V, 1, R + j * V, 1);
      la::dot_add(pk, K, p.data() + i * K, 1, k_hat.data() + j * K, 1);
      fn::mul_add(d_c.gamma[(i - c.shift) * n + j], d_L, pk);
      d_L *= c.gamma_shifted(i, j);
      add_row_of_product(K, d_L, k_hat.data() + j * K, d_p.data() + i * K);
      add_row_of_product(K, d_L, p.data() + i * K, d_k_hat.data() + j * K);
    }
  }
  // S_n = ᾱ_n S_0 - b_n M_0 + …,  M_n = μ̄_n M_0 - …
  la::dot_add(d_c.alpha_bar[n - 1], K * V, d_S, 1, S0, 1);
  la::dot_sub(d_c.b[n - 1], K * V, d_S, 1, M0, 1);
  la::dot_add(d_c.mu_bar[n - 1], K * V, d_M, 1, M0, 1);
  const Real minus_b = -c.b[n - 1];
  la::axpby(K * V, minus_b, d_S, c.mu_bar[n - 1], d_M);
  la::scale(K * V, c.alpha_bar[n - 1], d_S);
  // A read y_i = a S_0^T x_i - b M_0^T x_i, of q in the output and (negated) of p in the residual.
  const auto read_adjoint = [&](const Real* x_i, const Real* d_y, const Real& a, const Real& b,
                                Real* d_x_i, Real* d_a, Real* d_b) {
    product(S0, d_y);
    la::axpy(K, a, t.data(), d_x_i);
    if (d_a) la::dot_add(*d_a, K, x_i, 1, t.data(), 1);
    product(M0, d_y);
    for (std::int64_t l = 0; l < K; ++l) fn::mul_sub(d_x_i[l], b, t[l]);
    if (d_b) la::dot_sub(*d_b, K, x_i, 1, t.data(), 1);
    for (std::int64_t l = 0; l < K; ++l) t[l] = a * x_i[l];
    la::ger_add(K, V, t.data(), d_y, d_S);
    for (std::int64_t l = 0; l < K; ++l) t[l] = b * x_i[l];
    la::ger_sub(K, V, t.data(), d_y, d_M);
  };
  for (std::int64_t i = 0; i < n; ++i) {
    Real* d_rhs = d_R.data() + i * V;
    read_adjoint(x.q + i * K, u + i * V, c.alpha_bar[i], c.b[i], d.q + i * K, &d_c.alpha_bar[i],
                 &d_c.b[i]);
    for (std::int64_t j = 0; j < V; ++j) d.v[i * V + j] += d_rhs[j];
    for (std::int64_t j = 0; j < V; ++j) d_rhs[j] = -d_rhs[j];
    read_adjoint(p.data() + i * K, d_rhs, c.alpha_bar_before(i), c.b_before(i), d_p.data() + i * K,
                 i == 0 ? nullptr : &d_c.alpha_bar[i - 1], i == 0 ? nullptr : &d_c.b[i - 1]);
  }
  d_c.to_gates(c, x, d.alpha, d.mu, d.beta);
  // k̂ = η k, p = α k
  for (std::int64_t i = 0; i < n; ++i) {
    la::dot_add(d.eta[i], K, x.k + i * K, 1, d_k_hat.data() + i * K, 1);
    la::dot_add(d.alpha[i], K, x.k + i * K, 1, d_p.data() + i * K, 1);
    la::axpy(K, x.eta[i], d_k_hat.data() + i * K, d.k + i * K);
    la::axpy(K, x.alpha[i], d_p.data() + i * K, d.k + i * K);
  }
}

/// Mixin: the chunk interface of Mdn. U may hide `coefficients` and `advance`.
template <class U>
struct MdnChunk {
  template <class Real>
  static MdnChunkInputs<Real> inputs(const Context<Real>& c, const Block<Real>& x, std::int64_t n) {
    return {n,
            c.K,
            c.V,
            x(0),
            x(1 + U::k),
            x(1 + U::v),
            x(1 + U::alpha),
            x(1 + U::mu),
            x(1 + U::beta),
            x(1 + U::eta)};
  }
  template <class Real>
  static MdnCoefficients<Real> coefficients(const Context<Real>& c, const MdnChunkInputs<Real>& x) {
    return c.form == Form::chunk_log ? mdn_coefficients_log(x.n, x.alpha, x.beta, x.mu)
                                     : mdn_coefficients(x.n, x.alpha, x.beta, x.mu);
  }
  template <class Real>
  static void advance(const MdnChunkInputs<Real>& x, const MdnCoefficients<Real>& weights,
                      const Real* R, Real* S, Real* M) {
    mdn_chunk_advance(x, weights, R, S, M);
  }
  template <class Real>
  static std::int64_t chunk_saved_size(const Context<Real>& c, std::int64_t count) {
    return count * c.V;
  }
  template <class Real>
  static void chunk(Context<Real>& c, const Block<Real>& x, std::int64_t count, Real* state,
                    Real* o, Real* saved) {
    const MdnChunkInputs<Real> in = inputs(c, x, count);
    const MdnCoefficients<Real> weights = U::coefficients(c, in);
    Real *S = state, *M = state + c.K * c.V;
    mdn_chunk_read(in, weights, S, M, o, saved);
    U::advance(in, weights, saved, S, M);
  }
  template <class Real>
  static void chunk_adjoint(Context<Real>& c, const Block<Real>& x, std::int64_t count,
                            const Real* state_prev, const Real* saved, const Real* d_o,
                            Real* d_state, const Block<Real>& d_x) {
    const MdnChunkInputs<Real> in = inputs(c, x, count);
    const std::int64_t KV = c.K * c.V;
    mdn_chunk_backward(in, U::coefficients(c, in), state_prev, state_prev + KV, saved, d_o, d_state,
                       d_state + KV, inputs(c, d_x, count));
  }
};

}  // namespace assay
