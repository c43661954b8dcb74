// Programs about Momentum DeltaNet and the gated delta rule.
#pragma once

#include "proofs/programs/program.hpp"
#include "reference/recurrences/delta.hpp"
#include "reference/recurrences/gdn.hpp"
#include "reference/recurrences/mdn.hpp"

namespace assay::proofs {

/// T steps of mdn with every input a variable.
template <class Real>
struct MdnRun {
  long T, K, V;
  std::vector<Real> q, k, v, alpha, mu, beta, eta, S, M;

  MdnRun(const Parameters& p, const Source<Real>& source)
      : T(size_of(p, "T")), K(size_of(p, "K")), V(size_of(p, "V")) {
    S = draw(source, "s0", K * V);
    M = draw(source, "m0", K * V);
    q = draw(source, "q", T * K);
    k = draw(source, "k", T * K);
    v = draw(source, "v", T * V);
    alpha = draw(source, "alpha", T);
    mu = draw(source, "mu", T);
    beta = draw(source, "beta", T);
    eta = draw(source, "eta", T);
  }

  Fields<Real> fields(long t) {
    return {k.data() + t * K, v.data() + t * V, &alpha[t], &mu[t], &beta[t], &eta[t]};
  }
  /// All T steps: o [T,V]; S and M become the final ones.
  std::vector<Real> recurrent() {
    Arena<Real> arena;
    Context<Real> c;
    c.K = K;
    c.V = V;
    c.arena = &arena;
    std::vector<Real> state(S), r(V), o(T * V);
    state.insert(state.end(), M.begin(), M.end());
    for (long t = 0; t < T; ++t) {
      Mdn::step<Mdn, Real>(c, fields(t), state.data(), r.data());
      la::gemv_t_add(K, V, state.data(), q.data() + t * K, o.data() + t * V);
      arena.release();
    }
    S.assign(state.begin(), state.begin() + K * V);
    M.assign(state.begin() + K * V, state.end());
    return o;
  }
};

/// The coefficients of a chunk; variants are the formulas as printed.
template <class Real>
MdnCoefficients<Real> chunk_coefficients(const std::string& variant, long n, const Real* alpha,
                                         const Real* beta, const Real* mu) {
  MdnCoefficients<Real> c = mdn_coefficients(n, alpha, beta, mu);
  if (variant == "diagonal_zeroed") {
    c.shift = 0;
  } else if (variant == "ratio") {  // the row that enters S_next: γ_nn / γ_nj   [MDN v1, Eq. 8]
    for (long j = 0; j < n; ++j) {
      Real& gamma = c.gamma[(n - 1) * n + j];
      gamma = c.b.empty() ? gamma : beta[n - 1] / gamma;
    }
  } else if (variant == "b_log_mu") {  // exp(U + ℓ) is exp(A + ℓ) μ̄ / ᾱ   [MDN v1, Eq. 10]
    for (long i = 0; i < n; ++i) c.b[i] = c.b[i] * c.mu_bar[i] / c.alpha_bar[i];
  } else if (!variant.empty()) {
    throw std::invalid_argument("program mdn_chunk: no variant " + variant);
  }
  return c;
}

/// Chunk form against recurrent form. T, C, K, V; C need not divide T.
template <class Real>
Equations<Real> mdn_chunk(const Parameters& p, const Source<Real>& source) {
  MdnRun<Real> run(p, source), chunked = run;
  const std::vector<Real> o = run.recurrent();
  const long T = run.T, C = size_of(p, "C"), K = run.K, V = run.V;
  std::vector<Real> o_chunk(T * V);
  for (long t = 0; t < T; t += C) {
    const long n = std::min(C, T - t);
    MdnChunkInputs<Real> in{n,
                            K,
                            V,
                            chunked.q.data() + t * K,
                            chunked.k.data() + t * K,
                            chunked.v.data() + t * V,
                            &chunked.alpha[t],
                            &chunked.mu[t],
                            &chunked.beta[t],
                            &chunked.eta[t]};
    const auto weights = chunk_coefficients(variant_of(p), n, in.alpha, in.beta, in.mu);
    std::vector<Real> R(n * V);
    mdn_chunk_read(in, weights, chunked.S.data(), chunked.M.data(), o_chunk.data() + t * V,
                   R.data());
    mdn_chunk_advance(in, weights, R.data(), chunked.S.data(), chunked.M.data());
  }
  Equations<Real> equations;
  compare(equations, "o", T * V, o_chunk.data(), o.data());
  compare(equations, "s_final", K * V, chunked.S.data(), run.S.data());
  compare(equations, "m_final", K * V, chunked.M.data(), run.M.data());
  return equations;
}

/// γ, b and m of the recursion against their sums and products. C. Variant "closed": against
/// γ_ij = ᾱ_i (c_i - c_{j-1}) / μ̄_j, which divides; "shifted": against γ_{i-1,j}.
template <class Real>
Equations<Real> mdn_gamma(const Parameters& p, const Source<Real>& source) {
  const long n = size_of(p, "C");
  const std::string variant = variant_of(p);
  const auto alpha = draw(source, "alpha", n), beta = draw(source, "beta", n),
             mu = draw(source, "mu", n);
  const auto c = mdn_coefficients(n, alpha.data(), beta.data(), mu.data());
  const auto product = [](const std::vector<Real>& x, long from, long to) {
    Real result = 1;
    for (long i = from; i <= to; ++i) result *= x[i];
    return result;
  };
  std::vector<Real> sum(n);  // c_i of the closed form
  if (variant == "closed") {
    Real a = 1, m = 1, total = 0;
    for (long i = 0; i < n; ++i) {
      a *= alpha[i];
      m *= mu[i];
      total += beta[i] * m / a;
      sum[i] = total;
    }
  }
  Equations<Real> equations;
  for (long i = 0; i < n; ++i) {
    for (long j = 0; j <= i; ++j) {
      Real gamma = 0;
      if (variant == "closed") {
        const Real before = j == 0 ? Real(0) : sum[j - 1];
        gamma = c.alpha_bar[i] * (sum[i] - before) / c.mu_bar[j];
      } else {
        const long last = variant == "shifted" ? i - 1 : i;
        for (long r = j; r <= last; ++r) {
          gamma += beta[r] * product(alpha, r + 1, last) * product(mu, j + 1, r);
        }
      }
      const std::string at = "[" + std::to_string(i) + "," + std::to_string(j) + "]";
      equations.push_back({"gamma" + at, c.gamma[i * n + j], gamma});
      if (variant.empty()) {
        equations.push_back({"m" + at, c.m[i * n + j], product(mu, j + 1, i)});
      }
    }
    if (!variant.empty()) continue;
    Real b = 0;
    for (long r = 0; r <= i; ++r) b += beta[r] * product(alpha, r + 1, i) * product(mu, 0, r);
    equations.push_back({"b[" + std::to_string(i) + "]", c.b[i], b});
    equations.push_back({"gamma_ii[" + std::to_string(i) + "]", c.gamma[i * n + i], beta[i]});
  }
  return equations;
}

/// β_{t-1} S_t from S_{t-1} and S_{t-2} alone, momentum eliminated. K, V. Variant "no_alpha": the
/// k k^T term without α, as printed in Table 1.
template <class Real>
Equations<Real> mdn_second_order(const Parameters& p, const Source<Real>& source) {
  Parameters two = p;
  two["T"] = "2";
  MdnRun<Real> run(two, source), first = run;
  const long K = run.K, V = run.V;
  const std::vector<Real> S0 = run.S;
  run.recurrent();
  first.T = 1;
  first.recurrent();
  const std::vector<Real>& S1 = first.S;
  const Real &b0 = run.beta[0], &b1 = run.beta[1];
  const Real inner = variant_of(p) == "no_alpha" ? Real(1) : run.alpha[1];
  std::vector<Real> left(K * V), right(K * V);
  for (long i = 0; i < K; ++i) {
    for (long j = 0; j < V; ++j) {
      Real read = 0;
      for (long l = 0; l < K; ++l) read += run.k[K + l] * S1[l * V + j];
      left[i * V + j] = b0 * run.S[i * V + j];
      right[i * V + j] = (run.alpha[1] * b0 + b1 * run.mu[1]) * S1[i * V + j] -
                         inner * b0 * b1 * run.eta[1] * run.k[K + i] * read -
                         b1 * run.mu[1] * run.alpha[0] * S0[i * V + j] +
                         b0 * b1 * run.eta[1] * run.k[K + i] * run.v[V + j];
    }
  }
  Equations<Real> equations;
  compare(equations, "beta_0 S_2", K * V, left.data(), right.data());
  return equations;
}

/// Coefficients of det(λ I - A) from 1 on, without a division.   [Berkowitz 1984]
template <class Real>
std::vector<Real> characteristic_polynomial(long n, const std::vector<Real>& A) {
  std::vector<Real> coefficients = {Real(1)};
  for (long r = 0; r < n; ++r) {
    // Toeplitz column 1, -a_rr, -R C, -R B C, ... of the leading block B, its row R and column C
    std::vector<Real> column = {Real(1), -A[r * n + r]}, C(r);
    for (long i = 0; i < r; ++i) C[i] = A[i * n + r];
    for (long power = 0; power < r; ++power) {
      Real product = 0;
      for (long i = 0; i < r; ++i) product -= A[r * n + i] * C[i];
      column.push_back(product);
      std::vector<Real> next(r);
      for (long i = 0; i < r; ++i) {
        for (long j = 0; j < r; ++j) fn::mul_add(next[i], A[i * n + j], C[j]);
      }
      C = std::move(next);
    }
    std::vector<Real> longer(r + 2);
    for (long i = 0; i < r + 2; ++i) {
      for (long j = 0; j <= std::min(i, r); ++j) {
        fn::mul_add(longer[i], column[i - j], coefficients[j]);
      }
    }
    coefficients = std::move(longer);
  }
  return coefficients;
}

template <class Real>
std::vector<Real> polynomial_product(const std::vector<Real>& a, const std::vector<Real>& b) {
  std::vector<Real> c(a.size() + b.size() - 1);
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) fn::mul_add(c[i + j], a[i], b[j]);
  }
  return c;
}

