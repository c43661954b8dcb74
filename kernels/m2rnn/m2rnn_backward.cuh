// Backward pass of M²RNN. With u the cotangent of y and C that of H from later steps:
//
//   R = C + q u^T    D = (1 - f) R ∘ (1 - Z ∘ Z)    C' = f R + D W^T
//   d_f = <R, H' - Z>   d_w = Σ H'^T D   d_k = D v   d_v = D^T k + w_residual ∘ u   d_q = H u
//
// Block by block of time, the last first: the 16 steps are computed again from the state stored
// before them, with the same arithmetic, and the H' are kept on chip; then the steps are walked
// back, where Z is computed once more, which costs less than to keep it. Sums over rows cross warps
// once per block.
#pragma once

#include "kernels/m2rnn/m2rnn_device.cuh"

namespace assay::cuda {

/// The states before the steps of a block of time, each lane its own part: as the fp16 operands
/// they are, or as fp32. Once a step has been walked back, its partial sums of d_v take the same
/// place.
template <class P, int V>
struct History {
  static constexpr int kVectors = V / (P::kPacked ? 16 : 8);  // of a lane, per step
  static constexpr int kStride = kVectors * 32 + 4;           // four more keep banks apart
  static constexpr int kWarpBytes = kSteps * kStride * 16;
  static constexpr bool kShared = kWarpBytes <= 18432;

