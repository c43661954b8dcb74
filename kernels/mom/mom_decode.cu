// One step of every sequence through Mixture-of-Memories; see mom_cuda.hpp and delta_decode.hpp. A
// block has some columns of one head of one memory: it updates and reads them, or copies them.
#include "kernels/common/cuda/delta_decode.cuh"
#include "kernels/mom/mom_cuda.hpp"

namespace assay::cuda {

namespace {

/// A block per 64 columns (x, after token and memory) of a head (y).
template <class Shape, Layout layout>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks)
    mom_decode_kernel(const __grid_constant__ MomDecode d, unsigned tiles) {
  __shared__ DecodeScratch scratch;
  constexpr int states = Shape::states;
  const DecodeParams& p = d.p;
  const Routing& r = d.routing;
  const unsigned pair = blockIdx.x / tiles, R = static_cast<unsigned>(r.R());
  const int first_column = static_cast<int>(blockIdx.x - pair * tiles) * kDecodeColumns;
  const int h = static_cast<int>(blockIdx.y);
  const std::int64_t token = pair / R;
  const int memory = static_cast<int>(pair % R);
  int slot = -1;
  for (int j = 0; j < r.slots(); ++j) {
    if (r.memory[token * r.slots() + j] == memory) slot = j;
  }

  const auto state = [&](const Strided& x, std::int64_t to_memory) -> char* {
    return x.data ? x.data + token * x.batch + memory * to_memory + h * x.head : nullptr;
  };
  char *s0 = state(p.s0, d.s0_memory), *s_final = state(p.s_final, d.s_final_memory);
  char *m0 = state(p.m0, d.m0_memory), *m_final = state(p.m_final, d.m_final_memory);
  if (slot < 0) {
    if (s_final == s0) s_final = nullptr;
    if (m_final == m0) m_final = nullptr;
    if (!s_final && !m_final) return;
  }
  DecodeTile<Shape, layout> tile(p.K, p.V, first_column);
  tile.load(p.s0, s0, tile.S);
  if constexpr (states == 2) tile.load(p.m0, m0, tile.M);
  if (slot >= 0) {
    const bool of_shared = memory == r.M;
    const auto side = [&](const MomField::Side& mem, const MomField::Side& shared) {
      const Strided& x = of_shared ? shared.tensor : mem.tensor;
      return x.data ? x.data + token * x.batch + memory * (of_shared ? 0 : mem.to_memory) +
                          shared_head(h, x) * x.head
                    : nullptr;
    };
    const auto vector = [&](const MomField::Side& mem, const MomField::Side& shared) {
      const Strided& x = of_shared ? shared.tensor : mem.tensor;
      return DecodeVector{side(mem, shared), x.column, x.dtype};
    };
    const auto gate = [&](const MomField::Side& mem, const MomField::Side& shared, bool is_log) {
      return gate_at(of_shared ? shared.tensor : mem.tensor, side(mem, shared), is_log);
    };
    DecodeStep step;
    step.q = {p.q.data + token * p.q.batch + shared_head(h, p.q) * p.q.head, p.q.column, p.q.dtype};
    step.k = vector(d.k, d.k_shared), step.v = vector(d.v, d.v_shared);
    step.alpha = gate(d.alpha, d.alpha_shared, p.alpha_is_log);
    step.mu = gate(d.mu, d.mu_shared, p.mu_is_log);
    step.beta = gate(d.beta, d.beta_shared, false);
    step.eta = gate(d.eta, d.eta_shared, false);
    step.q_correction = 0;
    const Four v = tile.stage(p, step, scratch);
    tile.update(step, v, scratch);
    __syncthreads();
    const int column = first_column + threadIdx.x;
    if (d.packed && threadIdx.x < kDecodeColumns && column < p.V) {
      d.packed[((token * r.slots() + slot) * p.H + h) * p.V + column] =
          p.scale * tile.read_out(scratch);
    }
  }
  tile.store(p.s_final, s_final, tile.S);
  if constexpr (states == 2) tile.store(p.m_final, m_final, tile.M);
}

Layout layout_for(const MomDecode& d) {
  const DecodeParams& p = d.p;
  const Layout layout = layout_of({&p.s0, &p.m0, &p.s_final, &p.m_final}, p.V);
  const std::int64_t four = layout == Layout::fp32 ? 16 : 8;
  for (const std::int64_t to_memory :
       {d.s0_memory, d.m0_memory, d.s_final_memory, d.m_final_memory}) {
    if (to_memory % four != 0) return Layout::any;
  }
  return layout;
}

template <int states>
cudaError_t launch_states(const MomDecode& d, cudaStream_t stream) {
  const std::int64_t tiles = (d.p.V + kDecodeColumns - 1) / kDecodeColumns;
  const std::int64_t pairs = d.routing.tokens() * d.routing.R();
  const dim3 grid(static_cast<unsigned>(pairs * tiles), static_cast<unsigned>(d.p.H));
  const auto start = [&](auto* kernel, unsigned threads) {
    return launch(kernel, grid, threads, 0, stream, d, static_cast<unsigned>(tiles));
  };
  return with_shape<states>(d.p.K, [&](auto shape) {
    using Shape = decltype(shape);
    switch (layout_for(d)) {
      case Layout::fp32:
        return start(mom_decode_kernel<Shape, Layout::fp32>, Shape::threads);
      case Layout::bf16:
        return start(mom_decode_kernel<Shape, Layout::bf16>, Shape::threads);
      case Layout::fp16:
        return start(mom_decode_kernel<Shape, Layout::fp16>, Shape::threads);
      default:
        return start(mom_decode_kernel<Shape, Layout::any>, Shape::threads);
    }
  });
}

}  // namespace

cudaError_t launch_mom_decode(const MomDecode& d, cudaStream_t stream) {
  return d.p.momentum ? launch_states<2>(d, stream) : launch_states<1>(d, stream);
}

}  // namespace assay::cuda
