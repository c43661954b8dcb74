// The chunk form in fp32: a block of threads for a unit, chunk after chunk. Any width, any dtype,
// any stride; the measure of the faster kernels. Equations, with p = α k and k̂ = η k:
//
//   m_jj = 1, γ_jj = β_j;    m_ij = μ_i m_{i-1,j}    γ_ij = α_i γ_{i-1,j} + β_i m_ij   (j < i)
//   L_ij = p_i·k̂_j γ_{i-1,j}    W_ij = q_i·k̂_j γ_ij    (I + L) R = V - ᾱ K S + b' K M
//   O = ᾱ Q S - b Q M + W R    S' = ᾱ_C S - b_C M + (γ_C k̂)^T R    M' = μ̄_C M - (m_C k̂)^T R
//
// where b'_i = α_i b_{i-1}, and ᾱ, μ̄, b obey the same recursion as the columns of γ and m.
#pragma once

#include "kernels/mdn/mdn_unit.cuh"

namespace assay::cuda {

inline constexpr int kExactThreads = 256;
inline constexpr int kExactPitch = kChunk + 1;

/// Lower triangles [step][step], fp32, and the vectors of a chunk.
struct MdnExactMemory {
  float gamma[kChunk][kExactPitch], m[kChunk][kExactPitch];
  float QK[kChunk][kExactPitch], KK[kChunk][kExactPitch], W[kChunk][kExactPitch],
      L[kChunk][kExactPitch];
  float alpha[kChunk], mu[kChunk], beta[kChunk], eta[kChunk];
  double q_norm[kChunk], k_norm[kChunk];
  float alpha_bar[kExactPitch], mu_bar[kExactPitch],
      b[kExactPitch];  // entry i + 1 belongs to step i
};

/// store(i, j, sum over x of a(i, x) b(x, j)) for the elements of an [m, n] matrix. A given element
/// is always the same thread's.
template <class A, class B, class Store>
__device__ __forceinline__ void exact_product(int m, int n, int depth, const A& a, const B& b,
                                              const Store& store) {
  const int columns = (n + 3) / 4, tiles = (m + 3) / 4 * columns;
  for (int tile = threadIdx.x; tile < tiles; tile += kExactThreads) {
    const int i0 = tile / columns * 4, j0 = tile % columns * 4;
    float sum[4][4] = {};
    for (int x = 0; x < depth; ++x) {
      float left[4], right[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        left[e] = a(i0 + e < m ? i0 + e : m - 1, x);
        right[e] = b(x, j0 + e < n ? j0 + e : n - 1);
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int f = 0; f < 4; ++f) sum[e][f] = fmaf(left[e], right[f], sum[e][f]);
      }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
#pragma unroll
      for (int f = 0; f < 4; ++f) {
        if (i0 + e < m && j0 + f < n) store(i0 + e, j0 + f, sum[e][f]);
      }
    }
  }
}

struct MdnExact {
  const MdnParams& p;
  const MdnSegment u;
  const int head, K, V, KV;
  MdnExactMemory& c;
  float *q, *k, *v, *R;                          // [kChunk, K or V]
  float *d_q, *d_k, *via_S, *via_M, *d_o, *d_R;  // the same, backward
  float *S, *M, *d_S, *d_M;                      // [K, V]
  int n = 0;                                     // steps of the chunk
  std::int64_t t0 = 0;                           // its first

  __device__ MdnExact(const MdnParams& params, const MdnSegment& segment, int of_head,
                      float* scratch, MdnExactMemory& memory)
      : p(params),
        u(segment),
        head(of_head),
        K(params.K),
        V(params.V),
        KV(params.K * params.V),
        c(memory) {
    const auto take = [&](std::int64_t count) {
      float* at = scratch;
      scratch += count;
      return at;
    };
    q = take(kChunk * K), k = take(kChunk * K), v = take(kChunk * V), R = take(kChunk * V);
    S = take(KV), M = take(KV), d_S = take(KV), d_M = take(KV);
    if (!p.gradients) return;
    d_q = take(kChunk * K), d_k = take(kChunk * K), via_S = take(kChunk * K);
    via_M = take(kChunk * K), d_o = take(kChunk * V), d_R = take(kChunk * V);
  }

  __device__ float element(const Strided& x, int t, int column) const {
    return load_element(token_at(x, u.batch, u.first + t0 + t, head) + column * x.column, x.dtype);
  }
  __device__ float correction() const {
    if (!p.q_correction.data) return 0;
    return load_element(p.q_correction.data + (head / p.q_correction.share) * p.q_correction.head,
                        p.q_correction.dtype);
  }

  __device__ void load_rows(const Strided& x, int width, float* out) {
    for (int at = threadIdx.x; at < kChunk * width; at += kExactThreads) {
      const int t = at / width;
      out[at] = t < n ? element(x, t, at % width) : 0.0f;
    }
  }

