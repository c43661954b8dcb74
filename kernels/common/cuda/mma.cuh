// Operands of the tensor cores (tensor.cuh) with the range of fp32: tf32, or several bf16 numbers
// where one is too coarse.
//
// The product of tf32 sums over eight places, of bf16 over sixteen. Which place holds which column
// of A is free: in tf32, places i and i + 4 are columns 2i and 2i+1, and an accumulator becomes an
// operand without leaving the lane there too.
#pragma once

#include "kernels/common/cuda/tensor.cuh"

namespace assay::cuda {

/// tf32: 11 bits.
struct Tf32 {};
/// bf16 in `parts` parts: 8, 16 and 24 bits.
template <int parts>
struct Bf16 {
  static constexpr int kParts = parts;
};

/// The parts of a pair, the largest first.
template <int parts>
__device__ __forceinline__ void split_pair(float low, float high, std::uint32_t (&out)[parts]) {
  out[0] = bf16_pair(low, high);
#pragma unroll
  for (int s = 1; s < parts; ++s) {
    low -= low_of(out[s - 1]);
    high -= high_of(out[s - 1]);
    out[s] = bf16_pair(low, high);
  }
}

/// c + A B of bf16, the sum of the products rounded to nearest. The tensor cores truncate it, which
/// is small but always towards zero, and adds up over a recurrence; so the product is made twice,
/// the second time from half a unit in the last place of the first.
__device__ __forceinline__ void add_rounded(float (&c)[4], const std::uint32_t (&a)[4],
                                            std::uint32_t b0, std::uint32_t b1) {
  float sum[4] = {0, 0, 0, 0};
  multiply(sum, a, b0, b1);
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    // 2^-24 of the leading bit, with the sign.
    sum[e] = __uint_as_float(__float_as_uint(sum[e]) & 0xff800000u) * 0x1p-24f;
    if (!(fabsf(sum[e]) < 0x1p100f)) sum[e] = 0;
  }
  multiply(sum, a, b0, b1);
#pragma unroll
  for (int e = 0; e < 4; ++e) c[e] += sum[e];
}

/// A 16 x (8 tiles) matrix of accumulators as operand A.
template <class Format, int tiles>
struct Operand;

/// Parts of pairs (rows g, g + 8).
template <int parts, int tiles>
struct Operand<Bf16<parts>, tiles> {
  std::uint32_t part[parts][tiles][2];

  Operand() = default;
  __device__ __forceinline__ explicit Operand(const float (&x)[tiles][4]) {
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        std::uint32_t pair[parts];
        split_pair(x[n][2 * half], x[n][2 * half + 1], pair);
#pragma unroll
        for (int s = 0; s < parts; ++s) part[s][n][half] = pair[s];
      }
    }
  }
};

template <int tiles>
struct Operand<Tf32, tiles> {
  float x[tiles][4];

  __device__ __forceinline__ explicit Operand(const float (&from)[tiles][4]) {
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
      x[n][0] = round_tf32(from[n][0]), x[n][1] = round_tf32(from[n][2]);
      x[n][2] = round_tf32(from[n][1]), x[n][3] = round_tf32(from[n][3]);
    }
  }
};

}  // namespace assay::cuda
