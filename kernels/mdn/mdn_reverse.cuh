// Backward through time. A warp carries 16 columns of the cotangents of S and M, transposed:
//
//   d_R = scale W^T d_O + γ_C η (k d_S) - m_C η (k d_M)    d_X = T^T d_R
//   d_S' = ᾱ_C d_S + (scale ᾱ Q)^T d_O - (ᾱ K)^T d_X
//   d_M' = μ̄_C d_M - b_C d_S - (scale b Q)^T d_O + (b' K)^T d_X
#pragma once

#include "kernels/mdn/mdn_carry.cuh"

namespace assay::cuda {

template <bool momentum, int K, int warps>
struct ReverseMemory {
  static constexpr int kStates = momentum ? 2 : 1;
  static constexpr int kRows = kChunk * K * 2, kValues = kChunk * 16 * warps * 2;
  static constexpr int kQ = 0, kK = kRows, kU = 2 * kRows, kRecord = kU + kValues;
  static constexpr int kStage = kRecord + kRecordBytes, kBytes = 2 * kStage;
};

/// += Y^T L for a lower triangular L in tiles and Y^T [16, kChunk] as operands A.
__device__ __forceinline__ void times_upper(Columns<kChunk / 8>& out,
                                            const std::uint32_t (&a)[kChunk / 16][4],
                                            const TileMatrix<kChunk / 8>& lower, int lane) {
#pragma unroll
  for (int n = 0; n < kChunk / 8; n += 2) {
#pragma unroll
    for (int step = n / 2; step < kChunk / 16; ++step) {
      std::uint32_t b[4];
      lower.load_down<true>(b, 2 * step, n, lane);
      multiply(out.x[n], a[step], b[0], b[1]), multiply(out.x[n + 1], a[step], b[2], b[3]);
    }
  }
}

template <bool momentum, int K, int warps>
__device__ __forceinline__ void reverse_block(const MdnFast& f) {
  using Memory = ReverseMemory<momentum, K, warps>;
  constexpr int kThreads = 32 * warps;
  ASSAY_SHARED_MEMORY(memory);
  const MdnParams& p = f.p;
  const unsigned unit = blockIdx.x, heads = p.H;
  const MdnSegment u = segment_of(p, unit / heads);
  const int head = static_cast<int>(unit % heads), lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int block_v0 = static_cast<int>(blockIdx.y) * 16 * warps, v0 = block_v0 + 16 * warp;
  const std::int64_t chunks = (u.length + kChunk - 1) / kChunk;
  const auto place = [&](std::int64_t chunk) {
    MdnPlace at;
    const std::int64_t left = u.length - chunk * kChunk;
    at.batch = u.batch, at.first = u.first + chunk * kChunk;
    at.index = (u.first_slot + chunk) * p.H + head;
    at.head = head, at.steps = left < kChunk ? static_cast<int>(left) : kChunk;
    return at;
  };
  const auto rows = [&](const Strided& x, int column) {
    return MdnRows(x, u.batch, u.first, head, column);
  };
  const MdnRows q_rows = rows(p.q, 0), k_rows = rows(p.k, 0);
  const MdnRows u_rows = p.d_o.data ? rows(p.d_o, block_v0) : q_rows;
  const auto fetch = [&](std::int64_t chunk) {
    const std::int64_t t0 = chunk * kChunk, left = u.length - t0;
    const int steps = left < kChunk ? static_cast<int>(left) : kChunk;
    char* to = memory + (chunk & 1) * Memory::kStage;
    const unsigned thread = threadIdx.x;
    q_rows.template copy<K / 8, kThreads>(to + Memory::kQ, t0, steps, thread);
    k_rows.template copy<K / 8, kThreads>(to + Memory::kK, t0, steps, thread);
    if (p.d_o.data) u_rows.template copy<2 * warps, kThreads>(to + Memory::kU, t0, steps, thread);
    copy_piece<kRecordBytes, kThreads>(
        to + Memory::kRecord, f.records + ((u.first_slot + chunk) * p.H + head) * kRecordBytes,
        thread);
    copy_commit();
  };
  if (!p.d_o.data) {
    for (int stage = 0; stage < 2; ++stage) {
      char* at = memory + stage * Memory::kStage + Memory::kU;
      for (int x = threadIdx.x * 16; x < Memory::kValues; x += kThreads * 16) {
        *reinterpret_cast<uint4*>(at + x) = make_uint4(0, 0, 0, 0);
      }
    }
  }
  if (chunks > 0) fetch(chunks - 1);
  Columns<K / 8> S, M;  // cotangents
  const bool ignored = ASSAY_MDN_IS_FAULT(p, final_cotangent_ignored);
  load_columns<K>(S, ignored ? Strided{} : p.d_s_final, u.sequence, head, v0, lane);
  if constexpr (momentum) {
    load_columns<K>(M, ignored ? Strided{} : p.d_m_final, u.sequence, head, v0, lane);
  }
  for (std::int64_t chunk = chunks; chunk-- > 0;) {
    copy_wait<0>();
    __syncthreads();
    if (chunk > 0) fetch(chunk - 1);
    char* from = memory + (chunk & 1) * Memory::kStage;
    const float* vectors = reinterpret_cast<const float*>(from + Memory::kRecord + kRecordVectors);
    const TileMatrix<K / 8> q{from + Memory::kQ}, k{from + Memory::kK};
    const TileMatrix<2 * warps> u_tiles{from + Memory::kU};
    const MdnPlace at = place(chunk);
    std::uint32_t out[kChunk / 16][4], x[kChunk / 16][4];  // d_O^T, then d_R^T and d_X^T
    {
      Columns<kChunk / 8> d_R, of_M;
      d_R.clear();
      if constexpr (momentum) of_M.clear();
      char* kept = f.d_kept + at.index * Memory::kStates * kept_bytes(K, p.V) +
                   (v0 / 8) * (K / 8) * kTileBytes;
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
#pragma unroll
      for (int n = 0; n < kChunk / 8; ++n) {
        const float2 write = factor_of(vectors + kWrite * kChunk, n, lane);
        float(&y)[4] = d_R.x[n];
        y[0] *= write.x, y[1] *= write.y, y[2] *= write.x, y[3] *= write.y;
        if constexpr (momentum) {
          const float2 other = factor_of(vectors + kWriteMomentum * kChunk, n, lane);
          const float(&m)[4] = of_M.x[n];
          y[0] = fmaf(-other.x, m[0], y[0]), y[1] = fmaf(-other.y, m[1], y[1]);
          y[2] = fmaf(-other.x, m[2], y[2]), y[3] = fmaf(-other.y, m[3], y[3]);
        }
      }
#pragma unroll
      for (int step = 0; step < kChunk / 16; ++step) {
        // Operand A of d_O^T: tiles (steps, first 8 columns), (steps, other 8), (next 8 steps, ..).
        u_tiles.template load_across<true>(out[step], 2 * step, 2 * warp, lane);
      }
      times_upper(d_R, out, {from + Memory::kRecord + kRecordW}, lane);
#pragma unroll
      for (int step = 0; step < kChunk / 16; ++step) d_R.operand(step, x[step]);
    }
    {
      Columns<kChunk / 8> d_X;
      d_X.clear();
      times_upper(d_X, x, {from + Memory::kRecord + kRecordT}, lane);
      char* kept =
          f.d_residuals + at.index * kept_bytes(kChunk, p.V) + (v0 / 8) * (kChunk / 8) * kTileBytes;
#pragma unroll
      for (int step = 0; step < kChunk / 16; ++step) {
        d_X.operand(step, x[step]);
        keep_operand<kChunk / 8>(kept, step, x[step], lane);
      }
    }
    const float decay = vectors[kEndDecay], carry = vectors[kEndCarry], mu = vectors[kEndMomentum];
#pragma unroll
    for (int n = 0; n < K / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if constexpr (momentum) M.x[n][e] = fmaf(-carry, S.x[n][e], mu * M.x[n][e]);
        S.x[n][e] *= decay;
      }
    }
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step) {
      std::uint32_t to_S[4], to_M[4], x_S[4], x_M[4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int n = 2 * step + half;
        const float2 a = factor_of(vectors + kDecay * kChunk, n, lane);
        const float2 a_out = {a.x * p.scale, a.y * p.scale}, a_x = {-a.x, -a.y};
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          to_S[e] = scaled_pair(out[step][e], a_out), x_S[e] = scaled_pair(x[step][e], a_x);
        }
        if constexpr (momentum) {
          const float2 b = factor_of(vectors + kReadCarry * kChunk, n, lane);
          const float2 b_out = {-b.x * p.scale, -b.y * p.scale};
          const float2 b_x = factor_of(vectors + kCarry * kChunk, n, lane);
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) {
            to_M[e] = scaled_pair(out[step][e], b_out), x_M[e] = scaled_pair(x[step][e], b_x);
          }
        }
      }
