// Forward pass of M²RNN.
//
// A warp carries 16 or 32 rows of the state in registers: with 32, two chains hide each other's
// latency and share what is the same for all rows; with 16, more warps share few states. Nothing
// but the read-out crosses lanes or warps; its partial sums wait in shared memory and are added up
// a few steps at a time, so that the chain from state to state holds no shuffle and a block of 16
// steps one barrier.
#pragma once

#include "kernels/m2rnn/m2rnn_device.cuh"

namespace assay::cuda {

template <class P, int V, int tiles>
struct ForwardWarp {
  static constexpr int kSubSteps = V == 64 ? 4 : 8;  // between sums over the lanes
  static constexpr int kStride = 2 * V + 4;          // of `read`; four more keep banks apart

  KeyStage keys[tiles];
  Stage<V> stage;
  float4 read[(kSubSteps + 1) * kStride];  // slot s: the read-out before step s
};

/// v of a step; quarters of it, as an operand, where k v^T is made by the tensor cores.
template <class P, int V>
using ForwardValues = std::conditional_t<P::kPacked, float[V / 8], float[V / 8][2]>;

template <class P, int V, int tiles>
struct ForwardMemory {
  using W = Weights<typename P::Forward, V>;
  static constexpr int kWarpBytes = sizeof(ForwardWarp<P, V, tiles>);
  static constexpr int kSumBuffers = V == 64 ? 1 : 2;
  static constexpr int kSumBytes = kSumBuffers * kSteps * V * sizeof(float);  // for each warp
  static int bytes(int warps) { return W::kSharedBytes + warps * (kWarpBytes + kSumBytes); }
};

/// y of a block of time: the warps' sums, and the direct path from v.
template <class P, int V>
__device__ __noinline__ void write_y(const M2rnnParams& p, const UnitPlace& u,
                                     const float (*sums)[V], const Stage<V>& stage, std::int64_t t0,
                                     int steps) {
  const char* residual = p.w_residual.data
                             ? p.w_residual.data + u.head / p.w_residual.share * p.w_residual.head
                             : nullptr;
  char* row = token_row(p.y, u) + t0 * p.y.time;
  each_sum<V>(sums, steps, [&](int step, int column, float x, float y) {
    const int count = p.V - column;
    if (p.y_partial) {
      const std::int64_t token = (u.batch * p.T + u.first + t0 + step) * p.N + u.head;
      float* out = p.y_partial + (token * p.row_groups + blockIdx.y) * p.V + column;
      if (count > 0) out[0] = x;
      if (count > 1) out[1] = y;
      return;
    }
    if (residual) {
      const auto v = [&](int c) {
        return P::kPacked ? 4.0f * stage.v[step][Stage<V>::operand_slot(c)]
                          : stage.v[step][Stage<V>::slot(c)];
      };
      const char* at = residual + column * p.w_residual.column;
      if (count > 0) x += load_element(at, p.w_residual.dtype) * v(column);
      if (count > 1) {
        y += load_element(at + p.w_residual.column, p.w_residual.dtype) * v(column + 1);
      }
    }
    store_pair(p.y, row + step * p.y.time + column * p.y.column, count, x, y);
  });
}

template <class P, int V, int tiles>
__device__ __forceinline__ void forward_block(const M2rnnParams& p) {
  using Memory = ForwardMemory<P, V, tiles>;
  using Warp = ForwardWarp<P, V, tiles>;
  constexpr int kTiles = V / 8;
  ASSAY_SHARED_MEMORY(memory);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x / 32;
  const int g = lane >> 2;
  const int row_tile = (blockIdx.y * kWarps + warp) * tiles, row0 = row_tile * kRows;
  const UnitPlace u = place_of(p, blockIdx.x);
  Warp& own =
      *reinterpret_cast<Warp*>(memory + Memory::W::kSharedBytes + warp * Memory::kWarpBytes);
  auto sums =
      reinterpret_cast<float(*)[V]>(memory + Memory::W::kSharedBytes + warps * Memory::kWarpBytes);

  Tile<V> h[tiles], z[tiles];
#pragma unroll
  for (int j = 0; j < tiles; ++j) load_state(h[j], p, p.h0, u, row0 + j * kRows, lane);
  typename Memory::W w;
  w.load(p, u, ASSAY_M2RNN_IS_FAULT(p, w_transposed_forward), memory);
  if constexpr (!Memory::W::kInRegisters) __syncthreads();

  Loads<P, V, tiles> loads(p, u, row0, 0, lane);
  float4* checkpoint =
      p.checkpoints ? p.checkpoints + checkpoint_at(p, u, 0, row_tile, V) : nullptr;
  const std::int64_t checkpoint_step = static_cast<std::int64_t>(p.N) * p.row_tiles * kTiles * 32;
  const bool plain_y = p.y.pairs && !p.y_partial && !p.w_residual.data && p.V == V;
  char* y_row = token_row(p.y, u);
  int steps = static_cast<int>(u.length < kSteps ? u.length : kSteps), parity = 0;
  loads.load(p, row0, steps, lane);
  for (std::int64_t t0 = 0; t0 < u.length; t0 += kSteps) {
    __syncwarp();
    loads.template stage<P::kPacked>(p, u, row0, own.keys, own.stage, lane);
    __syncwarp();
    if (checkpoint) {
#pragma unroll
      for (int j = 0; j < tiles; ++j) {
        if (row_tile + j < p.row_tiles) h[j].store(checkpoint + j * kTiles * 32, lane);
      }
      checkpoint += checkpoint_step;
    }
    const std::int64_t left = u.length - t0 - kSteps;
    const int next_steps = static_cast<int>(left < 0 ? 0 : left < kSteps ? left : kSteps);
    loads.move(p, 1);
    loads.load(p, row0, next_steps, lane);

    float(*own_sums)[V] = sums + (parity * warps + warp) * kSteps;
    // The inputs of a step are fetched, and its read-out is made, while the next is on its way.
    float4 kq[tiles];
    float2 q[tiles] = {};
    float2 f = own.stage.f[0];
    ForwardValues<P, V> v;
#pragma unroll
    for (int j = 0; j < tiles; ++j) kq[j] = own.keys[j][0][g];
    Stage<V>::take(own.stage.v[0], lane, v);
    const auto leave_read_out = [&](float4* at) {
#pragma unroll
      for (int m = 0; m < V / 16; ++m) {
        float x[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int n = 2 * m + (e >> 1), c = e & 1;
          x[e] = q[0].x * h[0].x[n][c];
          x[e] = fmaf(q[0].y, h[0].x[n][2 + c], x[e]);
#pragma unroll
          for (int j = 1; j < tiles; ++j) {
            x[e] = fmaf(q[j].x, h[j].x[n][c], x[e]);
            x[e] = fmaf(q[j].y, h[j].x[n][2 + c], x[e]);
          }
        }
        at[32 * m] = make_float4(x[0], x[1], x[2], x[3]);
      }
    };
    for (int first = 0; first < steps; first += Warp::kSubSteps) {
      const int end = steps - first < Warp::kSubSteps ? steps - first : Warp::kSubSteps;
      float4* read = own.read + lane;
#pragma unroll 2
      for (int s = 0; s < end; ++s) {
        const float2 f_now = f;
        float2 next_q[tiles];
#pragma unroll
        for (int j = 0; j < tiles; ++j) {
          outer_product<V>(kq[j], v, z[j]);
          const Operand<typename P::Forward, kTiles> a(h[j].x);
          w.template multiply_add<P::kApart>(a, z[j].x);
          next_q[j] = make_float2(kq[j].z, kq[j].w);
        }
        const int next = (first + s + 1) % kSteps;
        f = own.stage.f[next];
        Stage<V>::take(own.stage.v[next], lane, v);
#pragma unroll
        for (int j = 0; j < tiles; ++j) kq[j] = own.keys[j][next][g];
        leave_read_out(read);
        read += Warp::kStride;
#pragma unroll
        for (int j = 0; j < tiles; ++j) {
          q[j] = next_q[j];
          update<P, V>(h[j], z[j], f_now);
        }
      }
      leave_read_out(read);
      __syncwarp();
      sum_rows<V, Warp::kSubSteps>(own.read + Warp::kStride, Warp::kStride, own_sums + first, end,
                                   lane);
      __syncwarp();
    }
    if (p.y.data) {
      __syncthreads();
      const auto ready = sums + parity * warps * kSteps;
      if (plain_y) {
        each_sum<V>(ready, steps, [&](int step, int column, float x, float y) {
          store_whole_pair(y_row + step * p.y.time + column * 2, p.y.dtype == DType::bf16, x, y);
        });
        y_row += kSteps * p.y.time;
      } else {
        write_y<P, V>(p, u, ready, own.stage, t0, steps);
      }
      if (Memory::kSumBuffers == 1) __syncthreads();
    }
    if (Memory::kSumBuffers == 2) parity ^= 1;
    steps = next_steps;
  }
#pragma unroll
  for (int j = 0; j < tiles; ++j) {
    store_state(h[j], p, p.h_final, u, row0 + j * kRows, lane);
  }
}

template <class P, int V, int tiles, class Kernel>
cudaError_t launch_forward(Kernel* kernel, const M2rnnParams& p, cudaStream_t stream) {
  const int warps = (p.warps + tiles - 1) / tiles;
  return launch_units(kernel, p, warps, ForwardMemory<P, V, tiles>::bytes(warps), stream);
}

}  // namespace assay::cuda
