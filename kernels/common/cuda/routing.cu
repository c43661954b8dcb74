// Routing and dispatch on the device; see routing.hpp.
#include "kernels/common/cuda/device.cuh"
#include "kernels/common/cuda/element.cuh"
#include "kernels/common/cuda/items.cuh"
#include "kernels/common/cuda/routing.hpp"

namespace assay::cuda {

namespace {

constexpr int kRange = 512;  // memories counted at a time
constexpr int kTileWarps = kRouteTile / 32;

__device__ __forceinline__ void put(const Integers& out, std::int64_t at, std::int64_t x) {
  if (!out.data) return;
  if (out.wide) {
    reinterpret_cast<std::int64_t*>(out.data)[at] = x;
  } else {
    reinterpret_cast<std::int32_t*>(out.data)[at] = static_cast<std::int32_t>(x);
  }
}

__device__ __forceinline__ std::int64_t sequence_begin(const Routing& r, std::int64_t s) {
  if (!r.cu_seqlens) return s * r.T;
  const std::int64_t at = s * r.cu_stride;
  return r.cu_is_i32 ? reinterpret_cast<const std::int32_t*>(r.cu_seqlens)[at]
                     : reinterpret_cast<const std::int64_t*>(r.cu_seqlens)[at];
}

/// The sequence of a token: the last that begins at or before it (those before may be empty).
__device__ __forceinline__ std::int64_t sequence_of(const Routing& r, std::int64_t token) {
  if (!r.cu_seqlens) return token / r.T;
  std::int64_t low = 0, high = r.sequences;
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (sequence_begin(r, middle) <= token ? low : high) = middle;
  }
  return low;
}

/// Larger for what is chosen first; equal for equal numbers, 0 for NaN.
__device__ __forceinline__ std::uint32_t order_key(float x) {
  if (x != x) return 0;
  const std::uint32_t bits = __float_as_uint(x + 0.0f);  // -0 is 0
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

__device__ void choose(const Routing& r, std::int64_t token) {
  const char* logits = r.logits.data + token / r.T * r.logits.batch + token % r.T * r.logits.time;
  int* memory = r.memory + token * r.slots();
  float* weight = r.weight + token * r.slots();
  std::uint32_t last_key = 0xffffffffu;  // beyond every number's
  int last = -1;
  float largest = 0, sum = 0;
  for (int j = 0; j < r.top_k; ++j) {
    std::uint32_t best_key = 0;
    int best = -1;
    float best_logit = 0;
    for (int m = 0; m < r.M; ++m) {
      const float x = load_element(logits + m * r.logits.column, r.logits.dtype);
      const std::uint32_t key = order_key(x);
      const bool after = key < last_key || (key == last_key && m > last);
      if (after && (best < 0 || key > best_key)) best_key = key, best = m, best_logit = x;
    }
    if (j == 0) largest = best_logit;
    const float w = expf(best_logit - largest);
    memory[j] = best, weight[j] = w, sum += w;
    last_key = best_key, last = best;
  }
  for (int j = 0; j < r.top_k; ++j) weight[j] = weight[j] / sum;
  if (r.shared) memory[r.top_k] = r.M, weight[r.top_k] = 1;
  for (int j = 0; j < r.top_k; ++j) put(r.out_memory, token * r.top_k + j, memory[j]);
}

__global__ void __launch_bounds__(kRouteTile) route_kernel(const __grid_constant__ Routing r) {
  __shared__ int counts[kRange];
  const std::int64_t token = blockIdx.x * std::int64_t{kRouteTile} + threadIdx.x;
  const bool mine = token < r.tokens();
  if (mine) choose(r, token);
  const int R = r.R(), slots = r.slots();
  for (int first = 0; first < R; first += kRange) {
    for (int i = threadIdx.x; i < kRange; i += kRouteTile) counts[i] = 0;
    __syncthreads();
    for (int j = 0; mine && j < slots; ++j) {
      const int m = r.memory[token * slots + j] - first;
      if (m >= 0 && m < kRange) atomicAdd(&counts[m], 1);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kRange && first + i < R; i += kRouteTile) {
      r.before_tile[(first + i) * (r.tiles() + 1) + blockIdx.x] = counts[i];
    }
    __syncthreads();
  }
}

/// Counts of tiles become sums of the tiles before; a warp per memory. The last is that of all.
__global__ void before_tiles_kernel(const __grid_constant__ Routing r) {
  const int lane = threadIdx.x % 32;
  const std::int64_t tiles = r.tiles();
  for (int m = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; m < r.R();
       m += gridDim.x * (blockDim.x / 32)) {
    int* counts = r.before_tile + m * (tiles + 1);
    int before = 0;
    for (std::int64_t first = 0; first <= tiles; first += 32) {
      const std::int64_t i = first + lane;
      const int mine = i < tiles ? counts[i] : 0;
      int sum = mine;
      for (int n = 1; n < 32; n *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, sum, n);
        if (lane >= n) sum += other;
      }
      if (i <= tiles) counts[i] = before + sum - mine;
      before += __shfl_sync(0xffffffffu, sum, 31);
    }
  }
}

/// Tokens of each memory before each sequence: those of whole tiles, and of a part of one.
__global__ void __launch_bounds__(kRouteTile)
    before_sequences_kernel(const __grid_constant__ Routing r) {
  __shared__ int counts[kRange];
  const std::int64_t s = blockIdx.x, begin = sequence_begin(r, s);
  const std::int64_t tile = begin / kRouteTile, token = tile * kRouteTile + threadIdx.x;
  const int R = r.R(), slots = r.slots();
  for (int first = 0; first < R; first += kRange) {
    for (int i = threadIdx.x; i < kRange; i += kRouteTile) counts[i] = 0;
    __syncthreads();
    for (int j = 0; token < begin && j < slots; ++j) {
      const int m = r.memory[token * slots + j] - first;
      if (m >= 0 && m < kRange) atomicAdd(&counts[m], 1);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kRange && first + i < R; i += kRouteTile) {
      r.before_sequence[s * R + first + i] =
          r.before_tile[(first + i) * (r.tiles() + 1) + tile] + counts[i];
    }
    __syncthreads();
  }
}

/// Of a block: the sum of the numbers of the threads before this one, and of all.
struct BlockSums {
  int before, all;
};
/// Ends with reads of `sums`: a barrier must come before the next call.
template <int warps>
__device__ __forceinline__ BlockSums sum_before(int mine, int (&sums)[warps]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int sum = mine;
  for (int n = 1; n < 32; n *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, sum, n);
    if (lane >= n) sum += other;
  }
  if (lane == 31) sums[warp] = sum;
  __syncthreads();
  int of_warps = 0, all = 0;
  for (int w = 0; w < warps; ++w) {
    if (w == warp) of_warps = all;
    all += sums[w];
  }
  return {of_warps + sum - mine, all};
}

