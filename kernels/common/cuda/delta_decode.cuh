// The tile of a state that a block of delta_decode.cu carries: 64 columns, all rows. 16 threads
// share a row and have 4 columns each; a block has `groups` such rows at a time. Sums over rows go
// through a row of shared memory for each warp.
#pragma once

#include <initializer_list>

#include "kernels/common/cuda/delta_decode.hpp"
#include "kernels/common/cuda/device.cuh"
#include "kernels/common/cuda/four.cuh"

namespace assay::cuda {

inline constexpr int kDecodeColumns = 64, kMaxDecodeWarps = 8;

/// Rows of a thread and threads of a block for states of up to groups * rows rows.
template <int states_, int rows_, int groups_>
struct DecodeShape {
  static constexpr int states = states_, rows = rows_, groups = groups_;
  static constexpr int threads = 16 * groups, warps = threads / 32;
  /// Blocks that shall share a multiprocessor: as the registers of the state allow.
  static constexpr int blocks = (states * rows <= 8    ? 1024
                                 : states * rows <= 16 ? 640
                                                       : 384) /
                                threads;
};

/// How a state lies in memory: anyhow, or so that four columns of one format can be moved at once.
enum class Layout { any, fp32, bf16, fp16 };

/// The format of the layouts with one; the compiler knows it, so loads do not wait for each other.
__host__ __device__ constexpr DType format_of(Layout layout) {
  return layout == Layout::fp32 ? DType::f32 : layout == Layout::bf16 ? DType::bf16 : DType::f16;
}

/// Four columns of which `valid` exist.
template <Layout layout>
__device__ __forceinline__ Four load_columns(const char* at, std::int64_t column, DType dtype,
                                             int valid) {
  if constexpr (layout != Layout::any) {
    constexpr DType kFormat = format_of(layout);
    return valid > 0 ? load_four(at, kFormat) : Four{};
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
    constexpr DType kFormat = format_of(layout);
    if (valid > 0) store_four_streaming(at, kFormat, v);
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
    const Layout own = x->dtype == DType::f32    ? Layout::fp32
                       : x->dtype == DType::bf16 ? Layout::bf16
                                                 : Layout::fp16;
    if (!wide || (layout != Layout::any && layout != own)) return Layout::any;
    layout = own;
  }
  return layout;
}

/// Shared memory of the block: q and k side by side, sums of warps.
struct DecodeScratch {
  float2 qk[kDecodeMaxK];
  float4 written[kMaxDecodeWarps][kDecodeColumns / 4];
  float read[kMaxDecodeWarps][kDecodeColumns];
  double norm[2];  // squares of the smallest and the largest numbers of fp32 are beyond it
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

/// Columns first_column.. of a head's state. A thread has rows `groups` apart from each other.
template <class Shape, Layout layout>
struct DecodeTile {
  static constexpr int states = Shape::states, rows = Shape::rows, groups = Shape::groups;
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
    for (int i = 0; i < rows; ++i, at += groups * x.row) {
      to[i] = Four{};
      if (head && i * groups + group < K) {
        to[i] = load_columns<layout>(at, x.column, x.dtype, valid);
      }
    }
  }
  __device__ __forceinline__ void store(const Strided& x, char* head, const Four (&from)[rows]) {
    if (!head) return;
    char* at = head + group * x.row + column * x.column;
#pragma unroll
    for (int i = 0; i < rows; ++i, at += groups * x.row) {
      if (i * groups + group < K) {
        store_columns<layout>(at, x.column, x.dtype, valid, from[i]);
      }
    }
  }

  /// q (corrected) and k in shared memory, normalised if asked for, and zeros beyond K; returns the
  /// columns of v. Ends with a barrier.
  __device__ __forceinline__ Four stage(const DecodeParams& p, const DecodeStep& step,
                                        DecodeScratch& s) const {
    Four v{};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (e < valid) v.x[e] = step.v[column + e];
    }
    for (int j = threadIdx.x; j < rows * groups; j += Shape::threads) {
      const float k = j < K ? step.k[j] : 0.0f;
      s.qk[j] = make_float2(j < K ? step.q[j] - step.q_correction * k : 0.0f, k);
    }
    __syncthreads();
    if (!p.normalise) return v;
    if (warp < 2) {
      double sum = 0;
      for (int j = threadIdx.x % 32; j < K; j += 32) {
        const double x = warp == 0 ? s.qk[j].x : s.qk[j].y;
        sum += x * x;
      }
      sum = warp_sum(sum);
      if (threadIdx.x % 32 == 0) s.norm[warp] = sqrt(sum + p.eps);
    }
    __syncthreads();
    for (int j = threadIdx.x; j < K; j += Shape::threads) {
      s.qk[j] = make_float2(static_cast<float>(s.qk[j].x / s.norm[0]),
                            static_cast<float>(s.qk[j].y / s.norm[1]));
    }
    __syncthreads();
    return v;
  }

  /// One update from staged q and k, and the read-out of it: sums of the warps in s.read.
  __device__ __forceinline__ void update(const DecodeStep& step, const Four& v, DecodeScratch& s) {
    float sum[4] = {};
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const float k = s.qk[i * groups + group].y;
      const float key = states == 2 ? step.alpha * k : k;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (states == 1) S[i].x[e] *= step.alpha;
        sum[e] += S[i].x[e] * key;
      }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) sum[e] += __shfl_xor_sync(0xffffffffu, sum[e], 16);
    if (group % 2 == 0) s.written[warp][lane] = make_float4(sum[0], sum[1], sum[2], sum[3]);
    __syncthreads();
    float read[4] = {}, r[4];
#pragma unroll
    for (int w = 0; w < Shape::warps; ++w) {
      const float4 x = s.written[w][lane];
      read[0] += x.x, read[1] += x.y, read[2] += x.z, read[3] += x.w;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      r[e] = (states == 2 ? step.eta : step.beta) * (v.x[e] - read[e]), sum[e] = 0;
    }
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const float2 qk = s.qk[i * groups + group];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if constexpr (states == 2) {
          M[i].x[e] = step.mu * M[i].x[e] - qk.y * r[e];
          S[i].x[e] = step.alpha * S[i].x[e] - step.beta * M[i].x[e];
        } else {
          S[i].x[e] += qk.y * r[e];
        }
        sum[e] += S[i].x[e] * qk.x;
      }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      sum[e] += __shfl_xor_sync(0xffffffffu, sum[e], 16);
      if (group % 2 == 0) s.read[warp][4 * lane + e] = sum[e];
    }
  }

  /// S^T q of column first + threadIdx.x, in the first 64 threads, after a barrier.
  __device__ __forceinline__ float read_out(const DecodeScratch& s) const {
    float read = 0;
#pragma unroll
    for (int w = 0; w < Shape::warps; ++w) read += s.read[w][threadIdx.x % kDecodeColumns];
    return read;
  }
};

/// The kernel's shape for states of K rows: start(shape).
template <int states, class Start>
cudaError_t with_shape(int K, const Start& start) {
  if (K <= 64) return start(DecodeShape<states, 8, 8>{});
  if (K <= 128) return start(DecodeShape<states, 16, 8>{});
  return start(DecodeShape<states, 16, 16>{});
}

/// h / share, mostly without dividing.
__device__ __forceinline__ int shared_head(int h, const Strided& x) {
  return x.share == 1 ? h : h / x.share;
}

__device__ __forceinline__ float gate_at(const Strided& x, const char* at, bool is_log) {
  if (!x.data) return 1;
  const float g = load_element(at, x.dtype);
  return is_log ? expf(g) : g;
}

}  // namespace assay::cuda
