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
  static __device__ __forceinline__ void get(const uint4* at, Tile<V>& x,
                                             SplitTile<typename P::Forward, V / 8>& parts) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const uint4 a = at[32 * i];
      if constexpr (P::kPacked) {
        parts.part[0][2 * i][0] = a.x, parts.part[0][2 * i][1] = a.y;
        parts.part[0][2 * i + 1][0] = a.z, parts.part[0][2 * i + 1][1] = a.w;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float2 pair = unpack_half2(parts.part[0][2 * i + e / 2][e & 1]);
          x.x[2 * i + e / 2][2 * (e & 1)] = pair.x, x.x[2 * i + e / 2][2 * (e & 1) + 1] = pair.y;
        }
      } else {
        x.x[i][0] = __uint_as_float(a.x), x.x[i][1] = __uint_as_float(a.y);
        x.x[i][2] = __uint_as_float(a.z), x.x[i][3] = __uint_as_float(a.w);
      }
    }
    if constexpr (!P::kPacked) parts = SplitTile<typename P::Forward, V / 8>(x.x);
  }
};

template <class P, int V>
struct BackwardWarp {
  Stage<V> stage;
  float u[kSteps][V];
  float d_f[kSteps][17];
  float padding[12];  // sizes stay multiples of 16 bytes
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

/// A lane's place in d_q or d_k, which it writes once per step.
struct RowSink {
  char* at = nullptr;  // of the unit's first token
  std::int64_t step = 0;
  DType dtype = DType::f32;

