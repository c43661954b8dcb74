// The inputs of a block of time, on their way from global memory to the lanes that want them.
#pragma once

#include <type_traits>

#include "kernels/m2rnn/m2rnn_state.cuh"

namespace assay::cuda {

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
  float2 f[kSteps];  // f and 1 - f

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

  /// A quarter of v as operand B of the tensor cores, the same in all four places of a sum: a lane
  /// finds its column of every tile side by side.
  static __device__ __forceinline__ int operand_slot(int column) {
    return column % 8 * (V / 8) + column / 8;
  }
  static __device__ __forceinline__ void take(const float* from, int lane, float (&out)[V / 8]) {
    using Vector = std::conditional_t<V == 16, float2, float4>;
    constexpr int kWidth = sizeof(Vector) / sizeof(float);
#pragma unroll
    for (int n = 0; n < V / 8; n += kWidth) {
      *reinterpret_cast<Vector*>(&out[n]) =
          *reinterpret_cast<const Vector*>(from + (lane >> 2) * (V / 8) + n);
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

template <bool as_operand, class P, int V>
__device__ __forceinline__ void stage_values(const TokenLoads<P, V>& from, DType dtype,
                                             float (*to)[V], int lane) {
  using L = TokenLoads<P, V>;
  const auto put = [&](auto is_bf16) {
#pragma unroll
    for (int i = 0; i < L::kCount; ++i) {
      const float2 pair = from.raw[i].template get<decltype(is_bf16)::value>();
      float* row = to[L::step(lane, i)];
      const int column = L::column(lane);
      if constexpr (as_operand) {
        row[Stage<V>::operand_slot(column)] = 0.25f * pair.x;
        row[Stage<V>::operand_slot(column + 1)] = 0.25f * pair.y;
      } else {
        *reinterpret_cast<float2*>(&row[Stage<V>::slot(column)]) = pair;
      }
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

  template <bool v_as_operand>
  __device__ __forceinline__ void stage(const M2rnnParams& p, const UnitPlace& u, int row0,
                                        KeyStage* keys, Stage<V>& to, int lane) const {
    if (p.q.dtype == DType::bf16 && p.k.dtype == DType::bf16) {
      stage_keys(p, row0, keys, lane, True{}, True{});
    } else if (p.q.dtype == DType::bf16) {
      stage_keys(p, row0, keys, lane, True{}, False{});
    } else if (p.k.dtype == DType::bf16) {
      stage_keys(p, row0, keys, lane, False{}, True{});
    } else {
      stage_keys(p, row0, keys, lane, False{}, False{});
    }
    stage_values<v_as_operand>(v, p.v.dtype, to.v, lane);
    if (lane >= kSteps) return;
    const float f = element_of_bits(f_bits, p.f.dtype);
    float gate = f;
    if (p.gate_a.data) {
      gate = expf(-head_parameter(p.gate_a, u) * softplus(f + head_parameter(p.gate_b, u)));
    }
    if (ASSAY_M2RNN_IS_FAULT(p, gate_swapped)) gate = 1.0f - gate;
    to.f[lane] = make_float2(gate, 1.0f - gate);
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

}  // namespace assay::cuda
