// The decayed products inside a chunk of n steps of the delta rule, with a_i the decay of step i
// (none, a scalar, or one value per key channel), and their adjoint:
//
//   G_jj = 1,  G_ij = a_i ∘ G_{i-1,j} (j < i)          ḡ_i = a_i ∘ ḡ_{i-1},  ḡ_{-1} = 1
//   W_ij = q_i · (G_ij ∘ k_j)  (j <= i)                L_ij = p_i · (G_ij ∘ k_j)  (j < i)
//   Qg_i = ḡ_i ∘ q_i    Pg_i = ḡ_i ∘ p_i    Kg_j = G_{n-1,j} ∘ k_j    last = ḡ_{n-1}
//
// Products of decays only, never quotients ḡ_i / ḡ_j: decays of exactly 0 are legal, and small ones
// lose nothing. With a scalar decay the products over K are matrix products; with a decay per
// channel they are vectors of K carried down a column, t_ij = a_i ∘ t_{i-1,j} with t_jj = k_j.
#pragma once

#include "kernels/common/fast_weight_step.hpp"

ASSAY_CPU_BEGIN

/// The left-hand sides above; as cotangents, their gradients. W and L [n,n] are 0 above the
/// diagonal.
template <class Real>
struct DecayProducts {
  Real *W, *L;         // [n,n]
  Real *Qg, *Pg, *Kg;  // [n,K]
  Real* last;          // [K], all equal with a scalar decay
  DecayProducts(std::int64_t n, std::int64_t K, Arena& arena)
      : W(arena.zeros<Real>(n * n)),
        L(arena.zeros<Real>(n * n)),
        Qg(arena.take<Real>(n * K)),
        Pg(arena.take<Real>(n * K)),
        Kg(arena.take<Real>(n * K)),
        last(arena.take<Real>(K)) {}
};

template <class Real>
class ScalarDecay {
 public:
  ScalarDecay(std::int64_t n, const FastWeightRows<Real>& x, Arena& arena) : n_(n), x_(x) {
    G_ = arena.zeros<Real>(n * n);
    bar_ = arena.take<Real>(n);
    QK_ = arena.take<Real>(n * n);
    PK_ = arena.take<Real>(n * n);
    for (std::int64_t i = 0; i < n; ++i) {
      const Real a = decay(i);
      bar_[i] = i == 0 ? a : a * bar_[i - 1];
      if (i > 0) scaled(i, a, G_ + (i - 1) * n, G_ + i * n);
      G_[i * n + i] = 1;
    }
  }

  void products(const DecayProducts<Real>& y) const {
    const std::int64_t n = n_, K = x_.K;
    const ConstMatrix<Real> k(x_.k, n, K);
    Matrix<Real>(QK_, n, n).noalias() = ConstMatrix<Real>(x_.q, n, K) * k.transpose();
    Matrix<Real>(PK_, n, n).noalias() = ConstMatrix<Real>(x_.p, n, K) * k.transpose();
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) y.W[i * n + j] = QK_[i * n + j] * G_[i * n + j];
      for (std::int64_t j = 0; j < i; ++j) y.L[i * n + j] = PK_[i * n + j] * G_[i * n + j];
      scaled(K, bar_[i], x_.q + i * K, y.Qg + i * K);
      scaled(K, bar_[i], x_.p + i * K, y.Pg + i * K);
      scaled(K, G_[(n - 1) * n + i], x_.k + i * K, y.Kg + i * K);
    }
    set(K, bar_[n - 1], y.last);
  }

  /// d_y is overwritten on the way.
  void adjoint(const DecayProducts<Real>& d_y, const FastWeightRows<Real>& d, Arena& arena) const {
    const std::int64_t n = n_, K = x_.K;
    Real *d_G = arena.zeros<Real>(n * n), *d_bar = arena.take<Real>(n);
    for (std::int64_t i = 0; i < n; ++i) {
      const Real* G = G_ + i * n;
      Real *d_W = d_y.W + i * n, *d_L = d_y.L + i * n;
      for (std::int64_t j = 0; j <= i; ++j) {
        d_G[i * n + j] = d_W[j] * QK_[i * n + j] + d_L[j] * PK_[i * n + j];
        d_W[j] *= G[j];
        d_L[j] *= G[j];
      }
      const Real *q = x_.q + i * K, *p = x_.p + i * K;
      d_bar[i] = dot(K, q, d_y.Qg + i * K) + dot(K, p, d_y.Pg + i * K);
      axpy(K, bar_[i], d_y.Qg + i * K, d.q + i * K);
      axpy(K, bar_[i], d_y.Pg + i * K, d.p + i * K);
      axpy(K, G_[(n - 1) * n + i], d_y.Kg + i * K, d.k + i * K);
    }
    for (std::int64_t j = 0; j < n; ++j) {
      d_G[(n - 1) * n + j] += dot(K, x_.k + j * K, d_y.Kg + j * K);
    }
    for (std::int64_t c = 0; c < K; ++c) d_bar[n - 1] += d_y.last[c];
    const ConstMatrix<Real> k(x_.k, n, K), q(x_.q, n, K), p(x_.p, n, K);
    const ConstMatrix<Real> d_W(d_y.W, n, n), d_L(d_y.L, n, n);
    Matrix<Real>(d.q, n, K).noalias() += d_W * k;
    Matrix<Real>(d.p, n, K).noalias() += d_L * k;
    Matrix<Real>(d.k, n, K).noalias() += d_W.transpose() * q;
    Matrix<Real>(d.k, n, K).noalias() += d_L.transpose() * p;
    if (x_.decay_width > 0) to_decays(d_G, d_bar, d);
  }

 private:
  Real decay(std::int64_t i) const {
    return x_.decay_width == 0 ? Real(1) : x_.decay[i * x_.decay_stride];
  }
  // The recursions of G and ḡ backward.
  void to_decays(Real* d_G, Real* d_bar, const FastWeightRows<Real>& d) const {
    const std::int64_t n = n_;
    for (std::int64_t i = n - 1; i > 0; --i) {
      const Real a = decay(i);
      d.decay[i * d.decay_stride] += dot(i, d_G + i * n, G_ + (i - 1) * n) + d_bar[i] * bar_[i - 1];
      axpy(i, a, d_G + i * n, d_G + (i - 1) * n);
      d_bar[i - 1] += a * d_bar[i];
    }
    d.decay[0] += d_bar[0];
  }

  std::int64_t n_;
  const FastWeightRows<Real>& x_;
  Real *G_, *bar_, *QK_, *PK_;
};

