// Chunk form of the delta rule with decay (delta, gdn, kda, comba). Within a chunk of n steps that
// starts from S_0, with decays a_i (scalar, per channel, or none), E_j = β_j r_j and
//
//   G_jj = 1,  G_ij = a_i ∘ G_{i-1,j}   (j < i);     Ḡ_0 = 1,  Ḡ_i = a_i ∘ Ḡ_{i-1}
//
// (no division: gates of exactly 0 are legal), the residuals solve a unit lower triangular system
//
//   r_i = v_i - S_0^T (Ḡ_i ∘ p_i) - Σ_{j<i} L_ij β_j r_j        L_ij = Σ_κ p_iκ G_ijκ k_jκ
//   o_i = S_0^T (Ḡ_i ∘ q_i) + Σ_{j<=i} W_ij E_j                 W_ij = Σ_κ q_iκ G_ijκ k_jκ
//   S_n = diag(Ḡ_n) S_0 + Σ_j (G_nj ∘ k_j) E_j^T
//
// The adjoint runs the same formulas backward; where each cotangent comes from is said beside it.
#pragma once

#include <tuple>
#include <vector>

#include "reference/recurrences/delta_rule.hpp"
#include "reference/recurrences/triangular.hpp"

namespace assay {

/// The inputs of a chunk by what they mean.
template <class Real>
struct DeltaChunkInputs {
  std::int64_t n, K, V, w;         // w: width of the decay, 0 (none), 1 or K
  Real *q, *k, *p, *v, *beta, *a;  // [n,K], [n,K], [n,K], [n,V], [n], [n,w]
};

/// G [n,n,w] and Ḡ [n,w]; for w = 0 nothing is stored and every factor is 1.
template <class Real>
class DecayFactors {
 public:
  explicit DecayFactors(const DeltaChunkInputs<Real>& x) : n_(x.n), w_(x.w) {
    G_.resize(n_ * n_ * w_);
    first_.resize(n_ * w_);
    for (std::int64_t i = 0; i < n_; ++i) {
      for (std::int64_t c = 0; c < w_; ++c) {
        const Real& a = x.a[i * w_ + c];
        first_[i * w_ + c] = i == 0 ? a : a * first_[(i - 1) * w_ + c];
        for (std::int64_t j = 0; j < i; ++j) G_[at(i, j, c)] = a * G_[at(i - 1, j, c)];
        G_[at(i, i, c)] = 1;
      }
    }
  }
  /// x ∘ G_ij, or x ∘ Ḡ_i for j < 0.
  void apply(std::int64_t K, std::int64_t i, std::int64_t j, const Real* x, Real* y) const {
    for (std::int64_t c = 0; c < K; ++c) y[c] = w_ == 0 ? x[c] : x[c] * factor(i, j, c);
  }
  const Real& factor(std::int64_t i, std::int64_t j, std::int64_t c) const {
    if (w_ == 1) c = 0;
    return j < 0 ? first_[i * w_ + c] : G_[at(i, j, c)];
  }
  std::size_t at(std::int64_t i, std::int64_t j, std::int64_t c) const {
    return (i * n_ + j) * w_ + c;
  }

