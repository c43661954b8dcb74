// The way back of the chunk form in fp32 (mdn_exact.cuh), chunk by chunk from the last: each is
// computed again from the states before it.
#pragma once

#include "kernels/mdn/mdn_exact.cuh"
#include "kernels/mdn/mdn_made_gates.cuh"

namespace assay::cuda {

struct MdnGradientMemory {
  float d_gamma[kChunk][kExactPitch], d_m[kChunk][kExactPitch];
  float d_alpha[kChunk], d_mu[kChunk], d_beta[kChunk], d_eta[kChunk];
  float d_alpha_bar[kExactPitch], d_mu_bar[kExactPitch], d_b[kExactPitch];
  float correction, carried;
  double parameter[MadeGates::kParameters];
};

struct MdnExactGradients : MdnExact {
  MdnGradientMemory& g;
  const float *S0 = nullptr, *M0 = nullptr;

  __device__ MdnExactGradients(const MdnParams& params, const MdnSegment& segment, int of_head,
                               float* scratch, MdnExactMemory& memory, MdnGradientMemory& more)
      : MdnExact(params, segment, of_head, scratch, memory), g(more) {}

  __device__ void clear() {
    for (int at = threadIdx.x; at < kChunk * kExactPitch; at += kExactThreads) {
      g.d_gamma[at / kExactPitch][at % kExactPitch] = 0,
                                       g.d_m[at / kExactPitch][at % kExactPitch] = 0;
    }
    for (int at = threadIdx.x; at < kExactPitch; at += kExactThreads) {
      g.d_alpha_bar[at] = g.d_mu_bar[at] = g.d_b[at] = 0;
      if (at < kChunk) g.d_alpha[at] = g.d_mu[at] = g.d_beta[at] = g.d_eta[at] = 0;
    }
    for (int at = threadIdx.x; at < kChunk * K; at += kExactThreads) d_q[at] = d_k[at] = 0;
  }

  /// The cotangent of the right-hand side, d_R, from those of O and of the states after the chunk.
  __device__ void solve_backward() {
    const float(&gamma)[kExactPitch] = c.gamma[kChunk - 1], (&m)[kExactPitch] = c.m[kChunk - 1];
    const auto key = [&](int i, int x) { return k[i * K + x]; };
    exact_product(
        kChunk, V, kChunk, [&](int i, int x) { return c.W[x][i]; },
        [&](int x, int j) { return d_o[x * V + j]; },
        [&](int i, int j, float x) { d_R[i * V + j] = x; });
    exact_product(
        kChunk, V, K, key, [&](int x, int j) { return d_S[x * V + j]; },
        [&](int i, int j, float x) {
          d_R[i * V + j] = fmaf(gamma[i] * c.eta[i], x, d_R[i * V + j]);
        });
    if (p.momentum) {
      exact_product(
          kChunk, V, K, key, [&](int x, int j) { return d_M[x * V + j]; },
          [&](int i, int j, float x) {
            d_R[i * V + j] = fmaf(-m[i] * c.eta[i], x, d_R[i * V + j]);
          });
    }
    __syncthreads();
    for (int j = threadIdx.x; j < V; j += kExactThreads) {
      for (int i = kChunk - 2; i >= 0; --i) {
        float sum = 0;
        for (int x = i + 1; x < kChunk; ++x) sum = fmaf(c.L[x][i], d_R[x * V + j], sum);
        d_R[i * V + j] -= sum;
      }
    }
    __syncthreads();
    for (int at = threadIdx.x; at < n * V; at += kExactThreads) {
      store_token(p, p.d_v, u.batch, u.first + t0 + at / V, head, at % V, d_R[at]);
    }
  }

  /// via_S = rows S^T, via_M = rows M^T  [kChunk, K], for matrices [K, V].
  __device__ void through(const float* rows, const float* to_S, const float* to_M) {
    __syncthreads();
    const auto row = [&](int i, int x) { return rows[i * V + x]; };
    exact_product(
        kChunk, K, V, row, [&](int x, int j) { return to_S[j * V + x]; },
        [&](int i, int j, float x) { via_S[i * K + j] = x; });
    if (p.momentum) {
      exact_product(
          kChunk, K, V, row, [&](int x, int j) { return to_M[j * V + x]; },
          [&](int i, int j, float x) { via_M[i * K + j] = x; });
    }
    __syncthreads();
  }

