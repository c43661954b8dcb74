// What walking back through M²RNN needs besides the steps: the states kept of a block of time,
// shared memory, and where the gradients of a block of time go.
#pragma once

#include <type_traits>

#include "kernels/m2rnn/m2rnn_device.cuh"

namespace assay::cuda {

/// The states before the steps of a block of time, each lane its own part: as bf16 operands, or as
/// fp32. Once a step has been walked back, its partial sums of d_v take the same place.
template <class P, int V>
struct History {
  using Again = Operand<typename P::Again, V / 8>;
  static constexpr bool kBf16 = std::is_same_v<typename P::Again, Bf16<1>>;
  static constexpr int kVectors = V / (kBf16 ? 16 : 8);  // of a lane, per step
  static constexpr int kStride = kVectors * 32 + 4;      // four more keep banks apart
  static constexpr int kWarpBytes = kSteps * kStride * 16;
  static constexpr bool kShared = kWarpBytes <= 18432;

  static __device__ __forceinline__ void put(uint4* at, const Tile<V>& h) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if constexpr (kBf16) {
        const auto &a = h.x[2 * i], &b = h.x[2 * i + 1];
        at[32 * i] = make_uint4(bf16_pair(a[0], a[1]), bf16_pair(a[2], a[3]), bf16_pair(b[0], b[1]),
                                bf16_pair(b[2], b[3]));
      } else {
        at[32 * i] = make_uint4(__float_as_uint(h.x[i][0]), __float_as_uint(h.x[i][1]),
                                __float_as_uint(h.x[i][2]), __float_as_uint(h.x[i][3]));
      }
    }
  }
  /// As it was kept, not looked into yet.
  struct Raw {
    uint4 x[kVectors];
  };
  static __device__ __forceinline__ void get(const uint4* at, Raw& raw) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) raw.x[i] = at[32 * i];
  }
  static __device__ __forceinline__ void unpack(const Raw& raw, Tile<V>& h) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const std::uint32_t words[4] = {raw.x[i].x, raw.x[i].y, raw.x[i].z, raw.x[i].w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if constexpr (kBf16) {
          float* to = &h.x[2 * i + e / 2][2 * (e & 1)];
          to[0] = low_of(words[e]), to[1] = high_of(words[e]);
        } else {
          h.x[i][e] = __uint_as_float(words[e]);
        }
      }
    }
  }
  /// As operand of a product; h is what `unpack` gave.
  template <class Format>
  static __device__ __forceinline__ Operand<Format, V / 8> operand(const Raw& raw,
                                                                   const Tile<V>& h) {
    if constexpr (kBf16 && std::is_same_v<Format, Bf16<1>>) {
      Operand<Format, V / 8> a;
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        a.part[0][2 * i][0] = raw.x[i].x, a.part[0][2 * i][1] = raw.x[i].y;
        a.part[0][2 * i + 1][0] = raw.x[i].z, a.part[0][2 * i + 1][1] = raw.x[i].w;
      }
      return a;
    } else {
      return Operand<Format, V / 8>(h.x);
    }
  }
};

/// What walking back one step needs.
template <class P, int V>
struct StepBack {
  float4 kq;
  float f;
  float v[V / 8][2], u[V / 8][2];
  typename History<P, V>::Raw before;

  __device__ __forceinline__ void load(const KeyStage& keys, const Stage<V>& stage,
                                       const float (*cotangent)[V], const uint4* history, int step,
                                       int lane) {
    kq = keys[step][lane >> 2];
    f = stage.f[step].x;
    Stage<V>::take(stage.v[step], lane, v);
    Stage<V>::take(cotangent[step], lane, u);
    History<P, V>::get(history + step * History<P, V>::kStride, before);
  }
  /// H' W + k v^T, of which Z is the tanh.
  __device__ __forceinline__ void candidate(const Weights<typename P::Again, V>& w,
                                            Tile<V>& z) const {
    using Kept = History<P, V>;
    outer_product<V>(kq, v, z);
    Tile<V> h;
    Kept::unpack(before, h);
    w.template multiply_add<P::kApart>(Kept::template operand<typename P::Again>(before, h), z.x);
  }
};

/// Narrow states leave registers and shared memory to fetch and compute ahead.
template <int V>
inline constexpr bool kAhead = V == 16;

template <class P, int V>
struct BackwardWarp {
  KeyStage keys;  // once a step has been walked back, d_k and d_q take its place
  Stage<V> stage;
  float u[kSteps][V];
  float d_f[kSteps][17];
  float padding[12];                             // sizes stay multiples of 16 bytes
  float4 checkpoint[kAhead<V> ? V / 8 : 1][32];  // of the block that comes next
};