/// det(λI - A_t) against its factors, for any key: with n = k·k,
/// (λ-α)^{K-1} (λ-μ)^{K-1} (λ² - (α + μ - αβη n) λ + αμ). K. Variant "no_alpha": r = α + μ - βη n.
template <class Real>
Equations<Real> mdn_charpoly(const Parameters& p, const Source<Real>& source) {
  const long K = size_of(p, "K");
  auto k = draw(source, "k", K);
  Real alpha = source("alpha"), mu = source("mu"), beta = source("beta"), eta = source("eta");
  Context<Real> c;
  c.K = K;
  Fields<Real> x{k.data(), nullptr, &alpha, &mu, &beta, &eta};
  std::vector<Real> A(4 * K * K);
  Mdn::transition(c, x, A.data());
  Real n = 0;
  for (const Real& e : k) n += e * e;
  const Real pull = variant_of(p) == "no_alpha" ? beta * eta * n : alpha * beta * eta * n;
  std::vector<Real> factors = {Real(1), pull - alpha - mu, alpha * mu};
  for (long i = 1; i < K; ++i) {
    factors = polynomial_product(factors, {Real(1), -alpha});
    factors = polynomial_product(factors, {Real(1), -mu});
  }
  const auto found = characteristic_polynomial(2 * K, A);
  Equations<Real> equations;
  compare(equations, "coefficient", 2 * K + 1, found.data(), factors.data());
  return equations;
}

