// Backward through time. The first warp of a pair carries 16 columns of the cotangents of S and M,
// transposed; the second fetches and makes the products that need only d_O:
//
//   d_R = scale W^T d_O + γ_C η (k d_S) - m_C η (k d_M)    d_X = T^T d_R
//   d_S' = ᾱ_C d_S + (scale ᾱ Q)^T d_O - (ᾱ K)^T d_X
//   d_M' = μ̄_C d_M - b_C d_S - (scale b Q)^T d_O + (b' K)^T d_X
#pragma once

#include "kernels/mdn/mdn_carry.cuh"

namespace assay::cuda {

template <bool momentum, int K, int pairs>
struct ReverseMemory {
  static constexpr bool kHelpersFetch = momentum;
  static constexpr int kThreads = (kHelpersFetch ? 64 : 96) * pairs;
  static constexpr int kStates = momentum ? 2 : 1;
  static constexpr int kRows = kChunk * K * 2, kValues = RowMatrix::kPieceBytes;
  static constexpr int kQ = 0, kK = kRows, kU = 2 * kRows, kRecord = kU + kValues;
  static constexpr int kStage = kRecord + kRecordBytes;
  static constexpr int kOfW = 16 * kChunk * 4, kOfQ = 16 * K * 4;  // of a pair, and state
  static constexpr int kOfWAt = 2 * kStage, kOfQAt = kOfWAt + pairs * kOfW;
  static constexpr int kBytes = kOfQAt + pairs * kStates * kOfQ;
  static_assert(kBytes <= kMostSharedBytes);
};

/// += Y^T L for a lower triangular L in tiles and Y^T [16, kChunk] as operands A.
__device__ __forceinline__ void times_upper(Columns<kChunk / 8>& out,
                                            const std::uint32_t (&a)[kChunk / 16][4],
                                            const TriangleMatrix& lower, int lane) {
#pragma unroll
  for (int n = 0; n < kChunk / 8; n += 2) {
#pragma unroll
    for (int step = n / 2; step < kChunk / 16; ++step) {
      std::uint32_t b[4];
      lower.load_down(b, step, n / 2, lane);
      multiply(out.x[n], a[step], b[0], b[1]), multiply(out.x[n + 1], a[step], b[2], b[3]);
    }
  }
}

/// Accumulators as lanes hold them, through shared memory.
template <int tiles>
__device__ __forceinline__ void hand_over(float4* to, const Columns<tiles>& x, int lane) {
#pragma unroll
  for (int n = 0; n < tiles; ++n) {
    to[32 * n + lane] = make_float4(x.x[n][0], x.x[n][1], x.x[n][2], x.x[n][3]);
  }
}

template <bool momentum, int K, int pairs>
struct Reverse : MdnWarp {
  using Memory = ReverseMemory<momentum, K, pairs>;
  static constexpr bool kHelpersFetch = Memory::kHelpersFetch;
  static constexpr int kSuppliers = 32 * pairs;

  using MdnWarp::MdnWarp;

  __device__ __forceinline__ char* stage(std::int64_t chunk) const {
    return memory + (chunk & 1) * Memory::kStage;
  }
  __device__ __forceinline__ float4* of_W() const {
    return reinterpret_cast<float4*>(memory + Memory::kOfWAt + pair * Memory::kOfW);
  }
  __device__ __forceinline__ float4* of_Q(int which) const {
    return reinterpret_cast<float4*>(memory + Memory::kOfQAt +
                                     (pair * Memory::kStates + which) * Memory::kOfQ);
  }

  /// As in `scan`, from the last chunk on.
  struct Supply {
    MdnStream<K / 8, kSuppliers> q, k;
    MdnStream<2 * pairs, kSuppliers> out;
    const char* record;
    unsigned thread;

    __device__ __forceinline__ Supply(const Reverse& r, std::int64_t t, unsigned number)
        : q(q_rows(r.p, r.u.batch, t, r.head), 0, number),
          k(k_rows(r.p, r.u.sequence, r.u.batch, t, r.head), 0, number),
          out(rows_of(r.p.d_o.data ? r.p.d_o : r.p.v, r.u.batch, t, r.head), r.block_v0, number),
          record(r.f.records + r.place(r.chunks - 1) * kRecordBytes),
          thread(number) {}
    __device__ __forceinline__ explicit Supply(const Reverse& r)
        : Supply(r, r.u.first + (r.chunks > 0 ? (r.chunks - 1) * kChunk : 0),
                 threadIdx.x - (kHelpersFetch ? 32 : 64) * pairs) {}

    __device__ __forceinline__ void fetch(const Reverse& r, std::int64_t chunk) {
      const std::int64_t left = r.u.length - chunk * kChunk;
      const int steps = left < kChunk ? static_cast<int>(left) : kChunk;
      char* to = r.stage(chunk);
      q.copy(to + Memory::kQ, steps), k.copy(to + Memory::kK, steps);
      out.copy(to + Memory::kU, r.p.d_o.data ? steps : 0);  // of v nothing is read
      copy_piece<kRecordBytes, kSuppliers>(to + Memory::kRecord, record, thread);
      copy_commit();
      q.move(-1), k.move(-1), out.move(-1);
      record -= std::int64_t{r.p.H} * kRecordBytes;
    }
  };

