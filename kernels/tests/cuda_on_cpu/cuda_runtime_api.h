// Stands in for the CUDA toolkit's header where device code is compiled for the CPU: what the
// kernels of this project use of it and no more. The threads of a block are fibers of one thread,
// the blocks run one after the other, and a launch returns when it is done.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/tests/cuda_on_cpu/fibers.hpp"

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __constant__ static
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __launch_bounds__(...)
#define __restrict__

enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorUnknown = 999 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
using cudaStream_t = void*;

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

inline float __uint_as_float(unsigned u) {
  float x;
  std::memcpy(&x, &u, 4);
  return x;
}
inline unsigned __float_as_uint(float x) {
  unsigned u;
  std::memcpy(&u, &x, 4);
  return u;
}
using std::isnan;

inline const char* cudaGetErrorString(cudaError_t) { return "an error on the CPU"; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel*, cudaFuncAttribute, int) {
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t) {
  std::memset(at, value, bytes);
  return cudaSuccess;
}

#define threadIdx (::assay::cuda_on_cpu::current.thread)
#define blockIdx (::assay::cuda_on_cpu::current.block)
#define blockDim (::assay::cuda_on_cpu::current.block_size)
#define gridDim (::assay::cuda_on_cpu::current.grid_size)

inline void __syncthreads() { ::assay::cuda_on_cpu::barrier(0, 0); }
inline void __syncwarp() {
  ::assay::cuda_on_cpu::warp_together(nullptr, [](void* const*) {});
}