/// det(λI - α (I - β k k^T)) = (λ - α)^{K-1} (λ - α (1 - β k·k)). K.
template <class Real>
Equations<Real> gdn_charpoly(const Parameters& p, const Source<Real>& source) {
  const long K = size_of(p, "K");
  auto k = draw(source, "k", K);
  Real alpha = source("alpha"), beta = source("beta");
  Context<Real> c;
  c.K = K;
  Fields<Real> x{k.data(), nullptr, &alpha, &beta};
  std::vector<Real> A(K * K);
  Gdn::transition(c, x, A.data());
  Real n = 0;
  for (const Real& e : k) n += e * e;
  std::vector<Real> factors = {Real(1), alpha * beta * n - alpha};
  for (long i = 1; i < K; ++i) factors = polynomial_product(factors, {Real(1), -alpha});
  const auto found = characteristic_polynomial(K, A);
  Equations<Real> equations;
  compare(equations, "coefficient", K + 1, found.data(), factors.data());
  return equations;
}

/// One step of mdn with μ = 0, η = 1 is one of gdn (m0 is without influence). K, V. Variant "eta":
/// η stays free.
template <class Real>
Equations<Real> mdn_reduces_gdn(const Parameters& p, const Source<Real>& source) {
  Parameters one = p;
  one["T"] = "1";
  MdnRun<Real> run(one, source);
  std::vector<Real> S = run.S, r(run.V);
  run.mu[0] = 0;
  if (variant_of(p) != "eta") run.eta[0] = 1;
  run.recurrent();
  Arena<Real> arena;
  Context<Real> c;
  c.K = run.K;
  c.V = run.V;
  c.arena = &arena;
  Fields<Real> x{run.k.data(), run.v.data(), run.alpha.data(), run.beta.data()};
  Gdn::step(c, x, S.data(), r.data());
  Equations<Real> equations;
  compare(equations, "s_final", run.K * run.V, run.S.data(), S.data());
  return equations;
}