 private:
  std::int64_t n_, w_;
  std::vector<Real> G_, first_;
};

/// Cotangents of G and Ḡ, and their way back to the decays through the recursion.
template <class Real>
class DecayCotangents {
 public:
  DecayCotangents(std::int64_t n, std::int64_t w) : n_(n), w_(w), G_(n * n * w), first_(n * w) {}
  /// Adds d ∘ x to the cotangent of G_ij (Ḡ_i for j < 0).
  void add(std::int64_t K, std::int64_t i, std::int64_t j, const Real* d, const Real* x) {
    for (std::int64_t c = 0; c < K && w_ > 0; ++c) add_one(i, j, c, d[c], x[c]);
  }
  void add_one(std::int64_t i, std::int64_t j, std::int64_t c, const Real& d, const Real& x) {
    if (w_ == 1) c = 0;
    fn::mul_add(j < 0 ? first_[i * w_ + c] : G_[(i * n_ + j) * w_ + c], d, x);
  }
  void to_decays(const DecayFactors<Real>& g, const Real* a, Real* d_a) {
    for (std::int64_t i = n_; i-- > 0;) {
      for (std::int64_t c = 0; c < w_; ++c) {
        Real& d = d_a[i * w_ + c];
        if (i == 0) {
          d += first_[c];
          continue;
        }
        step_back(first_[i * w_ + c], first_[(i - 1) * w_ + c], a[i * w_ + c],
                  g.factor(i - 1, -1, c), d);
        for (std::int64_t j = 0; j < i; ++j) {
          step_back(G_[(i * n_ + j) * w_ + c], G_[((i - 1) * n_ + j) * w_ + c], a[i * w_ + c],
                    g.factor(i - 1, j, c), d);
        }
      }
    }
  }

 private:
  // y = a x:  d_a += d_y x,  d_x += a d_y
  static void step_back(const Real& d_y, Real& d_x, const Real& a, const Real& x, Real& d_a) {
    fn::mul_add(d_a, d_y, x);
    fn::mul_add(d_x, a, d_y);
  }
  std::int64_t n_, w_;
  std::vector<Real> G_, first_;
};

/// M_ij = Σ_κ x_iκ G_ijκ k_jκ for j < i, or j <= i with the diagonal.
template <class Real>
std::vector<Real> decayed_products(const DeltaChunkInputs<Real>& x, const DecayFactors<Real>& g,
                                   const Real* rows, bool diagonal) {
  std::vector<Real> M(x.n * x.n), t(x.K);
  for (std::int64_t i = 0; i < x.n; ++i) {
    for (std::int64_t j = 0; j < i + (diagonal ? 1 : 0); ++j) {
      g.apply(x.K, i, j, x.k + j * x.K, t.data());
      la::dot_add(M[i * x.n + j], x.K, rows + i * x.K, 1, t.data(), 1);
    }
  }
  return M;
}

/// Forward over one chunk. S [K,V] is advanced; o [n,V] is written unless null; r [n,V] is written.
template <class Real>
void delta_chunk_forward(const DeltaChunkInputs<Real>& x, Real* S, Real* o, Real* r) {
  const auto [n, K, V] = std::tuple(x.n, x.K, x.V);
  const DecayFactors<Real> g(x);
  std::vector<Real> t(K), E(n * V);
  std::vector<Real> L = decayed_products(x, g, x.p, false);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < i; ++j) L[i * n + j] *= x.beta[j];
    for (std::int64_t c = 0; c < V; ++c) r[i * V + c] = x.v[i * V + c];
    g.apply(K, i, -1, x.p + i * K, t.data());
    la::gemv_t_sub(K, V, S, t.data(), r + i * V);
  }
  solve_unit_lower(n, V, L.data(), r);
  for (std::int64_t i = 0; i < n; ++i) la::axpy(V, x.beta[i], r + i * V, E.data() + i * V);
  if (o) {
    const std::vector<Real> W = decayed_products(x, g, x.q, true);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t c = 0; c < V; ++c) o[i * V + c] = 0;
      g.apply(K, i, -1, x.q + i * K, t.data());
      la::gemv_t_add(K, V, S, t.data(), o + i * V);
      la::gemv_t_add(i + 1, V, E.data(), W.data() + i * n, o + i * V);
    }
  }
  if (x.w == 1) la::scale(K * V, g.factor(n - 1, -1, 0), S);
  if (x.w > 1) {
    for (std::int64_t i = 0; i < K; ++i) la::scale(V, g.factor(n - 1, -1, i), S + i * V);
  }
  for (std::int64_t j = 0; j < n; ++j) {
    g.apply(K, n - 1, j, x.k + j * K, t.data());
    la::ger_add(K, V, t.data(), E.data() + j * V, S);
  }
}

