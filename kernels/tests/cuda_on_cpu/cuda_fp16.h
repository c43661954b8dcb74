// fp16 numbers as the kernels convert them; see cuda_runtime_api.h.
#pragma once

#include "kernels/common/dtype.hpp"
#include "kernels/tests/cuda_on_cpu/cuda_runtime_api.h"

struct __half {
  std::uint16_t bits;
};
inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
inline float __half2float(__half x) { return ::assay::cpu::from_f16(x.bits); }
inline __half __float2half_rn(float x) { return {::assay::cpu::to_f16(x)}; }
