// A warp's share of a state as it is carried through time: 16 columns of V, transposed, in
// accumulators. Columns do not depend on each other, so that a warp needs no other.
#pragma once

#include "kernels/mdn/mdn_fast.cuh"

namespace assay::cuda {

/// 16 x (8 tiles) numbers as accumulators: of S^T [16 of V, K] or of R^T [16 of V, kChunk].
template <int tiles>
struct Columns {
  float x[tiles][4];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int n = 0; n < tiles; ++n) x[n][0] = x[n][1] = x[n][2] = x[n][3] = 0;
  }
  /// Operand A of tiles 2 step, 2 step + 1.
  __device__ __forceinline__ void operand(int step, std::uint32_t (&a)[4]) const {
    a[0] = bf16_pair(x[2 * step][0], x[2 * step][1]);
    a[1] = bf16_pair(x[2 * step][2], x[2 * step][3]);
    a[2] = bf16_pair(x[2 * step + 1][0], x[2 * step + 1][1]);
    a[3] = bf16_pair(x[2 * step + 1][2], x[2 * step + 1][3]);
  }
  /// What operand A loses by being bf16.
  __device__ __forceinline__ void operand_rest(int step, const std::uint32_t (&a)[4],
                                               std::uint32_t (&rest)[4]) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float(&y)[4] = x[2 * step + (e >> 1)];
      const int first = 2 * (e & 1);
      rest[e] = bf16_pair(y[first] - low_of(a[e]), y[first + 1] - high_of(a[e]));
    }
  }
  /// Operand A with column c times factor[c].
  __device__ __forceinline__ void operand_times(int step, const float* factor, float sign, int lane,
                                                std::uint32_t (&a)[4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int n = 2 * step + half;
      const float2 f = *reinterpret_cast<const float2*>(factor + 8 * n + 2 * (lane & 3));
      a[2 * half] = bf16_pair(sign * f.x * x[n][0], sign * f.y * x[n][1]);
      a[2 * half + 1] = bf16_pair(sign * f.x * x[n][2], sign * f.y * x[n][3]);
    }
  }
  /// += A B for a B of 16 rows, the tiles of row r (and r + 1) of `b`.
  __device__ __forceinline__ void add_product(const std::uint32_t (&a)[4], const RowMatrix& b,
                                              int r, int lane) {
#pragma unroll
    for (int n = 0; n < tiles; n += 2) {
      std::uint32_t y[4];
      b.template load_down<true>(y, r, n, lane);
      multiply(x[n], a, y[0], y[1]), multiply(x[n + 1], a, y[2], y[3]);
    }
  }
};

/// Factors of the columns of a Columns<kChunk / 8>, for this lane.
__device__ __forceinline__ float2 factor_of(const float* vector, int n, int lane) {
  return *reinterpret_cast<const float2*>(vector + 8 * n + 2 * (lane & 3));
}

template <int K>
__device__ __forceinline__ void load_columns(Columns<K / 8>& s, const Strided& from,
                                             std::int64_t sequence, int head, int v0, int lane) {
  s.clear();
  if (!from.data) return;
  const char* base = state_at(from, sequence, head) + (v0 + (lane >> 2)) * from.column;
#pragma unroll
  for (int n = 0; n < K / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = 8 * n + 2 * (lane & 3) + (e & 1);
      s.x[n][e] = load_element(base + row * from.row + 8 * (e >> 1) * from.column, from.dtype);
    }
  }
}
template <int K>
__device__ __forceinline__ void store_columns(const Columns<K / 8>& s, const Strided& to,
                                              std::int64_t sequence, int head, int v0, int lane) {
  if (!to.data) return;
  char* base = state_at(to, sequence, head) + (v0 + (lane >> 2)) * to.column;
#pragma unroll
  for (int n = 0; n < K / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = 8 * n + 2 * (lane & 3) + (e & 1);
      store_element(base + row * to.row + 8 * (e >> 1) * to.column, to.dtype, s.x[n][e]);
    }
  }
}

/// What a warp of a block of `scan` or `reverse` has: a pair of warps for 16 columns of V of a head
/// of a sequence.
struct MdnWarp {
  const MdnFast& f;
  const MdnParams& p;
  char* memory;
  MdnSegment u;
  int head, pair, lane, block_v0, v0;
  std::int64_t chunks;

  __device__ __forceinline__ MdnWarp(const MdnFast& fast, char* shared, int warp, int pairs)
      : f(fast),
        p(fast.p),
        memory(shared),
        u(segment_of(p, blockIdx.x / static_cast<unsigned>(p.H))),
        head(static_cast<int>(blockIdx.x % static_cast<unsigned>(p.H))),
        pair(warp % pairs),
        lane(static_cast<int>(threadIdx.x & 31)),
        block_v0(static_cast<int>(blockIdx.y) * 16 * pairs),
        v0(block_v0 + 16 * pair),
        chunks((u.length + kChunk - 1) / kChunk) {}

  __device__ __forceinline__ std::int64_t place(std::int64_t chunk) const {
    return (u.first_slot + chunk) * p.H + head;
  }
};

/// A block: the first warp of each pair carries, the second helps, warps beyond the pairs supply.
template <class Run, int pairs>
__device__ __forceinline__ void run_warps(const MdnFast& f) {
  ASSAY_SHARED_MEMORY(memory);
  // The same in all lanes, as the compiler can tell: roles do not part within a warp.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x >> 5), 0);
  const Run run(f, memory, warp, pairs);
  if (passes_over(run.p, run.u)) return;
  if (warp < pairs) {
    run.carry();
  } else if (warp < 2 * pairs) {
    run.help();
  } else {
    run.supply();
  }
}

/// Where the states before and after a unit's part of its sequence are, or their cotangents: in the
/// tensors of the call or, between windows, in marks.
__device__ __forceinline__ std::int64_t place_before(const MdnParams& p, const MdnSegment& u) {
  return p.first_chunk == 0 ? u.sequence : u.mark;
}
__device__ __forceinline__ std::int64_t place_after(const MdnSegment& u) {
  return u.closes ? u.sequence : u.mark + 1;
}

/// Operand A of step `step` into tiles [2, columns] of a matrix in global memory.
template <int columns>
__device__ __forceinline__ void keep_operand(char* to, int step, const std::uint32_t (&a)[4],
                                             int lane) {
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const int tile = (e & 1) * columns + 2 * step + (e >> 1);
    *reinterpret_cast<std::uint32_t*>(to + tile * kTileBytes + lane * 4) = a[e];
  }
}

/// Bytes of a kept state of K x V, or of a kept residual of kChunk x V.
__device__ __forceinline__ std::int64_t kept_bytes(int width, int V) {
  return std::int64_t{2} * width * V;
}

}  // namespace assay::cuda