/// Adds the way back of M_ij = Σ_κ x_iκ G_ijκ k_jκ, given d_M_ij.
template <class Real>
void decayed_product_adjoint(const DeltaChunkInputs<Real>& x, const DeltaChunkInputs<Real>& d,
                             const DecayFactors<Real>& g, DecayCotangents<Real>& d_g,
                             std::int64_t i, std::int64_t j, const Real& d_M, const Real* row,
                             Real* d_row) {
  const std::int64_t K = x.K;
  if (x.w <= 1) {
    const Real decayed = x.w == 0 ? d_M : d_M * g.factor(i, j, 0);
    add_row_of_product(K, decayed, x.k + j * K, d_row + i * K);
    add_row_of_product(K, decayed, row + i * K, d.k + j * K);
    for (std::int64_t c = 0; c < K && x.w == 1; ++c) {
      d_g.add_one(i, j, 0, d_M * row[i * K + c], x.k[j * K + c]);
    }
    return;
  }
  for (std::int64_t c = 0; c < K; ++c) {
    const Real& k = x.k[j * K + c];
    const Real left = d_M * row[i * K + c], right = d_M * k;
    fn::mul_add(d_row[i * K + c], right, g.factor(i, j, c));
    fn::mul_add(d.k[j * K + c], left, g.factor(i, j, c));
    d_g.add_one(i, j, c, left, k);
  }
}

/// Backward over one chunk: u [n,V] cotangent of o, d_S of S_n in and of S_0 out, d collects.
template <class Real>
void delta_chunk_backward(const DeltaChunkInputs<Real>& x, const Real* S0, const Real* r,
                          const Real* u, Real* d_S, const DeltaChunkInputs<Real>& d) {
  const auto [n, K, V] = std::tuple(x.n, x.K, x.V);
  const DecayFactors<Real> g(x);
  DecayCotangents<Real> d_g(n, x.w);
  const std::vector<Real> L = decayed_products(x, g, x.p, false);
  const std::vector<Real> W = decayed_products(x, g, x.q, true);
  std::vector<Real> E(n * V), d_E(n * V), d_r(n * V), t(K), z(K);
  for (std::int64_t j = 0; j < n; ++j) la::axpy(V, x.beta[j], r + j * V, E.data() + j * V);

  // E_j enters S_n, the read-outs and the later residuals; β_j r_j = E_j.
  for (std::int64_t j = n; j-- > 0;) {
    Real* d_E_j = d_E.data() + j * V;
    g.apply(K, n - 1, j, x.k + j * K, t.data());
    la::gemv_t_add(K, V, d_S, t.data(), d_E_j);
    for (std::int64_t i = j; i < n; ++i) add_row_of_product(V, W[i * n + j], u + i * V, d_E_j);
    for (std::int64_t i = j + 1; i < n; ++i) {
      const Real minus = -L[i * n + j];
      add_row_of_product(V, minus, d_r.data() + i * V, d_E_j);
    }
    la::axpy(V, x.beta[j], d_E_j, d_r.data() + j * V);
    la::dot_add(d.beta[j], V, d_E_j, 1, r + j * V, 1);
    // S_n = … + (G_nj ∘ k_j) E_j^T
    for (std::int64_t c = 0; c < K; ++c) z[c] = 0;
    la::gemv_add(K, V, d_S, E.data() + j * V, z.data());
    d_g.add(K, n - 1, j, z.data(), x.k + j * K);
    g.apply(K, n - 1, j, z.data(), t.data());
    for (std::int64_t c = 0; c < K; ++c) d.k[j * K + c] += t[c];
  }
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      Real d_M = 0;
      la::dot_add(d_M, V, u + i * V, 1, E.data() + j * V, 1);
      decayed_product_adjoint(x, d, g, d_g, i, j, d_M, x.q, d.q);
      if (j == i) continue;
      d_M = 0;
      la::dot_sub(d_M, V, d_r.data() + i * V, 1, E.data() + j * V, 1);
      decayed_product_adjoint(x, d, g, d_g, i, j, d_M, x.p, d.p);
    }
    for (std::int64_t c = 0; c < V; ++c) d.v[i * V + c] += d_r[i * V + c];
  }
  // S_n = diag(Ḡ_n) S_0 + …
  for (std::int64_t c = 0; c < K && x.w > 0; ++c) {
    Real sum = 0;
    la::dot_add(sum, V, d_S + c * V, 1, S0 + c * V, 1);
    d_g.add_one(n - 1, -1, c, sum, Real(1));
    la::scale(V, g.factor(n - 1, -1, c), d_S + c * V);
  }
  // The reads of S_0: r_i -= S_0^T (Ḡ_i ∘ p_i), o_i += S_0^T (Ḡ_i ∘ q_i).
  const auto read_adjoint = [&](std::int64_t i, const Real* row, Real* d_row, const Real* d_y) {
    g.apply(K, i, -1, row + i * K, t.data());
    la::ger_add(K, V, t.data(), d_y, d_S);
    for (std::int64_t c = 0; c < K; ++c) z[c] = 0;
    la::gemv_add(K, V, S0, d_y, z.data());
    d_g.add(K, i, -1, z.data(), row + i * K);
    g.apply(K, i, -1, z.data(), t.data());
    for (std::int64_t c = 0; c < K; ++c) d_row[i * K + c] += t[c];
  };
  for (std::int64_t i = 0; i < n; ++i) {
    read_adjoint(i, x.q, d.q, u + i * V);
    for (std::int64_t c = 0; c < V; ++c) d_r[i * V + c] = -d_r[i * V + c];
    read_adjoint(i, x.p, d.p, d_r.data() + i * V);
  }
  d_g.to_decays(g, x.a, d.a);
}

