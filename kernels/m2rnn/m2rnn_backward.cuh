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

#include "kernels/m2rnn/m2rnn_gradients.cuh"

namespace assay::cuda {

template <class P, int V>
__device__ __forceinline__ void backward_block(const M2rnnParams& p) {
  using Memory = BackwardMemory<P, V>;
  using Kept = History<P, V>;
  constexpr int kTiles = V / 8;
  ASSAY_SHARED_MEMORY(memory);
  char* w_memory = memory;
  char* again_memory = w_memory + Memory::W::kSharedBytes;
  char* wt_memory = again_memory + Memory::kAgainBytes;
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

  typename Memory::W w;
  typename Memory::WAgain w_again;
  typename Memory::WT wt;
  w.load(p, u, ASSAY_M2RNN_IS_FAULT(p, w_transposed_forward), w_memory);
  if constexpr (Memory::kOneW) {
    w_again = w;
  } else {
    w_again.load(p, u, ASSAY_M2RNN_IS_FAULT(p, w_transposed_forward), again_memory);
  }
  wt.load(p, u, !ASSAY_M2RNN_IS_FAULT(p, w_transposed_adjoint), wt_memory);
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
          copy_async(reinterpret_cast<char*>(&own.checkpoint[n][lane]),
                     reinterpret_cast<const char*>(checkpoint_of(block) + 32 * n), true);
        }
      }
      copy_commit();
    }
  };
  const auto take_checkpoint = [&](std::int64_t block, Tile<V>& h) {
    h.fill(0.0f);
    if constexpr (kAhead<V>) copy_wait<0>();
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
    loads.template stage<false>(p, u, row0, &own.keys, own.stage, lane);
    stage_values<false>(u_loads, p.d_y.dtype, own.u, lane);
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
        w.template multiply_add<P::kApart>(Operand<typename P::Forward, kTiles>(h.x), z.x);
        const float2 f_now = f;
        const int next = (s + 1) % kSteps;
        kq = own.keys[next][g];
        f = own.stage.f[next];
        Stage<V>::take(own.stage.v[next], lane, v);
        Kept::put(history + s * Kept::kStride, h);
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
      now.candidate(w_again, z);
      z.each([](float& x) { x = P::tanh(x); });
    }
#pragma unroll 2
    for (int s = steps - 1; s >= 0; --s) {
      StepBack<P, V> next;
      if constexpr (kAhead<V>) {
        next.load(own.keys, own.stage, own.u, history, s > 0 ? s - 1 : 0, lane);
      } else {
        now.load(own.keys, own.stage, own.u, history, s, lane);
        now.candidate(w_again, z);
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
          const float at = ASSAY_M2RNN_IS_FAULT(p, tanh_slope_of_state) ? h.x[n][e] : z_t;
          const float slope = fmaf(-at, at, 1.0f);
          const float x = (ASSAY_M2RNN_IS_FAULT(p, candidate_ungated) ? 1.0f : rest) * (r * slope);
          d.x[n][e] = x;
          c.x[n][e] = ASSAY_M2RNN_IS_FAULT(p, retain_overwritten) ? 0.0f : now.f * r;
          d_f += r * ((ASSAY_M2RNN_IS_FAULT(p, df_uses_new_state) ? h : h_prev).x[n][e] - z_t);
          rows[2 + half] += (ASSAY_M2RNN_IS_FAULT(p, dq_uses_old_state) ? h_prev : h).x[n][e] * u_t;
          rows[half] += x * now.v[n][j];
          d_v[n][j] = half == 0 ? x * k : fmaf(x, k, d_v[n][j]);
        }
      }
      const Operand<typename P::Adjoint, kTiles> d_parts(d.x);
      wt.template multiply_add<P::kApart>(d_parts, c.x);
      if constexpr (kAhead<V>) next.candidate(w_again, z);
      add_outer<typename P::Outer, P::kApart, V>(
          Kept::template operand<typename P::Outer>(now.before, h_prev),
          first_parts<typename P::Outer>(d_parts), P::kApart ? d_w : block_d_w);

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

  each_tile<V>(d_w, [&](float& x, int at) { d_w_out[32 * at] = x; });
  if (p.last_window) {
    store_state(c, p, p.d_h0, u, row0, lane);
  } else {
    c.store(carried, lane);
  }
}

template <class P, int V, class Kernel>
cudaError_t launch_backward(Kernel* kernel, const M2rnnParams& p, cudaStream_t stream) {
  return launch_units(kernel, p, p.warps, BackwardMemory<P, V>::bytes(p.warps), stream);
}

}  // namespace assay::cuda