  /// each(t, row_t · via_S_t, row_t · via_M_t) by one lane, and add(t, j) by all, a warp per step.
  template <class Each, class Add>
  __device__ void each_step(const float* rows, const Each& each, const Add& add) {
    const int lane = threadIdx.x & 31;
    for (int t = threadIdx.x >> 5; t < kChunk; t += kExactThreads / 32) {
      float x = 0, y = 0;
      for (int j = lane; j < K; j += 32) {
        x = fmaf(rows[t * K + j], via_S[t * K + j], x);
        if (p.momentum) y = fmaf(rows[t * K + j], via_M[t * K + j], y);
      }
      x = warp_sum(x), y = warp_sum(y);
      if (lane == 0) each(t, x, y);
      for (int j = lane; j < K; j += 32) add(t, t * K + j);
    }
    __syncthreads();
  }
  __device__ float momentum_part(int at) const { return p.momentum ? via_M[at] : 0.0f; }

  __device__ void final_writes() {
    const int last = kChunk - 1;
    through(R, d_S, d_M);
    each_step(
        k,
        [&](int t, float x, float y) {
          g.d_gamma[last][t] += c.eta[t] * x, g.d_m[last][t] -= c.eta[t] * y;
          g.d_eta[t] += c.gamma[last][t] * x - c.m[last][t] * y;
        },
        [&](int t, int at) {
          d_k[at] += c.eta[t] * (c.gamma[last][t] * via_S[at] - c.m[last][t] * momentum_part(at));
        });
  }

  /// W = (Q K̂^T) ∘ Γ and L = (P K̂^T) ∘ Γ⁻ to q, k, eta, alpha and γ; takes W and L.
  __device__ void inner_products() {
    exact_product(
        kChunk, kChunk, V, [&](int i, int x) { return d_o[i * V + x]; },
        [&](int x, int j) { return R[j * V + x]; },
        [&](int i, int j, float x) { c.W[i][j] = j <= i ? x : 0.0f; });
    exact_product(
        kChunk, kChunk, V, [&](int i, int x) { return d_R[i * V + x]; },
        [&](int x, int j) { return R[j * V + x]; },
        [&](int i, int j, float x) { c.L[i][j] = j < i ? -x : 0.0f; });
    __syncthreads();
    for (int at = threadIdx.x; at < kChunk * kChunk; at += kExactThreads) {
      const int i = at / kChunk, j = at % kChunk;
      if (j <= i) g.d_gamma[i][j] += c.W[i][j] * c.QK[i][j] * c.eta[j];
      if (j <= i && i + 1 < kChunk) {
        g.d_gamma[i][j] += c.L[i + 1][j] * c.alpha[i + 1] * c.KK[i + 1][j] * c.eta[j];
      }
    }
    if (threadIdx.x < kChunk) {
      const int t = threadIdx.x;
      float d_eta = 0, d_alpha = 0;
      for (int i = t; i < kChunk; ++i) {
        d_eta = fmaf(c.W[i][t] * c.QK[i][t], c.gamma[i][t], d_eta);
        if (i > t) d_eta = fmaf(c.L[i][t] * c.alpha[i] * c.KK[i][t], c.gamma[i - 1][t], d_eta);
      }
      for (int j = 0; j < t; ++j) {
        d_alpha = fmaf(c.L[t][j] * c.KK[t][j] * c.eta[j], c.gamma[t - 1][j], d_alpha);
      }
      g.d_eta[t] += d_eta;
      if (!ASSAY_MDN_IS_FAULT(p, dalpha_without_residual)) g.d_alpha[t] += d_alpha;
    }
    __syncthreads();
    for (int at = threadIdx.x; at < kChunk * kChunk; at += kExactThreads) {
      const int i = at / kChunk, j = at % kChunk;
      if (j <= i) c.W[i][j] *= c.gamma[i][j] * c.eta[j];
      if (j < i) c.L[i][j] *= c.alpha[i] * c.gamma[i - 1][j] * c.eta[j];
    }
    __syncthreads();
    const auto key = [&](int x, int j) { return k[x * K + j]; };
    exact_product(
        kChunk, K, kChunk, [&](int i, int x) { return c.W[i][x]; }, key,
        [&](int i, int j, float x) { d_q[i * K + j] += x; });
    exact_product(
        kChunk, K, kChunk, [&](int i, int x) { return c.L[i][x]; }, key,
        [&](int i, int j, float x) { d_k[i * K + j] += x; });
    exact_product(
        kChunk, K, kChunk, [&](int i, int x) { return c.W[x][i]; },
        [&](int x, int j) { return q[x * K + j]; },
        [&](int i, int j, float x) { d_k[i * K + j] += x; });
    if (ASSAY_MDN_IS_FAULT(p, dk_single_path)) return;
    exact_product(
        kChunk, K, kChunk, [&](int i, int x) { return c.L[x][i]; }, key,
        [&](int i, int j, float x) { d_k[i * K + j] += x; });
  }

