// What device code needs of the machine, each in one place: launches, dynamic shared memory, and
// what the threads of a warp do together. With ASSAY_CUDA_ON_CPU the same code runs on the CPU
// (kernels/tests/cuda_on_cpu).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#if defined(ASSAY_CUDA_ON_CPU)
#define ASSAY_SHARED_MEMORY(name) char* const name = ::assay::cuda_on_cpu::shared_memory()
#else
#define ASSAY_SHARED_MEMORY(name)                                  \
  extern __shared__ __align__(1024) float4 assay_dynamic_memory[]; \
  char* const name = reinterpret_cast<char*>(assay_dynamic_memory)
#endif

namespace assay::cuda {

/// Dynamic shared memory that a block of compute capability 9.0 can have.
inline constexpr int kMostSharedBytes = 227 * 1024;

/// kernel(arguments) on `grid` blocks of `threads`, with `bytes` of dynamic shared memory.
template <class Kernel, class... Arguments>
cudaError_t launch(Kernel* kernel, dim3 grid, unsigned threads, int bytes, cudaStream_t stream,
                   const Arguments&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return cudaSuccess;
  const cudaError_t e =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (e != cudaSuccess) return e;
#if defined(ASSAY_CUDA_ON_CPU)
  (void)stream;
  cuda_on_cpu::run_grid({grid.x, grid.y, grid.z}, {threads, 1, 1}, bytes,
                        [&] { kernel(arguments...); });
#else
  // It takes the brackets for a template's.
  // clang-format off
  kernel<<<grid, threads, bytes, stream>>>(arguments...);
  // clang-format on
#endif
  return cudaGetLastError();
}

#if defined(ASSAY_CUDA_ON_CPU)

/// The sum over the lanes of a warp, in every lane.
template <class Number>
Number warp_sum(Number x) {
  cuda_on_cpu::warp_together(&x, [](void* const* lanes) {
    Number values[32];
    for (int i = 0; i < 32; ++i) values[i] = *static_cast<Number*>(lanes[i]);
    for (int step = 16; step > 0; step /= 2) {
      Number next[32];
      for (int i = 0; i < 32; ++i) next[i] = values[i] + values[i ^ step];
      for (int i = 0; i < 32; ++i) values[i] = next[i];
    }
    for (int i = 0; i < 32; ++i) *static_cast<Number*>(lanes[i]) = values[i];
  });
  return x;
}
/// x within [-limit, limit]; NaN stays.
inline float clamp_within(float x, float limit) {
  return x < -limit ? -limit : x > limit ? limit : x;
}
/// tanh to 2^-11, relative.
inline float tanh_approx(float x) {
  return __uint_as_float((__float_as_uint(std::tanh(x)) + 0x800u) & ~0xfffu);
}

#else

template <class Number>
__device__ __forceinline__ Number warp_sum(Number x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}
__device__ __forceinline__ float clamp_within(float x, float limit) {
  asm("min.NaN.f32 %0, %0, %1;\n\tmax.NaN.f32 %0, %0, %2;" : "+f"(x) : "f"(limit), "f"(-limit));
  return x;
}
__device__ __forceinline__ float tanh_approx(float x) {
  asm("tanh.approx.f32 %0, %0;" : "+f"(x));
  return x;
}

#endif

}  // namespace assay::cuda