  __device__ __forceinline__ void supply() const {
    Supply all(*this);
    if (chunks > 0) all.fetch(*this, chunks - 1);
    for (std::int64_t chunk = chunks; chunk-- > 0;) {
      copy_wait<0>();
      __syncthreads();
      if (chunk > 0) all.fetch(*this, chunk - 1);
    }
  }

  /// What does not depend on the cotangents carried: scale W^T d_O and Q^T d_O.
  __device__ __forceinline__ void help() const {
    Supply supply(*this);
    if (kHelpersFetch && chunks > 0) supply.fetch(*this, chunks - 1);
    for (std::int64_t chunk = chunks; chunk-- > 0;) {
      if (kHelpersFetch) copy_wait<0>();
      __syncthreads();
      if (kHelpersFetch && chunk > 0) supply.fetch(*this, chunk - 1);
      char* from = stage(chunk);
      const float* vectors =
          reinterpret_cast<const float*>(from + Memory::kRecord + kRecordVectors);
      const RowMatrix rows{from + Memory::kU};
      const RowMatrix queries{from + Memory::kQ};
      std::uint32_t y[kChunk / 16][4];
#pragma unroll
      for (int step = 0; step < kChunk / 16; ++step) {
        // Operand A of d_O^T: tiles (steps, first 8 columns), (steps, other 8), (next 8 steps, ..).
        rows.template load_across<true>(y[step], 2 * step, 2 * pair, lane);
      }
      {
        Columns<kChunk / 8> sum;
        sum.clear();
        times_upper(sum, y, {from + Memory::kRecord + kRecordW}, lane);
        times_upper(sum, y, {from + Memory::kRecord + kRecordWLow}, lane);
        hand_over(of_W(), sum, lane);
      }
      arrive_threads(1 + pair, 64);
#pragma unroll 1
      for (int which = 0; which < Memory::kStates; ++which) {
        const float* factors = vectors + (which == 0 ? kDecay : kReadCarry) * kChunk;
        const float scale = which == 0 ? p.scale : -p.scale;
        Columns<K / 8> sum;
        sum.clear();
#pragma unroll
        for (int step = 0; step < kChunk / 16; ++step) {
          std::uint32_t a[4];
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            float2 factor = factor_of(factors, 2 * step + half, lane);
            factor.x *= scale, factor.y *= scale;
            a[2 * half] = scaled_pair(y[step][2 * half], factor);
            a[2 * half + 1] = scaled_pair(y[step][2 * half + 1], factor);
          }
          sum.add_product(a, queries, 2 * step, lane);
        }
        hand_over(of_Q(which), sum, lane);
      }
      arrive_threads(1 + pairs + pair, 64);
    }
  }

