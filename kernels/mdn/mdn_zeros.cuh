// Zeros of d_k and d_v for the memories of Mixture-of-Memories that a token does not go to:
// bandwidth that `local` has to spare while it waits for what it reads. Each is some step's to
// store, which is a token's chosen memory (MdnTable::zeros); a block has those of its steps, of its
// head.
#pragma once

#include "kernels/mdn/mdn_fast.cuh"

namespace assay::cuda {

/// By all threads of a block, which wait for nothing but the table: 16 bytes each, rows of d_k and
/// d_v side by side in a warp.
template <int K, int V, int threads>
__device__ __forceinline__ void store_zeros(const MdnParams& p, const MdnPlace& at, int thread) {
  constexpr int kOfK = K / 8, kPieces = (K + V) / 8, kLanes = kPieces <= 16 ? 16 : 32;
  constexpr int kStep = threads / kLanes, kRounds = kChunk / kStep;
  static_assert(kPieces <= 32 && kChunk % kStep == 0);
  const MdnTable& table = p.table;
  if (!table.zeros) return;
  const int piece = thread % kLanes;
  const bool of_k = piece < kOfK;
  if (piece >= kPieces || !(of_k ? table.d_k.looked_up : table.d_v.looked_up)) return;
  const std::int64_t time = of_k ? p.d_k.direct.time : p.d_v.direct.time;
  const std::int64_t to_memory = of_k ? table.d_k.to_memory : table.d_v.to_memory;
  char* const first = of_k ? token_at(p.d_k.direct, 0, 0, at.head) + piece * 16
                           : token_at(p.d_v.direct, 0, 0, at.head) + (piece - kOfK) * 16;
  std::int64_t row[kRounds];
  int token[kRounds];
#pragma unroll
  for (int x = 0; x < kRounds; ++x) {
    const int t = x * kStep + thread / kLanes;
    row[x] = t < at.steps ? at.first + t : -1;
    token[x] = row[x] < 0 ? 0 : table.token[row[x]];
  }
  for (int w = 0; w < table.zero_words; ++w) {
    std::uint32_t left[kRounds];
#pragma unroll
    for (int x = 0; x < kRounds; ++x) {
      left[x] = row[x] < 0 ? 0 : table.zeros[row[x] * table.zero_words + w];
    }
#pragma unroll
    for (int x = 0; x < kRounds; ++x) {
      for (char* const to = first + token[x] * time; left[x] != 0; left[x] &= left[x] - 1) {
        const int memory = 32 * w + __ffs(static_cast<int>(left[x])) - 1;
        __stcs(reinterpret_cast<uint4*>(to + memory * to_memory), make_uint4(0, 0, 0, 0));
        if (ASSAY_MDN_IS_FAULT(p, second_zero_missing)) break;
      }
    }
  }
}

}  // namespace assay::cuda