template <class P, int V>
struct BackwardMemory {
  using W = Weights<typename P::Forward, V>;
  using WAgain = Weights<typename P::Again, V>;
  using WT = Weights<typename P::Adjoint, V>;
  static constexpr bool kOneW = std::is_same_v<W, WAgain>;
  static constexpr int kAgainBytes = kOneW ? 0 : WAgain::kSharedBytes;
  static constexpr int kWarpBytes = (sizeof(BackwardWarp<P, V>) + 15) / 16 * 16;
  static constexpr int kHistoryBytes = History<P, V>::kShared ? History<P, V>::kWarpBytes : 0;
  static constexpr int kSumBuffers = V == 16 ? 2 : 1;
  static constexpr int kSumBytes = kSumBuffers * kSteps * (V + 1) * sizeof(float);
  static int bytes(int warps) {
    return W::kSharedBytes + kAgainBytes + WT::kSharedBytes +
           warps * (kWarpBytes + kHistoryBytes + kSumBytes);
  }
};

/// Where a lane puts its pairs of rows of d_q or d_k, of its first step in a block of time; the
/// share of the lanes is that of loading.
struct RowSink {
  using Keys = TokenLoads<Fast, kRows>;
  char* at = nullptr;
  std::int64_t stride = 0;  // from step to step
  int count = 0;            // of the pair

  __device__ __forceinline__ RowSink(const M2rnnParams& p, const UnitPlace& u,
                                     const TokenSink& sink, int row0, std::int64_t t0, int lane)
      : count(p.K - row0 - Keys::column(lane)) {
    const int row = row0 + Keys::column(lane);
    if (sink.partial) {
      const std::int64_t window_steps = (p.window_end - p.window_begin) * kSteps;
      const std::int64_t token =
          (p.cu_seqlens ? u.first : u.batch * window_steps - p.window_begin * kSteps) + t0;
      at = reinterpret_cast<char*>(sink.partial + (token * p.N + u.head) * p.K + row);
      stride = static_cast<std::int64_t>(p.N) * p.K * 4;
    } else if (sink.direct.data) {
      at = token_row(sink.direct, u) + t0 * sink.direct.time + row * sink.direct.column;
      stride = sink.direct.time;
    } else {
      count = 0;
    }
    at += Keys::step(lane, 0) * stride;
  }
};

static __device__ __noinline__ void write_rows_slowly(const TokenSink& sink, RowSink to,
                                                      const float4 (*rows)[9], bool is_q, int steps,
                                                      int lane) {
  using Keys = RowSink::Keys;
  for (int i = 0; i < Keys::kCount; ++i, to.at += Keys::kPerLoad * to.stride) {
    const int step = Keys::step(lane, i);
    if (step >= steps || to.count <= 0) return;
    const float4 row = rows[step][lane % 8];
    const float x = is_q ? row.z : row.x, y = is_q ? row.w : row.y;
    if (sink.partial) {
      reinterpret_cast<float*>(to.at)[0] = x;
      if (to.count > 1) reinterpret_cast<float*>(to.at)[1] = y;
    } else {
      store_pair(sink.direct, to.at, to.count, x, y);
    }
  }
}

/// d_k and d_q of a block of time, which lie where k and q were.
__device__ __forceinline__ void write_rows(const M2rnnParams& p, const UnitPlace& u,
                                           const float4 (*rows)[9], int row0, std::int64_t t0,
                                           int steps, int lane) {
  using Keys = RowSink::Keys;
  RowSink k(p, u, p.d_k, row0, t0, lane), q(p, u, p.d_q, row0, t0, lane);
  if (p.plain_rows && steps == kSteps) {
#pragma unroll
    for (int i = 0; i < Keys::kCount; ++i) {
      const float4 row = rows[Keys::step(lane, i)][lane % 8];
      *reinterpret_cast<float2*>(k.at) = make_float2(row.x, row.y);
      *reinterpret_cast<float2*>(q.at) = make_float2(row.z, row.w);
      k.at += Keys::kPerLoad * k.stride, q.at += Keys::kPerLoad * q.stride;
    }
    return;
  }
  write_rows_slowly(p.d_k, k, rows, false, steps, lane);
  write_rows_slowly(p.d_q, q, rows, true, steps, lane);
}

/// Row of a partial sum over the rows of this block's group.
__device__ __forceinline__ float* partial_row(const M2rnnParams& p, const UnitPlace& u,
                                              const TokenSink& sink, std::int64_t t) {
  const std::int64_t window_steps = (p.window_end - p.window_begin) * kSteps;
  const std::int64_t token =
      (p.cu_seqlens ? u.first : u.batch * window_steps - p.window_begin * kSteps) + t;
  return sink.partial + ((token * p.N + u.head) * p.row_groups + blockIdx.y) * sink.width;
}

