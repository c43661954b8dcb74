// M²RNN on the device: which kernel runs, the sums over what several units share, and the gate.
#include "kernels/common/cuda/device.cuh"
#include "kernels/common/cuda/element.cuh"
#include "kernels/common/cuda/items.cuh"
#include "kernels/m2rnn/m2rnn_cuda.hpp"
#include "kernels/m2rnn/m2rnn_fault.hpp"

namespace assay::cuda {

namespace {

constexpr int kThreads = kItemThreads;

}  // namespace

cudaError_t m2rnn_forward(const M2rnnParams& p, M2rnnPrecision precision, cudaStream_t stream) {
  if (precision == M2rnnPrecision::half) precision = M2rnnPrecision::fast;
  // From about eight tiles of rows for each scheduler of a large GPU on.
  const std::int64_t tiles = p.sequences * p.N * p.row_tiles;
  if (precision == M2rnnPrecision::fast && p.V <= 16 && p.row_groups == 1 && p.row_tiles % 2 == 0 &&
      tiles >= 1024) {
    return m2rnn_forward_fast_16_wide(p, stream);
  }
  const int width = m2rnn_padded_width(p.V);
#define ASSAY_M2RNN_CASE(name, V) \
  if (precision == M2rnnPrecision::name && width == V) return m2rnn_forward_##name##_##V(p, stream);
  ASSAY_M2RNN_FORWARD_UNITS(ASSAY_M2RNN_CASE)
#undef ASSAY_M2RNN_CASE
  return cudaErrorInvalidValue;
}

cudaError_t m2rnn_backward(const M2rnnParams& p, M2rnnPrecision precision, cudaStream_t stream) {
  const int width = m2rnn_padded_width(p.V);
#define ASSAY_M2RNN_CASE(name, V)                      \
  if (precision == M2rnnPrecision::name && width == V) \
    return m2rnn_backward_##name##_##V(p, stream);
  ASSAY_M2RNN_BACKWARD_UNITS(ASSAY_M2RNN_CASE)
#undef ASSAY_M2RNN_CASE
  return cudaErrorInvalidValue;
}

std::int64_t m2rnn_scratch_bytes(int V, M2rnnPrecision precision) {
  const int width = m2rnn_padded_width(V);
#define ASSAY_M2RNN_CASE(name, V) \
  if (precision == M2rnnPrecision::name && width == V) return m2rnn_scratch_##name##_##V();
  ASSAY_M2RNN_BACKWARD_UNITS(ASSAY_M2RNN_CASE)
#undef ASSAY_M2RNN_CASE
  return 0;
}

// ---- Sums over tokens --------------------------------------------------------------------------

namespace {

__global__ void sum_tokens_kernel(const TokenSum s) {
  const std::int64_t per_batch = s.steps * s.heads * s.width;
  for (std::int64_t at = first_item(); at < s.batches * per_batch; at += item_stride()) {
    const std::int64_t b = at / per_batch, in_batch = at % per_batch;
    const int column = static_cast<int>(in_batch % s.width);
    const std::int64_t row = in_batch / s.width;
    const int head = static_cast<int>(row % s.heads);
    const std::int64_t step = row / s.heads;
    const int parts = s.out.share * s.groups;
    const float* from =
        s.partial + ((b * s.row_steps + step) * s.heads + head) * parts * s.width + column;
    float sum = 0;
#pragma unroll 8
    for (int i = ASSAY_M2RNN_IS_FAULT(s, group_grad_last_head) ? parts - s.groups : 0; i < parts;
         ++i) {
      sum += from[static_cast<std::int64_t>(i) * s.width];
    }
    store_element(s.out.data + b * s.out.batch + (s.t0 + step) * s.out.time + head * s.out.head +
                      column * s.out.column,
                  s.out.dtype, sum);
  }
}

__global__ void finish_y_kernel(const __grid_constant__ M2rnnParams p) {
  const std::int64_t batches = p.cu_seqlens ? 1 : p.sequences;
  const std::int64_t items = batches * p.T * p.N * p.V;
  for (std::int64_t at = first_item(); at < items; at += item_stride()) {
    const int column = static_cast<int>(at % p.V);
    const std::int64_t row = at / p.V;
    const int head = static_cast<int>(row % p.N);
    const std::int64_t t = row / p.N % p.T, b = row / p.N / p.T;
    float sum = 0;
    for (int r = 0; r < p.row_groups; ++r) {
      sum += p.y_partial[(row * p.row_groups + r) * p.V + column];
    }
    if (p.w_residual.data) {
      sum += load_element(p.w_residual.data + head / p.w_residual.share * p.w_residual.head +
                              column * p.w_residual.column,
                          p.w_residual.dtype) *
             load_element(p.v.data + b * p.v.batch + t * p.v.time + head / p.v.share * p.v.head +
                              column * p.v.column,
                          p.v.dtype);
    }
    store_element(p.y.data + b * p.y.batch + t * p.y.time + head * p.y.head + column * p.y.column,
                  p.y.dtype, sum);
  }
}

// ---- Gradients of parameters -------------------------------------------------------------------

/// A block for each element of a fragment row: terms in fixed order, in fp64, since there may be
/// thousands.
__global__ void sum_d_w_kernel(const __grid_constant__ M2rnnParams p, const Strided d_w,
                               int padded) {
  const int head = blockIdx.x, j = blockIdx.y, lanes = padded, parts = kThreads / padded;
  const int l = threadIdx.x % lanes, part = threadIdx.x / lanes;
  const int tiles = p.row_groups * p.warps;
  const int row = j % 16;
  const int lane = 4 * (row % 8) + (l % 8) / 2, e = (row >= 8 ? 2 : 0) + (l & 1);
  const std::int64_t offset = (((j / 16) * (padded / 8) + l / 8) * 4 + e) * 32 + lane;
  const std::int64_t first_sequence =
      ASSAY_M2RNN_IS_FAULT(p, dw_last_batch) && p.sequences > 0 ? p.sequences - 1 : 0;
  const std::int64_t per_sequence = static_cast<std::int64_t>(d_w.share) * tiles;
  const std::int64_t terms = (p.sequences - first_sequence) * per_sequence;
  double sum = 0;
  for (std::int64_t i = part; i < terms; i += parts) {
    const std::int64_t s = first_sequence + i / per_sequence, rest = i % per_sequence;
    const std::int64_t unit = s * p.N + head * d_w.share + rest / tiles;
    sum += p.d_w_tiles[(unit * tiles + rest % tiles) * padded * padded + offset];
  }
  __shared__ double all[kThreads];
  all[threadIdx.x] = sum;
  __syncthreads();
  if (part != 0 || l >= p.V) return;
  for (int i = 1; i < parts; ++i) sum += all[i * lanes + l];
  store_element(d_w.data + head * d_w.head + j * d_w.row + l * d_w.column, d_w.dtype,
                static_cast<float>(sum));
}

__global__ void residual_parts_kernel(const __grid_constant__ M2rnnParams p, float* partial,
                                      int padded) {
  const std::int64_t unit = blockIdx.x;
  const std::int64_t batch = unit / p.N;
  const int head = static_cast<int>(unit % p.N);
  const int column = threadIdx.x % padded, part = threadIdx.x / padded, parts = kThreads / padded;
  const char* v = p.v.data + batch * p.v.batch + head / p.v.share * p.v.head + column * p.v.column;
  const char* u = p.d_y.data + batch * p.d_y.batch + head * p.d_y.head + column * p.d_y.column;
  double sum = 0;
  if (column < p.V && p.d_y.data) {
#pragma unroll 4
    for (std::int64_t t = part; t < p.T; t += parts) {
      sum += static_cast<double>(load_element(v + t * p.v.time, p.v.dtype) *
                                 load_element(u + t * p.d_y.time, p.d_y.dtype));
    }
  }
  __shared__ double all[kThreads];
  all[threadIdx.x] = sum;
  __syncthreads();
  if (part != 0 || column >= p.V) return;
  for (int i = 1; i < parts; ++i) sum += all[i * padded + column];
  partial[unit * p.V + column] = static_cast<float>(sum);
}

__global__ void residual_sum_kernel(const Strided d_residual, const float* partial,
                                    std::int64_t batches, int N, int V) {
  const std::int64_t items = static_cast<std::int64_t>(N / d_residual.share) * V;
  for (std::int64_t at = first_item(); at < items; at += item_stride()) {
    const std::int64_t head = at / V, column = at % V;
    double sum = 0;
    for (std::int64_t b = 0; b < batches; ++b) {
      for (int i = 0; i < d_residual.share; ++i) {
        sum += partial[((b * N) + head * d_residual.share + i) * V + column];
      }
    }
    store_element(d_residual.data + head * d_residual.head + column * d_residual.column,
                  d_residual.dtype, static_cast<float>(sum));
  }
}

// ---- The gate ----------------------------------------------------------------------------------

struct GateValues {
  float exponent_slope, f, softplus, a;  // softplus'(x + b)
};

__device__ __forceinline__ float of_token(const Strided& x, std::int64_t b, std::int64_t t, int h) {
  return load_element(x.data + b * x.batch + t * x.time + h / x.share * x.head, x.dtype);
}

__device__ __forceinline__ GateValues gate_values(const Gate& g, std::int64_t b, std::int64_t t,
                                                  int h) {
  GateValues out;
  out.a = load_element(g.a.data + h / g.a.share * g.a.head, g.a.dtype);
  const float y =
      of_token(g.x, b, t, h) + load_element(g.b.data + h / g.b.share * g.b.head, g.b.dtype);
  out.softplus = y > 20.0f ? y : log1pf(expf(y));
  out.exponent_slope = 1.0f / (1.0f + expf(-y));
  out.f = expf(-out.a * out.softplus);
  return out;
}

__global__ void gate_forward_kernel(const Gate g) {
  const std::int64_t items = g.batches * g.T * g.heads;
  for (std::int64_t at = first_item(); at < items; at += item_stride()) {
    const int h = static_cast<int>(at % g.heads);
    const std::int64_t t = at / g.heads % g.T, b = at / g.heads / g.T;
    store_element(g.f.data + b * g.f.batch + t * g.f.time + h * g.f.head, g.f.dtype,
                  gate_values(g, b, t, h).f);
  }
}

__global__ void gate_d_x_kernel(const Gate g) {
  const int x_heads = g.heads / g.x.share;
  const std::int64_t items = g.batches * g.T * x_heads;
  for (std::int64_t at = first_item(); at < items; at += item_stride()) {
    const int hx = static_cast<int>(at % x_heads);
    const std::int64_t t = at / x_heads % g.T, b = at / x_heads / g.T;
    float sum = 0;
    for (int h = hx * g.x.share; h < (hx + 1) * g.x.share; ++h) {
      const GateValues v = gate_values(g, b, t, h);
      sum -= of_token(g.d_f, b, t, h) * v.f * v.a * v.exponent_slope;
    }
    store_element(g.d_x.data + b * g.d_x.batch + t * g.d_x.time + hx * g.d_x.head, g.d_x.dtype,
                  sum);
  }
}

__global__ void gate_sums_kernel(const Gate g) {
  const int h = blockIdx.x;
  double d_a = 0, d_b = 0;
  for (std::int64_t at = threadIdx.x; at < g.batches * g.T; at += kThreads) {
    const std::int64_t b = at / g.T, t = at % g.T;
    const GateValues v = gate_values(g, b, t, h);
    const float d_g = of_token(g.d_f, b, t, h) * v.f;
    d_a -= static_cast<double>(d_g * v.softplus);
    d_b -= static_cast<double>(d_g * v.a * v.exponent_slope);
  }
  d_a = sum_of_block(d_a), d_b = sum_of_block(d_b);
  if (threadIdx.x == 0) g.sums[h] = d_a, g.sums[g.heads + h] = d_b;
}

__global__ void gate_parameters_kernel(const Gate g) {
  for (std::int64_t at = first_item(); at < g.a_heads + g.b_heads; at += item_stride()) {
    const bool is_a = at < g.a_heads;
    const Strided& out = is_a ? g.d_a : g.d_b;
    if (!out.data) continue;
    const int head = static_cast<int>(is_a ? at : at - g.a_heads);
    const int share = g.heads / (is_a ? g.a_heads : g.b_heads);
    double sum = 0;
    for (int i = 0; i < share; ++i) sum += g.sums[(is_a ? 0 : g.heads) + head * share + i];
    store_element(out.data + head * out.head, out.dtype, static_cast<float>(sum));
  }
}

}  // namespace

cudaError_t sum_tokens(const TokenSum& s, cudaStream_t stream) {
  const std::int64_t items = s.batches * s.steps * s.heads * s.width;
  if (items <= 0) return cudaSuccess;
  return launch(sum_tokens_kernel, blocks_for(items), kThreads, 0, stream, s);
}

cudaError_t finish_y(const M2rnnParams& p, cudaStream_t stream) {
  const std::int64_t items = (p.cu_seqlens ? 1 : p.sequences) * p.T * p.N * p.V;
  if (items <= 0) return cudaSuccess;
  return launch(finish_y_kernel, blocks_for(items), kThreads, 0, stream, p);
}

cudaError_t sum_d_w(const M2rnnParams& p, const Strided& d_w, int heads, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(heads), static_cast<unsigned>(p.V));
  return launch(sum_d_w_kernel, grid, kThreads, 0, stream, p, d_w, m2rnn_padded_width(p.V));
}