  /// In double: squares of the smallest and the largest numbers of fp32 are beyond it.
  __device__ void normalise(float* rows, double* norms) {
    const int lane = threadIdx.x & 31;
    for (int t = threadIdx.x >> 5; t < n; t += kExactThreads / 32) {
      double sum = 0;
      for (int j = lane; j < K; j += 32) sum += double{rows[t * K + j]} * double{rows[t * K + j]};
      const double norm = sqrt(warp_sum(sum) + p.l2norm_eps), inverse = 1 / norm;
      for (int j = lane; j < K; j += 32) {
        rows[t * K + j] = static_cast<float>(rows[t * K + j] * inverse);
      }
      if (lane == 0) norms[t] = norm;
    }
  }

  __device__ void load_chunk(std::int64_t chunk) {
    t0 = chunk * kChunk;
    n = static_cast<int>(u.length - t0 < kChunk ? u.length - t0 : kChunk);
    __syncthreads();
    load_rows(p.q, K, q), load_rows(p.k, K, k), load_rows(p.v, V, v);
    for (int t = threadIdx.x; t < kChunk; t += kExactThreads) {
      MdnGates g;
      if (t < n) g = load_gates(p, u.batch, u.first + t0 + t, head);
      if (t >= n && ASSAY_MDN_IS_FAULT(p, tail_chunk_decays)) g.alpha = 0.5f;
      if (!p.momentum) g.mu = 0;
      c.alpha[t] = g.alpha, c.mu[t] = g.mu, c.beta[t] = g.beta, c.eta[t] = g.eta;
    }
    __syncthreads();
    if (p.q_correction.data) {
      const float d = correction();
      for (int at = threadIdx.x; at < kChunk * K; at += kExactThreads)
        q[at] = fmaf(-d, k[at], q[at]);
      __syncthreads();
    }
    if (!p.l2norm) return;
    normalise(q, c.q_norm), normalise(k, c.k_norm);
    __syncthreads();
  }

  __device__ float gamma_before(int i, int j) const {  // γ_{i-1,j} for j < i
    return ASSAY_MDN_IS_FAULT(p, gamma_diagonal_zeroed) ? c.gamma[i][j] : c.gamma[i - 1][j];
  }

  __device__ void coefficients() {
    const int j = threadIdx.x;
    if (j < kChunk) {
      float m = 1, gamma = c.beta[j];
      c.m[j][j] = m, c.gamma[j][j] = gamma;
      for (int i = j + 1; i < kChunk; ++i) {
        m *= c.mu[i];
        gamma = fmaf(c.alpha[i], gamma, c.beta[i] * m);
        c.m[i][j] = m, c.gamma[i][j] = gamma;
      }
    } else if (j == kChunk) {
      float a = 1, m = 1, b = 0;
      c.alpha_bar[0] = 1, c.mu_bar[0] = 1, c.b[0] = 0;
      for (int i = 0; i < kChunk; ++i) {
        if (!(ASSAY_MDN_IS_FAULT(p, decay_exclusive) && i == 0)) a *= c.alpha[i];
        m *= c.mu[i];
        b = fmaf(c.alpha[i], b, c.beta[i] * m);
        c.alpha_bar[i + 1] = a, c.mu_bar[i + 1] = m, c.b[i + 1] = b;
      }
    }
  }

  /// W, L and R of the chunk, from the states before it.
  __device__ void residuals(const float* S0, const float* M0) {
    coefficients();
    const auto key = [&](int x, int j) { return k[j * K + x]; };
    exact_product(
        kChunk, kChunk, K, [&](int i, int x) { return q[i * K + x]; }, key,
        [&](int i, int j, float x) { c.QK[i][j] = x; });
    exact_product(
        kChunk, kChunk, K, [&](int i, int x) { return k[i * K + x]; }, key,
        [&](int i, int j, float x) { c.KK[i][j] = x; });
    __syncthreads();
    for (int at = threadIdx.x; at < kChunk * kChunk; at += kExactThreads) {
      const int i = at / kChunk, j = at % kChunk;
      c.W[i][j] = j <= i ? c.QK[i][j] * c.eta[j] * c.gamma[i][j] : 0.0f;
      c.L[i][j] = j < i ? c.alpha[i] * c.KK[i][j] * c.eta[j] * gamma_before(i, j) : 0.0f;
    }
    exact_product(
        kChunk, V, K, [&](int i, int x) { return k[i * K + x]; },
        [&](int x, int j) { return S0[x * V + j]; },
        [&](int i, int j, float x) {
          R[i * V + j] = fmaf(-c.alpha[i] * c.alpha_bar[i], x, v[i * V + j]);
        });
    if (p.momentum) {
      exact_product(
          kChunk, V, K, [&](int i, int x) { return k[i * K + x]; },
          [&](int x, int j) { return M0[x * V + j]; },
          [&](int i, int j, float x) {
            R[i * V + j] = fmaf(c.alpha[i] * c.b[i], x, R[i * V + j]);
          });
    }
    __syncthreads();
    for (int j = threadIdx.x; j < V; j += kExactThreads) {
      for (int i = 1; i < n; ++i) {
        float sum = 0;
        for (int x = 0; x < i; ++x) sum = fmaf(c.L[i][x], R[x * V + j], sum);
        R[i * V + j] -= sum;
      }
    }
    __syncthreads();
  }

