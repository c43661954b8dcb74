// What the device kernels of M²RNN are told: tensors as byte strides, and where partial sums go.
//
// A unit is a head of a sequence. The 16-row tiles of its state are independent but for the sums
// over rows (y, d_v, d_f, d_w); a warp carries one of them through time, a block carries up to
// kWarps, and where a state has more rows than that, several blocks share a unit ("row groups").
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/common/cuda/strided.hpp"

namespace assay::cuda {

inline constexpr int kSteps = 16;  // steps of a block of time: staging, read-out, checkpoints
inline constexpr int kRows = 16;   // rows of the state in a warp
inline constexpr int kWarps = 8;   // at most, in a block of threads
inline constexpr int kMaxK = 256, kMaxV = 64;

/// Where a gradient per token goes. Unless `direct`, into fp32 partial sums
/// [window token, head, row group, width], to be added up afterwards.
struct TokenSink {
  Strided direct;
  float* partial = nullptr;
  int width = 0;
};

struct M2rnnParams {
  std::int64_t sequences = 0, T = 0;  // T: of the batch, or all tokens when packed
  int N = 1, K = 0, V = 0;
  int row_tiles = 0, row_groups = 0, warps = 0;  // of K; blocks per unit; warps per block
  const char* cu_seqlens = nullptr;
  std::int64_t cu_stride = 1;
  bool cu_is_i32 = false;

  Strided q, k, v, f, w, w_residual, h0;  // f: the gate, or what it is computed from
  Strided gate_a, gate_b;                 // f = exp(-a softplus(x + b)) when given
  Strided y, h_final;
  float* y_partial = nullptr;     // [token, head, row group, V] when there are row groups
  float4* checkpoints = nullptr;  // the states before each block of time, as the lanes hold them

  // Backward.
  Strided d_y, d_h_final, d_h0;
  TokenSink d_q, d_k, d_v, d_f;
  float* carry = nullptr;      // the cotangent of the state between windows of time
  float* d_w_tiles = nullptr;  // [unit, row tile, V/16, V/8, 4, lane]
  uint4* scratch = nullptr;    // the states of one block of time, where shared memory is too small
  std::int64_t window_begin = 0, window_end = 0;  // blocks of time of this launch
  bool first_window = true, last_window = true;   // in the order of the launches: backward
  bool aligned = false;     // q, k, v and d_y may be read in pairs, and fill the kernel's tiles
  bool plain_rows = false;  // d_q and d_k go into partial sums that fill the tiles
  bool clips = false;
  float clip = 0;
  int fault = 0;  // see m2rnn_fault.hpp

  std::int64_t blocks_per_sequence() const { return (T + kSteps - 1) / kSteps; }
};

/// What the products and transcendentals are made of; see m2rnn_device.cuh. `fast` is for bf16
/// tokens, `half` for fp16 or both, `exact` for any.
enum class M2rnnPrecision { fast, half, exact };

/// One launch each, of the kernel that fits.
cudaError_t m2rnn_forward(const M2rnnParams& p, M2rnnPrecision precision, cudaStream_t stream);
cudaError_t m2rnn_backward(const M2rnnParams& p, M2rnnPrecision precision, cudaStream_t stream);
/// Bytes of `scratch` for each warp of the launch.
std::int64_t m2rnn_scratch_bytes(int V, M2rnnPrecision precision);

/// The smallest width of the kernels that holds V.
inline int m2rnn_padded_width(int V) { return V <= 16 ? 16 : V <= 32 ? 32 : 64; }

// ---- What surrounds them ------------------------------------------------------------------------

/// out = the sum of partial sums [token, N, groups, width] over the heads that share a tensor and
/// over the groups, in order. Tokens: `steps` from t0 on of each of `batches`, for which `partial`
/// has room for `row_steps`.
struct TokenSum {
  const float* partial;
  Strided out;
  std::int64_t batches, t0, steps, row_steps;
  int heads, groups, width;  // heads of `out`
  int fault;
};
cudaError_t sum_tokens(const TokenSum& s, cudaStream_t stream);

/// y = the sum over row groups + w_residual ∘ v.
cudaError_t finish_y(const M2rnnParams& p, cudaStream_t stream);

/// d_w from the warps' tiles, summed over sequences and over the heads that share it.
cudaError_t sum_d_w(const M2rnnParams& p, const Strided& d_w, int heads, cudaStream_t stream);

/// d_w_residual = sum of v ∘ d_y; `partial` is [unit, V].
cudaError_t sum_d_residual(const M2rnnParams& p, const Strided& d_residual, float* partial,
                           cudaStream_t stream);

/// f = exp(-a softplus(x + b)), [batch, time, head]; `share` of a and b counts heads of x.
struct Gate {
  Strided x, a, b, f, d_f;
  Strided d_x, d_a, d_b;
  std::int64_t batches, T;
  int heads, a_heads, b_heads;
  double* sums;  // [2, heads], for gradients
};
cudaError_t gate_forward(const Gate& g, cudaStream_t stream);
cudaError_t gate_backward(const Gate& g, cudaStream_t stream);

// One translation unit for each width and precision.
#define ASSAY_M2RNN_FORWARD_UNITS(X) \
  X(fast, 16) X(fast, 32) X(fast, 64) X(exact, 16) X(exact, 32) X(exact, 64)
#define ASSAY_M2RNN_BACKWARD_UNITS(X) \
  ASSAY_M2RNN_FORWARD_UNITS(X) X(half, 16) X(half, 32) X(half, 64)
#define ASSAY_M2RNN_DECLARE(precision, width) \
  cudaError_t m2rnn_forward_##precision##_##width(const M2rnnParams& p, cudaStream_t stream);
ASSAY_M2RNN_FORWARD_UNITS(ASSAY_M2RNN_DECLARE)
#undef ASSAY_M2RNN_DECLARE
#define ASSAY_M2RNN_DECLARE(precision, width)                                                  \
  cudaError_t m2rnn_backward_##precision##_##width(const M2rnnParams& p, cudaStream_t stream); \
  std::int64_t m2rnn_scratch_##precision##_##width();
ASSAY_M2RNN_BACKWARD_UNITS(ASSAY_M2RNN_DECLARE)
#undef ASSAY_M2RNN_DECLARE
cudaError_t m2rnn_forward_fast_16_wide(const M2rnnParams& p, cudaStream_t stream);

}  // namespace assay::cuda
