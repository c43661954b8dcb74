// What the kernels of M²RNN are made of: precisions, where a unit stands, and
// a warp's rows of the state.
#pragma once

#include "kernels/common/cuda/element.cuh"
#include "kernels/common/cuda/mma.cuh"
#include "kernels/m2rnn/m2rnn_cuda.hpp"
#include "kernels/m2rnn/m2rnn_fault.hpp"

namespace assay::cuda {

struct True {
  static constexpr bool value = true;
};
struct False {
  static constexpr bool value = false;
};

/// bf16 tokens. Every operand has the range of fp32: the states of a closing gate and cotangents
/// have any magnitude, and each element its own. H W: tf32, because its roundings reach every later
/// state. States kept for the way back: bf16, for Z once more and for H^T D, whose rounding errors
/// average out over K T terms. D W^T: bf16 in two parts.
struct Fast {
  using Forward = Tf32;
  using Again = Bf16<1>;  // H W, from the states that were kept
  using Adjoint = Bf16<2>;
  using Outer = Bf16<1>;
  static constexpr bool kApart = false;
  static constexpr bool kPacked = true;  // tokens have 16 bits
  /// Few enough for the blocks that shared memory has room for.
  template <int V>
  static constexpr int forward_registers() {
    return V == 16 ? 96 : 255;
  }
  template <int V>
  static constexpr int backward_registers() {
    return V == 16 ? 168 : 255;
  }
  static __device__ __forceinline__ float tanh(float x) { return tanh_approx(x); }
};

/// fp16 tokens: results hold more bits, and so must the states that are kept.
struct Half : Fast {
  using Again = Tf32;
  using Outer = Bf16<2>;
};

/// Any tokens: every product has operands bf16 in three parts, 24 bits.
struct Exact {
  using Forward = Bf16<3>;
  using Again = Bf16<3>;
  using Adjoint = Bf16<3>;
  using Outer = Bf16<3>;
  static constexpr bool kApart = true;
  static constexpr bool kPacked = false;
  template <int V>
  static constexpr int forward_registers() {
    return 255;
  }
  template <int V>
  static constexpr int backward_registers() {
    return 255;
  }
  static __device__ __forceinline__ float tanh(float x) { return ::tanhf(x); }
};

// ---- Where a unit stands -----------------------------------------------------------------------

struct UnitPlace {
  std::int64_t index, sequence, batch, first, length, first_block;
  int head;
};

__device__ __forceinline__ std::int64_t bound_of(const M2rnnParams& p, std::int64_t s) {
  const std::int64_t at = s * p.cu_stride;
  const std::int64_t x = p.cu_is_i32 ? reinterpret_cast<const std::int32_t*>(p.cu_seqlens)[at]
                                     : reinterpret_cast<const std::int64_t*>(p.cu_seqlens)[at];
  return x < 0 ? 0 : x > p.T ? p.T : x;  // wrong bounds must not lead outside
}

__device__ __forceinline__ UnitPlace place_of(const M2rnnParams& p, std::int64_t unit) {
  UnitPlace u;
  u.index = unit;
  u.sequence = unit / p.N;
  u.head = static_cast<int>(unit % p.N);
  if (p.cu_seqlens == nullptr) {
    u.batch = u.sequence;
    u.first = 0;
    u.length = p.T;
    u.first_block = u.sequence * ((p.T + kSteps - 1) / kSteps);
  } else {
    u.batch = 0;
    u.first = bound_of(p, u.sequence);
    const std::int64_t end = bound_of(p, u.sequence + 1);
    u.length = end > u.first ? end - u.first : 0;
    u.first_block = u.first / kSteps + u.sequence;  // leaves room for a last, shorter block
  }
  return u;
}

/// Row of head `head` at the unit's first step.
__device__ __forceinline__ char* token_row(const Strided& x, const UnitPlace& u) {
  return x.data + u.batch * x.batch + u.first * x.time + (u.head / x.share) * x.head;
}

__device__ __forceinline__ float element_or_zero(const Strided& x, const char* base, int row,
                                                 int column, int rows, int columns) {
  if (row >= rows || column >= columns) return 0.0f;
  return load_element(base + row * x.row + column * x.column, x.dtype);
}

// ---- Pairs of elements -------------------------------------------------------------------------

/// A pair of 16-bit elements that fill a tile and may be stored at once.
__device__ __forceinline__ void store_whole_pair(char* at, bool is_bf16, float x, float y) {
  if (is_bf16) {
    *reinterpret_cast<std::uint32_t*>(at) = bf16_pair(x, y);
  } else {
    *reinterpret_cast<__half2*>(at) = __floats2half2_rn(x, y);
  }
}

/// Two neighbouring elements of a row, of which `count` exist.
__device__ __forceinline__ void store_pair(const Strided& to, char* at, int count, float x,
                                           float y) {
  if (to.pairs && count > 1) {
    store_whole_pair(at, to.dtype == DType::bf16, x, y);
    return;
  }
  if (count > 0) store_element(at, to.dtype, x);
  if (count > 1) store_element(at + to.column, to.dtype, y);
}

// ---- The state of a warp -----------------------------------------------------------------------

/// Lane 4 g + i: [n][0..3] are (2g, 8n + 2i), (2g, 8n + 2i + 1), and both of row 2g + 1. Which row
/// of the state takes which row of a fragment is free; so, the two of a lane are neighbours in
/// memory.
template <int V>
struct Tile {
  static constexpr int kTiles = V / 8;
  float x[kTiles][4];

