// W of M²RNN as operand B of the tensor cores.
#pragma once

#include <type_traits>

#include "kernels/m2rnn/m2rnn_state.cuh"

namespace assay::cuda {

/// W of 16x8, as a lane holds it: the parts of bf16, or, in tf32, eight rows and eight more.
template <class Format>
struct Fragment;
template <int parts>
struct alignas(parts == 2 ? 16 : 8) Fragment<Bf16<parts>> {
  uint2 x[parts];
  __device__ __forceinline__ void set(const float (&w)[4]) {
    std::uint32_t low[parts], high[parts];
    split_pair(w[0], w[1], low);
    split_pair(w[2], w[3], high);
#pragma unroll
    for (int s = 0; s < parts; ++s) x[s] = {low[s], high[s]};
  }
};
template <>
struct alignas(16) Fragment<Tf32> {
  float x[2][2];
  __device__ __forceinline__ void set(const float (&w)[4]) {
#pragma unroll
    for (int e = 0; e < 4; ++e) x[e / 2][e % 2] = round_tf32(w[e]);
  }
};

/// The fragments of W [V,V], in registers while they are few, in shared memory otherwise. What
/// tf32 is for is the chain from state to state, so it may have more of them.
template <class Format, int V>
struct Weights {
  static constexpr int kDepth = V / 16, kTiles = V / 8, kCount = kDepth * kTiles;
  static constexpr int kMostHeldBytes = std::is_same_v<Format, Tf32> ? 128 : 64;
  static constexpr bool kInRegisters = kCount * sizeof(Fragment<Format>) <= kMostHeldBytes;
  static constexpr int kSharedBytes = kInRegisters ? 0 : kCount * 32 * sizeof(Fragment<Format>);

  Fragment<Format> held[kInRegisters ? kCount : 1];
  const Fragment<Format>* shared;

  static __device__ __forceinline__ Fragment<Format> fragment(const M2rnnParams& p,
                                                              const char* base, bool transposed,
                                                              int at, int lane) {
    const int row = 16 * (at / kTiles) + 2 * (lane & 3), column = 8 * (at % kTiles) + (lane >> 2);
    float w[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int r = row + (e & 1) + (e >= 2 ? 8 : 0);
      w[e] = transposed ? element_or_zero(p.w, base, column, r, p.V, p.V)
                        : element_or_zero(p.w, base, r, column, p.V, p.V);
    }
    Fragment<Format> out;
    out.set(w);
    return out;
  }

  /// Called by all threads of the block; a barrier is needed before the first use.
  __device__ __forceinline__ void load(const M2rnnParams& p, const UnitPlace& u, bool transposed,
                                       char* memory) {
    const char* base = p.w.data + (u.head / p.w.share) * p.w.head;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    auto* out = reinterpret_cast<Fragment<Format>*>(memory);
    shared = out;
    if constexpr (kInRegisters) {
#pragma unroll
      for (int at = 0; at < kCount; ++at) held[at] = fragment(p, base, transposed, at, lane);
    } else {
      for (int at = warp; at < kCount; at += p.warps) {
        out[at * 32 + lane] = fragment(p, base, transposed, at, lane);
      }
    }
  }

  __device__ __forceinline__ const Fragment<Format>& get(int m, int n) const {
    const int at = m * kTiles + n;
    if constexpr (kInRegisters) {
      return held[at];
    } else {
      return shared[at * 32 + (threadIdx.x & 31)];
    }
  }

  /// c += A W. The sums of the tensor cores are truncated; where that matters (`apart`) they are
  /// added to c in fp32, the large products rounded.
  template <bool apart, int parts>
  __device__ __forceinline__ void multiply_add(const Operand<Bf16<parts>, kTiles>& a,
                                               float (&c)[kTiles][4]) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      if constexpr (!apart) {
#pragma unroll
        for (int order = parts - 1; order >= 0; --order) add_order(a, order, n, c[n]);
      } else {
        float small[4] = {0, 0, 0, 0};
#pragma unroll
        for (int order = parts - 1; order > 0; --order) add_order(a, order, n, small);
#pragma unroll
        for (int e = 0; e < 4; ++e) c[n][e] += small[e];
#pragma unroll
        for (int m = 0; m < kDepth; ++m) {
          const uint2 b = get(m, n).x[0];
          const std::uint32_t x[4] = {a.part[0][2 * m][0], a.part[0][2 * m][1],
                                      a.part[0][2 * m + 1][0], a.part[0][2 * m + 1][1]};
          add_rounded(c[n], x, b.x, b.y);
        }
      }
    }
  }

  template <bool apart>
  __device__ __forceinline__ void multiply_add(const Operand<Tf32, kTiles>& a,
                                               float (&c)[kTiles][4]) const {
    static_assert(!apart);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int m = 0; m < kDepth; ++m) {
        const Fragment<Format> b = get(m, n);
#pragma unroll
        for (int j = 0; j < 2; ++j) multiply_tf32(c[n], a.x[2 * m + j], b.x[j]);
      }
    }
  }

 private:
  /// The products of parts whose numbers add up to `order`.
  template <int parts>
  __device__ __forceinline__ void add_order(const Operand<Bf16<parts>, kTiles>& a, int order, int n,
                                            float (&c)[4]) const {
#pragma unroll
    for (int s = order; s >= 0; --s) {
#pragma unroll
      for (int m = 0; m < kDepth; ++m) {
        const uint2 b = get(m, n).x[order - s];
        const std::uint32_t x[4] = {a.part[s][2 * m][0], a.part[s][2 * m][1],
                                    a.part[s][2 * m + 1][0], a.part[s][2 * m + 1][1]};
        multiply(c, x, b.x, b.y);
      }
    }
  }
};

}  // namespace assay::cuda
