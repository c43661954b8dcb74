// Top-k routing of tokens to memories, and their dispatch into (sequence, memory) segments.
// [MoM v4, Eqs. 3-4, Sec. 3.3]
//
// A token has slots: its top_k memories, best first, and the shared memory, if there is one, which
// sees every token and counts as memory M with weight 1. The pairs (token, slot) are sorted by
// segment s R + m, R = M + (1 if shared), with time order kept inside a segment: a counting sort
// over tiles of kRouteTile tokens, the same bits in every run.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/common/cuda/strided.hpp"
#include "kernels/common/cuda/workspace.hpp"

namespace assay::cuda {

inline constexpr int kRouteTile = 256;

/// An integer tensor without gaps, of 64 or 32 bits; nothing is stored where there is none.
struct Integers {
  char* data = nullptr;
  bool wide = true;
};
inline Integers integers(const cpu::View* view) {
  if (!view) return {};
  return {static_cast<char*>(view->data), view->dtype == DType::i64};
}

struct Routing {
  Strided logits;  // [B,T,M], a memory per column
  std::int64_t batches = 0, T = 0;
  int M = 0, top_k = 0;
  bool shared = false;
  const char* cu_seqlens = nullptr;  // [sequences + 1] in device memory, with one batch
  std::int64_t sequences = 0, cu_stride = 1;
  bool cu_is_i32 = false;

  // Results. Rows are counted in the sorted order.
  int* memory = nullptr;                                // [tokens, slots]
  float* weight = nullptr;                              // [tokens, slots]
  int* row = nullptr;                                   // [tokens, slots]
  std::int64_t* bounds = nullptr;                       // [sequences R + 1], of the segments
  Integers out_memory, out_row, out_token, out_bounds;  // copies for whoever asks
  /// Bit m of a row: it has memory m to fill with zeros. A token's rows take turns at the memories
  /// that it does not go to, the shared memory's has none. Only if asked for (take_zeros).
  std::uint32_t* zeros = nullptr;  // [rows, zero_words]

  // On the way: tokens of each memory before each tile, and before each sequence.
  int* before_tile = nullptr;      // [R, tiles + 1]
  int* before_sequence = nullptr;  // [sequences + 1, R]

  // Asked on both sides.
#define ASSAY_BOTH __host__ __device__
  ASSAY_BOTH std::int64_t tokens() const { return batches * T; }
  ASSAY_BOTH std::int64_t tiles() const { return (tokens() + kRouteTile - 1) / kRouteTile; }
  ASSAY_BOTH int R() const { return M + (shared ? 1 : 0); }
  ASSAY_BOTH int slots() const { return top_k + (shared ? 1 : 0); }
  ASSAY_BOTH std::int64_t rows() const { return tokens() * slots(); }
  ASSAY_BOTH std::int64_t segments() const { return sequences * R(); }
  ASSAY_BOTH int zero_words() const { return (M + 31) / 32; }
#undef ASSAY_BOTH
};

/// Pieces of the workspace for `route`, and for `dispatch` too.
void take_routing(Routing& r, Workspace& memory, bool dispatched);
void take_zeros(Routing& r, Workspace& memory);

/// memory and weight; in before_tile, tokens of each memory in each tile. Ties and NaN: as
/// kernels/common/routing.hpp has it.
cudaError_t route(const Routing& r, cudaStream_t stream);

/// before_tile as it is described, after `route`. `dispatch` needs no such call.
cudaError_t add_tiles(const Routing& r, cudaStream_t stream);

/// row, bounds and zeros, after `route`.
cudaError_t dispatch(const Routing& r, cudaStream_t stream);

}  // namespace assay::cuda
