// bf16 numbers as the kernels convert them; see cuda_runtime_api.h.
#pragma once

#include "kernels/common/dtype.hpp"
#include "kernels/tests/cuda_on_cpu/cuda_runtime_api.h"

struct __nv_bfloat16 {
  std::uint16_t bits;
};
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return {::assay::cpu::to_bf16(x)}; }
