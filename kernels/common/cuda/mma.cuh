// Products of 16x16 by 16x8 tiles on the tensor cores, with operands split into several 16-bit
// numbers where one is too coarse.
//
// Fragments of mma.m16n8k16, lane = 4 g + i: accumulators c0 c1 are (row g, columns 2i, 2i+1), c2
// c3 the same of row g + 8. Operand A has the same layout, two such tiles side by side, so that an
// accumulator becomes an operand without leaving the lane. Operand B holds (rows 2i, 2i+1, column
// g) and eight rows below.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace assay::cuda {

/// fp16, once: 11 bits. Only for operands known to lie within its range.
struct Half1 {
  static constexpr int kParts = 1;
  static constexpr bool kHalf = true;
};
/// bf16 in `parts` parts: 8, 16 and 24 bits, the range of fp32.
template <int parts>
struct Bf16 {
  static constexpr int kParts = parts;
  static constexpr bool kHalf = false;
};

template <class Format>
__device__ __forceinline__ std::uint32_t pack_pair(float low, float high) {
  std::uint32_t bits;
  if constexpr (Format::kHalf) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  }
  return bits;
}

__device__ __forceinline__ float2 unpack_half2(std::uint32_t bits) {
  __half2 pair;
  *reinterpret_cast<std::uint32_t*>(&pair) = bits;
  return __half22float2(pair);
}

/// The parts of a pair, the largest first.
template <class Format>
__device__ __forceinline__ void split_pair(float low, float high,
                                           std::uint32_t (&parts)[Format::kParts]) {
  parts[0] = pack_pair<Format>(low, high);
#pragma unroll
  for (int s = 1; s < Format::kParts; ++s) {
    low -= __uint_as_float(parts[s - 1] << 16);
    high -= __uint_as_float(parts[s - 1] & 0xffff0000u);
    parts[s] = pack_pair<Format>(low, high);
  }
}

template <class Format>
__device__ __forceinline__ void mma(float (&c)[4], std::uint32_t a0, std::uint32_t a1,
                                    std::uint32_t a2, std::uint32_t a3, std::uint32_t b0,
                                    std::uint32_t b1) {
  if constexpr (Format::kHalf) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
}

/// c + A B, the sum of the products rounded to nearest. The tensor cores truncate it, which is
/// small but always towards zero, and adds up over a recurrence; so the product is made twice, the
/// second time from half a unit in the last place of the first.
template <class Format>
__device__ __forceinline__ void add_rounded(float (&c)[4], std::uint32_t a0, std::uint32_t a1,
                                            std::uint32_t a2, std::uint32_t a3, std::uint32_t b0,
                                            std::uint32_t b1) {
  float sum[4] = {0, 0, 0, 0};
  mma<Format>(sum, a0, a1, a2, a3, b0, b1);
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    // 2^-24 of the leading bit, with the sign.
    sum[e] = __uint_as_float(__float_as_uint(sum[e]) & 0xff800000u) * 0x1p-24f;
    if (!(fabsf(sum[e]) < 0x1p100f)) sum[e] = 0;
  }
  mma<Format>(sum, a0, a1, a2, a3, b0, b1);
#pragma unroll
  for (int e = 0; e < 4; ++e) c[e] += sum[e];
}

/// A tile of 8x8 16-bit numbers, transposed across the warp.
__device__ __forceinline__ std::uint32_t transpose_tile(std::uint32_t x) {
  std::uint32_t y;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

/// A 16 x (8 tiles) matrix of accumulators as operand A: parts of pairs (rows g, g + 8).
template <class Format, int tiles>
struct SplitTile {
  std::uint32_t part[Format::kParts][tiles][2];

  SplitTile() = default;
  __device__ __forceinline__ explicit SplitTile(const float (&x)[tiles][4]) {
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        std::uint32_t pair[Format::kParts];
        split_pair<Format>(x[n][2 * half], x[n][2 * half + 1], pair);
#pragma unroll
        for (int s = 0; s < Format::kParts; ++s) part[s][n][half] = pair[s];
      }
    }
  }
};

}  // namespace assay::cuda
