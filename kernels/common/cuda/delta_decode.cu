// A few steps of gdn, delta and mdn; see delta_decode.hpp.
#include "kernels/common/cuda/delta_decode.cuh"
#include "kernels/common/cuda/device.cuh"
#include "kernels/common/cuda/mdn_gate_rule.cuh"

namespace assay::cuda {

namespace {

/// A block per 64 columns (x, after the sequence) of a head (y). made: of pre-activations.
template <class Shape, Layout layout, bool made>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks)
    decode_kernel(const __grid_constant__ DecodeParams p, unsigned tiles) {
  __shared__ DecodeScratch scratch;
  const unsigned of_sequence = blockIdx.x / tiles;
  const std::int64_t sequence = of_sequence;
  const int h = static_cast<int>(blockIdx.y);
  const int first_column = static_cast<int>(blockIdx.x - of_sequence * tiles) * kDecodeColumns;
  DecodeTile<Shape, layout> tile(p.K, p.V, first_column);

  const auto state = [&](const Strided& x) -> char* {
    return x.data ? x.data + sequence * x.batch + h * x.head : nullptr;
  };
  tile.load(p.s0, state(p.s0), tile.S);
  if constexpr (Shape::states == 2) tile.load(p.m0, state(p.m0), tile.M);

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
      return x.data + batch * x.batch + t * x.time + shared_head(h, x) * x.head;
    };
    DecodeStep step;
    step.q = {token(p.q), p.q.column, p.q.dtype};
    step.k = {token(p.k), p.k.column, p.k.dtype};
    step.v = {token(p.v), p.v.column, p.v.dtype};
    if constexpr (made) {
      const auto x = [&](const Strided& y) { return load_element(token(y), y.dtype); };
      const MdnGates g = made_gates(p.made, x(p.alpha), x(p.beta), x(p.mu), x(p.eta), h);
      step.alpha = g.alpha, step.mu = g.mu, step.beta = g.beta, step.eta = g.eta;
    } else {
      step.alpha = gate_at(p.alpha, token(p.alpha), p.alpha_is_log);
      step.mu = gate_at(p.mu, token(p.mu), p.mu_is_log);
      step.beta = gate_at(p.beta, token(p.beta), false);
      step.eta = gate_at(p.eta, token(p.eta), false);
    }
    const Strided& d = p.q_correction;
    step.q_correction = d.data ? load_element(d.data + h / d.share * d.head, d.dtype) : 0.0f;
    const Four v = tile.stage(p, step, scratch);
    tile.update(step, v, scratch);
    __syncthreads();
    const int column = first_column + threadIdx.x;
    if (p.o.data && threadIdx.x < kDecodeColumns && column < p.V) {
      store_element(token(p.o) + column * p.o.column, p.o.dtype, p.scale * tile.read_out(scratch));
    }
  }
  tile.store(p.s_final, state(p.s_final), tile.S);
  if constexpr (Shape::states == 2) tile.store(p.m_final, state(p.m_final), tile.M);
}

template <int states, bool made>
cudaError_t launch_states(const DecodeParams& p, cudaStream_t stream) {
  const std::int64_t tiles = (p.V + kDecodeColumns - 1) / kDecodeColumns;
  const dim3 grid(static_cast<unsigned>(p.sequences * tiles), static_cast<unsigned>(p.H));
  const auto start = [&](auto* kernel, unsigned threads) {
    return launch(kernel, grid, threads, 0, stream, p, static_cast<unsigned>(tiles));
  };
  return with_shape<states>(p.K, [&](auto shape) {
    using Shape = decltype(shape);
    switch (layout_of({&p.s0, &p.m0, &p.s_final, &p.m_final}, p.V)) {
      case Layout::fp32:
        return start(decode_kernel<Shape, Layout::fp32, made>, Shape::threads);
      case Layout::bf16:
        return start(decode_kernel<Shape, Layout::bf16, made>, Shape::threads);
      case Layout::fp16:
        return start(decode_kernel<Shape, Layout::fp16, made>, Shape::threads);
      default:
        return start(decode_kernel<Shape, Layout::any, made>, Shape::threads);
    }
  });
}

}  // namespace

cudaError_t launch_decode(const DecodeParams& p, cudaStream_t stream) {
  if (stream_applies(p)) return launch_stream(p, stream);
  if (p.made.given) return launch_states<2, true>(p, stream);
  return p.momentum ? launch_states<2, false>(p, stream) : launch_states<1, false>(p, stream);
}

}  // namespace assay::cuda