// Compiled once, in shared.cpp.
#define ASSAY_EXTERN(Real)                                                                    \
  extern template void delta_chunk_forward<Real>(const DeltaChunkInputs<Real>&, Real*, Real*, \
                                                 Real*);                                      \
  extern template void delta_chunk_backward<Real>(const DeltaChunkInputs<Real>&, const Real*, \
                                                  const Real*, const Real*, Real*,            \
                                                  const DeltaChunkInputs<Real>&);
ASSAY_FOR_EACH_SCALAR(ASSAY_EXTERN)
#undef ASSAY_EXTERN

/// Mixin: the chunk interface of an update whose enumerators name k, v, beta, and kReadKey, kDecay.
template <class U>
struct DeltaChunk {
  template <class Real>
  static DeltaChunkInputs<Real> inputs(const Context<Real>& c, const Block<Real>& x,
                                       std::int64_t n) {
    const std::int64_t w = U::kDecay < 0 ? 0 : x.width(1 + U::kDecay);
    return {n,
            c.K,
            c.V,
            w,
            x(0),
            x(1 + U::k),
            x(1 + U::kReadKey),
            x(1 + U::v),
            x(1 + U::beta),
            w == 0 ? nullptr : x(1 + (U::kDecay < 0 ? 0 : U::kDecay))};
  }
  template <class Real>
  static std::int64_t chunk_saved_size(const Context<Real>& c, std::int64_t count) {
    return count * c.V;
  }
  template <class Real>
  static void chunk(Context<Real>& c, const Block<Real>& x, std::int64_t count, Real* S, Real* o,
                    Real* saved) {
    delta_chunk_forward(inputs(c, x, count), S, o, saved);
  }
  template <class Real>
  static void chunk_adjoint(Context<Real>& c, const Block<Real>& x, std::int64_t count,
                            const Real* S_prev, const Real* saved, const Real* d_o, Real* d_S,
                            const Block<Real>& d_x) {
    delta_chunk_backward(inputs(c, x, count), S_prev, saved, d_o, d_S, inputs(c, d_x, count));
  }
};

}  // namespace assay