  __device__ __forceinline__ void fill(float value) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) x[n][e] = value;
    }
  }
  template <class F>
  __device__ __forceinline__ void each(const F& f) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) f(x[n][e]);
    }
  }
  __device__ __forceinline__ void load(const float4* from, int lane) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float4 a = from[n * 32 + lane];
      x[n][0] = a.x, x[n][1] = a.y, x[n][2] = a.z, x[n][3] = a.w;
    }
  }
  __device__ __forceinline__ void store(float4* to, int lane) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      to[n * 32 + lane] = make_float4(x[n][0], x[n][1], x[n][2], x[n][3]);
    }
  }
};

/// Neighbouring columns of a state may be read or written at once.
__device__ __forceinline__ bool has_whole_pairs(const M2rnnParams& p, const Strided& x) {
  if (p.V % 2 != 0) return false;
  if (x.dtype != DType::f32) return x.pairs;
  const auto address = reinterpret_cast<std::uintptr_t>(x.data);
  return x.column == 4 &&
         ((address | static_cast<std::uintptr_t>(x.batch | x.head | x.row)) & 7) == 0;
}

/// Calls f(tile, which row of the lane, address, columns that exist) for a lane's pairs.
template <int V, class F>
__device__ __forceinline__ void each_state_pair(const M2rnnParams& p, const Strided& x,
                                                const UnitPlace& u, int row0, int lane,
                                                const F& f) {
  char* base = x.data + u.sequence * x.batch + u.head * x.head;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row0 + 2 * (lane >> 2) + half;
    if (row >= p.K) continue;
#pragma unroll
    for (int n = 0; n < V / 8; ++n) {
      const int column = 8 * n + 2 * (lane & 3);
      if (column < p.V) f(n, half, base + row * x.row + column * x.column, p.V - column);
    }
  }
}

/// A state or cotangent of a state in the caller's layout.
template <int V>
__device__ __forceinline__ void load_state(Tile<V>& h, const M2rnnParams& p, const Strided& from,
                                           const UnitPlace& u, int row0, int lane) {
  h.fill(0.0f);
  if (from.data == nullptr) return;
  const bool whole = has_whole_pairs(p, from);
  each_state_pair<V>(p, from, u, row0, lane, [&](int n, int half, const char* at, int count) {
    float2 x = {0, 0};
    if (whole && from.dtype == DType::f32) {
      x = *reinterpret_cast<const float2*>(at);
    } else if (whole) {
      x = unpack_pair(*reinterpret_cast<const std::uint32_t*>(at), from.dtype);
    } else {
      x.x = load_element(at, from.dtype);
      if (count > 1) x.y = load_element(at + from.column, from.dtype);
    }
    h.x[n][2 * half] = x.x, h.x[n][2 * half + 1] = x.y;
  });
}

template <int V>
__device__ __forceinline__ void store_state(const Tile<V>& h, const M2rnnParams& p,
                                            const Strided& to, const UnitPlace& u, int row0,
                                            int lane) {
  if (to.data == nullptr) return;
  const bool whole = has_whole_pairs(p, to);
  each_state_pair<V>(p, to, u, row0, lane, [&](int n, int half, char* at, int count) {
    const float x = h.x[n][2 * half], y = h.x[n][2 * half + 1];
    if (whole && to.dtype == DType::f32) {
      *reinterpret_cast<float2*>(at) = make_float2(x, y);
    } else {
      store_pair(to, at, count, x, y);
    }
  });
}

__device__ __forceinline__ std::int64_t checkpoint_at(const M2rnnParams& p, const UnitPlace& u,
                                                      std::int64_t block, int row_tile,
                                                      int padded_width) {
  const std::int64_t slot = (u.first_block + block) * p.N + u.head;
  return (slot * p.row_tiles + row_tile) * (padded_width / 8) * 32;
}

}  // namespace assay::cuda
