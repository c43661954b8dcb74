// Which calls are few steps, and their tensors.
#include "kernels/common/cuda/delta_decode.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/common/binding.hpp"

namespace assay::cuda {
namespace {

using cpu::Call;
using cpu::find_view;
using cpu::View;

// A walk through time costs the latency of a step each; the chunk kernels are faster from a few on.
constexpr std::int64_t kMostSteps = 4;

/// Heads of the state: the most that any input has.
std::int64_t heads_of(const Call& call) {
  std::int64_t heads = 1;
  for (const char* name : {"q", "k", "v", "alpha", "log_alpha", "mu", "log_mu", "beta", "eta",
                           "x_alpha", "x_mu", "x_beta", "x_eta"}) {
    if (const View* x = find_view(call.inputs, "", name)) heads = std::max(heads, x->shape[2]);
  }
  for (const cpu::ViewList* list : {&call.inputs, &call.outputs}) {
    for (const char* name : {"s0", "m0", "s_final", "m_final"}) {
      if (const View* x = find_view(*list, "", name)) heads = std::max(heads, x->shape[1]);
    }
  }
  for (const char* name : {"q_correction", "a_alpha", "b_alpha", "a_mu", "b_mu"}) {
    if (const View* x = find_view(call.inputs, "", name)) heads = std::max(heads, x->shape[0]);
  }
  return heads;
}

}  // namespace

bool decode_applies(const Call& call) {
  const View* q = find_view(call.inputs, "", "q");
  const View* v = find_view(call.inputs, "", "v");
  if (!q || !v || q->rank != 4 || v->rank != 4) return false;
  if (call.gradients.count > 0 || q->shape[3] > kDecodeMaxK || v->shape[3] > 1 << 20) return false;
  std::int64_t sequences = 1;
  if (const View* cu = find_view(call.inputs, "", "cu_seqlens")) sequences = cu->shape[0] - 1;
  // More than can be counted in a grid: not here.
  if (sequences * q->shape[0] * (v->shape[3] / 64 + 1) > 0x7fffffff) return false;
  if (heads_of(call) > 65535) return false;
  return q->shape[1] <= kMostSteps * sequences;
}

RunOutcome run_decode(const Call& call, cudaStream_t stream) {
  DecodeParams p;
  const std::int64_t H = heads_of(call);
  const auto in = [&](const char* name, const char* axes) {
    return strided(find_view(call.inputs, "", name), axes, H);
  };
  const auto out = [&](const char* name, const char* axes) {
    return strided(find_view(call.outputs, "", name), axes, H);
  };
  p.q = in("q", "BTHK"), p.k = in("k", "BTHK"), p.v = in("v", "BTHV");
  p.alpha = in("alpha", "BTH"), p.mu = in("mu", "BTH");
  p.alpha_is_log = !p.alpha.given, p.mu_is_log = !p.mu.given;
  if (p.alpha_is_log) p.alpha = in("log_alpha", "BTH");
  if (p.mu_is_log) p.mu = in("log_mu", "BTH");
  p.beta = in("beta", "BTH"), p.eta = in("eta", "BTH");
  read_made_gates(call, H, p.alpha, p.beta, p.mu, p.eta, p.made);
  p.momentum = p.mu.given;
  p.q_correction = in("q_correction", "H");
  p.s0 = in("s0", "BHKV"), p.m0 = in("m0", "BHKV");
  p.o = out("o", "BTHV"), p.s_final = out("s_final", "BHKV"), p.m_final = out("m_final", "BHKV");
  const View* q = find_view(call.inputs, "", "q");
  p.H = static_cast<int>(H), p.K = static_cast<int>(q->shape[3]);
  p.V = static_cast<int>(find_view(call.inputs, "", "v")->shape[3]);
  p.sequences = q->shape[0], p.T = q->shape[1];
  if (const View* cu = find_view(call.inputs, "", "cu_seqlens")) {
    p.sequences = cu->shape[0] - 1;
    p.cu_seqlens = static_cast<const char*>(cu->data);
    p.cu_stride = cu->stride[0], p.cu_is_i32 = cu->dtype == DType::i32;
  }
  p.normalise = call.options.qk_l2norm, p.eps = static_cast<float>(call.options.l2norm_eps);
  const double scale =
      call.options.has_scale ? call.options.scale : 1 / std::sqrt(static_cast<double>(p.K));
  p.scale = static_cast<float>(scale);
  RunOutcome outcome;
  outcome.error = launch_decode(p, stream);
  return outcome;
}

}  // namespace assay::cuda
