// Four neighbouring elements at a time: 16 bytes of fp32, 8 bytes of a 16-bit format.
#pragma once

#include "kernels/common/cuda/element.cuh"

namespace assay::cuda {

struct Four {
  float x[4];
};

__device__ __forceinline__ Four unpack_four(uint2 bits, DType dtype) {
  const float2 a = unpack_pair(bits.x, dtype), b = unpack_pair(bits.y, dtype);
  return {{a.x, a.y, b.x, b.y}};
}

__device__ __forceinline__ std::uint32_t pack_two(float low, float high, DType dtype) {
  const auto bits = [dtype](float x) -> std::uint32_t {
    if (dtype == DType::bf16) return __bfloat16_as_ushort(__float2bfloat16_rn(x));
    return __half_as_ushort(__float2half_rn(x));
  };
  return bits(low) | bits(high) << 16;
}

/// Read once: not kept in the caches.
__device__ __forceinline__ Four load_four(const char* at, DType dtype) {
  if (dtype != DType::f32) return unpack_four(__ldcs(reinterpret_cast<const uint2*>(at)), dtype);
  const float4 v = __ldcs(reinterpret_cast<const float4*>(at));
  return {{v.x, v.y, v.z, v.w}};
}
__device__ __forceinline__ void store_four(char* at, DType dtype, const Four& v) {
  if (dtype == DType::f32) {
    *reinterpret_cast<float4*>(at) = make_float4(v.x[0], v.x[1], v.x[2], v.x[3]);
  } else {
    *reinterpret_cast<uint2*>(at) =
        make_uint2(pack_two(v.x[0], v.x[1], dtype), pack_two(v.x[2], v.x[3], dtype));
  }
}
/// Not read again soon: the first to leave the caches.
__device__ __forceinline__ void store_four_streaming(char* at, DType dtype, const Four& v) {
  if (dtype == DType::f32) {
    __stcs(reinterpret_cast<float4*>(at), make_float4(v.x[0], v.x[1], v.x[2], v.x[3]));
  } else {
    __stcs(reinterpret_cast<uint2*>(at),
           make_uint2(pack_two(v.x[0], v.x[1], dtype), pack_two(v.x[2], v.x[3], dtype)));
  }
}

}  // namespace assay::cuda
