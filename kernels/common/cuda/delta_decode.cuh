// The tile of a state that a block of delta_decode.cu carries: 64 columns, all rows. A thread has 4
// columns of every 16th row; sums over rows go through 8 warps.
#pragma once

#include <initializer_list>

#include "kernels/common/cuda/delta_decode.hpp"
#include "kernels/common/cuda/device.cuh"
#include "kernels/common/cuda/four.cuh"

namespace assay::cuda {

inline constexpr int kDecodeThreads = 256, kDecodeColumns = 64, kDecodeRowGroups = 16;
inline constexpr int kDecodeWarps = kDecodeThreads / 32;

/// How a state lies in memory: anyhow, or so that four columns of one format can be moved at once.
enum class Layout { any, fp32, narrow };

/// Four columns of which `valid` exist.
template <Layout layout>
__device__ __forceinline__ Four load_columns(const char* at, std::int64_t column, DType dtype,
                                             int valid) {
  if constexpr (layout != Layout::any) {
    return valid > 0 ? load_four(at, layout == Layout::fp32 ? DType::f32 : dtype) : Four{};
  } else {
    Four out{};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (e < valid) out.x[e] = load_element(at + e * column, dtype);
    }
    return out;
  }
}

template <Layout layout>
__device__ __forceinline__ void store_columns(char* at, std::int64_t column, DType dtype, int valid,
                                              const Four& v) {
  if constexpr (layout != Layout::any) {
    if (valid > 0) store_four(at, layout == Layout::fp32 ? DType::f32 : dtype, v);
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (e < valid) store_element(at + e * column, dtype, v.x[e]);
    }
  }
}

/// The layout that fits all of these states; those without data fit any.
inline Layout layout_of(std::initializer_list<const Strided*> states, int V) {
  Layout layout = Layout::any;
  for (const Strided* x : states) {
    if (!x->data) continue;
    const std::int64_t four = 4 * bytes_of(x->dtype);
    const bool wide =
        V % 4 == 0 && x->column == bytes_of(x->dtype) && x->row % four == 0 &&
        x->head % four == 0 && x->batch % four == 0 &&
        reinterpret_cast<std::uintptr_t>(x->data) % static_cast<std::uintptr_t>(four) == 0;
    const Layout own = x->dtype == DType::f32 ? Layout::fp32 : Layout::narrow;
    if (!wide || (layout != Layout::any && layout != own)) return Layout::any;
    layout = own;
  }
  return layout;
}

/// Shared memory of the block.
struct DecodeScratch {
  float q[kDecodeMaxK], k[kDecodeMaxK];
  float written[kDecodeWarps][kDecodeColumns], read[kDecodeWarps][kDecodeColumns];
  float norm[2];
};

/// Where one step of one head reads.
struct DecodeVector {
  const char* at;
  std::int64_t column;
  DType dtype;
  __device__ __forceinline__ float operator[](int i) const {
    return load_element(at + i * column, dtype);
  }
};
struct DecodeStep {
  DecodeVector q, k, v;
  float alpha, mu, beta, eta, q_correction;
};

/// Columns first_column.. of a head's state. rows: of a thread, 16 rows apart from each other.
template <int states, int rows, Layout layout>
struct DecodeTile {
  Four S[rows], M[states == 2 ? rows : 1];
  int K, lane, group, warp, column, valid;

  __device__ __forceinline__ DecodeTile(int K_of_state, int V, int first_column) : K(K_of_state) {
    lane = threadIdx.x % 16, group = threadIdx.x / 16, warp = threadIdx.x / 32;
    column = first_column + 4 * lane;
    valid = min(max(V - column, 0), 4);
  }

  /// From the state of one head; zero where there is none.
  __device__ __forceinline__ void load(const Strided& x, const char* head, Four (&to)[rows]) const {
    const char* at = head + group * x.row + column * x.column;
#pragma unroll
    for (int i = 0; i < rows; ++i, at += kDecodeRowGroups * x.row) {
      to[i] = Four{};
      if (head && i * kDecodeRowGroups + group < K) {
        to[i] = load_columns<layout>(at, x.column, x.dtype, valid);
      }
    }
  }
  __device__ __forceinline__ void store(const Strided& x, char* head, const Four (&from)[rows]) {
    if (!head) return;
    char* at = head + group * x.row + column * x.column;
#pragma unroll
    for (int i = 0; i < rows; ++i, at += kDecodeRowGroups * x.row) {
      if (i * kDecodeRowGroups + group < K) {
        store_columns<layout>(at, x.column, x.dtype, valid, from[i]);
      }
    }
  }