__device__ __forceinline__ void write_d_f(const M2rnnParams& p, const UnitPlace& u,
                                          const float* sums, std::int64_t t0, int steps) {
  const int step = threadIdx.x;
  if (step >= steps) return;
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    if (w >= p.warps) break;
    sum += sums[w * kSteps + step];
  }
  if (p.d_f.partial) {
    *partial_row(p, u, p.d_f, t0 + step) = sum;
  } else if (p.d_f.direct.data) {
    const Strided& to = p.d_f.direct;
    store_element(token_row(to, u) + (t0 + step) * to.time, to.dtype, sum);
  }
}

/// d_v and d_f of a block of time, from the sums of the warps.
template <int V, class Warp>
__device__ __noinline__ void write_sums(const M2rnnParams& p, const UnitPlace& u,
                                        const float (*sums)[V], const float* d_f_sums,
                                        const Warp& own, std::int64_t t0, int steps) {
  const char* residual =
      p.w_residual.data && blockIdx.y == 0 && !ASSAY_M2RNN_IS_FAULT(p, dv_residual_missing)
          ? p.w_residual.data + u.head / p.w_residual.share * p.w_residual.head
          : nullptr;
  if (p.d_v.partial || p.d_v.direct.data) {
    each_sum<V>(sums, steps, [&](int step, int column, float x, float y) {
      const int count = p.V - column;
      if (residual) {
        const float2 c = *reinterpret_cast<const float2*>(&own.u[step][Stage<V>::slot(column)]);
        const char* at = residual + column * p.w_residual.column;
        if (count > 0) x += load_element(at, p.w_residual.dtype) * c.x;
        if (count > 1) y += load_element(at + p.w_residual.column, p.w_residual.dtype) * c.y;
      }
      if (p.d_v.partial) {
        float* out = partial_row(p, u, p.d_v, t0 + step) + column;
        if (count > 0) out[0] = x;
        if (count > 1) out[1] = y;
        return;
      }
      const Strided& to = p.d_v.direct;
      store_pair(to, token_row(to, u) + (t0 + step) * to.time + column * to.column, count, x, y);
    });
  }
  write_d_f(p, u, d_f_sums, t0, steps);
}

/// c += H'^T D, [V/16][V/8] tiles of 16x8. Sums of the tensor cores are truncated, which adds up
/// over thousands of steps; `apart` as in Weights::multiply_add.
template <class Format, bool apart, int V>
__device__ __forceinline__ void add_outer(Operand<Format, V / 8> a, Operand<Format, V / 8> b,
                                          float (&c)[V / 16][V / 8][4]) {
#pragma unroll
  for (int s = 0; s < Format::kParts; ++s) {
#pragma unroll
    for (int n = 0; n < V / 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        a.part[s][n][half] = transposed_tile(a.part[s][n][half]);
        b.part[s][n][half] = transposed_tile(b.part[s][n][half]);
      }
    }
  }
#pragma unroll
  for (int m = 0; m < V / 16; ++m) {
#pragma unroll
    for (int n = 0; n < V / 8; ++n) {
      float small[4] = {0, 0, 0, 0};
      auto& to = apart ? small : c[m][n];
#pragma unroll
      for (int order = Format::kParts - 1; order >= (apart ? 1 : 0); --order) {
#pragma unroll
        for (int s = 0; s <= order; ++s) {
          const std::uint32_t x[4] = {a.part[s][2 * m][0], a.part[s][2 * m + 1][0],
                                      a.part[s][2 * m][1], a.part[s][2 * m + 1][1]};
          multiply(to, x, b.part[order - s][n][0], b.part[order - s][n][1]);
        }
      }
      if constexpr (apart) {
#pragma unroll
        for (int e = 0; e < 4; ++e) c[m][n][e] += small[e];
        const std::uint32_t x[4] = {a.part[0][2 * m][0], a.part[0][2 * m + 1][0],
                                    a.part[0][2 * m][1], a.part[0][2 * m + 1][1]};
        add_rounded(c[m][n], x, b.part[0][n][0], b.part[0][n][1]);
      }
    }
  }
}

/// f(element, its number within a lane) of a [V,V] matrix in tiles of 16x8.
template <int V, class F>
__device__ __forceinline__ void each_tile(float (&x)[V / 16][V / 8][4], const F& f) {
#pragma unroll
  for (int m = 0; m < V / 16; ++m) {
#pragma unroll
    for (int n = 0; n < V / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) f(x[m][n][e], (m * (V / 8) + n) * 4 + e);
    }
  }
}

/// The coarser split is the beginning of the finer one.
template <class To, class From, int tiles>
__device__ __forceinline__ Operand<To, tiles> first_parts(const Operand<From, tiles>& from) {
  static_assert(To::kParts <= From::kParts);
  Operand<To, tiles> to;
#pragma unroll
  for (int s = 0; s < To::kParts; ++s) {
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
      to.part[s][n][0] = from.part[s][n][0], to.part[s][n][1] = from.part[s][n][1];
    }
  }
  return to;
}

}  // namespace assay::cuda
