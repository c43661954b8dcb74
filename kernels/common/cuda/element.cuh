// Elements in memory, whatever their format, and the float they stand for.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/common/call.hpp"

namespace assay::cuda {

using cpu::DType;

__device__ __forceinline__ float bf16_float(std::uint32_t bits) {
  return __uint_as_float(bits << 16);
}

__device__ __forceinline__ float half_float(std::uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

/// An element's bits, for when its value can wait.
__device__ __forceinline__ std::uint32_t load_bits(const char* at, DType dtype) {
  if (dtype == DType::f32) return *reinterpret_cast<const std::uint32_t*>(at);
  return *reinterpret_cast<const std::uint16_t*>(at);
}
__device__ __forceinline__ float element_of_bits(std::uint32_t bits, DType dtype) {
  if (dtype == DType::f32) return __uint_as_float(bits);
  return dtype == DType::bf16 ? bf16_float(bits) : half_float(bits);
}

__device__ __forceinline__ float load_element(const char* at, DType dtype) {
  if (dtype == DType::f32) return *reinterpret_cast<const float*>(at);
  const std::uint32_t bits = *reinterpret_cast<const std::uint16_t*>(at);
  return dtype == DType::bf16 ? bf16_float(bits) : half_float(bits);
}

__device__ __forceinline__ void store_element(char* at, DType dtype, float x) {
  if (dtype == DType::f32) {
    *reinterpret_cast<float*>(at) = x;
  } else if (dtype == DType::bf16) {
    *reinterpret_cast<__nv_bfloat16*>(at) = __float2bfloat16_rn(x);
  } else {
    *reinterpret_cast<__half*>(at) = __float2half_rn(x);
  }
}

/// Both elements of a pair of 16-bit numbers.
__device__ __forceinline__ float2 unpack_pair(std::uint32_t bits, DType dtype) {
  if (dtype == DType::bf16) return {bf16_float(bits), __uint_as_float(bits & 0xffff0000u)};
  return {half_float(bits & 0xffffu), half_float(bits >> 16)};
}

}  // namespace assay::cuda