  /// q (corrected) and k in shared memory, normalised if asked for. Ends with a barrier.
  __device__ __forceinline__ void stage(const DecodeParams& p, const DecodeStep& step,
                                        DecodeScratch& s) const {
    for (int j = threadIdx.x; j < K; j += kDecodeThreads) {
      const float k = step.k[j];
      s.k[j] = k;
      s.q[j] = step.q[j] - step.q_correction * k;
    }
    __syncthreads();
    if (!p.normalise) return;
    if (warp < 2) {
      float* x = warp == 0 ? s.q : s.k;
      float sum = 0;
      for (int j = threadIdx.x % 32; j < K; j += 32) sum += x[j] * x[j];
      sum = warp_sum(sum);
      if (threadIdx.x % 32 == 0) s.norm[warp] = sqrtf(sum + p.eps);
    }
    __syncthreads();
    for (int j = threadIdx.x; j < K; j += kDecodeThreads) {
      s.q[j] = s.q[j] / s.norm[0], s.k[j] = s.k[j] / s.norm[1];
    }
    __syncthreads();
  }

  /// Adds the lanes' sums over rows into one row per warp.
  __device__ __forceinline__ void share(float (&sum)[4], float* to) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      sum[e] += __shfl_xor_sync(0xffffffffu, sum[e], 16);
      if (group % 2 == 0) to[warp * kDecodeColumns + 4 * lane + e] = sum[e];
    }
  }

  /// One update, from staged q and k. The barrier in it lets `written` be used again by the next.
  __device__ __forceinline__ void update(const DecodeStep& step, DecodeScratch& s) {
    float sum[4] = {};
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const int j = i * kDecodeRowGroups + group;
      const float k = j < K ? s.k[j] : 0.0f;
      const float key = states == 2 ? step.alpha * k : k;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (states == 1) S[i].x[e] *= step.alpha;
        sum[e] += S[i].x[e] * key;
      }
    }
    share(sum, &s.written[0][0]);
    __syncthreads();
    float r[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      float read = 0;
#pragma unroll
      for (int w = 0; w < kDecodeWarps; ++w) read += s.written[w][4 * lane + e];
      const float v = e < valid ? step.v[column + e] : 0.0f;
      r[e] = (states == 2 ? step.eta : step.beta) * (v - read);
    }
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const int j = i * kDecodeRowGroups + group;
      const float k = j < K ? s.k[j] : 0.0f;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if constexpr (states == 2) {
          M[i].x[e] = step.mu * M[i].x[e] - k * r[e];
          S[i].x[e] = step.alpha * S[i].x[e] - step.beta * M[i].x[e];
        } else {
          S[i].x[e] += k * r[e];
        }
      }
    }
  }

  /// S^T q of column first + threadIdx.x, in the first 64 threads.
  __device__ __forceinline__ float read_out(DecodeScratch& s) const {
    float sum[4] = {};
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const int j = i * kDecodeRowGroups + group;
      const float q = j < K ? s.q[j] : 0.0f;
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[e] += S[i].x[e] * q;
    }
    share(sum, &s.read[0][0]);
    __syncthreads();
    float read = 0;
    if (threadIdx.x < kDecodeColumns) {
#pragma unroll
      for (int w = 0; w < kDecodeWarps; ++w) read += s.read[w][threadIdx.x];
    }
    return read;
  }
};

__device__ __forceinline__ float gate_at(const Strided& x, const char* at, bool is_log) {
  if (!x.data) return 1;
  const float g = load_element(at, x.dtype);
  return is_log ? expf(g) : g;
}

/// Rows per thread that hold K, and how many blocks shall share a multiprocessor.
constexpr int decode_blocks(int states, int rows) {
  return states * rows <= 4 ? 4 : states * rows <= 8 ? 3 : states * rows <= 16 ? 2 : 1;
}

}  // namespace assay::cuda
