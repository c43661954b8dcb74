// The chunk form in fp32: a block of threads for a unit, chunk after chunk. Any width, any dtype,
// any stride; the measure of the faster kernels. Equations, with p = α k and k̂ = η k:
//
//   m_jj = 1, γ_jj = β_j;    m_ij = μ_i m_{i-1,j}    γ_ij = α_i γ_{i-1,j} + β_i m_ij   (j < i)
//   L_ij = p_i·k̂_j γ_{i-1,j}    W_ij = q_i·k̂_j γ_ij    (I + L) R = V - ᾱ K S + b' K M
//   O = ᾱ Q S - b Q M + W R    S' = ᾱ_C S - b_C M + (γ_C k̂)^T R    M' = μ̄_C M - (m_C k̂)^T R
//
// where b'_i = α_i b_{i-1}, and ᾱ, μ̄, b obey the same recursion as the columns of γ and m.
#include "kernels/mdn/mdn_made_gates.cuh"

namespace assay::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kPitch = kChunk + 1;

/// Lower triangles [step][step], fp32, and the vectors of a chunk.
struct ChunkMemory {
  float gamma[kChunk][kPitch], m[kChunk][kPitch];
  float QK[kChunk][kPitch], KK[kChunk][kPitch], W[kChunk][kPitch], L[kChunk][kPitch];
  float alpha[kChunk], mu[kChunk], beta[kChunk], eta[kChunk];
  double q_norm[kChunk], k_norm[kChunk];
  float alpha_bar[kPitch], mu_bar[kPitch], b[kPitch];  // entry i + 1 belongs to step i
};
struct GradientMemory {
  float d_gamma[kChunk][kPitch], d_m[kChunk][kPitch];
  float d_alpha[kChunk], d_mu[kChunk], d_beta[kChunk], d_eta[kChunk];
  float d_alpha_bar[kPitch], d_mu_bar[kPitch], d_b[kPitch];
  float correction, carried;
  double parameter[MadeGates::kParameters];
};