template <class Real>
class ChannelDecay {
 public:
  ChannelDecay(std::int64_t n, const FastWeightRows<Real>& x, Arena& arena) : n_(n), x_(x) {
    const std::int64_t K = x.K;
    bar_ = arena.take<Real>(n * K);
    column_ = arena.take<Real>(n * K);
    carry_ = arena.take<Real>(K);
    copy(K, x.decay, bar_);
    for (std::int64_t i = 1; i < n; ++i) multiply(decay(i), bar_ + (i - 1) * K, bar_ + i * K);
  }

  void products(const DecayProducts<Real>& y) const {
    const std::int64_t n = n_, K = x_.K;
    for (std::int64_t j = 0; j < n; ++j) {
      walk_column(j);
      for (std::int64_t i = j; i < n; ++i) {
        const Real* t = column_ + i * K;
        y.W[i * n + j] = dot(K, x_.q + i * K, t);
        if (i > j) y.L[i * n + j] = dot(K, x_.p + i * K, t);
      }
      copy(K, column_ + (n - 1) * K, y.Kg + j * K);
      multiply(bar_ + j * K, x_.q + j * K, y.Qg + j * K);
      multiply(bar_ + j * K, x_.p + j * K, y.Pg + j * K);
    }
    copy(K, bar_ + (n - 1) * K, y.last);
  }

  void adjoint(const DecayProducts<Real>& d_y, const FastWeightRows<Real>& d, Arena&) const {
    const std::int64_t n = n_, K = x_.K;
    for (std::int64_t j = 0; j < n; ++j) {
      walk_column(j);
      Real* __restrict c = carry_;  // cotangent of t_ij, from the last row up
      copy(K, d_y.Kg + j * K, carry_);
      for (std::int64_t i = n; i-- > j;) {
        const Real* t = column_ + i * K;
        const Real d_W = d_y.W[i * n + j], d_L = i > j ? d_y.L[i * n + j] : Real(0);
        axpy(K, d_W, x_.q + i * K, c);
        axpy(K, d_W, t, d.q + i * K);
        if (i == j) break;
        axpy(K, d_L, x_.p + i * K, c);
        axpy(K, d_L, t, d.p + i * K);
        step_back(c, decay(i), t - K, d.decay + i * K);
      }
      axpy(K, Real(1), c, d.k + j * K);
    }
    copy(K, d_y.last, carry_);
    for (std::int64_t i = n; i-- > 0;) {
      for (std::int64_t c = 0; c < K; ++c) {
        const Real d_Q = d_y.Qg[i * K + c], d_P = d_y.Pg[i * K + c], bar = bar_[i * K + c];
        carry_[c] += d_Q * x_.q[i * K + c] + d_P * x_.p[i * K + c];
        d.q[i * K + c] += bar * d_Q;
        d.p[i * K + c] += bar * d_P;
      }
      if (i > 0) step_back(carry_, decay(i), bar_ + (i - 1) * K, d.decay + i * K);
    }
    axpy(K, Real(1), carry_, d.decay);
  }

 private:
  const Real* decay(std::int64_t i) const { return x_.decay + i * x_.decay_stride; }
  void multiply(const Real* a, const Real* x, Real* y) const {
    for (std::int64_t c = 0; c < x_.K; ++c) y[c] = a[c] * x[c];
  }
  void walk_column(std::int64_t j) const {
    const std::int64_t K = x_.K;
    copy(K, x_.k + j * K, column_ + j * K);
    for (std::int64_t i = j + 1; i < n_; ++i) {
      multiply(decay(i), column_ + (i - 1) * K, column_ + i * K);
    }
  }
  // y = a ∘ x:  d_a += d_y ∘ x;  d_y becomes d_x = a ∘ d_y
  void step_back(Real* __restrict d_y, const Real* a, const Real* x, Real* __restrict d_a) const {
    for (std::int64_t c = 0; c < x_.K; ++c) {
      d_a[c] += d_y[c] * x[c];
      d_y[c] *= a[c];
    }
  }

  std::int64_t n_;
  const FastWeightRows<Real>& x_;
  Real *bar_, *column_, *carry_;
};

ASSAY_CPU_END