  __device__ void reads() {
    through(d_o, S0, M0);
    each_step(
        q, [&](int t, float x, float y) { g.d_alpha_bar[t + 1] += x, g.d_b[t + 1] -= y; },
        [&](int t, int at) {
          d_q[at] += c.alpha_bar[t + 1] * via_S[at] - c.b[t + 1] * momentum_part(at);
        });
    through(d_R, S0, M0);
    each_step(
        k,
        [&](int t, float x, float y) {
          g.d_alpha_bar[t] -= c.alpha[t] * x, g.d_b[t] += c.alpha[t] * y;
          if (ASSAY_MDN_IS_FAULT(p, dalpha_without_residual)) return;
          g.d_alpha[t] += c.b[t] * y - c.alpha_bar[t] * x;
        },
        [&](int t, int at) {
          d_k[at] += c.alpha[t] * (c.b[t] * momentum_part(at) - c.alpha_bar[t] * via_S[at]);
        });
  }

  __device__ float whole_sum(const float* a, const float* b) {
    const int lane = threadIdx.x & 31;
    float* parts = via_S;
    __syncthreads();
    float sum = 0;
    for (int at = threadIdx.x; at < KV; at += kExactThreads) sum = fmaf(a[at], b[at], sum);
    sum = warp_sum(sum);
    if (lane == 0) parts[threadIdx.x >> 5] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < kExactThreads / 32; ++i) sum += parts[i];
    return sum;
  }

  __device__ void initial_state() {
    const float alpha_bar = whole_sum(d_S, S0);
    const float b = p.momentum ? whole_sum(d_S, M0) : 0.0f;
    const float mu_bar = p.momentum ? whole_sum(d_M, M0) : 0.0f;
    if (threadIdx.x == 0) {
      g.d_alpha_bar[kChunk] += alpha_bar, g.d_b[kChunk] -= b;
      if (!ASSAY_MDN_IS_FAULT(p, dmu_within_chunk)) g.d_mu_bar[kChunk] += mu_bar;
    }
    __syncthreads();
    const auto out = [&](int x, int j) { return d_o[x * V + j]; };
    const auto residual = [&](int x, int j) { return d_R[x * V + j]; };
    if (p.momentum) {
      exact_product(
          K, V, kChunk, [&](int i, int x) { return c.b[x + 1] * q[x * K + i]; }, out,
          [&](int i, int j, float x) {
            const int at = i * V + j;
            d_M[at] = c.mu_bar[kChunk] * d_M[at] - c.b[kChunk] * d_S[at] - x;
          });
      exact_product(
          K, V, kChunk, [&](int i, int x) { return c.alpha[x] * c.b[x] * k[x * K + i]; }, residual,
          [&](int i, int j, float x) { d_M[i * V + j] += x; });
    }
    exact_product(
        K, V, kChunk, [&](int i, int x) { return c.alpha_bar[x + 1] * q[x * K + i]; }, out,
        [&](int i, int j, float x) {
          d_S[i * V + j] = fmaf(c.alpha_bar[kChunk], d_S[i * V + j], x);
        });
    exact_product(
        K, V, kChunk, [&](int i, int x) { return c.alpha[x] * c.alpha_bar[x] * k[x * K + i]; },
        residual, [&](int i, int j, float x) { d_S[i * V + j] -= x; });
  }

