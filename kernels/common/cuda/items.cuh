// Grids over independent items, and sums over a block in a fixed order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace assay::cuda {

inline constexpr int kItemThreads = 256;

/// A grid for `items`, each thread taking every so-many-th.
inline unsigned blocks_for(std::int64_t items) {
  const std::int64_t blocks = (items + kItemThreads - 1) / kItemThreads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > 65536 ? 65536 : blocks);
}

__device__ __forceinline__ std::int64_t first_item() {
  return blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
}
__device__ __forceinline__ std::int64_t item_stride() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

/// The sum over a block of kItemThreads threads of one number per thread; in every thread.
__device__ inline double sum_of_block(double x) {
  __shared__ double parts[kItemThreads];
  parts[threadIdx.x] = x;
  __syncthreads();
  for (int n = kItemThreads / 2; n > 0; n /= 2) {
    if (static_cast<int>(threadIdx.x) < n) parts[threadIdx.x] += parts[threadIdx.x + n];
    __syncthreads();
  }
  x = parts[0];
  __syncthreads();
  return x;
}

}  // namespace assay::cuda
