// The operations m2rnn and m2rnn_gate of the CUDA plug-in: from a call to launches.
//
// m2rnn also takes `x`, `a` and `b`, as m2rnn_gate names them, in place of `f`: the gate is then
// computed where it is read, and d_x, d_a, d_b are gradients like the others.
#include "kernels/m2rnn/m2rnn_cuda.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "kernels/common/binding.hpp"
#include "kernels/common/cuda/call_checks.hpp"
#include "kernels/common/cuda/workspace.hpp"
#include "kernels/m2rnn/m2rnn_fault.hpp"
#include "kernels/m2rnn/m2rnn_passes.hpp"

namespace assay::cuda {
namespace {

using cpu::Binding;
using cpu::Call;
using cpu::find_view;
using cpu::Outcome;
using cpu::refuse;
using cpu::Role;
using cpu::Slot;
using cpu::Status;
using cpu::TensorSpec;

#define ASSAY_M2RNN_TENSORS                                                                        \
  {"w_residual", "NV", Role::param, Slot::none, nullptr, true},                                    \
      {"h0", "BNKV", Role::state, Slot::none, nullptr, true}, {"y", "BTNV", Role::token_output}, { \
    "h_final", "BNKV", Role::final_state                                                           \
  }
constexpr TensorSpec kTensors[] = {{"q", "BTNK", Role::token}, {"k", "BTNK", Role::token},
                                   {"v", "BTNV", Role::token}, {"w", "NVV", Role::param},
                                   {"f", "BTN", Role::token},  ASSAY_M2RNN_TENSORS};
constexpr TensorSpec kGatedTensors[] = {{"q", "BTNK", Role::token}, {"k", "BTNK", Role::token},
                                        {"v", "BTNV", Role::token}, {"w", "NVV", Role::param},
                                        {"x", "BTN", Role::token},  {"a", "N", Role::param},
                                        {"b", "N", Role::param},    ASSAY_M2RNN_TENSORS};
constexpr TensorSpec kGateTensors[] = {{"x", "BTN", Role::token},
                                       {"a", "N", Role::param},
                                       {"b", "N", Role::param},
                                       {"f", "BTN", Role::token_output}};
constexpr cpu::OpSpec kSpec{"m2rnn", kTensors, std::size(kTensors)};
constexpr cpu::OpSpec kGatedSpec{"m2rnn", kGatedTensors, std::size(kGatedTensors)};
constexpr cpu::OpSpec kGateSpec{"m2rnn_gate", kGateTensors, std::size(kGateTensors)};

constexpr std::int64_t kLeastWindowBytes = std::int64_t{16} << 20;

int heads_of(const cpu::View* view, const char* axes) {
  const char* at = std::strchr(axes, 'N');
  return view && at ? static_cast<int>(view->shape[at - axes]) : 1;
}

/// A gradient per token and the partial sums that it is made of, if it is.
struct TokenGradient {
  Strided out;
  TokenSink sink;
  int heads = 1, groups = 1;
  bool partial = false;
};

struct Plan {
  Binding binding;
  M2rnnParams p;
  TokenGradient d_q, d_k, d_v, d_f;
  Strided d_w, d_w_residual;
  int w_heads = 1;
  float* residual_parts = nullptr;
  Gate gate;
  M2rnnPrecision precision = M2rnnPrecision::exact;
  bool gated = false, wants_gradients = false;
  std::int64_t units = 0, blocks = 0, window_blocks = 0;
  std::size_t workspace_bytes = 0;
};

M2rnnPrecision precision_for(const M2rnnParams& p) {
  auto precision = M2rnnPrecision::fast;
  for (const Strided* x : {&p.q, &p.k, &p.v, &p.d_y}) {
    if (!x->given) continue;
    if (x->dtype == DType::f32) return M2rnnPrecision::exact;
    if (x->dtype == DType::f16) precision = M2rnnPrecision::half;
  }
  return precision;
}

void read_tensors(const Call& call, Plan& plan) {
  const Binding& b = plan.binding;
  M2rnnParams& p = plan.p;
  const auto in = [&](const char* name, const char* axes) {
    return strided(find_view(call.inputs, "", name), axes, b.H);
  };
  const auto gradient = [&](const char* name, const char* axes) {
    return strided(find_view(call.gradients, "d_", name), axes, b.H);
  };
  p.N = static_cast<int>(b.H);
  p.K = static_cast<int>(b.axis('K')), p.V = static_cast<int>(b.axis('V'));
  p.T = b.axis('T'), p.sequences = b.sequences;
  p.row_tiles = (p.K + kRows - 1) / kRows;
  p.warps = std::min(p.row_tiles, kWarps);
  p.row_groups = (p.row_tiles + kWarps - 1) / kWarps;
  p.cu_seqlens = b.cu_seqlens, p.cu_stride = b.cu_stride, p.cu_is_i32 = b.cu_is_i32;
  p.q = in("q", "BTNK"), p.k = in("k", "BTNK"), p.v = in("v", "BTNV"), p.w = in("w", "NVV");
  p.f = in(plan.gated ? "x" : "f", "BTN");
  p.gate_a = in("a", "N"), p.gate_b = in("b", "N");
  p.w_residual = in("w_residual", "NV"), p.h0 = in("h0", "BNKV");
  p.y = strided(find_view(call.outputs, "", "y"), "BTNV", b.H);
  p.h_final = strided(find_view(call.outputs, "", "h_final"), "BNKV", b.H);
  p.d_y = strided(find_view(call.cotangents, "d_", "y"), "BTNV", b.H);
  p.d_h_final = strided(find_view(call.cotangents, "d_", "h_final"), "BNKV", b.H);
  p.d_h0 = gradient("h0", "BNKV");
  plan.d_w = gradient("w", "NVV"), plan.d_w_residual = gradient("w_residual", "NV");
  plan.w_heads = heads_of(find_view(call.inputs, "", "w"), "NVV");
  p.clips = call.options.has_state_grad_clip;
  p.clip = static_cast<float>(call.options.state_grad_clip);
  plan.precision = precision_for(p);
  p.aligned = plan.precision != M2rnnPrecision::exact && p.q.pairs && p.k.pairs && p.v.pairs &&
              (!p.d_y.given || p.d_y.pairs) && p.K % kRows == 0 && p.V == m2rnn_padded_width(p.V);
  const auto token = [&](TokenGradient& g, const char* name, const char* axes, int width,
                         int groups) {
    g.out = gradient(name, axes);
    g.heads = p.N / g.out.share;
    g.groups = groups;
    g.sink.width = width;
    g.partial = g.out.given && (g.out.share > 1 || groups > 1);
    if (!g.partial) g.sink.direct = g.out;
  };
  token(plan.d_q, "q", "BTNK", p.K, 1);
  token(plan.d_k, "k", "BTNK", p.K, 1);
  token(plan.d_v, "v", "BTNV", p.V, p.row_groups);
  token(plan.d_f, "f", "BTN", 1, p.row_groups);
#if defined(ASSAY_M2RNN_FAULTS)
  const char* const names[] = {
#define ASSAY_M2RNN_NAME(name) #name,
      ASSAY_M2RNN_FAULT_LIST(ASSAY_M2RNN_NAME)
#undef ASSAY_M2RNN_NAME
  };
  const char* wanted = std::getenv("ASSAY_M2RNN_FAULT");
  for (int i = 0; wanted && i < static_cast<int>(std::size(names)); ++i) {
    if (std::strcmp(wanted, names[i]) == 0) p.fault = i;
  }
#endif
}

/// The fused gate: its gradients need d_f whole, per head of x.
void read_gate(const Call& call, Plan& plan, Workspace& memory) {
  const Binding& b = plan.binding;
  const int heads = plan.p.N / plan.p.f.share;
  Gate& g = plan.gate;
  const auto gradient = [&](const char* name, const char* axes) {
    return strided(find_view(call.gradients, "d_", name), axes, heads);
  };
  g.x = strided(find_view(call.inputs, "", "x"), "BTN", heads);
  g.a = strided(find_view(call.inputs, "", "a"), "N", heads);
  g.b = strided(find_view(call.inputs, "", "b"), "N", heads);
  g.d_x = gradient("x", "BTN"), g.d_a = gradient("a", "N"), g.d_b = gradient("b", "N");
  g.heads = heads, g.a_heads = heads / g.a.share, g.b_heads = heads / g.b.share;
  g.batches = b.axis('B'), g.T = b.axis('T');
  if (!g.d_x.given && !g.d_a.given && !g.d_b.given) return;
  g.sums = memory.take<double>(2 * heads);
  g.d_f = own_tokens(memory.take<float>(b.tokens * heads), g.T, heads, 1);
  TokenGradient& d_f = plan.d_f;
  d_f.out = g.d_f, d_f.out.share = plan.p.f.share;
  d_f.heads = heads;
  d_f.partial = d_f.out.share > 1 || d_f.groups > 1;
  d_f.sink.direct = d_f.partial ? Strided{} : d_f.out;
}

/// Partial sums per token: of all tokens when packed, of a window of time otherwise, of about an
/// eighth of the bytes of the checkpoints.
void take_windows(Plan& plan, Workspace& memory, std::int64_t checkpoint_bytes) {
  M2rnnParams& p = plan.p;
  TokenGradient* const all[] = {&plan.d_q, &plan.d_k, &plan.d_v, &plan.d_f};
  std::int64_t token_bytes = 0;
  for (const TokenGradient* g : all) {
    if (g->partial) token_bytes += 4 * p.N * g->groups * g->sink.width;
  }
  plan.window_blocks = std::max<std::int64_t>(plan.blocks, 1);
  std::int64_t tokens = plan.binding.tokens;
  if (token_bytes > 0 && !p.cu_seqlens && p.sequences > 0) {
    const std::int64_t budget = std::max(kLeastWindowBytes, checkpoint_bytes / 8);
    const std::int64_t fits = budget / (token_bytes * p.sequences * kSteps);
    plan.window_blocks = std::clamp<std::int64_t>(fits, 1, plan.window_blocks);
    tokens = p.sequences * plan.window_blocks * kSteps;
  }
  for (TokenGradient* g : all) {
    if (g->partial) g->sink.partial = memory.take<float>(tokens * p.N * g->groups * g->sink.width);
  }
}

void take_backward(const Call& call, Plan& plan, Workspace& memory) {
  M2rnnParams& p = plan.p;
  const std::int64_t padded = m2rnn_padded_width(p.V);
  const std::int64_t slots =
      (p.cu_seqlens ? p.T / kSteps + p.sequences : p.sequences * plan.blocks) * p.N;
  const std::int64_t lanes = slots * p.row_tiles * (padded / 8) * 32;
  p.checkpoints = memory.take<float4>(lanes);
  const std::int64_t warps = plan.units * p.row_groups * p.warps;
  p.carry = memory.take<float>(warps * kRows * padded);
  p.d_w_tiles = memory.take<float>(warps * padded * padded);
  p.scratch = memory.take<uint4>(warps * m2rnn_scratch_bytes(p.V, plan.precision) / 16);
  if (plan.d_w_residual.given) plan.residual_parts = memory.take<float>(plan.units * p.V);
  if (plan.gated) read_gate(call, plan, memory);
  take_windows(plan, memory, lanes * 16);
  p.plain_rows = plan.d_q.partial && plan.d_k.partial && p.K % kRows == 0;
  p.d_q = plan.d_q.sink, p.d_k = plan.d_k.sink, p.d_v = plan.d_v.sink, p.d_f = plan.d_f.sink;
}

Outcome make_plan(const Call& call, void* memory, Plan& plan) {
  plan.gated = find_view(call.inputs, "", "x") != nullptr;
  if (plan.gated && find_view(call.inputs, "", "f")) {
    return refuse(Status::bad_argument, "both 'f' and what it is computed from are given");
  }
  if (const Outcome o = refuse_fp64(call); o.status != Status::ok) return o;
  const Outcome bound = bind(plan.gated ? kGatedSpec : kSpec, call, plan.binding);
  if (bound.status != Status::ok) return bound;
  const Binding& b = plan.binding;
  if (b.axis('K') > kMaxK || b.axis('V') > kMaxV || b.axis('K') < 1 || b.axis('V') < 1) {
    return refuse(Status::unsupported, "K must be 1 to %d and V 1 to %d", kMaxK, kMaxV);
  }
  if (call.options.has_state_grad_clip && !(call.options.state_grad_clip >= 0)) {
    return refuse(Status::bad_argument, "state_grad_clip must not be negative");
  }
  read_tensors(call, plan);
  plan.units = plan.p.sequences * plan.p.N;
  if (plan.units * plan.p.row_groups >= std::int64_t{1} << 31) {
    return refuse(Status::unsupported, "more than 2^31 heads in all sequences");
  }
  if (plan.gated) {
    const int heads = plan.p.N / plan.p.f.share;
    for (const char* name : {"a", "b"}) {
      const int own = heads_of(find_view(call.inputs, "", name), "N");
      if (heads % own != 0) {
        return refuse(Status::unsupported, "'%s' has %d heads, which x with %d cannot share", name,
                      own, heads);
      }
    }
  }
  plan.blocks = plan.p.blocks_per_sequence();
  plan.wants_gradients = call.gradients.count > 0;
  Workspace pieces(memory);
  if (plan.p.row_groups > 1 && plan.p.y.given) {
    plan.p.y_partial = pieces.take<float>(b.tokens * plan.p.N * plan.p.row_groups * plan.p.V);
  }
  if (plan.wants_gradients) take_backward(call, plan, pieces);
  plan.workspace_bytes = pieces.used();
  return {};
}

Outcome plan_m2rnn(const Call& call, std::size_t* bytes) {
  Plan plan;
  const Outcome o = make_plan(call, nullptr, plan);
  *bytes = plan.workspace_bytes;
  return o;
}

cudaError_t add_windows(const Plan& plan, const M2rnnParams& p, cudaStream_t stream) {
  const bool packed = p.cu_seqlens != nullptr;
  for (const TokenGradient* g : {&plan.d_q, &plan.d_k, &plan.d_v, &plan.d_f}) {
    if (!g->partial) continue;
    TokenSum sum{};
    sum.partial = g->sink.partial;
    sum.out = g->out;
    sum.batches = packed ? 1 : p.sequences;
    sum.t0 = packed ? 0 : p.window_begin * kSteps;
    // The rows of a window are counted from its begin, those beyond T exist but are not read.
    sum.row_steps = packed ? p.T : (p.window_end - p.window_begin) * kSteps;
    sum.steps = packed ? p.T : std::min(p.T, p.window_end * kSteps) - sum.t0;
    sum.heads = g->heads, sum.groups = g->groups, sum.width = g->sink.width;
    sum.fault = p.fault;
    if (const cudaError_t e = sum_tokens(sum, stream); e != cudaSuccess) return e;
  }
  return cudaSuccess;
}

cudaError_t backward(const Plan& plan, cudaStream_t stream) {
  M2rnnParams p = plan.p;
  std::int64_t end = std::max<std::int64_t>(plan.blocks, 1);
  for (p.first_window = true; end > 0; p.first_window = false) {
    p.window_end = end;
    p.window_begin = std::max<std::int64_t>(end - plan.window_blocks, 0);
    p.last_window = p.window_begin == 0;
    if (const cudaError_t e = m2rnn_backward(p, plan.precision, stream); e != cudaSuccess) return e;
    if (const cudaError_t e = add_windows(plan, p, stream); e != cudaSuccess) return e;
    end = p.window_begin;
  }
  if (plan.d_w.given) {
    if (const cudaError_t e = sum_d_w(p, plan.d_w, plan.w_heads, stream); e != cudaSuccess) {
      return e;
    }
  }
  if (plan.d_w_residual.given) {
    const cudaError_t e = sum_d_residual(p, plan.d_w_residual, plan.residual_parts, stream);
    if (e != cudaSuccess) return e;
  }
  return plan.gated ? gate_backward(plan.gate, stream) : cudaSuccess;
}

cudaError_t forward(const Plan& plan, cudaStream_t stream) {
  const M2rnnParams& p = plan.p;
  if (const cudaError_t e = m2rnn_forward(p, plan.precision, stream); e != cudaSuccess) return e;
  return p.y_partial ? finish_y(p, stream) : cudaSuccess;
}

RunOutcome run_m2rnn(const Call& call, cudaStream_t stream) {
  return run_m2rnn_passes(call, true, true, stream);
}

Outcome make_gate(const Call& call, void* memory, Gate& g, std::size_t* bytes) {
  Binding b;
  if (const Outcome o = refuse_fp64(call); o.status != Status::ok) return o;
  if (const Outcome o = bind(kGateSpec, call, b); o.status != Status::ok) return o;
  const auto gradient = [&](const char* name, const char* axes) {
    return strided(find_view(call.gradients, "d_", name), axes, b.H);
  };
  g.x = strided(find_view(call.inputs, "", "x"), "BTN", b.H);
  g.a = strided(find_view(call.inputs, "", "a"), "N", b.H);
  g.b = strided(find_view(call.inputs, "", "b"), "N", b.H);
  g.f = strided(find_view(call.outputs, "", "f"), "BTN", b.H);
  g.d_f = strided(find_view(call.cotangents, "d_", "f"), "BTN", b.H);
  g.d_x = gradient("x", "BTN"), g.d_a = gradient("a", "N"), g.d_b = gradient("b", "N");
  g.heads = static_cast<int>(b.H);
  g.a_heads = g.heads / g.a.share, g.b_heads = g.heads / g.b.share;
  g.batches = b.axis('B'), g.T = b.axis('T');
  Workspace pieces(memory);
  if (call.gradients.count > 0) g.sums = pieces.take<double>(2 * g.heads);
  *bytes = pieces.used();
  return {};
}

Outcome plan_gate(const Call& call, std::size_t* bytes) {
  Gate gate{};
  return make_gate(call, nullptr, gate, bytes);
}

RunOutcome run_gate(const Call& call, cudaStream_t stream) {
  Gate gate{};
  RunOutcome out;
  std::size_t bytes = 0;
  out.refusal = make_gate(call, call.workspace, gate, &bytes);
  if (out.refusal.status != Status::ok) return out;
  if (gate.f.data) out.error = gate_forward(gate, stream);
  if (out.error == cudaSuccess && call.gradients.count > 0) out.error = gate_backward(gate, stream);
  return out;
}

}  // namespace

RunOutcome run_m2rnn_passes(const Call& call, bool forward_pass, bool backward_pass,
                            cudaStream_t stream) {
  Plan plan;
  RunOutcome out;
  out.refusal = make_plan(call, call.workspace, plan);
  if (out.refusal.status == Status::ok) {
    out.refusal = check_workspace(call, plan.workspace_bytes);
  }
  if (out.refusal.status != Status::ok) return out;
  if (forward_pass) out.error = forward(plan, stream);
  if (backward_pass && plan.wants_gradients && out.error == cudaSuccess) {
    out.error = backward(plan, stream);
  }
  return out;
}

const OpKernel m2rnn_kernel{"m2rnn", plan_m2rnn, run_m2rnn};
const OpKernel m2rnn_gate_kernel{"m2rnn_gate", plan_gate, run_gate};

}  // namespace assay::cuda
