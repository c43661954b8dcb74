// The parts that the forward and the backward kernel of M²RNN share: a warp's rows of the state,
// the inputs of a block of time, W as operands, and one step.
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

/// 16-bit tokens. H W: operands fp16, since |H| <= max(1, |h0|); a power of two shared between H
/// and W brings larger ones into range. D W^T: operands bf16 in two parts, because cotangents have
/// any magnitude. H^T D: operands bf16; its rounding errors average out over K T terms.
struct Fast {
  using Forward = Half1;
  using Adjoint = Bf16<2>;
  using Outer = Bf16<1>;
  static constexpr bool kScaled = true;
  static constexpr bool kApart = false;
  static constexpr bool kPacked = true;  // tokens have 16 bits, and so have states that are kept
  /// Few enough for the blocks that shared memory has room for.
  template <int V>
  static constexpr int forward_registers() {
    return V == 16 ? 96 : 255;
  }
  template <int V>
  static constexpr int backward_registers() {
    return V == 16 ? 168 : 255;
  }
  static __device__ __forceinline__ float tanh(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
};

/// fp16 tokens: the result of H^T D holds more bits, and so must its operands.
struct Half : Fast {
  using Outer = Bf16<2>;
};

/// Any tokens: every product has operands bf16 in three parts, 24 bits.
struct Exact {
  using Forward = Bf16<3>;
  using Adjoint = Bf16<3>;
  using Outer = Bf16<3>;
  static constexpr bool kScaled = false;
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

/// x within [-limit, limit]; NaN stays.
__device__ __forceinline__ float clamp_within(float x, float limit) {
  asm("min.NaN.f32 %0, %0, %1;\n\tmax.NaN.f32 %0, %0, %2;" : "+f"(x) : "f"(limit), "f"(-limit));
  return x;
}

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
  *reinterpret_cast<std::uint32_t*>(at) =
      is_bf16 ? pack_pair<Bf16<1>>(x, y) : pack_pair<Half1>(x, y);
}

/// Two neighbouring elements of a row, of which `count` exist.
__device__ __forceinline__ void store_pair(const Strided& to, char* at, int count, float x,
                                           float y) {
  if (to.pairs && count > 1) {
    *reinterpret_cast<std::uint32_t*>(at) =
        to.dtype == DType::bf16 ? pack_pair<Bf16<1>>(x, y) : pack_pair<Half1>(x, y);
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
                                            int lane, float scale) {
  if (to.data == nullptr) return;
  const bool whole = has_whole_pairs(p, to);
  each_state_pair<V>(p, to, u, row0, lane, [&](int n, int half, char* at, int count) {
    const float x = scale * h.x[n][2 * half], y = scale * h.x[n][2 * half + 1];
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

// ---- W as operand B ----------------------------------------------------------------------------

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

// ---- The inputs of a block of time -------------------------------------------------------------

/// Two neighbouring elements on their way from global to shared memory.
template <bool is_16_bit>
struct RawPair;
template <>
struct RawPair<true> {
  std::uint32_t bits;
  __device__ __forceinline__ void clear() { bits = 0; }
  __device__ __forceinline__ void load_aligned(const char* at) {
    bits = __ldg(reinterpret_cast<const std::uint32_t*>(at));
  }
  __device__ __forceinline__ void load(const Strided& x, const char* at, int count) {
    bits = 0;
    if (count > 0) bits = __ldg(reinterpret_cast<const std::uint16_t*>(at));
    if (count > 1) {
      const auto* next = reinterpret_cast<const std::uint16_t*>(at + x.column);
      bits |= static_cast<std::uint32_t>(__ldg(next)) << 16;
    }
  }
  template <bool is_bf16>
  __device__ __forceinline__ float2 get() const {
    return unpack_pair(bits, is_bf16 ? DType::bf16 : DType::f16);
  }
};
template <>
struct RawPair<false> {
  float2 value;
  __device__ __forceinline__ void clear() { value = {0, 0}; }
  __device__ __forceinline__ void load_aligned(const char*) {}
  __device__ __forceinline__ void load(const Strided& x, const char* at, int count) {
    value.x = count > 0 ? load_element(at, x.dtype) : 0.0f;
    value.y = count > 1 ? load_element(at + x.column, x.dtype) : 0.0f;
  }
  template <bool>
  __device__ __forceinline__ float2 get() const {
    return value;
  }
};

/// What a warp reads in a step for a tile of rows: [step][g] is k of both rows, then q. The ninth
/// keeps banks apart.
using KeyStage = float4[kSteps][9];

/// What it reads for all its tiles, as its lanes want it.
template <int V>
struct Stage {
  float v[kSteps][V];
  float2 f[kSteps];  // f and (1 - f) times the scale of the state

  /// Columns are stored so that a lane finds those of two tiles side by side.
  static __device__ __forceinline__ int slot(int column) {
    return (column & ~15) | ((column & 6) << 1) | ((column & 8) >> 2) | (column & 1);
  }
  static __device__ __forceinline__ void take(const float* from, int lane, float (&out)[V / 8][2]) {
#pragma unroll
    for (int n = 0; n < V / 8; n += 2) {
      const float4 a = reinterpret_cast<const float4*>(from + 8 * n)[lane & 3];
      out[n][0] = a.x, out[n][1] = a.y, out[n + 1][0] = a.z, out[n + 1][1] = a.w;
    }
  }
};

__device__ __forceinline__ float softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

__device__ __forceinline__ float head_parameter(const Strided& x, const UnitPlace& u) {
  return load_element(x.data + (u.head / x.share) * x.head, x.dtype);
}

/// The pairs of a lane where they cannot be read in one piece. Out of line: it is large, and rare.
static __device__ __noinline__ void load_pairs_slowly(const Strided& x, const char* at,
                                                      std::int64_t stride, int loads, int step,
                                                      int step_stride, int steps, int count,
                                                      std::uint32_t* out) {
  for (int i = 0; i < loads; ++i, at += stride, step += step_stride) {
    RawPair<true> pair;
    pair.clear();
    if (step < steps) pair.load(x, at, count);
    out[i] = pair.bits;
  }
}

/// Pairs of a tensor per token, `width` elements a step: a lane has the same pair of every
/// (64 / width)-th step.
template <class P, int width>
struct TokenLoads {
  static constexpr int kPairs = width / 2, kPerLoad = 32 / kPairs, kCount = kSteps / kPerLoad;
  RawPair<P::kPacked> raw[kCount];

  static __device__ __forceinline__ int step(int lane, int i) {
    return lane / kPairs + kPerLoad * i;
  }
  static __device__ __forceinline__ int column(int lane) { return 2 * (lane % kPairs); }

  /// `at` is the lane's pair in the block's first step of its own.
  __device__ __forceinline__ void load(const Strided& x, const char* at, int steps, int valid,
                                       bool aligned, int lane) {
    const std::int64_t stride = kPerLoad * x.time;
    if (aligned && steps == kSteps) {
#pragma unroll
      for (int i = 0; i < kCount; ++i, at += stride) raw[i].load_aligned(at);
      return;
    }
    const int count = valid - column(lane);
    if constexpr (P::kPacked) {
      std::uint32_t bits[kCount];
      load_pairs_slowly(x, at, stride, kCount, step(lane, 0), kPerLoad, steps, count, bits);
#pragma unroll
      for (int i = 0; i < kCount; ++i) raw[i].bits = bits[i];
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i, at += stride) {
        raw[i].clear();
        if (step(lane, i) < steps) raw[i].load(x, at, count);
      }
    }
  }
  static __device__ __forceinline__ const char* first(const Strided& x, const char* row, int lane) {
    return row + step(lane, 0) * x.time + column(lane) * x.column;
  }
};

template <class P, int V>
__device__ __forceinline__ void stage_values(const TokenLoads<P, V>& from, DType dtype,
                                             float (*to)[V], int lane) {
  using L = TokenLoads<P, V>;
  const auto put = [&](auto is_bf16) {
#pragma unroll
    for (int i = 0; i < L::kCount; ++i) {
      *reinterpret_cast<float2*>(&to[L::step(lane, i)][Stage<V>::slot(L::column(lane))]) =
          from.raw[i].template get<decltype(is_bf16)::value>();
    }
  };
  dtype == DType::bf16 ? put(True{}) : put(False{});
}

/// q, k, v and f of a warp's tiles of rows, a block of time at a time.
template <class P, int V, int tiles>
struct Loads {
  using Keys = TokenLoads<P, kRows>;
  using Values = TokenLoads<P, V>;
  const char *q_at, *k_at, *v_at, *f_at;  // the lane's own, in the block's first step
  Keys q[tiles], k[tiles];
  Values v;
  std::uint32_t f_bits;  // not looked at before it is staged, or all would wait for it

  __device__ __forceinline__ Loads(const M2rnnParams& p, const UnitPlace& u, int row0,
                                   std::int64_t block, int lane)
      : q_at(Keys::first(p.q, token_row(p.q, u) + row0 * p.q.column, lane)),
        k_at(Keys::first(p.k, token_row(p.k, u) + row0 * p.k.column, lane)),
        v_at(Values::first(p.v, token_row(p.v, u), lane)),
        f_at(token_row(p.f, u) + lane * p.f.time) {
    move(p, block);
  }

  __device__ __forceinline__ void move(const M2rnnParams& p, std::int64_t blocks) {
    blocks *= kSteps;
    q_at += blocks * p.q.time, k_at += blocks * p.k.time;
    v_at += blocks * p.v.time, f_at += blocks * p.f.time;
  }

  __device__ __forceinline__ void load(const M2rnnParams& p, int row0, int steps, int lane) {
#pragma unroll
    for (int j = 0; j < tiles; ++j) {
      const int row = j * kRows;
      q[j].load(p.q, q_at + row * p.q.column, steps, p.K - row0 - row, p.aligned, lane);
      k[j].load(p.k, k_at + row * p.k.column, steps, p.K - row0 - row, p.aligned, lane);
    }
    v.load(p.v, v_at, steps, p.V, p.aligned, lane);
    f_bits = 0;
    if (lane < steps) f_bits = load_bits(f_at, p.f.dtype);
  }

  __device__ __forceinline__ void stage(const M2rnnParams& p, const UnitPlace& u, int row0,
                                        float scale, KeyStage* keys, Stage<V>& to, int lane) const {
    if (p.q.dtype == DType::bf16 && p.k.dtype == DType::bf16) {
      stage_keys(p, row0, keys, lane, True{}, True{});
    } else if (p.q.dtype == DType::bf16) {
      stage_keys(p, row0, keys, lane, True{}, False{});
    } else if (p.k.dtype == DType::bf16) {
      stage_keys(p, row0, keys, lane, False{}, True{});
    } else {
      stage_keys(p, row0, keys, lane, False{}, False{});
    }
    stage_values<P, V>(v, p.v.dtype, to.v, lane);
    if (lane >= kSteps) return;
    const float f = element_of_bits(f_bits, p.f.dtype);
    float gate = f;
    if (p.gate_a.data) {
      gate = expf(-head_parameter(p.gate_a, u) * softplus(f + head_parameter(p.gate_b, u)));
    }
    if (ASSAY_M2RNN_IS_FAULT(p, gate_swapped)) gate = 1.0f - gate;
    to.f[lane] = make_float2(gate, (1.0f - gate) * scale);
  }

 private:
  template <class QIsBf16, class KIsBf16>
  __device__ __forceinline__ void stage_keys(const M2rnnParams& p, int row0, KeyStage* to, int lane,
                                             QIsBf16, KIsBf16) const {
#pragma unroll
    for (int j = 0; j < tiles; ++j) {
#pragma unroll
      for (int i = 0; i < Keys::kCount; ++i) {
        float2 k_pair = k[j].raw[i].template get<KIsBf16::value>();
        if (ASSAY_M2RNN_IS_FAULT(p, key_tail_dropped) && row0 + j * kRows >= 64) k_pair = {0, 0};
        const float2 q_pair = q[j].raw[i].template get<QIsBf16::value>();
        to[j][Keys::step(lane, i)][lane % 8] = make_float4(k_pair.x, k_pair.y, q_pair.x, q_pair.y);
      }
    }
  }
};

// ---- A step ------------------------------------------------------------------------------------

/// z = k v^T
template <int V>
__device__ __forceinline__ void outer_product(const float4& kq, const float (&v)[V / 8][2],
                                              Tile<V>& z) {
#pragma unroll
  for (int n = 0; n < V / 8; ++n) {
    z.x[n][0] = kq.x * v[n][0], z.x[n][1] = kq.x * v[n][1];
    z.x[n][2] = kq.y * v[n][0], z.x[n][3] = kq.y * v[n][1];
  }
}

/// z becomes Z = tanh(z), H becomes f H + (1 - f) Z.
template <class P, int V>
__device__ __forceinline__ void update(Tile<V>& h, Tile<V>& z, const float2& f) {
#pragma unroll
  for (int n = 0; n < V / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      z.x[n][e] = P::tanh(z.x[n][e]);
      h.x[n][e] = f.x * h.x[n][e] + f.y * z.x[n][e];
    }
  }
}

/// The power of two by which a fast kernel multiplies H and divides W, so that both fit into fp16;
/// h holds the initial state. All threads of the block take part; `memory` has two floats for each
/// warp.
template <int V, int tiles>
__device__ __forceinline__ float operand_scale(const M2rnnParams& p, const UnitPlace& u,
                                               const Tile<V> (&h)[tiles], float* memory) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x / 32;
  float largest_h = 1.0f, largest_w = 1.0f;
#pragma unroll
  for (int j = 0; j < tiles; ++j) {
#pragma unroll
    for (int n = 0; n < V / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) largest_h = fmaxf(largest_h, fabsf(h[j].x[n][e]));
    }
  }
  const char* base = p.w.data + (u.head / p.w.share) * p.w.head;
  for (int at = threadIdx.x; at < V * V; at += blockDim.x) {
    largest_w = fmaxf(largest_w, fabsf(element_or_zero(p.w, base, at / V, at % V, p.V, p.V)));
  }
#pragma unroll
  for (int m = 16; m > 0; m >>= 1) {
    largest_h = fmaxf(largest_h, __shfl_xor_sync(~0u, largest_h, m));
    largest_w = fmaxf(largest_w, __shfl_xor_sync(~0u, largest_w, m));
  }
  if (lane == 0) memory[2 * warp] = largest_h, memory[2 * warp + 1] = largest_w;
  __syncthreads();
  for (int i = 0; i < warps; ++i) {
    largest_h = fmaxf(largest_h, memory[2 * i]), largest_w = fmaxf(largest_w, memory[2 * i + 1]);
  }
  __syncthreads();
  constexpr float kRoom = 16384.0f;
  if (largest_h <= kRoom && largest_w <= kRoom) return 1.0f;
  if (!(largest_h < 1e37f)) return 1.0f;  // infinite: nothing to be saved
  const float wanted =
      largest_h > kRoom ? kRoom / largest_h : fminf(kRoom / largest_h, largest_w / kRoom);
  return exp2f(floorf(log2f(wanted)));
}

// ---- Sums over the rows of a tile --------------------------------------------------------------

/// Adds up what the eight lanes of a column left in `parts`, which holds for each step V/16 vectors
/// of 32 lanes: parts[step * stride + 32 m + lane]. Sums go to out[step], in the order of
/// Stage::slot. Of `most` steps, `steps` are there.
template <int V, int most>
__device__ __forceinline__ void sum_rows(const float4* parts, int stride, float (*out)[V],
                                         int steps, int lane) {
  constexpr int kVectors = V / 16, kItems = most * kVectors * 4;
#pragma unroll
  for (int i = 0; i < (kItems + 31) / 32; ++i) {
    const int item = lane + 32 * i, step = item / (4 * kVectors), m = item / 4 % kVectors;
    if (step >= steps) break;
    const float4* from = parts + step * stride + 32 * m + (lane & 3);
    float4 sum = from[0];
#pragma unroll
    for (int g = 1; g < 8; ++g) {
      const float4 x = from[4 * g];
      sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
    }
    reinterpret_cast<float4*>(&out[step][16 * m])[lane & 3] = sum;
  }
}

/// Calls f(step, column, sum of column, sum of the next column) for the pairs of a block of time;
/// the warps' sums lie one behind the other.
template <int V, class F>
__device__ __forceinline__ void each_sum(const float (*sums)[V], int steps, const F& f) {
  const int warps = blockDim.x / 32;
  for (int at = threadIdx.x; at < steps * (V / 2); at += blockDim.x) {
    const int step = at / (V / 2), column = 2 * (at % (V / 2));
    const float* from = &sums[step][Stage<V>::slot(column)];
    float2 sum = {0, 0};
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      if (w >= warps) break;
      const float2 x = *reinterpret_cast<const float2*>(from + w * (kSteps * V));
      sum.x += x.x, sum.y += x.y;
    }
    f(step, column, sum.x, sum.y);
  }
}

/// 16 bytes from global to shared memory, without waiting.
__device__ __forceinline__ void copy_async(float4* to, const float4* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(to))), "l"(from)
               : "memory");
}

/// Lets a kernel have `bytes` of dynamic shared memory, and all of an SM's for its blocks together.
template <class Kernel>
cudaError_t give_shared_memory(Kernel* kernel, int bytes) {
  const cudaError_t e =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (e != cudaSuccess) return e;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                              cudaSharedmemCarveoutMaxShared);
}

}  // namespace assay::cuda