  /// The coefficients' recursion backward: each column of γ and m, and ᾱ, μ̄, b, by one thread,
  /// then the sums along the rows.
  __device__ void coefficients_backward() {
    const int j = threadIdx.x;
    if (j < kChunk) {
      float d_gamma = 0, d_m = 0;
      for (int i = kChunk - 1; i >= j; --i) {
        const bool below = i + 1 < kChunk;
        d_gamma = g.d_gamma[i][j] + (below ? c.alpha[i + 1] * d_gamma : 0.0f);
        d_m = g.d_m[i][j] + (below ? c.mu[i + 1] * d_m : 0.0f) + c.beta[i] * d_gamma;
        g.d_gamma[i][j] = d_gamma, g.d_m[i][j] = d_m;
      }
    } else if (j == kChunk) {
      for (int i = kChunk - 1; i >= 0; --i) {
        const float d_b = g.d_b[i + 1], alpha = c.alpha[i], mu = c.mu[i];
        g.d_mu_bar[i + 1] += c.beta[i] * d_b;
        g.d_b[i] += alpha * d_b;
        if (!ASSAY_MDN_IS_FAULT(p, dbeta_without_carry)) g.d_beta[i] += d_b * c.mu_bar[i + 1];
        g.d_alpha[i] += d_b * c.b[i] + g.d_alpha_bar[i + 1] * c.alpha_bar[i];
        g.d_alpha_bar[i] += alpha * g.d_alpha_bar[i + 1];
        g.d_mu[i] += g.d_mu_bar[i + 1] * c.mu_bar[i];
        g.d_mu_bar[i] += mu * g.d_mu_bar[i + 1];
      }
    }
    __syncthreads();
    const int lane = threadIdx.x & 31;
    for (int i = threadIdx.x >> 5; i < kChunk; i += kExactThreads / 32) {
      float beta = 0, alpha = 0, mu = 0;
      for (int x = lane; x <= i; x += 32) {
        beta = fmaf(g.d_gamma[i][x], c.m[i][x], beta);
        if (x == i) continue;
        alpha = fmaf(g.d_gamma[i][x], c.gamma[i - 1][x], alpha);
        mu = fmaf(g.d_m[i][x], c.m[i - 1][x], mu);
      }
      beta = warp_sum(beta), alpha = warp_sum(alpha), mu = warp_sum(mu);
      if (lane == 0) g.d_beta[i] += beta, g.d_alpha[i] += alpha, g.d_mu[i] += mu;
    }
    __syncthreads();
  }

  /// d_x = (d_y - y (y . d_y)) / |x|
  __device__ void normalise_adjoint(const float* y, const double* norms, float* d) {
    const int lane = threadIdx.x & 31;
    for (int t = threadIdx.x >> 5; t < n; t += kExactThreads / 32) {
      float along = 0;
      for (int j = lane; j < K; j += 32) along = fmaf(y[t * K + j], d[t * K + j], along);
      along = warp_sum(along);
      const double inverse = 1 / norms[t];
      for (int j = lane; j < K; j += 32) {
        d[t * K + j] = static_cast<float>((d[t * K + j] - y[t * K + j] * along) * inverse);
      }
    }
    __syncthreads();
  }

  /// Gradients of the pre-activations, and the parameters' added up; takes those of the gates.
  __device__ void store_through_rule() {
    using M = MadeGates;
    for (int t = threadIdx.x; t < kChunk; t += kExactThreads) {
      const std::int64_t at = u.first + t0 + t;
      const MdnGates gates{c.alpha[t], c.mu[t], c.beta[t], c.eta[t]};
      const MdnGates d{g.d_alpha[t], g.d_mu[t], g.d_beta[t], g.d_eta[t]};
      MdnMadeGradient made[4];
      for (int which = 0; which < 4; ++which) {
        if (t < n) made[which] = made_gradient(p, which, u.batch, at, head, gates, d);
      }
      g.d_gamma[M::a_alpha][t] = made[kMadeAlpha].d_a, g.d_gamma[M::a_mu][t] = made[kMadeMu].d_a;
      g.d_gamma[M::b_alpha][t] = made[kMadeAlpha].d_x, g.d_gamma[M::b_mu][t] = made[kMadeMu].d_x;
      if (t >= n) continue;
      store_token(p, p.d_alpha, u.batch, at, head, 0, made[kMadeAlpha].d_x);
      store_token(p, p.d_beta, u.batch, at, head, 0, made[kMadeBeta].d_x);
      store_token(p, p.d_mu, u.batch, at, head, 0, made[kMadeMu].d_x);
      store_token(p, p.d_eta, u.batch, at, head, 0, made[kMadeEta].d_x);
    }
    __syncthreads();
    if (threadIdx.x < M::kParameters) {
      double sum = 0;
      for (int t = 0; t < kChunk; ++t) sum += g.d_gamma[threadIdx.x][t];
      g.parameter[threadIdx.x] += sum;
    }
  }

