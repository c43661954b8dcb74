// What the fast kernels share: places of chunks, rows in tiles, and the chunk's coefficients.
#pragma once

#include "kernels/common/cuda/tensor.cuh"
#include "kernels/mdn/mdn_fast.hpp"
#include "kernels/mdn/mdn_unit.cuh"

namespace assay::cuda {

/// A chunk of a sequence and a head, of a block that has no unit of its own.
struct MdnPlace {
  std::int64_t batch, first;  // of its first step in the tensors
  std::int64_t index;         // slot * H + head
  int head, steps;            // steps 0: nobody's
};

__device__ __forceinline__ MdnPlace place_of(const MdnParams& p, unsigned index) {
  const unsigned heads = p.H, slot = index / heads;
  MdnPlace at;
  at.index = index, at.head = static_cast<int>(index - slot * heads);
  std::int64_t sequence;
  if (p.cu_seqlens) {  // the last sequence whose slots begin at or before this one
    std::int64_t low = 0, high = p.sequences - 1;
    while (low < high) {
      const std::int64_t middle = (low + high + 1) / 2;
      if (segment_bound(p, middle) / kChunk + middle <= slot) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    sequence = low;
  } else {
    sequence = slot / static_cast<unsigned>((p.T + kChunk - 1) / kChunk);
  }
  const MdnSegment u = segment_of(p, sequence);
  const std::int64_t chunk = slot - u.first_slot, left = u.length - chunk * kChunk;
  at.batch = u.batch, at.first = u.first + chunk * kChunk;
  at.steps = left <= 0 ? 0 : left < kChunk ? static_cast<int>(left) : kChunk;
  return at;
}

/// The rows of a head of q, k, v or d_o from some step and column on.
struct MdnRows {
  const char* first;
  std::int64_t time, column;
  bool wide;

  MdnRows() = default;
  __device__ __forceinline__ MdnRows(const Strided& x, std::int64_t batch, std::int64_t t, int head,
                                     int from_column)
      : first(token_at(x, batch, t, head) + from_column * x.column),
        time(x.time),
        column(x.column),
        wide(x.wide) {}

  /// The `steps` rows from step t0 on into tiles, zeros after them.
  template <int columns, int threads>
  __device__ __forceinline__ void copy(char* to, std::int64_t t0, int steps,
                                       unsigned thread) const {
    const char* from = first + t0 * time;
    if (wide) {
      copy_rows<kChunk, columns, threads>(to, from, time, steps, thread);
      return;
    }
#pragma unroll 1
    for (int piece = thread; piece < kChunk * columns; piece += threads) {
      const int row = piece / (8 * columns) * 8 + piece % 8, y = piece / 8 % columns * 8;
      const char* source = from + row * time + y * column;
      std::uint32_t pairs[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const auto bits = [&](int z) -> std::uint32_t {
          return row < steps ? *reinterpret_cast<const std::uint16_t*>(source + z * column) : 0;
        };
        pairs[e] = bits(2 * e) | bits(2 * e + 1) << 16;
      }
      *reinterpret_cast<uint4*>(to + piece * 16) =
          make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    }
  }
};
template <int columns, int threads>
__device__ __forceinline__ void copy_tokens(char* to, const Strided& x, const MdnPlace& at,
                                            int from_column, unsigned thread) {
  MdnRows(x, at.batch, at.first, at.head, from_column)
      .template copy<columns, threads>(to, 0, at.steps, thread);
}

__device__ __forceinline__ MdnGates chunk_gates(const MdnParams& p, const MdnPlace& at, int t) {
  MdnGates g;
  if (t < at.steps) g = load_gates(p, at.batch, at.first + t, at.head);
  if (t >= at.steps && ASSAY_MDN_IS_FAULT(p, tail_chunk_decays)) g.alpha = 0.5f;
  return g;
}

/// One column of γ and m from step `from` on (of ᾱ: γ = 1, m = 0 before; of b and μ̄: γ = 0, m = 1),
/// each(i, γ_i, m_i).
template <bool momentum, class Each>
__device__ __forceinline__ void follow_column(const float* alpha, const float* mu,
                                              const float* beta, int from, float gamma, float m,
                                              const Each& each) {
#pragma unroll 4
  for (int i = from; i < kChunk; ++i) {
    if constexpr (momentum) {
      m *= mu[i];
      gamma = fmaf(alpha[i], gamma, beta[i] * m);
    } else {
      gamma *= alpha[i];
    }
    each(i, gamma, m);
  }
}

}  // namespace assay::cuda