/// One step of gdn with α = 1 is one of delta. K, V. Variant "alpha": α stays free.
template <class Real>
Equations<Real> gdn_reduces_delta(const Parameters& p, const Source<Real>& source) {
  const long K = size_of(p, "K"), V = size_of(p, "V");
  std::vector<Real> S = draw(source, "s0", K * V), k = draw(source, "k", K),
                    v = draw(source, "v", V), r(V), other = S;
  Real beta = source("beta"), alpha = variant_of(p) == "alpha" ? source("alpha") : Real(1);
  Arena<Real> arena;
  Context<Real> c;
  c.K = K;
  c.V = V;
  c.arena = &arena;
  Gdn::step(c, Fields<Real>{k.data(), v.data(), &alpha, &beta}, S.data(), r.data());
  Delta::step(c, Fields<Real>{k.data(), v.data(), &beta}, other.data(), r.data());
  Equations<Real> equations;
  compare(equations, "s_final", K * V, S.data(), other.data());
  return equations;
}

/// Entries of (I + (P K̂^T) ∘ Γ⁻)^{-1} below the diagonal are reads of products of transitions:
/// -α_i [k_i^T 0] A_{i-1} ... A_{j+1} [β_j η_j k_j; -η_j k_j]. C, K. Variant "sign": with +α_i.
template <class Real>
Equations<Real> mdn_inverse(const Parameters& p, const Source<Real>& source) {
  const long n = size_of(p, "C"), K = size_of(p, "K");
  auto k = draw(source, "k", n * K), alpha = draw(source, "alpha", n), mu = draw(source, "mu", n),
       beta = draw(source, "beta", n), eta = draw(source, "eta", n);
  MdnChunkInputs<Real> in{
      n, K, 0, nullptr, k.data(), nullptr, alpha.data(), mu.data(), beta.data(), eta.data()};
  const auto weights = mdn_coefficients(n, alpha.data(), beta.data(), mu.data());
  const auto [k_hat, keys] = in.keys();
  const auto L = mdn_residual_matrix(weights, K, keys.data(), k_hat.data());
  std::vector<Real> inverse(n * n);
  for (long i = 0; i < n; ++i) inverse[i * n + i] = 1;
  solve_unit_lower(n, n, L.data(), inverse.data());

  Context<Real> c;
  c.K = K;
  Equations<Real> equations;
  for (long j = 0; j < n; ++j) {
    std::vector<Real> state(2 * K);
    for (long l = 0; l < K; ++l) {
      state[l] = beta[j] * eta[j] * k[j * K + l];
      state[K + l] = -(eta[j] * k[j * K + l]);
    }
    for (long i = j + 1; i < n; ++i) {
      Real read = 0;
      for (long l = 0; l < K; ++l) read += k[i * K + l] * state[l];
      read *= alpha[i];
      equations.push_back({"[" + std::to_string(i) + "," + std::to_string(j) + "]",
                           inverse[i * n + j], variant_of(p) == "sign" ? read : -read});
      Fields<Real> x{k.data() + i * K, nullptr, &alpha[i], &mu[i], &beta[i], &eta[i]};
      std::vector<Real> A(4 * K * K), next(2 * K);
      Mdn::transition(c, x, A.data());
      la::gemv_add(2 * K, 2 * K, A.data(), state.data(), next.data());
      state = std::move(next);
    }
  }
  return equations;
}

