// How kernels are started, and the few things a kernel asks of its block, for the device and for
// the test build that runs device code on the CPU (kernels/tests/cuda_on_cpu, ASSAY_CUDA_ON_CPU).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace assay::cuda {

#if !defined(ASSAY_CUDA_ON_CPU)

/// Starts kernel(arguments...) and returns what the launch came to. More than 48 KiB of dynamic
/// shared memory is asked for as the device wants it.
template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
                   cudaStream_t stream, const Arguments&... arguments) {
  if (shared_bytes > 48 * 1024) {
    const cudaError_t e = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                                               static_cast<int>(shared_bytes));
    if (e != cudaSuccess) return e;
  }
  kernel<<<grid, block, shared_bytes, stream>>>(arguments...);
  return cudaGetLastError();
}

/// The dynamic shared memory of the block, aligned to 128 bytes.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char assay_dynamic_shared[];
  return reinterpret_cast<T*>(assay_dynamic_shared);
}

/// Waits for `threads` threads (a multiple of 32) of the block at barrier `id`, 1 to 15.
__device__ __forceinline__ void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

#else

template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
                   cudaStream_t, const Arguments&... arguments) {
  return cuda_on_cpu::run_grid(grid, block, shared_bytes, [&] { kernel(arguments...); });
}

template <class T>
T* dynamic_shared() {
  return reinterpret_cast<T*>(cuda_on_cpu::dynamic_shared_memory());
}

inline void named_barrier(int id, int threads) { cuda_on_cpu::named_barrier(id, threads); }

#endif

}  // namespace assay::cuda