/// store(i, j, sum over x of a(i, x) b(x, j)) for the elements of an [m, n] matrix. A given element
/// is always the same thread's.
template <class A, class B, class Store>
__device__ __forceinline__ void product(int m, int n, int depth, const A& a, const B& b,
                                        const Store& store) {
  const int columns = (n + 3) / 4, tiles = (m + 3) / 4 * columns;
  for (int tile = threadIdx.x; tile < tiles; tile += kThreads) {
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

struct Exact {
  const MdnParams& p;
  const MdnSegment u;
  const int head, K, V, KV;
  ChunkMemory& c;
  float *q, *k, *v, *R;                          // [kChunk, K or V]
  float *d_q, *d_k, *via_S, *via_M, *d_o, *d_R;  // the same, backward
  float *S, *M, *d_S, *d_M;                      // [K, V]
  int n = 0;                                     // steps of the chunk
  std::int64_t t0 = 0;                           // its first

  __device__ Exact(const MdnParams& params, const MdnSegment& segment, int of_head, float* scratch,
                   ChunkMemory& memory)
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
    for (int at = threadIdx.x; at < kChunk * width; at += kThreads) {
      const int t = at / width;
      out[at] = t < n ? element(x, t, at % width) : 0.0f;
    }
  }

  /// In double: squares of the smallest and the largest numbers of fp32 are beyond it.
  __device__ void normalise(float* rows, double* norms) {
    const int lane = threadIdx.x & 31;
    for (int t = threadIdx.x >> 5; t < n; t += kThreads / 32) {
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
    for (int t = threadIdx.x; t < kChunk; t += kThreads) {
      MdnGates g;
      if (t < n) g = load_gates(p, u.batch, u.first + t0 + t, head);
      if (t >= n && ASSAY_MDN_IS_FAULT(p, tail_chunk_decays)) g.alpha = 0.5f;
      if (!p.momentum) g.mu = 0;
      c.alpha[t] = g.alpha, c.mu[t] = g.mu, c.beta[t] = g.beta, c.eta[t] = g.eta;
    }
    __syncthreads();
    if (p.q_correction.data) {
      const float d = correction();
      for (int at = threadIdx.x; at < kChunk * K; at += kThreads) q[at] = fmaf(-d, k[at], q[at]);
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
    product(
        kChunk, kChunk, K, [&](int i, int x) { return q[i * K + x]; }, key,
        [&](int i, int j, float x) { c.QK[i][j] = x; });
    product(
        kChunk, kChunk, K, [&](int i, int x) { return k[i * K + x]; }, key,
        [&](int i, int j, float x) { c.KK[i][j] = x; });
    __syncthreads();
    for (int at = threadIdx.x; at < kChunk * kChunk; at += kThreads) {
      const int i = at / kChunk, j = at % kChunk;
      c.W[i][j] = j <= i ? c.QK[i][j] * c.eta[j] * c.gamma[i][j] : 0.0f;
      c.L[i][j] = j < i ? c.alpha[i] * c.KK[i][j] * c.eta[j] * gamma_before(i, j) : 0.0f;
    }
    product(
        kChunk, V, K, [&](int i, int x) { return k[i * K + x]; },
        [&](int x, int j) { return S0[x * V + j]; },
        [&](int i, int j, float x) {
          R[i * V + j] = fmaf(-c.alpha[i] * c.alpha_bar[i], x, v[i * V + j]);
        });
    if (p.momentum) {
      product(
          kChunk, V, K, [&](int i, int x) { return k[i * K + x]; },
          [&](int x, int j) { return M0[x * V + j]; },
          [&](int i, int j, float x) {
            R[i * V + j] = fmaf(c.alpha[i] * c.b[i], x, R[i * V + j]);
          });
    }
    __syncthreads();
    for (int j = threadIdx.x; j < V; j += kThreads) {
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
    product(
        kChunk, V, K, row, [&](int x, int j) { return S0[x * V + j]; },
        [&](int i, int j, float x) { v[i * V + j] = c.alpha_bar[i + 1] * x; });
    if (p.momentum) {
      product(
          kChunk, V, K, row, [&](int x, int j) { return M0[x * V + j]; },
          [&](int i, int j, float x) { v[i * V + j] = fmaf(-c.b[i + 1], x, v[i * V + j]); });
    }
    product(
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
    const auto write = [&](const float(&row)[kPitch]) {
      return [&row, this](int i, int x) {
        const float eta = ASSAY_MDN_IS_FAULT(p, eta_missing_in_state) ? 1.0f : c.eta[x];
        return row[x] * eta * k[x * K + i];
      };
    };
    const auto residual = [&](int x, int j) { return R[x * V + j]; };
    const float(&gamma)[kPitch] = c.gamma[kChunk - 1], (&m)[kPitch] = c.m[kChunk - 1];
    const float alpha_bar = c.alpha_bar[kChunk], mu_bar = c.mu_bar[kChunk], b = c.b[kChunk];
    if (!p.momentum) {
      product(K, V, kChunk, write(gamma), residual,
              [&](int i, int j, float x) { S[i * V + j] = fmaf(alpha_bar, S[i * V + j], x); });
      return;
    }
    product(K, V, kChunk, write(gamma), residual, [&](int i, int j, float x) {
      const int at = i * V + j;
      const bool early = ASSAY_MDN_IS_FAULT(p, chunk_state_order);
      S[at] = fmaf(alpha_bar, S[at], x) - b * (early ? mu_bar * M[at] : M[at]);
    });
    product(K, V, kChunk, write(m), residual, [&](int i, int j, float x) {
      if (ASSAY_MDN_IS_FAULT(p, stale_second_state)) return;
      M[i * V + j] = fmaf(mu_bar, M[i * V + j], -x);
    });
  }

  __device__ void load_state(const Strided& from, float* to) {
    const char* base = from.data ? state_at(from, u.sequence, head) : nullptr;
    for (int at = threadIdx.x; at < KV; at += kThreads) {
      to[at] =
          base ? load_element(base + at / V * from.row + at % V * from.column, from.dtype) : 0.0f;
    }
  }
  __device__ void store_state(const Strided& to, const float* from) {
    if (!to.data) return;
    char* base = state_at(to, u.sequence, head);
    for (int at = threadIdx.x; at < KV; at += kThreads) {
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
        for (int at = threadIdx.x; at < KV; at += kThreads) M[at] = 0;
        __syncthreads();
      }
      if (p.gradients) {
        float* to = kept(chunk);
        for (int at = threadIdx.x; at < KV; at += kThreads) {
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

struct ExactGradients : Exact {
  GradientMemory& g;
  const float *S0 = nullptr, *M0 = nullptr;

  __device__ ExactGradients(const MdnParams& params, const MdnSegment& segment, int of_head,
                            float* scratch, ChunkMemory& memory, GradientMemory& more)
      : Exact(params, segment, of_head, scratch, memory), g(more) {}

  __device__ void clear() {
    for (int at = threadIdx.x; at < kChunk * kPitch; at += kThreads) {
      g.d_gamma[at / kPitch][at % kPitch] = 0, g.d_m[at / kPitch][at % kPitch] = 0;
    }
    for (int at = threadIdx.x; at < kPitch; at += kThreads) {
      g.d_alpha_bar[at] = g.d_mu_bar[at] = g.d_b[at] = 0;
      if (at < kChunk) g.d_alpha[at] = g.d_mu[at] = g.d_beta[at] = g.d_eta[at] = 0;
    }
    for (int at = threadIdx.x; at < kChunk * K; at += kThreads) d_q[at] = d_k[at] = 0;
  }

  /// The cotangent of the right-hand side, d_R, from those of O and of the states after the chunk.
  __device__ void solve_backward() {
    const float(&gamma)[kPitch] = c.gamma[kChunk - 1], (&m)[kPitch] = c.m[kChunk - 1];
    const auto key = [&](int i, int x) { return k[i * K + x]; };
    product(
        kChunk, V, kChunk, [&](int i, int x) { return c.W[x][i]; },
        [&](int x, int j) { return d_o[x * V + j]; },
        [&](int i, int j, float x) { d_R[i * V + j] = x; });
    product(
        kChunk, V, K, key, [&](int x, int j) { return d_S[x * V + j]; },
        [&](int i, int j, float x) {
          d_R[i * V + j] = fmaf(gamma[i] * c.eta[i], x, d_R[i * V + j]);
        });
    if (p.momentum) {
      product(
          kChunk, V, K, key, [&](int x, int j) { return d_M[x * V + j]; },
          [&](int i, int j, float x) {
            d_R[i * V + j] = fmaf(-m[i] * c.eta[i], x, d_R[i * V + j]);
          });
    }
    __syncthreads();
    for (int j = threadIdx.x; j < V; j += kThreads) {
      for (int i = kChunk - 2; i >= 0; --i) {
        float sum = 0;
        for (int x = i + 1; x < kChunk; ++x) sum = fmaf(c.L[x][i], d_R[x * V + j], sum);
        d_R[i * V + j] -= sum;
      }
    }
    __syncthreads();
    for (int at = threadIdx.x; at < n * V; at += kThreads) {
      store_token(p, p.d_v, u.batch, u.first + t0 + at / V, head, at % V, d_R[at]);
    }
  }

  /// via_S = rows S^T, via_M = rows M^T  [kChunk, K], for matrices [K, V].
  __device__ void through(const float* rows, const float* to_S, const float* to_M) {
    __syncthreads();
    const auto row = [&](int i, int x) { return rows[i * V + x]; };
    product(
        kChunk, K, V, row, [&](int x, int j) { return to_S[j * V + x]; },
        [&](int i, int j, float x) { via_S[i * K + j] = x; });
    if (p.momentum) {
      product(
          kChunk, K, V, row, [&](int x, int j) { return to_M[j * V + x]; },
          [&](int i, int j, float x) { via_M[i * K + j] = x; });
    }
    __syncthreads();
  }

  /// each(t, row_t · via_S_t, row_t · via_M_t) by one lane, and add(t, j) by all, a warp per step.
  template <class Each, class Add>
  __device__ void each_step(const float* rows, const Each& each, const Add& add) {
    const int lane = threadIdx.x & 31;
    for (int t = threadIdx.x >> 5; t < kChunk; t += kThreads / 32) {
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
    product(
        kChunk, kChunk, V, [&](int i, int x) { return d_o[i * V + x]; },
        [&](int x, int j) { return R[j * V + x]; },
        [&](int i, int j, float x) { c.W[i][j] = j <= i ? x : 0.0f; });
    product(
        kChunk, kChunk, V, [&](int i, int x) { return d_R[i * V + x]; },
        [&](int x, int j) { return R[j * V + x]; },
        [&](int i, int j, float x) { c.L[i][j] = j < i ? -x : 0.0f; });
    __syncthreads();
    for (int at = threadIdx.x; at < kChunk * kChunk; at += kThreads) {
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
    for (int at = threadIdx.x; at < kChunk * kChunk; at += kThreads) {
      const int i = at / kChunk, j = at % kChunk;
      if (j <= i) c.W[i][j] *= c.gamma[i][j] * c.eta[j];
      if (j < i) c.L[i][j] *= c.alpha[i] * c.gamma[i - 1][j] * c.eta[j];
    }
    __syncthreads();
    const auto key = [&](int x, int j) { return k[x * K + j]; };
    product(
        kChunk, K, kChunk, [&](int i, int x) { return c.W[i][x]; }, key,
        [&](int i, int j, float x) { d_q[i * K + j] += x; });
    product(
        kChunk, K, kChunk, [&](int i, int x) { return c.L[i][x]; }, key,
        [&](int i, int j, float x) { d_k[i * K + j] += x; });
    product(
        kChunk, K, kChunk, [&](int i, int x) { return c.W[x][i]; },
        [&](int x, int j) { return q[x * K + j]; },
        [&](int i, int j, float x) { d_k[i * K + j] += x; });
    if (ASSAY_MDN_IS_FAULT(p, dk_single_path)) return;
    product(
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
    for (int at = threadIdx.x; at < KV; at += kThreads) sum = fmaf(a[at], b[at], sum);
    sum = warp_sum(sum);
    if (lane == 0) parts[threadIdx.x >> 5] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < kThreads / 32; ++i) sum += parts[i];
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
      product(
          K, V, kChunk, [&](int i, int x) { return c.b[x + 1] * q[x * K + i]; }, out,
          [&](int i, int j, float x) {
            const int at = i * V + j;
            d_M[at] = c.mu_bar[kChunk] * d_M[at] - c.b[kChunk] * d_S[at] - x;
          });
      product(
          K, V, kChunk, [&](int i, int x) { return c.alpha[x] * c.b[x] * k[x * K + i]; }, residual,
          [&](int i, int j, float x) { d_M[i * V + j] += x; });
    }
    product(
        K, V, kChunk, [&](int i, int x) { return c.alpha_bar[x + 1] * q[x * K + i]; }, out,
        [&](int i, int j, float x) {
          d_S[i * V + j] = fmaf(c.alpha_bar[kChunk], d_S[i * V + j], x);
        });
    product(
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
    for (int i = threadIdx.x >> 5; i < kChunk; i += kThreads / 32) {
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
    for (int t = threadIdx.x >> 5; t < n; t += kThreads / 32) {
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
    for (int t = threadIdx.x; t < kChunk; t += kThreads) {
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
      for (int t = warp; t < n; t += kThreads / 32) {
        for (int j = lane; j < K; j += 32) sum = fmaf(element(p.k, t, j), d_q[t * K + j], sum);
      }
      sum = warp_sum(sum);
      for (int at = threadIdx.x; at < n * K; at += kThreads) d_k[at] = fmaf(-d, d_q[at], d_k[at]);
      if (lane == 0) via_S[warp] = sum;
      __syncthreads();
      if (threadIdx.x == 0) {
        for (int i = 0; i < kThreads / 32; ++i) g.correction -= via_S[i];
      }
      __syncthreads();
    }
    const float factor = ASSAY_MDN_IS_FAULT(p, scale_missing_in_dq) ? 1 / p.scale : 1.0f;
    for (int at = threadIdx.x; at < n * K; at += kThreads) {
      const std::int64_t t = u.first + t0 + at / K;
      store_token(p, p.d_q, u.batch, t, head, at % K, d_q[at] * factor);
      store_token(p, p.d_k, u.batch, t, head, at % K, d_k[at]);
    }
    if (p.made.given) return store_through_rule();
    for (int t = threadIdx.x; t < n; t += kThreads) {
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
      for (int at = threadIdx.x; at < kChunk * V; at += kThreads) {
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

__global__ void __launch_bounds__(kThreads) mdn_exact_kernel(const __grid_constant__ MdnParams p) {
  ASSAY_SHARED_MEMORY(memory);
  ChunkMemory& chunk = *reinterpret_cast<ChunkMemory*>(memory);
  GradientMemory& more = *reinterpret_cast<GradientMemory*>(memory + sizeof(ChunkMemory));
  const std::int64_t unit = blockIdx.x;
  MdnSegment u = segment_of(p, unit / p.H);
  if (ASSAY_MDN_IS_FAULT(p, tail_unwritten) && u.length > kChunk) u.length -= u.length % kChunk;
  float* scratch = p.scratch + unit * p.scratch_floats;
  const int head = static_cast<int>(unit % p.H);
  if (p.gradients) {
    ExactGradients run(p, u, head, scratch, chunk, more);
    run.forward();
    run.backward();
  } else {
    Exact run(p, u, head, scratch, chunk);
    run.forward();
  }
}

__global__ void mdn_sum_kernel(const __grid_constant__ MdnTokenSum s) {
  const int heads = s.H / s.out.share;
  const std::int64_t rows = s.batches * s.T * heads;
  const std::int64_t stride = std::int64_t{1} * gridDim.x * blockDim.x;
  for (std::int64_t at = std::int64_t{1} * blockIdx.x * blockDim.x + threadIdx.x;
       at < rows * s.width; at += stride) {
    const int column = static_cast<int>(at % s.width),
              head = static_cast<int>(at / s.width % heads);
    const std::int64_t token = at / s.width / heads;
    const float* from = s.partial + (token * s.H + head * s.out.share) * s.width + column;
    float sum = 0;
    for (int i = 0; i < s.out.share; ++i) {
      if (ASSAY_MDN_IS_FAULT(s, group_grad_last_head)) sum = 0;
      sum += from[i * s.width];
    }
    char* to = s.out.data + token / s.T * s.out.batch + token % s.T * s.out.time +
               head * s.out.head + column * s.out.column;
    store_element(to, s.out.dtype, sum);
  }
}

__global__ void mdn_correction_kernel(const __grid_constant__ MdnParams p,
                                      const __grid_constant__ Strided out) {
  const int head = blockIdx.x, lane = threadIdx.x;
  float sum = 0;
  for (std::int64_t at = lane; at < p.sequences * out.share; at += 32) {
    const std::int64_t sequence = at / out.share;
    sum += p.d_correction[sequence * p.H + head * out.share + at % out.share];
  }
  sum = warp_sum(sum);
  if (lane == 0) store_element(out.data + head * out.head, out.dtype, sum);
}

}  // namespace

cudaError_t mdn_exact(const MdnParams& p, cudaStream_t stream) {
  const int bytes = sizeof(ChunkMemory) + (p.gradients ? sizeof(GradientMemory) : 0);
  return launch(mdn_exact_kernel, dim3(static_cast<unsigned>(p.units())), kThreads, bytes, stream,
                p);
}

cudaError_t mdn_sum_tokens(const MdnTokenSum& sum, cudaStream_t stream) {
  const std::int64_t count = sum.batches * sum.T * (sum.H / sum.out.share) * sum.width;
  const std::int64_t blocks = (count + 255) / 256;
  return launch(mdn_sum_kernel, dim3(static_cast<unsigned>(blocks < 4096 ? blocks : 4096)), 256, 0,
                stream, sum);
}

cudaError_t mdn_sum_correction(const MdnParams& p, const Strided& out, cudaStream_t stream) {
  return launch(mdn_correction_kernel, dim3(static_cast<unsigned>(p.H / out.share)), 32, 0, stream,
                p, out);
}

}  // namespace assay::cuda
