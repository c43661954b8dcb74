// W of M²RNN as operand B of the tensor cores.
#pragma once

#include "kernels/m2rnn/m2rnn_state.cuh"

namespace assay::cuda {

/// The fragments of W [V,V], in registers while they are few, in shared memory otherwise.
template <class Format, int V>
struct Weights {
  static constexpr int kDepth = V / 16, kTiles = V / 8;
  static constexpr int kCount = Format::kParts * kDepth * kTiles;
  static constexpr bool kInRegisters = 2 * kCount <= 16;
  static constexpr int kSharedBytes = kInRegisters ? 0 : kCount * 32 * 8;

  uint2 held[kInRegisters ? kCount : 1];
  const uint2* shared;

  static __device__ __forceinline__ void fragment(const M2rnnParams& p, const char* base,
                                                  bool transposed, float scale, int m, int n,
                                                  int lane, std::uint32_t (&low)[Format::kParts],
                                                  std::uint32_t (&high)[Format::kParts]) {
    const int row = 16 * m + 2 * (lane & 3), column = 8 * n + (lane >> 2);
    float x[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int r = row + (e & 1) + (e >= 2 ? 8 : 0);
      x[e] = transposed ? element_or_zero(p.w, base, column, r, p.V, p.V)
                        : element_or_zero(p.w, base, r, column, p.V, p.V);
      x[e] *= scale;
      if constexpr (Format::kHalf) x[e] = fminf(fmaxf(x[e], -65504.0f), 65504.0f);
    }
    split_pair<Format>(x[0], x[1], low);
    split_pair<Format>(x[2], x[3], high);
  }

  /// Called by all threads of the block; a barrier is needed before the first use.
  __device__ __forceinline__ void load(const M2rnnParams& p, const UnitPlace& u, bool transposed,
                                       float scale, char* memory) {
    const char* base = p.w.data + (u.head / p.w.share) * p.w.head;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    uint2* out = reinterpret_cast<uint2*>(memory);
    shared = out;
    if constexpr (kInRegisters) {
#pragma unroll
      for (int m = 0; m < kDepth; ++m) {
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          std::uint32_t low[Format::kParts], high[Format::kParts];
          fragment(p, base, transposed, scale, m, n, lane, low, high);
#pragma unroll
          for (int s = 0; s < Format::kParts; ++s) {
            held[(s * kDepth + m) * kTiles + n] = {low[s], high[s]};
          }
        }
      }
    } else {
      for (int at = warp; at < kDepth * kTiles; at += p.warps) {
        std::uint32_t low[Format::kParts], high[Format::kParts];
        fragment(p, base, transposed, scale, at / kTiles, at % kTiles, lane, low, high);
#pragma unroll
        for (int s = 0; s < Format::kParts; ++s) {
          out[(s * kDepth * kTiles + at) * 32 + lane] = {low[s], high[s]};
        }
      }
    }
  }

  __device__ __forceinline__ uint2 get(int s, int m, int n) const {
    const int at = (s * kDepth + m) * kTiles + n;
    if constexpr (kInRegisters) {
      return held[at];
    } else {
      return shared[at * 32 + (threadIdx.x & 31)];
    }
  }

  /// c += A W. The sums of the tensor cores are truncated; where that matters (`apart`) they are
  /// added to c in fp32, the large products rounded.
  template <bool apart>
  __device__ __forceinline__ void multiply_add(const SplitTile<Format, kTiles>& a,
                                               float (&c)[kTiles][4]) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if constexpr (!apart) {
#pragma unroll
        for (int order = Format::kParts - 1; order >= 0; --order) add_order(a, order, n, c[n]);
      } else {
        float small[4] = {0, 0, 0, 0};
#pragma unroll
        for (int order = Format::kParts - 1; order > 0; --order) add_order(a, order, n, small);
#pragma unroll
        for (int e = 0; e < 4; ++e) c[n][e] += small[e];
#pragma unroll
        for (int m = 0; m < kDepth; ++m) {
          const uint2 b = get(0, m, n);
          add_rounded<Format>(c[n], a.part[0][2 * m][0], a.part[0][2 * m][1],
                              a.part[0][2 * m + 1][0], a.part[0][2 * m + 1][1], b.x, b.y);
        }
      }
    }
  }

 private:
  __device__ __forceinline__ void add_order(const SplitTile<Format, kTiles>& a, int order, int n,
                                            float (&c)[4]) const {
#pragma unroll
    for (int s = order; s >= 0; --s) {
#pragma unroll
      for (int m = 0; m < kDepth; ++m) product(a, s, order - s, m, n, c);
    }
  }
  __device__ __forceinline__ void product(const SplitTile<Format, kTiles>& a, int s, int r, int m,
                                          int n, float (&c)[4]) const {
    const uint2 b = get(r, m, n);
    mma<Format>(c, a.part[s][2 * m][0], a.part[s][2 * m][1], a.part[s][2 * m + 1][0],
                a.part[s][2 * m + 1][1], b.x, b.y);
  }
};

}  // namespace assay::cuda
