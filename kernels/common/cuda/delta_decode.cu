// A few steps of gdn, delta and mdn; see delta_decode.hpp.
#include "kernels/common/cuda/delta_decode.cuh"
#include "kernels/common/cuda/device.cuh"

namespace assay::cuda {

namespace {

template <int states, int rows, Layout layout>
__global__ void __launch_bounds__(kDecodeThreads, decode_blocks(states, rows))
    decode_kernel(const __grid_constant__ DecodeParams p, int tiles) {
  __shared__ DecodeScratch scratch;
  const std::int64_t unit = blockIdx.x / tiles;
  const std::int64_t sequence = unit / p.H;
  const int h = static_cast<int>(unit % p.H);
  DecodeTile<states, rows, layout> tile(p.K, p.V, static_cast<int>(blockIdx.x % tiles) * 64);

  const auto state = [&](const Strided& x) -> char* {
    return x.data ? x.data + sequence * x.batch + h * x.head : nullptr;
  };
  tile.load(p.s0, state(p.s0), tile.S);
  if constexpr (states == 2) tile.load(p.m0, state(p.m0), tile.M);

  std::int64_t batch = sequence, begin = 0, end = p.T;
  if (p.cu_seqlens) {
    const auto bound = [&](std::int64_t s) -> std::int64_t {
      if (p.cu_is_i32) return reinterpret_cast<const std::int32_t*>(p.cu_seqlens)[s * p.cu_stride];
      return reinterpret_cast<const std::int64_t*>(p.cu_seqlens)[s * p.cu_stride];
    };
    batch = 0, begin = bound(sequence), end = bound(sequence + 1);
  }
  for (std::int64_t t = begin; t < end; ++t) {
    const auto token = [&](const Strided& x) -> char* {
      return x.data + batch * x.batch + t * x.time + h / x.share * x.head;
    };
    DecodeStep step;
    step.q = {token(p.q), p.q.column, p.q.dtype};
    step.k = {token(p.k), p.k.column, p.k.dtype};
    step.v = {token(p.v), p.v.column, p.v.dtype};
    step.alpha = gate_at(p.alpha, token(p.alpha), p.alpha_is_log);
    step.mu = gate_at(p.mu, token(p.mu), p.mu_is_log);
    step.beta = gate_at(p.beta, token(p.beta), false);
    step.eta = gate_at(p.eta, token(p.eta), false);
    const Strided& d = p.q_correction;
    step.q_correction = d.data ? load_element(d.data + h / d.share * d.head, d.dtype) : 0.0f;
    tile.stage(p, step, scratch);
    tile.update(step, scratch);
    if (!p.o.data) {
      __syncthreads();
      continue;
    }
    const float o = p.scale * tile.read_out(scratch);
    const int column = static_cast<int>(blockIdx.x % tiles) * kDecodeColumns + threadIdx.x;
    if (threadIdx.x < kDecodeColumns && column < p.V) {
      store_element(token(p.o) + column * p.o.column, p.o.dtype, o);
    }
  }
  tile.store(p.s_final, state(p.s_final), tile.S);
  if constexpr (states == 2) tile.store(p.m_final, state(p.m_final), tile.M);
}

template <int states, int rows>
cudaError_t launch_rows(const DecodeParams& p, cudaStream_t stream) {
  const int tiles = (p.V + kDecodeColumns - 1) / kDecodeColumns;
  const std::int64_t blocks = p.sequences * p.H * tiles;
  if (blocks <= 0) return cudaSuccess;
  const auto start = [&](auto* kernel) {
    return launch(kernel, dim3(static_cast<unsigned>(blocks)), kDecodeThreads, 0, stream, p, tiles);
  };
  switch (layout_of({&p.s0, &p.m0, &p.s_final, &p.m_final}, p.V)) {
    case Layout::fp32:
      return start(decode_kernel<states, rows, Layout::fp32>);
    case Layout::narrow:
      return start(decode_kernel<states, rows, Layout::narrow>);
    default:
      return start(decode_kernel<states, rows, Layout::any>);
  }
}

template <int states>
cudaError_t launch_states(const DecodeParams& p, cudaStream_t stream) {
  if (p.K <= 64) return launch_rows<states, 4>(p, stream);
  if (p.K <= 128) return launch_rows<states, 8>(p, stream);
  return launch_rows<states, 16>(p, stream);
}

}  // namespace

cudaError_t launch_decode(const DecodeParams& p, cudaStream_t stream) {
  return p.momentum ? launch_states<2>(p, stream) : launch_states<1>(p, stream);
}

}  // namespace assay::cuda