  __device__ void read_out(const float* S0, const float* M0) {
    if (!p.o.data) return;
    const auto row = [&](int i, int x) { return q[i * K + x]; };
    // via R's own thread order: the three sums of an element are made by one thread, kept in v.
    exact_product(
        kChunk, V, K, row, [&](int x, int j) { return S0[x * V + j]; },
        [&](int i, int j, float x) { v[i * V + j] = c.alpha_bar[i + 1] * x; });
    if (p.momentum) {
      exact_product(
          kChunk, V, K, row, [&](int x, int j) { return M0[x * V + j]; },
          [&](int i, int j, float x) { v[i * V + j] = fmaf(-c.b[i + 1], x, v[i * V + j]); });
    }
    exact_product(
        kChunk, V, kChunk, [&](int i, int x) { return c.W[i][x]; },
        [&](int x, int j) { return R[x * V + j]; },
        [&](int i, int j, float x) {
          if (i >= n) return;
          char* at = token_at(p.o, u.batch, u.first + t0 + i, head) + j * p.o.column;
          store_element(at, p.o.dtype, p.scale * (v[i * V + j] + x));
        });
  }

  /// The states after the chunk, in place.
  __device__ void advance() {
    const auto write = [&](const float(&row)[kExactPitch]) {
      return [&row, this](int i, int x) {
        const float eta = ASSAY_MDN_IS_FAULT(p, eta_missing_in_state) ? 1.0f : c.eta[x];
        return row[x] * eta * k[x * K + i];
      };
    };
    const auto residual = [&](int x, int j) { return R[x * V + j]; };
    const float(&gamma)[kExactPitch] = c.gamma[kChunk - 1], (&m)[kExactPitch] = c.m[kChunk - 1];
    const float alpha_bar = c.alpha_bar[kChunk], mu_bar = c.mu_bar[kChunk], b = c.b[kChunk];
    if (!p.momentum) {
      exact_product(K, V, kChunk, write(gamma), residual, [&](int i, int j, float x) {
        S[i * V + j] = fmaf(alpha_bar, S[i * V + j], x);
      });
      return;
    }
    exact_product(K, V, kChunk, write(gamma), residual, [&](int i, int j, float x) {
      const int at = i * V + j;
      const bool early = ASSAY_MDN_IS_FAULT(p, chunk_state_order);
      S[at] = fmaf(alpha_bar, S[at], x) - b * (early ? mu_bar * M[at] : M[at]);
    });
    exact_product(K, V, kChunk, write(m), residual, [&](int i, int j, float x) {
      if (ASSAY_MDN_IS_FAULT(p, stale_second_state)) return;
      M[i * V + j] = fmaf(mu_bar, M[i * V + j], -x);
    });
  }

  __device__ void load_state(const Strided& from, float* to) {
    const char* base = from.data ? state_at(from, u.sequence, head) : nullptr;
    for (int at = threadIdx.x; at < KV; at += kExactThreads) {
      to[at] =
          base ? load_element(base + at / V * from.row + at % V * from.column, from.dtype) : 0.0f;
    }
  }
  __device__ void store_state(const Strided& to, const float* from) {
    if (!to.data) return;
    char* base = state_at(to, u.sequence, head);
    for (int at = threadIdx.x; at < KV; at += kExactThreads) {
      store_element(base + at / V * to.row + at % V * to.column, to.dtype, from[at]);
    }
  }
  __device__ float* kept(std::int64_t chunk) const {
    return p.states + ((u.first_slot + chunk) * p.H + head) * (p.momentum ? 2 : 1) * KV;
  }
  __device__ std::int64_t chunks() const { return (u.length + kChunk - 1) / kChunk; }

  __device__ void forward() {
    load_state(p.s0, S);
    if (p.momentum) load_state(p.m0, M);
    for (std::int64_t chunk = 0; chunk < chunks(); ++chunk) {
      load_chunk(chunk);
      if (ASSAY_MDN_IS_FAULT(p, carry_dropped) && p.momentum && chunk > 0) {
        for (int at = threadIdx.x; at < KV; at += kExactThreads) M[at] = 0;
        __syncthreads();
      }
      if (p.gradients) {
        float* to = kept(chunk);
        for (int at = threadIdx.x; at < KV; at += kExactThreads) {
          to[at] = S[at];
          if (p.momentum) to[KV + at] = M[at];
        }
      }
      residuals(S, M);
      read_out(S, M);
      __syncthreads();
      advance();
      __syncthreads();
    }
    __syncthreads();
    store_state(p.s_final, S);
    if (p.momentum) store_state(p.m_final, M);
  }
};

}  // namespace assay::cuda
