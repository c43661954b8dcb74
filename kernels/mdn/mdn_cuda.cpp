#include "kernels/mdn/mdn_cuda.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "kernels/common/binding.hpp"
#include "kernels/common/cuda/call_checks.hpp"
#include "kernels/common/cuda/delta_decode.hpp"
#include "kernels/common/cuda/workspace.hpp"
#include "kernels/common/fast_weight_tensors.hpp"
#include "kernels/mdn/mdn_fast.hpp"
#include "kernels/mdn/mdn_fault.hpp"
#include "kernels/mdn/mdn_ops.hpp"

namespace assay::cuda {
namespace {

using cpu::Binding;
using cpu::Call;
using cpu::find_view;
using cpu::OpSpec;
using cpu::Outcome;
using cpu::refuse;
using cpu::Status;
using cpu::TensorSpec;

constexpr TensorSpec kTensors[] = {
    cpu::kQuery,        cpu::kKey,           cpu::kValue,           cpu::kHeadDecay,
    cpu::kWrite,        cpu::kMomentumDecay, cpu::kResidualScale,   cpu::kQueryCorrection,
    cpu::kReadOut,      cpu::kInitialState,  cpu::kInitialMomentum, cpu::kFinalState,
    cpu::kFinalMomentum};
constexpr OpSpec kSpec = cpu::op_spec("mdn", kTensors, true);

/// A gradient per token whose head is shared, to be added up.
struct SharedGradient {
  Strided out;
  MdnSink* sink;
};

struct Plan {
  Binding binding;
  MdnParams p;
  MdnFast fast;
  MdnPack pack;
  bool is_fast = false, packs = false;
  SharedGradient shared[7];
  int shared_count = 0;
  Strided d_correction, d_parameter[MadeGates::kParameters];
  std::size_t workspace_bytes = 0;
};

const cpu::View* find_gate(const cpu::ViewList& list, const char* prefix, const char* name,
                           const char* log_name, bool* is_log) {
  const cpu::View* view = find_view(list, prefix, log_name);
  if (view) {
    *is_log = true;
    return view;
  }
  return find_view(list, prefix, name);
}

void read_inputs(const Call& call, Plan& plan) {
  const Binding& b = plan.binding;
  MdnParams& p = plan.p;
  const auto in = [&](const char* name, const char* axes) {
    return strided(find_view(call.inputs, "", name), axes, b.H);
  };
  p.H = static_cast<int>(b.H);
  p.K = static_cast<int>(b.axis('K')), p.V = static_cast<int>(b.axis('V'));
  p.T = b.axis('T'), p.sequences = b.sequences;
  p.cu_seqlens = b.cu_seqlens, p.cu_stride = b.cu_stride, p.cu_is_i32 = b.cu_is_i32;
  p.q = in("q", "BTHK"), p.k = in("k", "BTHK"), p.v = in("v", "BTHV");
  p.alpha = strided(find_gate(call.inputs, "", "alpha", "log_alpha", &p.log_alpha), "BTH", b.H);
  p.beta = in("beta", "BTH");
  if (p.momentum) {
    p.mu = strided(find_gate(call.inputs, "", "mu", "log_mu", &p.log_mu), "BTH", b.H);
    p.eta = in("eta", "BTH"), p.q_correction = in("q_correction", "H"), p.m0 = in("m0", "BHKV");
  }
  p.s0 = in("s0", "BHKV");
  read_made_gates(call, b.H, p.alpha, p.beta, p.mu, p.eta, p.made);
  p.l2norm = call.options.qk_l2norm;
  p.l2norm_eps = static_cast<float>(call.options.l2norm_eps);
  p.scale = call.options.has_scale ? static_cast<float>(call.options.scale)
                                   : 1.0f / std::sqrt(static_cast<float>(p.K));
#if defined(ASSAY_MDN_FAULTS)
  const char* const names[] = {
#define ASSAY_MDN_NAME(name) #name,
      ASSAY_MDN_FAULT_LIST(ASSAY_MDN_NAME)
#undef ASSAY_MDN_NAME
  };
  const char* wanted = std::getenv("ASSAY_MDN_FAULT");
  for (int i = 0; wanted && i < static_cast<int>(std::size(names)); ++i) {
    if (std::strcmp(wanted, names[i]) == 0) p.fault = i;
  }
#endif
}

void read_outputs(const Call& call, Plan& plan) {
  MdnParams& p = plan.p;
  const std::int64_t H = plan.binding.H;
  p.o = strided(find_view(call.outputs, "", "o"), "BTHV", H);
  p.d_o = strided(find_view(call.cotangents, "d_", "o"), "BTHV", H);
  p.s_final = strided(find_view(call.outputs, "", "s_final"), "BHKV", H);
  p.d_s_final = strided(find_view(call.cotangents, "d_", "s_final"), "BHKV", H);
  p.d_s0 = strided(find_view(call.gradients, "d_", "s0"), "BHKV", H);
  if (!p.momentum) return;
  p.m_final = strided(find_view(call.outputs, "", "m_final"), "BHKV", H);
  p.d_m_final = strided(find_view(call.cotangents, "d_", "m_final"), "BHKV", H);
  p.d_m0 = strided(find_view(call.gradients, "d_", "m0"), "BHKV", H);
}

void take_sinks(const Call& call, Plan& plan, Workspace& memory) {
  MdnParams& p = plan.p;
  const std::int64_t H = plan.binding.H;
  const auto sink = [&](MdnSink& to, const cpu::View* view, const char* axes, int width) {
    to.width = width;
    const Strided out = strided(view, axes, H);
    const bool later = plan.packs && (&to == &p.d_q || &to == &p.d_k);
    if (out.share <= 1 && !later) {
      to.direct = out;
      return;
    }
    to.partial = memory.take<float>(plan.binding.tokens * H * width);
    if (out.given) plan.shared[plan.shared_count++] = {out, &to};
  };
  const auto view = [&](const char* name) { return find_view(call.gradients, "d_", name); };
  bool ignored = false;
  sink(p.d_q, view("q"), "BTHK", p.K), sink(p.d_k, view("k"), "BTHK", p.K);
  sink(p.d_v, view("v"), "BTHV", p.V);
  const auto gate = [&](const char* name, const char* log_name, const char* before) {
    if (p.made.given) return view(before);
    return find_gate(call.gradients, "d_", name, log_name, &ignored);
  };
  sink(p.d_alpha, gate("alpha", "log_alpha", "x_alpha"), "BTH", 1);
  sink(p.d_beta, gate("beta", "", "x_beta"), "BTH", 1);
  if (!p.momentum) return;
  sink(p.d_mu, gate("mu", "log_mu", "x_mu"), "BTH", 1);
  sink(p.d_eta, gate("eta", "", "x_eta"), "BTH", 1);
  if (p.made.given) {
    find_parameter_gradients(call, H, plan.d_parameter);
    const std::int64_t places = plan.is_fast ? p.places() : p.units();
    p.made.parts = memory.take<float>(places * MadeGates::kParameters);
  }
  plan.d_correction = strided(view("q_correction"), "H", H);
  if (!plan.d_correction.given) return;
  p.d_correction = memory.take<float>(plan.packs ? plan.binding.tokens * H : p.units());
}

void take_exact(Plan& plan, Workspace& memory) {
  MdnParams& p = plan.p;
  p.scratch_floats = p.exact_scratch();
  p.scratch = memory.take<float>(p.units() * p.scratch_floats);
  if (!p.gradients) return;
  p.states = memory.take<float>(p.places() * p.matrices() * p.K * p.V);
}

void take_pack(Plan& plan, Workspace& memory) {
  MdnPack& pack = plan.pack;
  MdnParams& p = plan.p;
  const std::int64_t rows = plan.binding.tokens * p.H;
  pack.q = p.q, pack.k = p.k, pack.q_correction = p.q_correction;
  pack.tokens = plan.binding.tokens, pack.T = p.T, pack.H = p.H, pack.K = p.K;
  pack.l2norm = p.l2norm, pack.l2norm_eps = p.l2norm_eps;
  pack.dtype = plan.fast.full ? DType::f32 : DType::bf16;
  const std::int64_t unit = bytes_of(pack.dtype);
  pack.packed_q = memory.take<char>(rows * p.K * unit);
  pack.packed_k = memory.take<char>(rows * p.K * unit);
  pack.d_q = p.d_q.partial, pack.d_k = p.d_k.partial, pack.d_correction = p.d_correction;
  const auto own = [&](char* data) {
    Strided out;
    out.data = data, out.dtype = pack.dtype, out.column = unit;
    out.head = unit * p.K, out.time = out.head * p.H, out.batch = out.time * p.T;
    out.given = true, out.pairs = out.wide = !plan.fast.full;
    return out;
  };
  p.q = own(pack.packed_q), p.k = own(pack.packed_k);
  p.q_correction = {}, p.d_correction = nullptr, p.l2norm = false;
}

void take_fast(Plan& plan, Workspace& memory) {
  constexpr std::int64_t kEnoughBlocks = 96;
  MdnFast& f = plan.fast;
  MdnParams& p = plan.p;
  const std::int64_t places = p.places(), unit = f.full ? 4 : 2;
  f.pairs = p.units() * ((p.V + 63) / 64) >= kEnoughBlocks ? 4 : 2;
  f.records = memory.take<char>(places * (f.full ? 4 * kFullFloats : kRecordBytes));
  if (f.full) f.rows = memory.take<float>(places * 2 * kChunk * p.K);
  if (!p.gradients) return;
  const std::int64_t state = unit * p.K * p.V * p.matrices();
  const std::int64_t rows = unit * kChunk * p.V;
  f.kept = memory.take<char>(places * state);
  f.d_kept = memory.take<char>(places * state);
  f.residuals = memory.take<char>(places * rows);
  if (!f.full) f.residual_rests = memory.take<char>(p.units() * rows);
  f.d_residuals = memory.take<char>(places * rows);
  f.coefficients = memory.take<float>(places * kKeptFloats);
  f.cotangents = memory.take<float>(places * kCotangentFloats);
  if (p.window == 0) return;
  const auto marks = [&](Strided& to) {
    float* data = memory.take<float>(p.marks() * p.H * p.K * p.V);
    to = own_states(data, p.H, p.K, p.V);
  };
  marks(p.s_marks);
  if (p.momentum) marks(p.m_marks);
}

/// Chunks of a window of the way back, as the call wants them, or the environment; 0: no windows.
/// -1: the environment has no such number.
std::int64_t wanted_window(const Call& call) {
  if (call.options.recompute > 0) return call.options.recompute;
  const char* text = std::getenv("ASSAY_CUDA_RECOMPUTE");
  if (!text || *text == 0) return 0;
  std::int64_t chunks = 0;
  const char* const end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, chunks);
  return error == std::errc() && rest == end && chunks >= 0 ? chunks : -1;
}

/// Windows where that needs less memory.
void choose_window(const Call& call, Plan& plan) {
  const std::int64_t wanted = wanted_window(call);
  if (wanted <= 0 || !plan.p.gradients || plan.p.longest_chunks() <= wanted) return;
  const auto bytes_with = [&](std::int64_t window) {
    Workspace pieces(nullptr);
    plan.p.window = window;
    take_fast(plan, pieces);
    return pieces.used();
  };
  const std::size_t stored = bytes_with(0);
  if (bytes_with(wanted) >= stored) plan.p.window = 0;
}

Outcome make_plan(const OpSpec& spec, const Call& call, const MdnTable* table, void* memory,
                  Plan& plan) {
  if (const Outcome o = refuse_fp64(call); o.status != Status::ok) return o;
  if (const Outcome o = bind(spec, call, plan.binding); o.status != Status::ok) return o;
  if (call.options.form == cpu::Form::recurrent) {
    return refuse(Status::unsupported, "%s on the device has the chunk form only", spec.op);
  }
  MdnParams& p = plan.p;
  for (int i = 0; i < spec.count; ++i) {
    p.momentum = p.momentum || spec.tensors[i].slot == cpu::Slot::mu;
  }
  read_inputs(call, plan);
  if (p.K < 1 || p.V < 1 || p.K > kMaxMdnWidth || p.V > kMaxMdnWidth) {
    return refuse(Status::unsupported, "K and V must be 1 to %d", kMaxMdnWidth);
  }
  if (p.units() >= std::int64_t{1} << 31) {
    return refuse(Status::unsupported, "more than 2^31 heads in all sequences");
  }
  read_outputs(call, plan);
  p.gradients = call.gradients.count > 0;
  Workspace pieces(memory);
  plan.fast.full = !mdn_bf16_takes(p);
  plan.is_fast = !plan.fast.full || mdn_fp32_takes(p);
  plan.packs = plan.is_fast && (p.l2norm || p.q_correction.given);
  if (table) {
    if (!plan.is_fast || plan.fast.full || plan.packs)
      return refuse(Status::unsupported, "rows by table");
    p.table = *table;
  }
  if (p.gradients) take_sinks(call, plan, pieces);
  if (plan.packs) take_pack(plan, pieces);
  if (plan.is_fast) {
    if (wanted_window(call) < 0) {
      return refuse(Status::bad_argument, "ASSAY_CUDA_RECOMPUTE must be a number of chunks");
    }
    choose_window(call, plan);
    take_fast(plan, pieces);
  } else {
    take_exact(plan, pieces);
  }
  plan.workspace_bytes = pieces.used();
  return {};
}

cudaError_t launch_fast(const Plan& plan, cudaStream_t stream) {
  MdnFast f = plan.fast;
  f.p = plan.p;
  if (plan.packs) {
    if (const cudaError_t e = mdn_pack(plan.pack, stream); e != cudaSuccess) return e;
  }
  if (f.p.window > 0) {
    if (const cudaError_t e = mdn_recompute(f, stream); e != cudaSuccess) return e;
  } else {
    constexpr MdnLaunch kAll[] = {mdn_prepare, mdn_scan, mdn_reverse,
                                  mdn_local,   mdn_last, mdn_gates};
    for (int i = 0; i < (f.p.gradients ? 6 : 2); ++i) {
      if (const cudaError_t e = kAll[i](f, stream); e != cudaSuccess) return e;
    }
  }
  if (plan.packs && f.p.gradients) return mdn_unpack(plan.pack, plan.d_correction, stream);
  return cudaSuccess;
}

cudaError_t launch_all(const Plan& plan, cudaStream_t stream) {
  const MdnParams& p = plan.p;
  const cudaError_t e = plan.is_fast ? launch_fast(plan, stream) : mdn_exact(p, stream);
  if (e != cudaSuccess) return e;
  for (int i = 0; i < plan.shared_count; ++i) {
    MdnTokenSum sum;
    sum.partial = plan.shared[i].sink->partial, sum.width = plan.shared[i].sink->width;
    sum.out = plan.shared[i].out, sum.H = p.H, sum.fault = p.fault;
    sum.T = p.T, sum.batches = p.T > 0 ? plan.binding.tokens / p.T : 0;
    if (const cudaError_t e = mdn_sum_tokens(sum, stream); e != cudaSuccess) return e;
  }
  if (p.made.given && p.gradients) {
    MdnParameterSum sum;
    sum.parts = p.made.parts, sum.H = p.H, sum.fault = p.fault;
    sum.places = plan.is_fast ? p.all_slots() : p.sequences;
    std::copy_n(plan.d_parameter, MadeGates::kParameters, sum.out);
    if (const cudaError_t e = mdn_sum_parameters(sum, stream); e != cudaSuccess) return e;
  }
  if (plan.d_correction.given && !plan.packs)
    return mdn_sum_correction(p, plan.d_correction, stream);
  return cudaSuccess;
}

}  // namespace

Outcome plan_mdn(const OpSpec& spec, const Call& call, std::size_t* bytes, const MdnTable* table) {
  Plan plan;
  const Outcome o = make_plan(spec, call, table, nullptr, plan);
  *bytes = plan.workspace_bytes;
  return o;
}

RunOutcome run_mdn(const OpSpec& spec, const Call& call, cudaStream_t stream,
                   const MdnTable* table) {
  Plan plan;
  RunOutcome out;
  out.refusal = make_plan(spec, call, table, call.workspace, plan);
  if (out.refusal.status == Status::ok) {
    out.refusal = check_workspace(call, plan.workspace_bytes);
  }
  if (out.refusal.status != Status::ok) return out;
  if (!table && decode_applies(call)) return run_decode(call, stream);
  out.error = launch_all(plan, stream);
  return out;
}

const OpKernel mdn_kernel{
    "mdn", [](const Call& call, std::size_t* bytes) { return plan_mdn(kSpec, call, bytes); },
    [](const Call& call, cudaStream_t stream) { return run_mdn(kSpec, call, stream); }};

}  // namespace assay::cuda
