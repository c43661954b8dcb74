// A step of M²RNN, and sums over the rows of a state.
#pragma once

#include "kernels/m2rnn/m2rnn_inputs.cuh"
#include "kernels/m2rnn/m2rnn_weights.cuh"

namespace assay::cuda {

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

/// The same from quarters of v, as four equal products: exact for 16-bit numbers.
template <int V>
__device__ __forceinline__ void outer_product(const float4& kq, const float (&v)[V / 8],
                                              Tile<V>& z) {
#pragma unroll
  for (int n = 0; n < V / 8; ++n) set_product_tf32(z.x[n], kq.x, kq.y, v[n]);
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

/// A block of `warps` for each unit and row group, all of an SM's shared memory for its blocks
/// together.
template <class Kernel>
cudaError_t launch_units(Kernel* kernel, const M2rnnParams& p, int warps, int bytes,
                         cudaStream_t stream) {
  const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                             cudaSharedmemCarveoutMaxShared);
  if (e != cudaSuccess) return e;
  const dim3 grid(static_cast<unsigned>(p.sequences * p.N), static_cast<unsigned>(p.row_groups));
  return launch(kernel, grid, static_cast<unsigned>(32 * warps), bytes, stream, p);
}

}  // namespace assay::cuda