/// The bounds of the segments, by one block: a scan of their lengths.
__global__ void __launch_bounds__(1024) bounds_kernel(const __grid_constant__ Routing r) {
  __shared__ int sums[32];
  const int R = r.R();
  std::int64_t before = 0;
  for (std::int64_t first = 0; first <= r.segments(); first += 1024) {
    const std::int64_t i = first + threadIdx.x;
    int mine = 0;
    if (i < r.segments()) mine = r.before_sequence[i + R] - r.before_sequence[i];
    const BlockSums sum = sum_before(mine, sums);
    if (i <= r.segments()) {
      r.bounds[i] = before + sum.before;
      put(r.out_bounds, i, r.bounds[i]);
    }
    before += sum.all;
    __syncthreads();
  }
}

/// The zeros of a row: of slot j, memories j, j + top_k, ... of those that are not chosen.
__device__ __forceinline__ void store_zeros(const Routing& r, std::int64_t token, int j,
                                            std::int64_t row) {
  const int* memory = r.memory + token * r.slots();
  int turn = 0;
  for (int w = 0; w < r.zero_words(); ++w) {
    const int width = min(r.M - 32 * w, 32);
    std::uint32_t chosen = 0, mine = 0;
    for (int i = 0; i < r.top_k; ++i) {
      if (memory[i] / 32 == w) chosen |= 1u << memory[i] % 32;
    }
    for (int m = 0; m < width; ++m) {
      if (chosen >> m & 1) continue;
      if (turn == j) mine |= 1u << m;
      turn = turn + 1 == r.top_k ? 0 : turn + 1;
    }
    r.zeros[row * r.zero_words() + w] = mine;
  }
}