  static __device__ __forceinline__ void put(uint4* at, const Tile<V>& x,
                                             const SplitTile<typename P::Forward, V / 8>& parts) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      if constexpr (P::kPacked) {
        at[32 * i] = make_uint4(parts.part[0][2 * i][0], parts.part[0][2 * i][1],
                                parts.part[0][2 * i + 1][0], parts.part[0][2 * i + 1][1]);
      } else {
        at[32 * i] = make_uint4(__float_as_uint(x.x[i][0]), __float_as_uint(x.x[i][1]),
                                __float_as_uint(x.x[i][2]), __float_as_uint(x.x[i][3]));
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
  static __device__ __forceinline__ void unpack(const Raw& raw, Tile<V>& x) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const std::uint32_t words[4] = {raw.x[i].x, raw.x[i].y, raw.x[i].z, raw.x[i].w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if constexpr (P::kPacked) {
          const float2 pair = unpack_half2(words[e]);
          x.x[2 * i + e / 2][2 * (e & 1)] = pair.x, x.x[2 * i + e / 2][2 * (e & 1) + 1] = pair.y;
        } else {
          x.x[i][e] = __uint_as_float(words[e]);
        }
      }
    }
  }
  static __device__ __forceinline__ void operand(const Raw& raw,
                                                 SplitTile<typename P::Forward, V / 8>& parts) {
    if constexpr (P::kPacked) {
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        parts.part[0][2 * i][0] = raw.x[i].x, parts.part[0][2 * i][1] = raw.x[i].y;
        parts.part[0][2 * i + 1][0] = raw.x[i].z, parts.part[0][2 * i + 1][1] = raw.x[i].w;
      }
    } else {
      Tile<V> x;
      unpack(raw, x);
      parts = SplitTile<typename P::Forward, V / 8>(x.x);
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
  __device__ __forceinline__ void candidate(const Weights<typename P::Forward, V>& w,
                                            Tile<V>& z) const {
    outer_product<V>(kq, v, z);
    SplitTile<typename P::Forward, V / 8> a;
    History<P, V>::operand(before, a);
    w.template multiply_add<P::kApart>(a, z.x);
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
  using WT = Weights<typename P::Adjoint, V>;
  static constexpr int kWarpBytes = (sizeof(BackwardWarp<P, V>) + 15) / 16 * 16;
  static constexpr int kHistoryBytes = History<P, V>::kShared ? History<P, V>::kWarpBytes : 0;
  static constexpr int kSumBuffers = V == 16 ? 2 : 1;
  static constexpr int kSumBytes = kSumBuffers * kSteps * (V + 1) * sizeof(float);
  static int bytes(int warps) {
    return W::kSharedBytes + WT::kSharedBytes + warps * (kWarpBytes + kHistoryBytes + kSumBytes);
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
__device__ __forceinline__ void add_outer(const Tile<V>& h, SplitTile<Format, V / 8> b,
                                          float (&c)[V / 16][V / 8][4]) {
  SplitTile<Format, V / 8> a(h.x);
#pragma unroll
  for (int s = 0; s < Format::kParts; ++s) {
#pragma unroll
    for (int n = 0; n < V / 8; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        a.part[s][n][half] = transpose_tile(a.part[s][n][half]);
        b.part[s][n][half] = transpose_tile(b.part[s][n][half]);
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
          mma<Format>(to, a.part[s][2 * m][0], a.part[s][2 * m + 1][0], a.part[s][2 * m][1],
                      a.part[s][2 * m + 1][1], b.part[order - s][n][0], b.part[order - s][n][1]);
        }
      }
      if constexpr (apart) {
#pragma unroll
        for (int e = 0; e < 4; ++e) c[m][n][e] += small[e];
        add_rounded<Format>(c[m][n], a.part[0][2 * m][0], a.part[0][2 * m + 1][0],
                            a.part[0][2 * m][1], a.part[0][2 * m + 1][1], b.part[0][n][0],
                            b.part[0][n][1]);
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
__device__ __forceinline__ SplitTile<To, tiles> first_parts(const SplitTile<From, tiles>& from) {
  static_assert(To::kParts <= From::kParts && To::kHalf == From::kHalf);
  SplitTile<To, tiles> to;
#pragma unroll
  for (int s = 0; s < To::kParts; ++s) {
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
      to.part[s][n][0] = from.part[s][n][0], to.part[s][n][1] = from.part[s][n][1];
    }
  }
  return to;
}

template <class P, int V>
__device__ __forceinline__ void backward_block(const M2rnnParams& p) {
  using Memory = BackwardMemory<P, V>;
  using Kept = History<P, V>;
  constexpr int kTiles = V / 8;
  extern __shared__ float4 shared_memory[];
  char* memory = reinterpret_cast<char*>(shared_memory);
  char* w_memory = memory;
  char* wt_memory = w_memory + Memory::W::kSharedBytes;
  char* warp_memory = wt_memory + Memory::WT::kSharedBytes;
  char* history_memory = warp_memory + p.warps * Memory::kWarpBytes;
  char* sum_memory = history_memory + p.warps * Memory::kHistoryBytes;

  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2;
  const int row_tile = blockIdx.y * kWarps + warp, row0 = row_tile * kRows;
  const UnitPlace u = place_of(p, blockIdx.x);
  const std::int64_t warp_index = u.index * (p.row_groups * p.warps) + row_tile;
  auto& own = *reinterpret_cast<BackwardWarp<P, V>*>(warp_memory + warp * Memory::kWarpBytes);
  auto sums = reinterpret_cast<float(*)[V]>(sum_memory);
  float* d_f_sums = &sums[Memory::kSumBuffers * p.warps * kSteps][0];
  uint4* history =
      (Kept::kShared ? reinterpret_cast<uint4*>(history_memory + warp * Memory::kHistoryBytes)
                     : p.scratch + warp_index * (Kept::kWarpBytes / 16)) +
      lane;

  const float scale = P::kScaled ? p.scales[u.index * p.row_groups + blockIdx.y] : 1.0f;
  const float unscale = 1.0f / scale;
  typename Memory::W w;
  typename Memory::WT wt;
  w.load(p, u, ASSAY_M2RNN_IS_FAULT(p, w_transposed_forward), unscale, w_memory);
  wt.load(p, u, !ASSAY_M2RNN_IS_FAULT(p, w_transposed_adjoint), 1.0f, wt_memory);
  if constexpr (!Memory::W::kInRegisters || !Memory::WT::kInRegisters) __syncthreads();

  Tile<V> c;  // the cotangent of the state
  float d_w[V / 16][kTiles][4];
  float4* carried = reinterpret_cast<float4*>(p.carry) + warp_index * kTiles * 32;
  float* d_w_out = p.d_w_tiles + warp_index * (V * V) + lane;
  if (!p.first_window) {
    c.load(carried, lane);
  } else if (ASSAY_M2RNN_IS_FAULT(p, final_cotangent_ignored)) {
    c.fill(0.0f);
  } else {
    load_state(c, p, p.d_h_final, u, row0, lane);
  }
  each_tile<V>(d_w, [&](float& x, int at) { x = p.first_window ? 0.0f : d_w_out[32 * at]; });

  const int lower = lane & 1, is_q = (lane & 2) >> 1;
  const std::int64_t blocks = (u.length + kSteps - 1) / kSteps;
  const std::int64_t last = blocks < p.window_end ? blocks : p.window_end;
  Loads<P, V, 1> loads(p, u, row0, last - 1, lane);
  TokenLoads<P, V> u_loads;
  const char* u_at = nullptr;
  if (p.d_y.data) {
    u_at = u_loads.first(p.d_y, token_row(p.d_y, u), lane) + (last - 1) * kSteps * p.d_y.time;
  }
  const auto steps_of = [&](std::int64_t block) {
    const std::int64_t left = u.length - block * kSteps;
    return block < p.window_begin ? 0 : static_cast<int>(left < kSteps ? left : kSteps);
  };
  const auto fetch = [&](std::int64_t block) {
    const int count = steps_of(block);
    loads.load(p, row0, count, lane);
    u_loads.load(p.d_y, u_at, u_at ? count : 0, p.V, p.aligned, lane);
  };
  const auto checkpoint_of = [&](std::int64_t block) {
    return p.checkpoints + checkpoint_at(p, u, block, row_tile, V) + lane;
  };
  const auto ask_for_checkpoint = [&](std::int64_t block) {
    if constexpr (kAhead<V>) {
      if (row_tile < p.row_tiles) {
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          copy_async(&own.checkpoint[n][lane], checkpoint_of(block) + 32 * n);
        }
      }
      asm volatile("cp.async.commit_group;");
    }
  };
  const auto take_checkpoint = [&](std::int64_t block, Tile<V>& h) {
    h.fill(0.0f);
    if constexpr (kAhead<V>) asm volatile("cp.async.wait_all;" ::: "memory");
    if (row_tile >= p.row_tiles) return;
    // A lane takes what it asked for itself; no other has to wait.
    h.load(kAhead<V> ? &own.checkpoint[0][0] : checkpoint_of(block) - lane, lane);
  };
  const bool plain_sums = p.d_v.direct.pairs && !p.w_residual.data && p.V == V;
  fetch(last - 1);
  if (last > p.window_begin) ask_for_checkpoint(last - 1);
  for (std::int64_t block = last - 1; block >= p.window_begin; --block) {
    const int steps = steps_of(block);
    const std::int64_t t0 = block * kSteps;
    __syncwarp();
    loads.stage(p, u, row0, scale, &own.keys, own.stage, lane);
    stage_values<P, V>(u_loads, p.d_y.dtype, own.u, lane);
    __syncwarp();
    Tile<V> h, z;
    take_checkpoint(block, h);
    loads.move(p, -1);
    if (u_at) u_at -= kSteps * p.d_y.time;
    fetch(block - 1);
    if (block > p.window_begin) ask_for_checkpoint(block - 1);

    {
      float4 kq = own.keys[0][g];
      float2 f = own.stage.f[0];
      float v[kTiles][2];
      Stage<V>::take(own.stage.v[0], lane, v);
#pragma unroll 2
      for (int s = 0; s < steps; ++s) {
        outer_product<V>(kq, v, z);
        const SplitTile<typename P::Forward, kTiles> a(h.x);
        w.template multiply_add<P::kApart>(a, z.x);
        const float2 f_now = f;
        const int next = (s + 1) % kSteps;
        kq = own.keys[next][g];
        f = own.stage.f[next];
        Stage<V>::take(own.stage.v[next], lane, v);
        Kept::put(history + s * Kept::kStride, h, a);
        const Tile<V> before = h;
        update<P, V>(h, z, f_now);
        if (ASSAY_M2RNN_IS_FAULT(p, recompute_stale)) h = before;
      }
    }

    float block_d_w[V / 16][kTiles][4];
    if constexpr (!P::kApart) each_tile<V>(block_d_w, [](float& x, int) { x = 0; });
    StepBack<P, V> now;
    if constexpr (kAhead<V>) {
      now.load(own.keys, own.stage, own.u, history, steps - 1, lane);
      now.candidate(w, z);
      z.each([](float& x) { x = P::tanh(x); });
    }
#pragma unroll 2
    for (int s = steps - 1; s >= 0; --s) {
      StepBack<P, V> next;
      if constexpr (kAhead<V>) {
        next.load(own.keys, own.stage, own.u, history, s > 0 ? s - 1 : 0, lane);
      } else {
        now.load(own.keys, own.stage, own.u, history, s, lane);
        now.candidate(w, z);
        z.each([](float& x) { x = P::tanh(x); });
      }
      const float rest = 1.0f - now.f;
      Tile<V> h_prev;
      Kept::unpack(now.before, h_prev);
      if (ASSAY_M2RNN_IS_FAULT(p, future_dropped)) c.fill(0.0f);
      if (p.clips && !ASSAY_M2RNN_IS_FAULT(p, clip_output_not_state)) {
        c.each([&](float& x) { x = clamp_within(x, p.clip); });
      }
      float rows[4] = {0, 0, 0, 0};  // d_k of both rows, then d_q
      float d_f = 0, d_v[kTiles][2];
      Tile<V> d;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int half = e >> 1, j = e & 1;
          const float q = half ? now.kq.w : now.kq.z, k = half ? now.kq.y : now.kq.x;
          const float z_t = z.x[n][e], u_t = now.u[n][j];
          float r = c.x[n][e] + q * u_t;
          if (ASSAY_M2RNN_IS_FAULT(p, clip_output_not_state) && p.clips) {
            r = clamp_within(r, p.clip);
          }
          const float at = ASSAY_M2RNN_IS_FAULT(p, tanh_slope_of_state) ? unscale * h.x[n][e] : z_t;
          const float slope = fmaf(-at, at, 1.0f);
          const float x = (ASSAY_M2RNN_IS_FAULT(p, candidate_ungated) ? 1.0f : rest) * (r * slope);
          d.x[n][e] = x;
          c.x[n][e] = ASSAY_M2RNN_IS_FAULT(p, retain_overwritten) ? 0.0f : now.f * r;
          d_f += r * (unscale * (ASSAY_M2RNN_IS_FAULT(p, df_uses_new_state) ? h : h_prev).x[n][e] -
                      z_t);
          rows[2 + half] += (ASSAY_M2RNN_IS_FAULT(p, dq_uses_old_state) ? h_prev : h).x[n][e] * u_t;
          rows[half] += x * now.v[n][j];
          d_v[n][j] = half == 0 ? x * k : fmaf(x, k, d_v[n][j]);
        }
      }
      const SplitTile<typename P::Adjoint, kTiles> d_parts(d.x);
      wt.template multiply_add<P::kApart>(d_parts, c.x);
      if constexpr (kAhead<V>) next.candidate(w, z);
      add_outer<typename P::Outer, P::kApart, V>(h_prev, first_parts<typename P::Outer>(d_parts),
                                                 P::kApart ? d_w : block_d_w);

      rows[2] *= unscale, rows[3] *= unscale;
      const float sent0 = is_q ? rows[0] : rows[2], sent1 = is_q ? rows[1] : rows[3];
      float kept0 = is_q ? rows[2] : rows[0], kept1 = is_q ? rows[3] : rows[1];
      kept0 += __shfl_xor_sync(~0u, sent0, 2), kept1 += __shfl_xor_sync(~0u, sent1, 2);
      const float other = __shfl_xor_sync(~0u, lower ? kept0 : kept1, 1);
      d_f += __shfl_xor_sync(~0u, d_f, 16);
      if constexpr (kAhead<V>) {
        z.each([](float& x) { x = P::tanh(x); });
        now = next;
      }
      __syncwarp();  // the keys of this step have been read by all
      reinterpret_cast<float*>(own.keys[s])[lane] = (lower ? kept1 : kept0) + other;
      if (lane < 16) own.d_f[s][lane] = d_f;
      float4* d_v_at = reinterpret_cast<float4*>(history + s * Kept::kStride);
#pragma unroll
      for (int m = 0; m < V / 16; ++m) {
        d_v_at[32 * m] =
            make_float4(d_v[2 * m][0], d_v[2 * m][1], d_v[2 * m + 1][0], d_v[2 * m + 1][1]);
      }
      h = h_prev;
    }
    if constexpr (!P::kApart) {
#pragma unroll
      for (int m = 0; m < V / 16; ++m) {
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) d_w[m][n][e] += block_d_w[m][n][e];
        }
      }
    }
    __syncwarp();
    const int parity = Memory::kSumBuffers == 2 ? static_cast<int>(block & 1) : 0;
    const int own_sums = (parity * p.warps + warp) * kSteps;
    sum_rows<V, kSteps>(reinterpret_cast<const float4*>(history - lane), Kept::kStride,
                        sums + own_sums, steps, lane);
    write_rows(p, u, own.keys, row0, t0, steps, lane);
    float sum = 0;  // of a step that is not there: whatever, and not looked at
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += own.d_f[lane >> 1][8 * (lane & 1) + i];
    sum += __shfl_xor_sync(~0u, sum, 1);
    d_f_sums[own_sums + (lane >> 1)] = sum;
    __syncthreads();
    const auto ready = sums + parity * p.warps * kSteps;
    const float* d_f_ready = d_f_sums + parity * p.warps * kSteps;
    if (plain_sums) {
      char* row = token_row(p.d_v.direct, u) + t0 * p.d_v.direct.time;
      each_sum<V>(ready, steps, [&](int step, int column, float x, float y) {
        store_whole_pair(row + step * p.d_v.direct.time + column * 2,
                         p.d_v.direct.dtype == DType::bf16, x, y);
      });
      write_d_f(p, u, d_f_ready, t0, steps);
    } else {
      write_sums<V>(p, u, ready, d_f_ready, own, t0, steps);
    }
    if (Memory::kSumBuffers == 1) __syncthreads();
  }

  each_tile<V>(d_w, [&](float& x, int at) { d_w_out[32 * at] = p.last_window ? unscale * x : x; });
  if (p.last_window) {
    store_state(c, p, p.d_h0, u, row0, lane, 1.0f);
  } else {
    c.store(carried, lane);
  }
}

template <class P, int V, class Kernel>
cudaError_t launch_backward(Kernel* kernel, const M2rnnParams& p, cudaStream_t stream) {
  const std::int64_t units = p.sequences * p.N;
  if (units == 0) return cudaSuccess;
  const int bytes = BackwardMemory<P, V>::bytes(p.warps);
  if (const cudaError_t e = give_shared_memory(kernel, bytes); e != cudaSuccess) return e;
  const dim3 grid(static_cast<unsigned>(units), static_cast<unsigned>(p.row_groups));
  kernel<<<grid, 32 * p.warps, bytes, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace assay::cuda
