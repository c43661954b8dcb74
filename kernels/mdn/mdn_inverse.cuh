// T = (I + L)^-1 of a strictly lower triangular L, a warp for 16 rows. Blocks on the diagonal are
// found by substitution in fp32, D = (I + L_rr)^-1; what is below them by products,
//
//   T_rc = -D_r (Σ_{c <= x < r} L_rx T_xc)
//
// in bf16 of three parts (six products), which keep 24 bits.
#pragma once

#include "kernels/mdn/mdn_coefficients.cuh"

namespace assay::cuda {

/// A block of 16x16 as operand A: parts of pairs (row g, columns 2i, 2i + 1), (row g + 8, ...), and
/// of the eight columns after them.
struct BlockParts {
  std::uint32_t part[3][4];
};

__device__ __forceinline__ BlockParts split_block(const float (&x)[2][4]) {
  BlockParts out;
#pragma unroll
  for (int a = 0; a < 4; ++a) {
    float low = x[a >> 1][2 * (a & 1)], high = x[a >> 1][2 * (a & 1) + 1];
#pragma unroll
    for (int s = 0; s < 3; ++s) {
      out.part[s][a] = bf16_pair(low, high);
      low -= low_of(out.part[s][a]), high -= high_of(out.part[s][a]);
    }
  }
  return out;
}
/// Operand B of the same block.
__device__ __forceinline__ BlockParts transposed_parts(const BlockParts& x) {
  BlockParts out;
#pragma unroll
  for (int s = 0; s < 3; ++s) {
#pragma unroll
    for (int a = 0; a < 4; ++a) out.part[s][a] = transposed_tile(x.part[s][a]);
  }
  return out;
}
/// c += A B
__device__ __forceinline__ void multiply_parts(float (&c)[2][4], const BlockParts& a,
                                               const BlockParts& b) {
#pragma unroll
  for (int s = 2; s >= 0; --s) {  // the smallest first
#pragma unroll
    for (int x = s; x >= 0; --x) {
      const std::uint32_t(&y)[4] = b.part[s - x];
      multiply(c[0], a.part[x], y[0], y[1]), multiply(c[1], a.part[x], y[2], y[3]);
    }
  }
}

/// Memory of the warps: blocks of T in parts as tiles, for the rows below, and fp32 of a warp.
struct MdnInverse {
  static constexpr int kPitchIn = 20, kPitchOut = 24;
  static constexpr int kShared = (kBlocks - 1) * kBlocks / 2;

  char blocks[kShared][3 * kBlockBytes];
  float scratch[kBlocks][kBlock * kPitchOut];

  __device__ __forceinline__ void put(const BlockParts& x, int row, int column, int lane) {
#pragma unroll
    for (int s = 0; s < 3; ++s) {
#pragma unroll
      for (int a = 0; a < 4; ++a) {
        char* to =
            blocks[row * (row + 1) / 2 + column] + s * kBlockBytes + block_tile(a & 1, a >> 1);
        *reinterpret_cast<std::uint32_t*>(to + lane * 4) = x.part[s][a];
      }
    }
  }
  /// As operand B.
  __device__ __forceinline__ BlockParts take(int row, int column, int lane) const {
    BlockParts out;
    const char* from = blocks[row * (row + 1) / 2 + column] + block_tile(lane >> 3 & 1, lane >> 4) +
                       (lane & 7) * 16;
#pragma unroll
    for (int s = 0; s < 3; ++s) load_tiles<true>(out.part[s], from + s * kBlockBytes);
    return out;
  }

  /// (I + L)^-1 of a block of row `row`, column by column: x_r = [r = c] - Σ_{y < r} L_ry x_y.
  __device__ __forceinline__ void invert_diagonal(float (&x)[2][4], int row, int lane) {
    const int g = lane >> 2, i = lane & 3, column = lane % kBlock;
    float* own = scratch[row];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {  // transposed
        own[(8 * n + 2 * i + (e & 1)) * kPitchIn + g + 8 * (e >> 1)] = x[n][e];
      }
    }
    __syncwarp();
    float t[kBlock] = {};
#pragma unroll
    for (int y = 0; y < kBlock; ++y) {
      t[y] = y == column ? 1.0f : y < column ? 0.0f : -t[y];
#pragma unroll
      for (int first = (y + 1) / 4 * 4; first < kBlock; first += 4) {
        const float4 l = *reinterpret_cast<const float4*>(own + y * kPitchIn + first);
        const float below[4] = {l.x, l.y, l.z, l.w};
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (first + e > y) t[first + e] = fmaf(below[e], t[y], t[first + e]);
        }
      }
    }
    __syncwarp();
    if (lane < kBlock) {
#pragma unroll
      for (int y = 0; y < kBlock; ++y) own[y * kPitchOut + column] = t[y];
    }
    __syncwarp();
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 pair =
            *reinterpret_cast<const float2*>(own + (g + 8 * half) * kPitchOut + 8 * n + 2 * i);
        x[n][2 * half] = pair.x, x[n][2 * half + 1] = pair.y;
      }
    }
  }

  /// Blocks of T of row `row`, from right to left: each(column, parts). L has the row's blocks
  /// before the diagonal. By all warps of the block, a row each.
  template <class Each>
  __device__ __forceinline__ void run(const float (&L)[kBlocks - 1][2][4], float (&diagonal)[2][4],
                                      int row, int lane, const Each& each) {
    invert_diagonal(diagonal, row, lane);
    const BlockParts own = split_block(diagonal);
    if (row < kBlocks - 1) put(own, row, row, lane);
    each(row, own);
    BlockParts left[kBlocks - 1];
#pragma unroll
    for (int c = 0; c < kBlocks - 1; ++c) {
      if (c < row) left[c] = split_block(L[c]);
    }
#pragma unroll 1
    for (int below = 1; below < kBlocks; ++below) {
      __syncthreads();
      const int c = row - below;
      if (c < 0) continue;
      float sum[2][4] = {}, product[2][4] = {};
#pragma unroll
      for (int x = 0; x < kBlocks - 1; ++x) {
        if (x >= c && x < row) multiply_parts(sum, left[x], take(x, c, lane));
      }
      multiply_parts(product, own, transposed_parts(split_block(sum)));
#pragma unroll
      for (int e = 0; e < 8; ++e) product[e >> 2][e & 3] = -product[e >> 2][e & 3];
      const BlockParts found = split_block(product);
      if (row < kBlocks - 1) put(found, row, c, lane);
      each(c, found);
    }
  }
};

}  // namespace assay::cuda