/// The transition along the key and orthogonal to it, for the key e1 of K = 2: the blocks that the
/// stability claims are about. Variant "orthogonal_eta": η enters the orthogonal block too.
template <class Real>
Equations<Real> mdn_blocks(const Parameters& p, const Source<Real>& source) {
  Real alpha = source("alpha"), mu = source("mu"), beta = source("beta"), eta = source("eta");
  std::vector<Real> k = {Real(1), Real(0)}, A(16);
  Context<Real> c;
  c.K = 2;
  Mdn::transition(c, Fields<Real>{k.data(), nullptr, &alpha, &mu, &beta, &eta}, A.data());
  const Real other = variant_of(p) == "orthogonal_eta" ? alpha * eta : Real(0);
  const Real zero = 0;
  // rows and columns S_1, S_2, M_1, M_2
  const std::vector<Real> expected = {alpha - alpha * beta * eta,
                                      zero,
                                      -(beta * mu),
                                      zero,
                                      zero,
                                      alpha,
                                      zero,
                                      -(beta * mu),
                                      alpha * eta,
                                      zero,
                                      mu,
                                      zero,
                                      zero,
                                      other,
                                      zero,
                                      mu};
  Equations<Real> equations;
  compare(equations, "A", 16, A.data(), expected.data());
  return equations;
}

/// The residual reads the state before its decay, as printed in Table 1.
struct ResidualUndecayed : Mdn {
  template <class Real>
  static void residual_key(const Context<Real>& c, const Fields<Real>& x, Real* p) {
    for (std::int64_t i = 0; i < c.K; ++i) p[i] = x[k][i];
  }
};

/// One step with the residual as printed against the definition. K, V. Variant "no_state": S_0 = 0.
template <class Real>
Equations<Real> mdn_residual(const Parameters& p, const Source<Real>& source) {
  Parameters one = p;
  one["T"] = "1";
  MdnRun<Real> run(one, source);
  const long KV = run.K * run.V;
  if (variant_of(p) == "no_state") run.S.assign(KV, Real(0));
  std::vector<Real> state(run.S), r(run.V);
  state.insert(state.end(), run.M.begin(), run.M.end());
  Arena<Real> arena;
  Context<Real> c;
  c.K = run.K;
  c.V = run.V;
  c.arena = &arena;
  Mdn::step<ResidualUndecayed, Real>(c, run.fields(0), state.data(), r.data());
  run.recurrent();
  Equations<Real> equations;
  compare(equations, "s_final", KV, state.data(), run.S.data());
  compare(equations, "m_final", KV, state.data() + KV, run.M.data());
  return equations;
}

}  // namespace assay::proofs
