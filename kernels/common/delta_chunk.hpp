// Chunk form of the delta rule with decay (delta, gdn, kda, comba): the residuals of a chunk of n
// steps from S_0 solve a unit lower triangular system (W, L, Qg, Pg, Kg of decay_products.hpp):
//
//   [I + L diag(β)] R = V - Pg S_0            E = diag(β) R
//   O = Qg S_0 + W E                          S_n = diag(last) S_0 + Kg^T E
#pragma once

#include "kernels/common/decay_products.hpp"
#include "kernels/common/fast_weight.hpp"

ASSAY_CPU_BEGIN

template <class Real>
struct DeltaChunk : Delta<Real> {
  static void chunk_forward(std::int64_t n, const FastWeightRows<Real>& x, Real* S, Real* o,
                            Arena& arena) {
    if (x.decay_width > 1) {
      run_forward<ChannelDecay<Real>>(n, x, S, o, arena);
    } else {
      run_forward<ScalarDecay<Real>>(n, x, S, o, arena);
    }
  }
  static void chunk_backward(std::int64_t n, const FastWeightRows<Real>& x, const Real* S0,
                             const Real* u, Real* d_S, const FastWeightRows<Real>& d,
                             Arena& arena) {
    if (x.decay_width > 1) {
      run_backward<ChannelDecay<Real>>(n, x, S0, u, d_S, d, arena);
    } else {
      run_backward<ScalarDecay<Real>>(n, x, S0, u, d_S, d, arena);
    }
  }

 private:
  // A = L diag(β); R [n,V] and E [n,V] are written.
  static void solve(std::int64_t n, const FastWeightRows<Real>& x, const DecayProducts<Real>& y,
                    const Real* S0, Real* A, Real* R, Real* E) {
    const std::int64_t K = x.K, V = x.V;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < i; ++j) A[i * n + j] = y.L[i * n + j] * x.beta[j];
    }
    copy(n * V, x.v, R);
    Matrix<Real>(R, n, V).noalias() -= ConstMatrix<Real>(y.Pg, n, K) * ConstMatrix<Real>(S0, K, V);
    solve_unit_lower(n, V, A, R);
    for (std::int64_t i = 0; i < n; ++i) scaled(V, x.beta[i], R + i * V, E + i * V);
  }

  template <class Decay>
  static void run_forward(std::int64_t n, const FastWeightRows<Real>& x, Real* S, Real* o,
                          Arena& arena) {
    const std::int64_t K = x.K, V = x.V;
    const Decay decay(n, x, arena);
    const DecayProducts<Real> y(n, K, arena);
    decay.products(y);
    Real *A = arena.zeros<Real>(n * n), *R = arena.take<Real>(n * V), *E = arena.take<Real>(n * V);
    solve(n, x, y, S, A, R, E);
    const ConstMatrix<Real> write(E, n, V);
    Matrix<Real> state(S, K, V);
    if (o) {
      Matrix<Real> out(o, n, V);
      out.noalias() = ConstMatrix<Real>(y.Qg, n, K) * state;
      out.noalias() += ConstMatrix<Real>(y.W, n, n) * write;
    }
    for (std::int64_t i = 0; i < K; ++i) scaled(V, y.last[i], S + i * V, S + i * V);
    state.noalias() += ConstMatrix<Real>(y.Kg, n, K).transpose() * write;
  }

  // With U the cotangent of O and d_S that of S_n:
  //   d_E = Kg d_S + W^T U - L^T d_R    d_R = β ∘ d_E,
  //   that is [I + L diag(β)]^T d_R = β ∘ (Kg d_S + W^T U): solved first, so β of 0 is legal
  //   d_β = d_E · R    d_V = d_R    d_Kg = E d_S^T    d_W = U E^T    d_L = -d_R E^T
  //   d_Qg = U S_0^T   d_Pg = -d_R S_0^T   d_last = rowsum(d_S ∘ S_0)
  //   d_S_0 = diag(last) d_S + Qg^T U - Pg^T d_R
  template <class Decay>
  static void run_backward(std::int64_t n, const FastWeightRows<Real>& x, const Real* S0,
                           const Real* u, Real* d_S, const FastWeightRows<Real>& d, Arena& arena) {
    const std::int64_t K = x.K, V = x.V;
    const Decay decay(n, x, arena);
    const DecayProducts<Real> y(n, K, arena), d_y(n, K, arena);
    decay.products(y);
    Real *A = arena.zeros<Real>(n * n), *R = arena.take<Real>(n * V), *E = arena.take<Real>(n * V);
    solve(n, x, y, S0, A, R, E);
    const ConstMatrix<Real> U(u, n, V), state0(S0, K, V), L(y.L, n, n), write(E, n, V);
    Real *d_e = arena.take<Real>(n * V), *d_r = arena.take<Real>(n * V);
    Matrix<Real> d_E(d_e, n, V), d_R(d_r, n, V), d_state(d_S, K, V);
    d_E.noalias() = ConstMatrix<Real>(y.Kg, n, K) * d_state;
    d_E.noalias() += ConstMatrix<Real>(y.W, n, n).transpose() * U;
    for (std::int64_t i = 0; i < n; ++i) scaled(V, x.beta[i], d_e + i * V, d_r + i * V);
    solve_unit_lower_transposed(n, V, A, d_r);
    d_E.noalias() -= L.transpose() * d_R;
    for (std::int64_t i = 0; i < n; ++i) {
      d.beta[i] += dot(V, d_e + i * V, R + i * V);
      axpy(V, Real(1), d_r + i * V, d.v + i * V);
    }
    Matrix<Real>(d_y.Kg, n, K).noalias() = write * d_state.transpose();
    Matrix<Real>(d_y.W, n, n).noalias() = U * write.transpose();
    Matrix<Real>(d_y.L, n, n).noalias() = -d_R * write.transpose();
    clear_upper(n, d_y);
    Matrix<Real>(d_y.Qg, n, K).noalias() = U * state0.transpose();
    Matrix<Real>(d_y.Pg, n, K).noalias() = -d_R * state0.transpose();
    for (std::int64_t i = 0; i < K; ++i) {
      d_y.last[i] = dot(V, d_S + i * V, S0 + i * V);
      scaled(V, y.last[i], d_S + i * V, d_S + i * V);
    }
    d_state.noalias() += ConstMatrix<Real>(y.Qg, n, K).transpose() * U;
    d_state.noalias() -= ConstMatrix<Real>(y.Pg, n, K).transpose() * d_R;
    decay.adjoint(d_y, d, arena);
  }

  static void clear_upper(std::int64_t n, const DecayProducts<Real>& d_y) {
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = i; j < n; ++j) {
        d_y.L[i * n + j] = 0;
        if (j > i) d_y.W[i * n + j] = 0;
      }
    }
  }
};

template <class Real>
using ChunkedDeltaWeights = FastWeight<Real, DeltaChunk>;

extern template void run_sequences<FastWeight<float, DeltaChunk>>(const Binding&, const Call&);
extern template void run_sequences<FastWeight<double, DeltaChunk>>(const Binding&, const Call&);

ASSAY_CPU_END
