// A step of M²RNN, the scale of its operands, and sums over the rows of a state.
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