cudaError_t sum_d_residual(const M2rnnParams& p, const Strided& d_residual, float* partial,
                           cudaStream_t stream) {
  const std::int64_t batches = p.cu_seqlens ? 1 : p.sequences;
  if (batches > 0) {
    const cudaError_t e = launch(residual_parts_kernel, static_cast<unsigned>(batches * p.N),
                                 kThreads, 0, stream, p, partial, m2rnn_padded_width(p.V));
    if (e != cudaSuccess) return e;
  }
  return launch(residual_sum_kernel, blocks_for(static_cast<std::int64_t>(p.N) * p.V), kThreads, 0,
                stream, d_residual, partial, batches, p.N, p.V);
}

cudaError_t gate_forward(const Gate& g, cudaStream_t stream) {
  const std::int64_t items = g.batches * g.T * g.heads;
  if (items <= 0) return cudaSuccess;
  return launch(gate_forward_kernel, blocks_for(items), kThreads, 0, stream, g);
}

cudaError_t gate_backward(const Gate& g, cudaStream_t stream) {
  const std::int64_t items = g.batches * g.T * g.heads;
  if (g.d_x.data && items > 0) {
    const cudaError_t e = launch(gate_d_x_kernel, blocks_for(items), kThreads, 0, stream, g);
    if (e != cudaSuccess) return e;
  }
  if (!g.d_a.data && !g.d_b.data) return cudaSuccess;
  const cudaError_t e =
      launch(gate_sums_kernel, static_cast<unsigned>(g.heads), kThreads, 0, stream, g);
  if (e != cudaSuccess) return e;
  return launch(gate_parameters_kernel, blocks_for(g.a_heads + g.b_heads), kThreads, 0, stream, g);
}

}  // namespace assay::cuda
