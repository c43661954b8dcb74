// The cotangents of a sequence's final states are the caller's, in fp32 and of any size, and those
// of the last chunk's coefficients hang on them alone: where terms cancel, what bf16 takes from one
// stands out. So the products that give them are made up for. With k of a step, R its residual, d_S
// the final cotangent, and ~ for what bf16 leaves of it, k · (R d_S^T) lacks
//
//   k · (R~ (d_S - d_S~)^T + (R - R~) d_S^T)
#include "kernels/mdn/mdn_carry.cuh"

namespace assay::cuda {
namespace {

constexpr int kThreads = 256, kGroup = 8;  // steps of a block: a row of a tile

__device__ __forceinline__ float number_of(const uint4& row, int e) {
  const std::uint32_t words[4] = {row.x, row.y, row.z, row.w};
  return e % 2 == 0 ? low_of(words[e / 2]) : high_of(words[e / 2]);
}

/// What each step of the group lacks, by the rows and columns of d_S that are the thread's.
__device__ __forceinline__ void add_lack(float (&lack)[kGroup], const MdnParams& p,
                                         const Strided& from, const MdnPlace& at,
                                         std::int64_t sequence, const float (*keys)[kGroup],
                                         const uint4& residual, const uint4& rest) {
  const int v = static_cast<int>(threadIdx.x) % p.V, first = static_cast<int>(threadIdx.x) / p.V;
  const char* row = state_at(from, sequence, at.head) + v * from.column;
  float whole[kGroup] = {}, low[kGroup] = {};
  for (int x = first; x < p.K; x += kThreads / p.V) {
    const float d = load_element(row + x * from.row, from.dtype);
    const float lost = d - low_of(bf16_pair(d, 0));
#pragma unroll
    for (int e = 0; e < kGroup; ++e) {
      whole[e] = fmaf(keys[x][e], d, whole[e]);
      low[e] = fmaf(keys[x][e], lost, low[e]);
    }
  }
#pragma unroll
  for (int e = 0; e < kGroup; ++e) {
    lack[e] = fmaf(low[e], number_of(residual, e), whole[e] * number_of(rest, e));
  }
}

__global__ void __launch_bounds__(kThreads) mdn_last_kernel(const __grid_constant__ MdnFast f) {
  __shared__ float keys[kMaxMdnWidth][kGroup];
  __shared__ float sums[2][kThreads / 32][kGroup];
  const MdnParams& p = f.p;
  const int matrices = p.momentum ? 2 : 1;
  const MdnSegment u = segment_of(p, blockIdx.x / static_cast<unsigned>(p.H));
  const std::int64_t chunks = (u.length + kChunk - 1) / kChunk;
  if (chunks == 0 || !u.closes) return;
  MdnPlace at;
  at.head = static_cast<int>(blockIdx.x % static_cast<unsigned>(p.H));
  at.batch = u.batch, at.first = u.first + (chunks - 1) * kChunk;
  at.index = (u.first_slot + chunks - 1) * p.H + at.head;
  at.steps = static_cast<int>(u.length - (chunks - 1) * kChunk);
  const int group = static_cast<int>(blockIdx.y), thread = static_cast<int>(threadIdx.x);
  const MdnRows rows = k_rows(p, u.sequence, at.batch, at.first, at.head);
  for (int x = thread; x < p.K * kGroup; x += kThreads) {
    const int t = group * kGroup + x % kGroup, column = x / kGroup;
    float key = 0;
    if (t < at.steps) {
      const std::int64_t row = rows.token ? rows.token[t] : t;
      key = load_element(rows.data + row * rows.time + column * rows.column, p.k.dtype);
    }
    keys[column][x % kGroup] = key;
  }
  __syncthreads();
  // R^T in tiles: a row holds eight steps of one column of V.
  const int v = thread % p.V;
  const std::int64_t tile = ((v / 8) * (kChunk / 8) + group) * kTileBytes + v % 8 * 16;
  const uint4 residual =
      *reinterpret_cast<const uint4*>(f.residuals + at.index * kept_bytes(kChunk, p.V) + tile);
  const uint4 rest = *reinterpret_cast<const uint4*>(f.residual_rests +
                                                     blockIdx.x * kept_bytes(kChunk, p.V) + tile);
  for (int which = 0; which < matrices; ++which) {
    const Strided& d_final = which == 0 ? p.d_s_final : p.d_m_final;
    float lack[kGroup] = {};
    if (d_final.data) add_lack(lack, p, d_final, at, u.sequence, keys, residual, rest);
#pragma unroll
    for (int e = 0; e < kGroup; ++e) {
      const float sum = warp_sum(lack[e]);
      if (thread % 32 == 0) sums[which][thread / 32][e] = sum;
    }
  }
  __syncthreads();
  const int which = thread / kGroup, e = thread % kGroup;
  if (which >= matrices) return;
  float sum = 0;
  for (int warp = 0; warp < kThreads / 32; ++warp) sum += sums[which][warp][e];
  f.cotangents[at.index * kCotangentFloats + (which == 0 ? kOfWriteS : kOfWriteM) + group * kGroup +
               e] += sum;
}

}  // namespace

cudaError_t mdn_last(const MdnFast& f, cudaStream_t stream) {
  const bool ignored = ASSAY_MDN_IS_FAULT(f.p, final_cotangent_ignored);
  if (f.full || ignored || (!f.p.d_s_final.data && !f.p.d_m_final.data)) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>(f.p.units()), kChunk / kGroup);
  return launch(mdn_last_kernel, grid, kThreads, 0, stream, f);
}

}  // namespace assay::cuda