  __device__ __forceinline__ RowSink(const M2rnnParams& p, const UnitPlace& u,
                                     const TokenSink& sink, int row) {
    if (row >= p.K) return;
    if (sink.partial) {
      at = reinterpret_cast<char*>(sink.partial + partial_row(p, u, sink) + row);
      step = static_cast<std::int64_t>(p.N) * sink.width * 4;
    } else if (sink.direct.data) {
      at = token_row(sink.direct, u) + row * sink.direct.column;
      step = sink.direct.time;
      dtype = sink.direct.dtype;
    }
  }
  /// Partial sums of rows are no sums over rows: there is one group.
  static __device__ __forceinline__ std::int64_t partial_row(const M2rnnParams& p,
                                                             const UnitPlace& u,
                                                             const TokenSink& sink) {
    const std::int64_t steps = (p.window_end - p.window_begin) * kSteps;
    const std::int64_t token = p.cu_seqlens ? u.first : u.batch * steps - p.window_begin * kSteps;
    return (token * p.N + u.head) * sink.width;
  }
  __device__ __forceinline__ void put(std::int64_t t, float x) const {
    if (!at) return;
    char* to = at + t * step;
    const std::uint32_t pair =
        dtype == DType::bf16 ? pack_pair<Bf16<1>>(x, 0) : pack_pair<Half1>(x, 0);
    if (dtype == DType::f32) {
      *reinterpret_cast<float*>(to) = x;
    } else {
      *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(pair);
    }
  }
};

/// d_v and d_f of a block of time, from the sums of the warps.
template <int V, class Warp>
__device__ __forceinline__ void write_sums(const M2rnnParams& p, const UnitPlace& u,
                                           const float (*sums)[V], const float* d_f_sums,
                                           const Warp& own, std::int64_t t0, int steps) {
  const std::int64_t window_steps = (p.window_end - p.window_begin) * kSteps;
  const std::int64_t token0 =
      (p.cu_seqlens ? u.first : u.batch * window_steps - p.window_begin * kSteps) + t0;
  const auto partial = [&](const TokenSink& sink, int step) {
    const std::int64_t row = ((token0 + step) * p.N + u.head) * p.row_groups + blockIdx.y;
    return sink.partial + row * sink.width;
  };
  const char* residual =
      p.w_residual.data && blockIdx.y == 0 && !ASSAY_M2RNN_IS_FAULT(p, dv_residual_missing)
          ? p.w_residual.data + u.head / p.w_residual.share * p.w_residual.head
          : nullptr;
  if (p.d_v.partial || p.d_v.direct.data) {
    each_sum<V>(sums, p.warps, steps, [&](int step, int column, float x, float y) {
      const int count = p.V - column;
      if (residual) {
        const float2 c = *reinterpret_cast<const float2*>(&own.u[step][Stage<V>::slot(column)]);
        const char* at = residual + column * p.w_residual.column;
        if (count > 0) x += load_element(at, p.w_residual.dtype) * c.x;
        if (count > 1) y += load_element(at + p.w_residual.column, p.w_residual.dtype) * c.y;
      }
      if (p.d_v.partial) {
        float* out = partial(p.d_v, step) + column;
        if (count > 0) out[0] = x;
        if (count > 1) out[1] = y;
        return;
      }
      const Strided& to = p.d_v.direct;
      store_pair(to, token_row(to, u) + (t0 + step) * to.time + column * to.column, count, x, y);
    });
  }
  const int step = threadIdx.x;
  if (step >= steps) return;
  float sum = 0;
  for (int w = 0; w < p.warps; ++w) sum += d_f_sums[w * kSteps + step];
  if (p.d_f.partial) {
    *partial(p.d_f, step) = sum;
  } else if (p.d_f.direct.data) {
    const Strided& to = p.d_f.direct;
    store_element(token_row(to, u) + (t0 + step) * to.time, to.dtype, sum);
  }
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
      float sum[4] = {0, 0, 0, 0};
      auto& to = apart ? sum : c[m][n];
#pragma unroll
      for (int order = Format::kParts - 1; order >= 0; --order) {
#pragma unroll
        for (int s = 0; s <= order; ++s) {
          mma<Format>(to, a.part[s][2 * m][0], a.part[s][2 * m + 1][0], a.part[s][2 * m][1],
                      a.part[s][2 * m + 1][1], b.part[order - s][n][0], b.part[order - s][n][1]);
        }
      }
      if constexpr (apart) {
#pragma unroll
        for (int e = 0; e < 4; ++e) c[m][n][e] += sum[e];
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

  const float scale = P::kScaled ? operand_scale(p, u, d_f_sums) : 1.0f;
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
    load_state(c, p, p.d_h_final, u, row0, lane, 1.0f);
  }
  each_tile<V>(d_w, [&](float& x, int at) { x = p.first_window ? 0.0f : d_w_out[32 * at]; });

  const int lower = lane & 1, is_q = (lane & 2) >> 1;
  const RowSink row_sink(p, u, is_q ? p.d_q : p.d_k, row0 + 2 * g + lower);
  const std::int64_t blocks = (u.length + kSteps - 1) / kSteps;
  const std::int64_t last = blocks < p.window_end ? blocks : p.window_end;
  Loads<P, V> loads(p, u, row0, lane);
  TokenLoads<P, V> u_loads;
  const char* u_at =
      p.d_y.data ? token_row(p.d_y, u) + u_loads.column(lane) * p.d_y.column : nullptr;
  const auto steps_of = [&](std::int64_t block) {
    const std::int64_t left = u.length - block * kSteps;
    return block < p.window_begin ? 0 : static_cast<int>(left < kSteps ? left : kSteps);
  };
  const auto fetch = [&](std::int64_t block) {
    const int count = steps_of(block);
    const std::int64_t t0 = block * kSteps;
    loads.load(p, row0, t0, count, lane);
    u_loads.load(p.d_y, u_at + t0 * p.d_y.time, u_at ? count : 0, p.V, p.aligned, lane);
  };
  fetch(last - 1);
  for (std::int64_t block = last - 1; block >= p.window_begin; --block) {
    const int steps = steps_of(block);
    const std::int64_t t0 = block * kSteps;
    __syncwarp();
    loads.stage(p, u, row0, scale, own.stage, lane);
    stage_values<P, V>(u_loads, p.d_y.dtype, own.u, lane);
    __syncwarp();
    Tile<V> h, z;
    h.fill(0.0f);
    if (row_tile < p.row_tiles) {
      h.load(p.checkpoints + checkpoint_at(p, u, block, row_tile, V), lane);
    }
    fetch(block - 1);

    for (int s = 0; s < steps; ++s) {
      float v[kTiles][2];
      Stage<V>::take(own.stage.v[s], lane, v);
      outer_product<V>(own.stage.kq[s][g], v, z);
      const SplitTile<typename P::Forward, kTiles> a(h.x);
      Kept::put(history + s * Kept::kStride, h, a);
      w.template multiply_add<P::kApart>(a, z.x);
      const Tile<V> before = h;
      update<P, V>(h, z, own.stage.f[s]);
      if (ASSAY_M2RNN_IS_FAULT(p, recompute_stale)) h = before;
    }

    float block_d_w[V / 16][kTiles][4];
    if constexpr (!P::kApart) each_tile<V>(block_d_w, [](float& x, int) { x = 0; });
#pragma unroll 2
    for (int s = steps - 1; s >= 0; --s) {
      const float4 kq = own.stage.kq[s][g];
      const float f = own.stage.f[s].x, rest = 1.0f - f;
      float v[kTiles][2], cotangent[kTiles][2];
      Stage<V>::take(own.stage.v[s], lane, v);
      Stage<V>::take(own.u[s], lane, cotangent);
      Tile<V> h_prev;
      SplitTile<typename P::Forward, kTiles> a;
      Kept::get(history + s * Kept::kStride, h_prev, a);
      outer_product<V>(kq, v, z);
      w.template multiply_add<P::kApart>(a, z.x);
      if (ASSAY_M2RNN_IS_FAULT(p, future_dropped)) c.fill(0.0f);
      if (p.clips && !ASSAY_M2RNN_IS_FAULT(p, clip_output_not_state)) {
        c.each(lane, [&](float& x, int, int) { x = clamp_within(x, p.clip); });
      }
      float rows[4] = {0, 0, 0, 0};  // d_k of both rows, then d_q
      float d_f = 0, d_v[kTiles][2];
      Tile<V> d;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        d_v[n][0] = d_v[n][1] = 0;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int half = e >> 1, j = e & 1;
          const float q = half ? kq.w : kq.z, k = half ? kq.y : kq.x;
          const float zt = P::tanh(z.x[n][e]);
          rows[2 + half] +=
              (ASSAY_M2RNN_IS_FAULT(p, dq_uses_old_state) ? h_prev : h).x[n][e] * cotangent[n][j];
          float r = c.x[n][e] + q * cotangent[n][j];
          if (ASSAY_M2RNN_IS_FAULT(p, clip_output_not_state) && p.clips) {
            r = clamp_within(r, p.clip);
          }
          d_f += r *
                 (unscale * (ASSAY_M2RNN_IS_FAULT(p, df_uses_new_state) ? h : h_prev).x[n][e] - zt);
          const float at = ASSAY_M2RNN_IS_FAULT(p, tanh_slope_of_state) ? unscale * h.x[n][e] : zt;
          const float slope = fmaf(-at, at, 1.0f);
          const float x = (ASSAY_M2RNN_IS_FAULT(p, candidate_ungated) ? 1.0f : rest) * (r * slope);
          d.x[n][e] = x;
          rows[half] += x * v[n][j];
          d_v[n][j] += x * k;
          c.x[n][e] = ASSAY_M2RNN_IS_FAULT(p, retain_overwritten) ? 0.0f : f * r;
        }
      }
      const SplitTile<typename P::Adjoint, kTiles> d_parts(d.x);
      wt.template multiply_add<P::kApart>(d_parts, c.x);
      add_outer<typename P::Outer, P::kApart, V>(h_prev, first_parts<typename P::Outer>(d_parts),
                                                 P::kApart ? d_w : block_d_w);

      rows[2] *= unscale, rows[3] *= unscale;
      const float sent0 = is_q ? rows[0] : rows[2], sent1 = is_q ? rows[1] : rows[3];
      float kept0 = is_q ? rows[2] : rows[0], kept1 = is_q ? rows[3] : rows[1];
      kept0 += __shfl_xor_sync(~0u, sent0, 2), kept1 += __shfl_xor_sync(~0u, sent1, 2);
      const float other = __shfl_xor_sync(~0u, lower ? kept0 : kept1, 1);
      row_sink.put(t0 + s, (lower ? kept1 : kept0) + other);
      d_f += __shfl_xor_sync(~0u, d_f, 16);
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
    // Of a shorter last block, what lies beyond is added up and not looked at.
    sum_rows<V, kSteps>(reinterpret_cast<const float4*>(history - lane), Kept::kStride,
                        sums + own_sums, lane);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += own.d_f[lane >> 1][8 * (lane & 1) + i];
    sum += __shfl_xor_sync(~0u, sum, 1);
    d_f_sums[own_sums + (lane >> 1)] = sum;
    __syncthreads();
    write_sums<V>(p, u, sums + parity * p.warps * kSteps, d_f_sums + parity * p.warps * kSteps, own,
                  t0, steps);
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
