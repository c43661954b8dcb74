// One step of every sequence through Mixture-of-Memories; see mom_cuda.hpp and delta_decode.hpp. A
// block has some columns of one head of one memory: it updates and reads them, or copies them.
#include "kernels/common/cuda/delta_decode.cuh"
#include "kernels/mom/mom_cuda.hpp"

namespace assay::cuda {

namespace {

template <int states, int rows, Layout layout>
__global__ void __launch_bounds__(kDecodeThreads, decode_blocks(states, rows))
    mom_decode_kernel(const __grid_constant__ MomDecode d, int tiles) {
  __shared__ DecodeScratch scratch;
  const DecodeParams& p = d.p;
  const Routing& r = d.routing;
  const int first_column = static_cast<int>(blockIdx.x % tiles) * kDecodeColumns;
  const std::int64_t unit = blockIdx.x / tiles;
  const int h = static_cast<int>(unit % p.H);
  const int memory = static_cast<int>(unit / p.H % r.R());
  const std::int64_t token = unit / p.H / r.R();
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
  DecodeTile<states, rows, layout> tile(p.K, p.V, first_column);
  tile.load(p.s0, s0, tile.S);
  if constexpr (states == 2) tile.load(p.m0, m0, tile.M);
  if (slot >= 0) {
    const bool of_shared = memory == r.M;
    const auto side = [&](const MomField::Side& mem, const MomField::Side& shared) {
      const Strided& x = of_shared ? shared.tensor : mem.tensor;
      return x.data ? x.data + token * x.batch + memory * (of_shared ? 0 : mem.to_memory) +
                          h / x.share * x.head
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
    step.q = {p.q.data + token * p.q.batch + h / p.q.share * p.q.head, p.q.column, p.q.dtype};
    step.k = vector(d.k, d.k_shared), step.v = vector(d.v, d.v_shared);
    step.alpha = gate(d.alpha, d.alpha_shared, p.alpha_is_log);
    step.mu = gate(d.mu, d.mu_shared, p.mu_is_log);
    step.beta = gate(d.beta, d.beta_shared, false);
    step.eta = gate(d.eta, d.eta_shared, false);
    step.q_correction = 0;
    tile.stage(p, step, scratch);
    tile.update(step, scratch);
    if (d.packed) {
      const float read = p.scale * tile.read_out(scratch);
      const int column = first_column + threadIdx.x;
      if (threadIdx.x < kDecodeColumns && column < p.V) {
        d.packed[((token * r.slots() + slot) * p.H + h) * p.V + column] = read;
      }
    }
  }
  tile.store(p.s_final, s_final, tile.S);
  if constexpr (states == 2) tile.store(p.m_final, m_final, tile.M);
}

template <int states, int rows>
cudaError_t launch_rows(const MomDecode& d, cudaStream_t stream) {
  const DecodeParams& p = d.p;
  const int tiles = (p.V + kDecodeColumns - 1) / kDecodeColumns;
  const std::int64_t blocks = d.routing.tokens() * d.routing.R() * p.H * tiles;
  const auto start = [&](auto* kernel) {
    return launch(kernel, dim3(static_cast<unsigned>(blocks)), kDecodeThreads, 0, stream, d, tiles);
  };
  Layout layout = layout_of({&p.s0, &p.m0, &p.s_final, &p.m_final}, p.V);
  const std::int64_t four = layout == Layout::fp32 ? 16 : 8;
  for (const std::int64_t to_memory :
       {d.s0_memory, d.m0_memory, d.s_final_memory, d.m_final_memory}) {
    if (to_memory % four != 0) layout = Layout::any;
  }
  switch (layout) {
    case Layout::fp32:
      return start(mom_decode_kernel<states, rows, Layout::fp32>);
    case Layout::narrow:
      return start(mom_decode_kernel<states, rows, Layout::narrow>);
    default:
      return start(mom_decode_kernel<states, rows, Layout::any>);
  }
}

template <int states>
cudaError_t launch_states(const MomDecode& d, cudaStream_t stream) {
  if (d.p.K <= 64) return launch_rows<states, 4>(d, stream);
  if (d.p.K <= 128) return launch_rows<states, 8>(d, stream);
  return launch_rows<states, 16>(d, stream);
}

}  // namespace

cudaError_t launch_mom_decode(const MomDecode& d, cudaStream_t stream) {
  return d.p.momentum ? launch_states<2>(d, stream) : launch_states<1>(d, stream);
}

}  // namespace assay::cuda