  __device__ __forceinline__ void carry() const {
    Columns<K / 8> S, M;  // cotangents
    const bool ignored = ASSAY_MDN_IS_FAULT(p, final_cotangent_ignored);
    const std::int64_t before = place_before(p, u), after = place_after(u);
    const Strided& of_s = u.closes ? p.d_s_final : p.s_marks;
    const Strided& of_m = u.closes ? p.d_m_final : p.m_marks;
    load_columns<K>(S, ignored ? Strided{} : of_s, after, head, v0, lane);
    if constexpr (momentum) load_columns<K>(M, ignored ? Strided{} : of_m, after, head, v0, lane);
    const std::int64_t step_bytes = Memory::kStates * kept_bytes(K, p.V);
    char* kept = f.d_kept + place(chunks - 1) * step_bytes + (v0 / 8) * (K / 8) * kTileBytes;
    char* kept_x = f.d_residuals + place(chunks - 1) * kept_bytes(kChunk, p.V) +
                   (v0 / 8) * (kChunk / 8) * kTileBytes;
    for (std::int64_t chunk = chunks; chunk-- > 0;) {
      __syncthreads();
      char* from = stage(chunk);
      const float* vectors =
          reinterpret_cast<const float*>(from + Memory::kRecord + kRecordVectors);
      const RowMatrix k{from + Memory::kK};
      std::uint32_t x[kChunk / 16][4], x_low[kChunk / 16][4];  // d_R^T in two parts, then d_X^T
      {
        Columns<kChunk / 8> d_R, of_M;
        d_R.clear();
        if constexpr (momentum) of_M.clear();
#pragma unroll
        for (int step = 0; step < K / 16; ++step) {
          std::uint32_t s[4], m[4];
          S.operand(step, s);
          keep_operand<K / 8>(kept, step, s, lane);
          if constexpr (momentum) {
            M.operand(step, m);
            keep_operand<K / 8>(kept + kept_bytes(K, p.V), step, m, lane);
          }
#pragma unroll
          for (int n = 0; n < kChunk / 8; n += 2) {
            std::uint32_t b[4];
            k.template load_across<false>(b, n, 2 * step, lane);
            multiply(d_R.x[n], s, b[0], b[1]), multiply(d_R.x[n + 1], s, b[2], b[3]);
            if constexpr (momentum) {
              multiply(of_M.x[n], m, b[0], b[1]), multiply(of_M.x[n + 1], m, b[2], b[3]);
            }
          }
        }
        sync_threads(1 + pair, 64);
#pragma unroll
        for (int n = 0; n < kChunk / 8; ++n) {
          const float4 w = of_W()[32 * n + lane];
          const float2 write = factor_of(vectors + kWrite * kChunk, n, lane);
          float(&y)[4] = d_R.x[n];
          y[0] = fmaf(write.x, y[0], w.x), y[1] = fmaf(write.y, y[1], w.y);
          y[2] = fmaf(write.x, y[2], w.z), y[3] = fmaf(write.y, y[3], w.w);
          if constexpr (momentum) {
            const float2 other = factor_of(vectors + kWriteMomentum * kChunk, n, lane);
            const float(&m)[4] = of_M.x[n];
            y[0] = fmaf(-other.x, m[0], y[0]), y[1] = fmaf(-other.y, m[1], y[1]);
            y[2] = fmaf(-other.x, m[2], y[2]), y[3] = fmaf(-other.y, m[3], y[3]);
          }
        }
#pragma unroll
        for (int step = 0; step < kChunk / 16; ++step) {
          d_R.operand(step, x[step]);
          d_R.operand_rest(step, x[step], x_low[step]);
        }
      }
      {
        Columns<kChunk / 8> d_X;
        d_X.clear();
        times_upper(d_X, x_low, {from + Memory::kRecord + kRecordT}, lane);
        times_upper(d_X, x, {from + Memory::kRecord + kRecordTLow}, lane);
        times_upper(d_X, x, {from + Memory::kRecord + kRecordT}, lane);
#pragma unroll
        for (int step = 0; step < kChunk / 16; ++step) {
          d_X.operand(step, x[step]);
          keep_operand<kChunk / 8>(kept_x, step, x[step], lane);
        }
      }
      kept -= p.H * step_bytes, kept_x -= p.H * kept_bytes(kChunk, p.V);
      const float decay = vectors[kEndDecay], carry = vectors[kEndCarry];
      const float mu = vectors[kEndMomentum];
      sync_threads(1 + pairs + pair, 64);
#pragma unroll
      for (int n = 0; n < K / 8; ++n) {
        const float4 s = of_Q(0)[32 * n + lane];
        const float to_S[4] = {s.x, s.y, s.z, s.w};
        if constexpr (momentum) {
          const float4 m = of_Q(1)[32 * n + lane];
          const float to_M[4] = {m.x, m.y, m.z, m.w};
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            M.x[n][e] = fmaf(mu, M.x[n][e], fmaf(-carry, S.x[n][e], to_M[e]));
          }
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) S.x[n][e] = fmaf(decay, S.x[n][e], to_S[e]);
      }
#pragma unroll
      for (int step = 0; step < kChunk / 16; ++step) {
        std::uint32_t s[4], m[4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int n = 2 * step + half;
          float2 a = factor_of(vectors + kDecay * kChunk, n, lane);
          a.x = -a.x, a.y = -a.y;
          s[2 * half] = scaled_pair(x[step][2 * half], a);
          s[2 * half + 1] = scaled_pair(x[step][2 * half + 1], a);
          if constexpr (momentum) {
            const float2 b = factor_of(vectors + kCarry * kChunk, n, lane);
            m[2 * half] = scaled_pair(x[step][2 * half], b);
            m[2 * half + 1] = scaled_pair(x[step][2 * half + 1], b);
          }
        }
#pragma unroll
        for (int n = 0; n < K / 8; n += 2) {
          std::uint32_t b[4];
          k.template load_down<true>(b, 2 * step, n, lane);
          multiply(S.x[n], s, b[0], b[1]), multiply(S.x[n + 1], s, b[2], b[3]);
          if constexpr (momentum) {
            multiply(M.x[n], m, b[0], b[1]), multiply(M.x[n + 1], m, b[2], b[3]);
          }
        }
      }
    }
    store_columns<K>(S, p.d_s0, before, head, v0, lane);
    if constexpr (momentum) store_columns<K>(M, p.d_m0, before, head, v0, lane);
  }
};

}  // namespace assay::cuda

#define ASSAY_MDN_REVERSE(name, momentum, K, pairs)                                              \
  namespace assay::cuda {                                                                        \
  __global__ void __launch_bounds__((ReverseMemory<momentum, K, pairs>::kThreads),               \
                                    1) mdn_reverse_kernel_                                       \
      ##name(const __grid_constant__ MdnFast f) {                                                \
    run_warps<Reverse<momentum, K, pairs>, pairs>(f);                                            \
  }                                                                                              \
  cudaError_t mdn_reverse_##name(const MdnFast& f, cudaStream_t stream) {                        \
    using Memory = ReverseMemory<momentum, K, pairs>;                                            \
    const dim3 grid(static_cast<unsigned>(f.p.units()),                                          \
                    static_cast<unsigned>(f.p.V / (16 * pairs)));                                \
    return launch(mdn_reverse_kernel_##name, grid, Memory::kThreads, Memory::kBytes, stream, f); \
  }                                                                                              \
  }
