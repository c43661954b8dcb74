// Forward pass of M²RNN.
//
// A warp carries 16 rows of the state in registers. Nothing but the read-out crosses lanes or
// warps; its partial sums wait in shared memory and are added up a few steps at a time, so that the
// chain from state to state holds no shuffle and a block of 16 steps one barrier.
#pragma once

#include "kernels/m2rnn/m2rnn_device.cuh"

namespace assay::cuda {

template <class P, int V>
struct ForwardWarp {
  static constexpr int kSubSteps = V == 64 ? 4 : 8;  // between sums over the lanes
  static constexpr int kStride = 2 * V + 4;          // of `read`; four more keep banks apart

  Stage<V> stage;
  float4 read[(kSubSteps + 1) * kStride];  // slot s: the read-out before step s
};

template <class P, int V>
struct ForwardMemory {
  using W = Weights<typename P::Forward, V>;
  static constexpr int kWarpBytes = sizeof(ForwardWarp<P, V>);
  static constexpr int kSumBuffers = V == 64 ? 1 : 2;
  static constexpr int kSumBytes = kSumBuffers * kSteps * V * sizeof(float);  // for each warp
  static int bytes(int warps) { return W::kSharedBytes + warps * (kWarpBytes + kSumBytes); }
};

/// y of a block of time: the warps' sums, and the direct path from v.
template <int V>
__device__ __forceinline__ void write_y(const M2rnnParams& p, const UnitPlace& u,
                                        const float (*sums)[V], const Stage<V>& stage,
                                        std::int64_t t0, int steps, float unscale) {
  const char* residual = p.w_residual.data
                             ? p.w_residual.data + u.head / p.w_residual.share * p.w_residual.head
                             : nullptr;
  char* row = token_row(p.y, u) + t0 * p.y.time;
  each_sum<V>(sums, p.warps, steps, [&](int step, int column, float x, float y) {
    x *= unscale, y *= unscale;
    const int count = p.V - column;
    if (p.y_partial) {
      const std::int64_t token = (u.batch * p.T + u.first + t0 + step) * p.N + u.head;
      float* out = p.y_partial + (token * p.row_groups + blockIdx.y) * p.V + column;
      if (count > 0) out[0] = x;
      if (count > 1) out[1] = y;
      return;
    }
    if (residual) {
      const float2 v = *reinterpret_cast<const float2*>(&stage.v[step][Stage<V>::slot(column)]);
      const char* at = residual + column * p.w_residual.column;
      if (count > 0) x += load_element(at, p.w_residual.dtype) * v.x;
      if (count > 1) y += load_element(at + p.w_residual.column, p.w_residual.dtype) * v.y;
    }
    store_pair(p.y, row + step * p.y.time + column * p.y.column, count, x, y);
  });
}

/// A warp's own read-out: what is left of a step once the chain is done.
template <int V>
__device__ __forceinline__ void leave_read_out(float4* at, const Tile<V>& h, float q0, float q1) {
#pragma unroll
  for (int m = 0; m < V / 16; ++m) {
    float x[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int n = 2 * m + (e >> 1), j = e & 1;
      x[e] = q0 * h.x[n][j] + q1 * h.x[n][2 + j];
    }
    at[32 * m] = make_float4(x[0], x[1], x[2], x[3]);
  }
}

template <class P, int V>
__device__ __forceinline__ void forward_block(const M2rnnParams& p) {
  using Memory = ForwardMemory<P, V>;
  using Warp = ForwardWarp<P, V>;
  extern __shared__ float4 shared_memory[];
  char* memory = reinterpret_cast<char*>(shared_memory);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2;
  const int row_tile = blockIdx.y * kWarps + warp, row0 = row_tile * kRows;
  const UnitPlace u = place_of(p, blockIdx.x);
  Warp& own =
      *reinterpret_cast<Warp*>(memory + Memory::W::kSharedBytes + warp * Memory::kWarpBytes);
  auto sums = reinterpret_cast<float(*)[V]>(memory + Memory::W::kSharedBytes +
                                            p.warps * Memory::kWarpBytes);

  const float scale = P::kScaled ? operand_scale(p, u, &sums[0][0]) : 1.0f;
  typename Memory::W w;
  w.load(p, u, ASSAY_M2RNN_IS_FAULT(p, w_transposed_forward), 1.0f / scale, memory);
  if constexpr (!Memory::W::kInRegisters) __syncthreads();

  Tile<V> h, z;
  load_state(h, p, p.h0, u, row0, lane, scale);
  Loads<P, V> loads(p, u, row0, lane);
  float4* checkpoint = p.checkpoints && row_tile < p.row_tiles
                           ? p.checkpoints + checkpoint_at(p, u, 0, row_tile, V)
                           : nullptr;
  const std::int64_t checkpoint_step = static_cast<std::int64_t>(p.N) * p.row_tiles * (V / 8) * 32;
  int steps = static_cast<int>(u.length < kSteps ? u.length : kSteps), parity = 0;
  loads.load(p, row0, 0, steps, lane);
  for (std::int64_t t0 = 0; t0 < u.length; t0 += kSteps) {
    __syncwarp();
    loads.stage(p, u, row0, scale, own.stage, lane);
    __syncwarp();
    if (checkpoint) {
      h.store(checkpoint, lane);
      checkpoint += checkpoint_step;
    }
    const std::int64_t left = u.length - t0 - kSteps;
    const int next_steps = static_cast<int>(left < 0 ? 0 : left < kSteps ? left : kSteps);
    loads.load(p, row0, t0 + kSteps, next_steps, lane);

    float(*own_sums)[V] = sums + (parity * p.warps + warp) * kSteps;
    // The inputs of a step are fetched, and its read-out is made, while the next is on its way.
    float4 kq = own.stage.kq[0][g];
    float2 f = own.stage.f[0];
    float v[V / 8][2];
    Stage<V>::take(own.stage.v[0], lane, v);
    float q0 = 0, q1 = 0;
    for (int first = 0; first < steps; first += Warp::kSubSteps) {
      const int end = steps - first < Warp::kSubSteps ? steps - first : Warp::kSubSteps;
#pragma unroll 2
      for (int s = 0; s < end; ++s) {
        outer_product<V>(kq, v, z);
        const SplitTile<typename P::Forward, V / 8> a(h.x);
        w.template multiply_add<P::kApart>(a, z.x);
        const int next = (first + s + 1) % kSteps;
        const float2 f_now = f;
        const float next_q0 = kq.z, next_q1 = kq.w;
        kq = own.stage.kq[next][g];
        f = own.stage.f[next];
        Stage<V>::take(own.stage.v[next], lane, v);
        leave_read_out<V>(own.read + s * Warp::kStride + lane, h, q0, q1);
        q0 = next_q0, q1 = next_q1;
        update<P, V>(h, z, f_now);
      }
      leave_read_out<V>(own.read + end * Warp::kStride + lane, h, q0, q1);
      __syncwarp();
      sum_rows<V, Warp::kSubSteps>(own.read + Warp::kStride, Warp::kStride, own_sums + first, lane);
      __syncwarp();
    }
    if (p.y.data) {
      __syncthreads();
      write_y<V>(p, u, sums + parity * p.warps * kSteps, own.stage, t0, steps, 1.0f / scale);
      if (Memory::kSumBuffers == 1) __syncthreads();
    }
    if (Memory::kSumBuffers == 2) parity ^= 1;
    steps = next_steps;
  }
  store_state(h, p, p.h_final, u, row0, lane, 1.0f / scale);
}

template <class P, int V, class Kernel>
cudaError_t launch_forward(Kernel* kernel, const M2rnnParams& p, cudaStream_t stream) {
  const std::int64_t units = p.sequences * p.N;
  if (units == 0) return cudaSuccess;
  const int bytes = ForwardMemory<P, V>::bytes(p.warps);
  if (const cudaError_t e = give_shared_memory(kernel, bytes); e != cudaSuccess) return e;
  const dim3 grid(static_cast<unsigned>(units), static_cast<unsigned>(p.row_groups));
  kernel<<<grid, 32 * p.warps, bytes, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace assay::cuda