#pragma unroll
      for (int n = 0; n < K / 8; n += 2) {
        std::uint32_t b[4];
        q.template load_down<true>(b, 2 * step, n, lane);
        multiply(S.x[n], to_S, b[0], b[1]), multiply(S.x[n + 1], to_S, b[2], b[3]);
        if constexpr (momentum) {
          multiply(M.x[n], to_M, b[0], b[1]), multiply(M.x[n + 1], to_M, b[2], b[3]);
        }
        k.template load_down<true>(b, 2 * step, n, lane);
        multiply(S.x[n], x_S, b[0], b[1]), multiply(S.x[n + 1], x_S, b[2], b[3]);
        if constexpr (momentum) {
          multiply(M.x[n], x_M, b[0], b[1]), multiply(M.x[n + 1], x_M, b[2], b[3]);
        }
      }
    }
  }
  store_columns<K>(S, p.d_s0, u.sequence, head, v0, lane);
  if constexpr (momentum) store_columns<K>(M, p.d_m0, u.sequence, head, v0, lane);
}

}  // namespace assay::cuda

#define ASSAY_MDN_REVERSE(name, momentum, K, warps)                       \
  namespace assay::cuda {                                                 \
  __global__ void __launch_bounds__(32 * warps, 1) mdn_reverse_kernel_    \
      ##name(const __grid_constant__ MdnFast f) {                         \
    reverse_block<momentum, K, warps>(f);                                 \
  }                                                                       \
  cudaError_t mdn_reverse_##name(const MdnFast& f, cudaStream_t stream) { \
    const dim3 grid(static_cast<unsigned>(f.p.units()),                   \
                    static_cast<unsigned>(f.p.V / (16 * warps)));         \
    return launch(mdn_reverse_kernel_##name, grid, 32 * warps,            \
                  ReverseMemory<momentum, K, warps>::kBytes, stream, f);  \
  }                                                                       \
  }