/// Rows of the pairs of a tile: the tokens of the same memory before them are bits of masks.
/// `first_of` is the row of the tile's first pair of a memory.
template <class FirstRow>
__device__ __forceinline__ void store_rows(const Routing& r, const FirstRow& first_of) {
  __shared__ unsigned masks[kRange][kTileWarps];
  const std::int64_t token = blockIdx.x * std::int64_t{kRouteTile} + threadIdx.x;
  const bool mine = token < r.tokens();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, R = r.R(), slots = r.slots();
  const std::int64_t s = mine ? sequence_of(r, token) : 0;
  for (int first = 0; first < R; first += kRange) {
    const int range = min(R - first, kRange);
    for (int i = threadIdx.x; i < range * kTileWarps; i += kRouteTile) (&masks[0][0])[i] = 0;
    __syncthreads();
    for (int j = 0; mine && j < slots; ++j) {
      const int m = r.memory[token * slots + j] - first;
      if (m >= 0 && m < kRange) atomicOr(&masks[m][warp], 1u << lane);
    }
    __syncthreads();
    for (int j = 0; mine && j < slots; ++j) {
      const int m = r.memory[token * slots + j], i = m - first;
      if (i < 0 || i >= kRange) continue;
      int rank = __popc(masks[i][warp] & ((1u << lane) - 1));
      for (int w = 0; w < warp; ++w) rank += __popc(masks[i][w]);
      const std::int64_t row = first_of(s, m) + rank;
      r.row[token * slots + j] = static_cast<int>(row);
      put(r.out_row, token * slots + j, row);
      put(r.out_token, row, token);
      if (r.zeros) store_zeros(r, token, j, row);
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kRouteTile) rows_kernel(const __grid_constant__ Routing r) {
  store_rows(r, [&](std::int64_t s, int m) {
    return r.bounds[s * r.R() + m] + r.before_tile[m * (r.tiles() + 1) + blockIdx.x] -
           r.before_sequence[s * r.R() + m];
  });
}

// Where that is little work, every block finds for itself what three launches would find for all.
constexpr std::int64_t kAloneCounts = 4096, kAloneSegments = kRouteTile - 1;

bool sorts_alone(const Routing& r) {
  return !r.cu_seqlens && r.T > 0 && r.T % kRouteTile == 0 && r.tiles() * r.R() <= kAloneCounts &&
         r.segments() <= kAloneSegments;
}

/// `rows` from the counts of the tiles; bounds by the way. Sequences are of whole tiles.
__global__ void __launch_bounds__(kRouteTile) rows_alone_kernel(const __grid_constant__ Routing r) {
  __shared__ int counts[kAloneCounts];  // [R, tiles]
  __shared__ int begin[kRouteTile], sums[kTileWarps];
  const int R = r.R(), tiles = static_cast<int>(r.tiles()), thread = threadIdx.x;
  const int segments = static_cast<int>(r.segments());
  const int each = static_cast<int>(r.T / kRouteTile), tile = blockIdx.x;
  for (int i = thread; i < R * tiles; i += kRouteTile) {
    counts[i] = r.before_tile[i / tiles * (tiles + 1) + i % tiles];
  }
  __syncthreads();
  int length = 0, here = 0;  // of a segment, and of it before this tile
  if (thread < segments) {
    const int from = thread / R * each;
    for (int i = from; i < from + each; ++i) {
      const int count = counts[thread % R * tiles + i];
      length += count;
      if (i < tile) here += count;
    }
  }
  const int bound = sum_before(length, sums).before;
  if (tile == 0 && thread <= segments) {
    r.bounds[thread] = bound;
    put(r.out_bounds, thread, bound);
  }
  begin[thread] = bound + here;
  __syncthreads();
  store_rows(r, [&](std::int64_t s, int m) { return begin[s * R + m]; });
}

}  // namespace

void take_routing(Routing& r, Workspace& memory, bool dispatched) {
  r.memory = memory.take<int>(r.rows());
  r.weight = memory.take<float>(r.rows());
  r.before_tile = memory.take<int>((r.tiles() + 1) * r.R());
  if (!dispatched) return;
  r.row = memory.take<int>(r.rows());
  r.bounds = memory.take<std::int64_t>(r.segments() + 1);
  r.before_sequence = memory.take<int>((r.sequences + 1) * r.R());
}

void take_zeros(Routing& r, Workspace& memory) {
  r.zeros = memory.take<std::uint32_t>(r.rows() * r.zero_words());
}

cudaError_t route(const Routing& r, cudaStream_t stream) {
  return launch(route_kernel, dim3(static_cast<unsigned>(r.tiles())), kRouteTile, 0, stream, r);
}

cudaError_t add_tiles(const Routing& r, cudaStream_t stream) {
  const int blocks = (r.R() + 7) / 8;
  return launch(before_tiles_kernel, dim3(static_cast<unsigned>(blocks)), 256, 0, stream, r);
}

cudaError_t dispatch(const Routing& r, cudaStream_t stream) {
  const dim3 tiles(static_cast<unsigned>(r.tiles()));
  if (sorts_alone(r)) return launch(rows_alone_kernel, tiles, kRouteTile, 0, stream, r);
  const dim3 sequences(static_cast<unsigned>(r.sequences + 1));
  cudaError_t e = add_tiles(r, stream);
  if (e == cudaSuccess) {
    e = launch(before_sequences_kernel, sequences, kRouteTile, 0, stream, r);
  }
  if (e == cudaSuccess) e = launch(bounds_kernel, dim3(1), 1024, 0, stream, r);
  if (e == cudaSuccess) e = launch(rows_kernel, tiles, kRouteTile, 0, stream, r);
  return e;
}

}  // namespace assay::cuda