  __device__ void store_gradients() {
    if (p.l2norm) normalise_adjoint(q, c.q_norm, d_q), normalise_adjoint(k, c.k_norm, d_k);
    if (p.q_correction.data) {
      const float d = correction();
      const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
      float sum = 0;
      for (int t = warp; t < n; t += kExactThreads / 32) {
        for (int j = lane; j < K; j += 32) sum = fmaf(element(p.k, t, j), d_q[t * K + j], sum);
      }
      sum = warp_sum(sum);
      for (int at = threadIdx.x; at < n * K; at += kExactThreads)
        d_k[at] = fmaf(-d, d_q[at], d_k[at]);
      if (lane == 0) via_S[warp] = sum;
      __syncthreads();
      if (threadIdx.x == 0) {
        for (int i = 0; i < kExactThreads / 32; ++i) g.correction -= via_S[i];
      }
      __syncthreads();
    }
    const float factor = ASSAY_MDN_IS_FAULT(p, scale_missing_in_dq) ? 1 / p.scale : 1.0f;
    for (int at = threadIdx.x; at < n * K; at += kExactThreads) {
      const std::int64_t t = u.first + t0 + at / K;
      store_token(p, p.d_q, u.batch, t, head, at % K, d_q[at] * factor);
      store_token(p, p.d_k, u.batch, t, head, at % K, d_k[at]);
    }
    if (p.made.given) return store_through_rule();
    for (int t = threadIdx.x; t < n; t += kExactThreads) {
      const std::int64_t at = u.first + t0 + t;
      store_token(p, p.d_alpha, u.batch, at, head, 0,
                  gate_gradient(p.log_alpha, c.alpha[t], g.d_alpha[t]));
      store_token(p, p.d_mu, u.batch, at, head, 0, gate_gradient(p.log_mu, c.mu[t], g.d_mu[t]));
      store_token(p, p.d_beta, u.batch, at, head, 0, g.d_beta[t]);
      store_token(p, p.d_eta, u.batch, at, head, 0, g.d_eta[t]);
    }
  }

  __device__ void backward() {
    const bool ignored = ASSAY_MDN_IS_FAULT(p, final_cotangent_ignored);
    load_state(ignored ? Strided{} : p.d_s_final, d_S);
    if (p.momentum) load_state(ignored ? Strided{} : p.d_m_final, d_M);
    if (threadIdx.x == 0) g.correction = 0;
    if (threadIdx.x < MadeGates::kParameters) g.parameter[threadIdx.x] = 0;
    for (std::int64_t chunk = chunks(); chunk-- > 0;) {
      load_chunk(chunk);
      S0 = kept(chunk), M0 = S0 + KV;
      clear();
      for (int at = threadIdx.x; at < kChunk * V; at += kExactThreads) {
        d_o[at] = at / V < n && p.d_o.data ? p.scale * element(p.d_o, at / V, at % V) : 0.0f;
      }
      residuals(S0, M0);
      solve_backward();
      final_writes();
      inner_products();
      reads();
      initial_state();
      coefficients_backward();
      store_gradients();
    }
    __syncthreads();
    store_state(p.d_s0, d_S);
    if (p.momentum) store_state(p.d_m0, d_M);
    if (p.d_correction && threadIdx.x == 0) {
      p.d_correction[u.sequence * p.H + head] = g.correction;
    }
    if (p.made.given && threadIdx.x < MadeGates::kParameters) {
      const std::int64_t unit = u.sequence * p.H + head;
      p.made.parts[unit * MadeGates::kParameters + threadIdx.x] =
          static_cast<float>(g.parameter[threadIdx.x]);
    }
  }
};

}  // namespace assay::cuda
