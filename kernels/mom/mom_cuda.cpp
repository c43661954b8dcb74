// The operation mom of the CUDA plug-in: from a call to launches, with the update's own kernel in
// the middle. Updates: gdn, delta, mdn.
#include "kernels/mom/mom_cuda.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <optional>

#include "kernels/common/binding.hpp"
#include "kernels/common/cuda/call_checks.hpp"
#include "kernels/common/cuda/kernels.hpp"
#include "kernels/common/cuda/router_call.hpp"
#include "kernels/common/cuda/workspace.hpp"
#include "kernels/common/fast_weight_tensors.hpp"
#include "kernels/mdn/mdn_ops.hpp"
#include "kernels/mom/mom_spec.hpp"

namespace assay::cuda {
namespace {

using cpu::Call;
using cpu::find_view;
using cpu::OpSpec;
using cpu::Outcome;
using cpu::refuse;
using cpu::Slot;
using cpu::Status;
using cpu::TensorSpec;
using cpu::View;
using cpu::ViewList;

// ---- The updates -------------------------------------------------------------------------------

constexpr TensorSpec kDelta[] = {cpu::kQuery,        cpu::kKey,     cpu::kValue,     cpu::kWrite,
                                 cpu::kInitialState, cpu::kReadOut, cpu::kFinalState};
constexpr TensorSpec kGdn[] = {cpu::kQuery, cpu::kKey,          cpu::kValue,   cpu::kHeadDecay,
                               cpu::kWrite, cpu::kInitialState, cpu::kReadOut, cpu::kFinalState};
constexpr TensorSpec kMdn[] = {cpu::kQuery,         cpu::kKey,           cpu::kValue,
                               cpu::kHeadDecay,     cpu::kMomentumDecay, cpu::kWrite,
                               cpu::kResidualScale, cpu::kInitialState,  cpu::kInitialMomentum,
                               cpu::kReadOut,       cpu::kFinalState,    cpu::kFinalMomentum};

struct UpdateKernel {
  OpSpec spec;
  const OpKernel* kernel;
  bool momentum;
};

std::optional<UpdateKernel> find_update(const char* name) {
  const UpdateKernel all[] = {{cpu::op_spec("gdn", kGdn), &gdn_kernel, false},
                              {cpu::op_spec("delta", kDelta), &delta_kernel, false},
                              {cpu::op_spec("mdn", kMdn), &mdn_kernel, true}};
  for (const UpdateKernel& u : all) {
    if (std::strcmp(u.spec.op, name) == 0) return u;
  }
  return std::nullopt;
}

// ---- Views -------------------------------------------------------------------------------------

/// A tensor without gaps.
View plain_view(const char* name, void* data, DType dtype,
                std::initializer_list<std::int64_t> shape) {
  View v;
  v.name = name, v.data = data, v.dtype = dtype, v.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), v.shape);
  std::int64_t stride = 1;
  for (int a = v.rank; a-- > 0;) v.stride[a] = stride, stride *= v.shape[a];
  return v;
}

View without_axis(const View& from, int axis) {
  View v = from;
  for (int a = axis; a + 1 < v.rank; ++a)
    v.shape[a] = v.shape[a + 1], v.stride[a] = v.stride[a + 1];
  --v.rank;
  return v;
}

/// The views of the update's call; names are those of its operation.
struct Views {
  View views[16];
  int count = 0;
  void add(const View& v) { views[count++] = v; }
  ViewList list() const { return {views, count}; }
};

// ---- The plan ----------------------------------------------------------------------------------

/// What is known of an input of the update: its tensors and their gradients, routed and shared.
struct Source {
  const TensorSpec* spec = nullptr;
  const View *mem = nullptr, *shared = nullptr, *d_mem = nullptr, *d_shared = nullptr;
  bool is_log = false;
  const char* name() const { return is_log ? spec->log_name : spec->name; }
};

struct Plan {
  std::optional<cpu::MomSpec> described;
  cpu::Binding binding;
  UpdateKernel update{};
  Routing routing;
  Source source[kMomFields];
  int sources = 0;

  MomFields gathered, scattered;
  MomStates copies[4];
  int copy_count = 0;
  MomSum output, d_query;
  MomReadOut read_out;
  bool spreads = false;

  Views inputs, outputs, cotangents, gradients;
  Call inner;
  bool by_table = false;  // the update looks up rows of its inputs itself
  MdnTable table;
  bool decodes = false;
  MomDecode decode;
  std::size_t workspace_bytes = 0;
};

/// The tensor of this name, or of that of its logarithm.
const View* find_named(const ViewList& list, const char* prefix, const TensorSpec& spec,
                       const char* suffix, bool* is_log) {
  char name[48];
  const View* plain = nullptr;
  for (const char* base : {spec.name, spec.log_name}) {
    if (!base) continue;
    std::snprintf(name, sizeof name, "%s%s", base, suffix);
    const View* v = find_view(list, prefix, name);
    if (!v) continue;
    if (is_log) *is_log = base == spec.log_name;
    plain = v;
  }
  return plain;
}

Outcome read_sources(const Call& call, Plan& plan) {
  const OpSpec& spec = plan.update.spec;
  for (int i = 0; i < spec.count; ++i) {
    const TensorSpec& t = spec.tensors[i];
    if (t.role != cpu::Role::token) continue;
    Source s;
    s.spec = &t;
    if (t.slot == Slot::q) {
      s.mem = find_view(call.inputs, "", "q"), s.d_mem = find_view(call.gradients, "d_", "q");
    } else {
      bool log_mem = false, log_shared = false;
      s.mem = find_named(call.inputs, "", t, "_mem", &log_mem);
      s.shared = find_named(call.inputs, "", t, "_shared", &log_shared);
      s.d_mem = find_named(call.gradients, "d_", t, "_mem", nullptr);
      s.d_shared = find_named(call.gradients, "d_", t, "_shared", nullptr);
      if (s.mem && s.shared && log_mem != log_shared) {
        return refuse(Status::unsupported, "'%s' as a logarithm for routed or shared memory only",
                      t.name);
      }
      s.is_log = s.mem ? log_mem : log_shared;
    }
    if (s.mem || s.shared) plan.source[plan.sources++] = s;
  }
  return {};
}

Outcome read_routing(const Call& call, Plan& plan) {
  const cpu::Binding& b = plan.binding;
  Routing& r = plan.routing;
  r.logits = strided(find_view(call.inputs, "", "router_logits"), "BTM", 1);
  r.batches = b.axis('B'), r.T = b.axis('T'), r.M = static_cast<int>(b.axis('M'));
  r.shared = has_shared_memory(call);
  r.cu_seqlens = b.cu_seqlens, r.cu_stride = b.cu_stride, r.cu_is_i32 = b.cu_is_i32;
  r.sequences = b.sequences;
  const std::int64_t k = call.options.top_k;
  if (k < 1 || k > r.M) {
    return refuse(Status::bad_argument, "top_k is %lld of %d memories", static_cast<long long>(k),
                  r.M);
  }
  r.top_k = static_cast<int>(k);
  const bool has_states = b.state[0].present || b.final_state[0].present || b.d_final[0].present ||
                          b.state[1].present || b.final_state[1].present || b.d_final[1].present;
  if (has_states && b.axis('R') != r.R()) {
    return refuse(Status::bad_argument, "states of %lld memories, there are %d",
                  static_cast<long long>(b.axis('R')), r.R());
  }
  return check_routing(r);
}

MomField::Side side_of(const View* view, bool per_memory, int width_axes, std::int64_t H,
                       const MomField& f) {
  MomField::Side side;
  if (!view) return side;
  View v = *view;
  if (per_memory) {
    side.to_memory = v.stride[2] * bytes_of(v.dtype);
    v = without_axis(v, 2);
  }
  side.heads = static_cast<int>(v.shape[2]);
  side.tensor = strided(&v, width_axes ? "BTHK" : "BTH", H);
  const Strided& t = side.tensor;
  const std::int64_t unit = bytes_of(t.dtype);
  const auto whole = [](std::int64_t bytes) { return bytes % 16 == 0; };
  side.flat = t.dtype == f.dtype && side.heads == f.heads && (f.width == 1 || t.column == unit) &&
              (f.heads == 1 || t.head == f.width * unit) && whole(f.heads * f.width * unit) &&
              whole(t.batch) && whole(t.time) && whole(side.to_memory) &&
              whole(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(t.data)));
  return side;
}

/// Widths for which the updates' tensor core kernels read and store bf16, and nothing else.
bool tensor_core_widths(const cpu::Binding& b) {
  const auto fits = [](std::int64_t width) { return width == 64 || width == 128; };
  return fits(b.axis('K')) && fits(b.axis('V'));
}

/// Heads and format of the packed rows: those of both sides, or all heads and fp32.
MomField packed_field(const Source& s, const cpu::Binding& b, bool gradient) {
  MomField f;
  const View* const sides[] = {gradient ? s.d_mem : s.mem, gradient ? s.d_shared : s.shared};
  const bool per_memory = s.spec->slot != Slot::q;
  bool first = true;
  // A gradient is packed as its input is, whichever sides of it are asked for.
  for (const View* v : {s.mem, s.shared}) {
    if (!v) continue;
    const int heads = static_cast<int>(v->shape[v == s.mem && per_memory ? 3 : 2]);
    if (!first && heads != f.heads) f.heads = static_cast<int>(b.H);
    if (!first && v->dtype != f.dtype) f.dtype = DType::f32;
    if (first) f.heads = heads, f.dtype = v->dtype;
    first = false;
  }
  // What is added up over heads or memories is rounded once, after that, where it can be.
  const bool narrow = f.dtype == DType::bf16 && tensor_core_widths(b);
  for (const View* v : {s.mem, s.shared}) {
    if (!gradient || !v || narrow) continue;
    if (s.spec->slot == Slot::q || v->shape[v == s.mem && per_memory ? 3 : 2] != b.H) {
      f.dtype = DType::f32;
    }
  }
  const bool rows = s.spec->axes[std::strlen(s.spec->axes) - 1] != 'H';
  f.width = rows ? static_cast<int>(b.axis(s.spec->axes[3])) : 1;
  f.mem = side_of(sides[0], per_memory, rows, b.H, f);
  f.shared = per_memory ? side_of(sides[1], false, rows, b.H, f) : f.mem;
  f.missing = static_cast<float>(s.spec->missing);
  return f;
}

View packed_view(const char* name, const MomField& f, std::int64_t rows, bool has_width) {
  if (has_width) return plain_view(name, f.packed, f.dtype, {1, rows, f.heads, f.width});
  return plain_view(name, f.packed, f.dtype, {1, rows, f.heads});
}

/// [B,R,H,K,V] as the states of B R sequences; copied first where that is no uniform stride.
View states_of(const View& v, const char* name, Plan& plan, Workspace& memory) {
  View flat = v;
  const bool uniform =
      v.shape[0] <= 1 || v.shape[1] <= 1 || v.stride[0] == v.shape[1] * v.stride[1];
  if (uniform) {
    flat = without_axis(v, 0);
    flat.shape[0] = v.shape[0] * v.shape[1];
    if (v.shape[1] <= 1) flat.stride[0] = v.stride[0];
  } else {
    MomStates copy;
    std::int64_t count = 1;
    for (int a = 0; a < 5; ++a) {
      copy.shape[a] = v.shape[a], copy.stride[a] = v.stride[a];
      count *= v.shape[a];
    }
    copy.from = static_cast<const char*>(v.data), copy.dtype = v.dtype;
    copy.to = memory.take<char>(count * bytes_of(v.dtype));
    plan.copies[plan.copy_count++] = copy;
    flat = plain_view(name, copy.to, v.dtype,
                      {v.shape[0] * v.shape[1], v.shape[2], v.shape[3], v.shape[4]});
  }
  flat.name = name;
  return flat;
}

void add_states(const Call& call, Plan& plan, Workspace& memory) {
  const struct {
    const ViewList& list;
    const char *prefix, *name, *full;
    Views& to;
  } all[] = {{call.inputs, "", "s0", "s0", plan.inputs},
             {call.inputs, "", "m0", "m0", plan.inputs},
             {call.outputs, "", "s_final", "s_final", plan.outputs},
             {call.outputs, "", "m_final", "m_final", plan.outputs},
             {call.cotangents, "d_", "s_final", "d_s_final", plan.cotangents},
             {call.cotangents, "d_", "m_final", "d_m_final", plan.cotangents},
             {call.gradients, "d_", "s0", "d_s0", plan.gradients},
             {call.gradients, "d_", "m0", "d_m0", plan.gradients}};
  for (const auto& s : all) {
    if (const View* v = find_view(s.list, s.prefix, s.name)) {
      s.to.add(states_of(*v, s.full, plan, memory));
    }
  }
}

// ---- One step ----------------------------------------------------------------------------------

bool decode_fits(const Call& call, const Plan& plan) {
  const cpu::Binding& b = plan.binding;
  const std::int64_t V = b.axis('V');
  return call.gradients.count == 0 && !find_view(call.inputs, "", "cu_seqlens") &&
         b.axis('T') == 1 && b.axis('K') >= 1 && b.axis('K') <= kDecodeMaxK && V <= 1 << 20 &&
         b.H <= 65535 && b.axis('B') * plan.routing.R() * (V / 64 + 1) < 1 << 30;
}

void plan_decode(const Call& call, Plan& plan, Workspace& memory) {
  const cpu::Binding& b = plan.binding;
  take_routing(plan.routing, memory, false);
  MomDecode& d = plan.decode;
  d.routing = plan.routing;
  DecodeParams& p = d.p;
  p.H = static_cast<int>(b.H);
  p.K = static_cast<int>(b.axis('K')), p.V = static_cast<int>(b.axis('V'));
  p.momentum = plan.update.momentum;
  p.normalise = call.options.qk_l2norm, p.eps = static_cast<float>(call.options.l2norm_eps);
  p.scale = call.options.has_scale ? static_cast<float>(call.options.scale)
                                   : 1.0f / std::sqrt(static_cast<float>(p.K));
  for (int i = 0; i < plan.sources; ++i) {
    const Source& s = plan.source[i];
    const MomField f = packed_field(s, b, false);
    const auto put = [&](MomField::Side& mem, MomField::Side& shared) {
      mem = f.mem, shared = f.shared;
    };
    switch (s.spec->slot) {
      case Slot::q:
        p.q = f.mem.tensor;
        break;
      case Slot::k:
        put(d.k, d.k_shared);
        break;
      case Slot::v:
        put(d.v, d.v_shared);
        break;
      case Slot::decay:
        put(d.alpha, d.alpha_shared), p.alpha_is_log = s.is_log;
        break;
      case Slot::mu:
        put(d.mu, d.mu_shared), p.mu_is_log = s.is_log;
        break;
      case Slot::beta:
        put(d.beta, d.beta_shared);
        break;
      default:
        put(d.eta, d.eta_shared);
        break;
    }
  }
  const auto state = [&](const ViewList& list, const char* name, std::int64_t& to_memory) {
    const View* v = find_view(list, "", name);
    if (!v) return Strided{};
    to_memory = v->stride[1] * bytes_of(v->dtype);
    const View one = without_axis(*v, 1);
    return strided(&one, "BHKV", b.H);
  };
  p.s0 = state(call.inputs, "s0", d.s0_memory), p.m0 = state(call.inputs, "m0", d.m0_memory);
  p.s_final = state(call.outputs, "s_final", d.s_final_memory);
  p.m_final = state(call.outputs, "m_final", d.m_final_memory);
  if (const View* o = find_view(call.outputs, "", "o")) {
    d.packed = memory.take<float>(d.routing.rows() * b.H * p.V);
    plan.output = {d.routing,  reinterpret_cast<const char*>(d.packed),
                   DType::f32, strided(o, "BTHV", b.H),
                   b.H * p.V,  true};
  }
}

// ---- All steps ---------------------------------------------------------------------------------

bool is_row(const Source& s) { return std::strlen(s.spec->axes) == 4; }

/// Whether the update can find rows of an input, or of its gradient, where they lie: tokens lie
/// regularly, both sides have the same heads and format, and rows may be read by 16 bytes.
bool can_be_found(const Source& s, const View* mem, const View* shared, const Plan& plan) {
  const bool has_memories = s.spec->slot != Slot::q;
  if (!mem || (has_memories && plan.routing.shared && !shared)) return false;
  std::int64_t heads = 0;
  for (const View* v : {mem, shared}) {
    if (!v) continue;
    const bool per_memory = has_memories && v == mem;
    const View one = per_memory ? without_axis(*v, 2) : *v;
    const bool regular = one.shape[0] <= 1 || one.stride[0] == one.shape[1] * one.stride[1];
    const bool whole = !per_memory || v->stride[2] * bytes_of(v->dtype) % 16 == 0;
    if (!regular || v->dtype != mem->dtype) return false;
    if (is_row(s) && !(whole && strided(&one, s.spec->axes, plan.binding.H).wide)) return false;
    if (heads != 0 && one.shape[2] != heads) return false;
    heads = one.shape[2];
  }
  return true;
}
bool is_looked_up(const Source& s, const Plan& plan) {
  return plan.by_table && can_be_found(s, s.mem, s.shared, plan);
}
/// Whether the update stores rows of a gradient at their tokens: of k and v with all heads.
bool is_stored_by_token(const Source& s, const Plan& plan) {
  const bool of_rows = s.spec->slot == Slot::k || s.spec->slot == Slot::v;
  return plan.by_table && of_rows && can_be_found(s, s.d_mem, s.d_shared, plan) &&
         s.d_mem->dtype == DType::bf16 && s.d_mem->shape[3] == plan.binding.H;
}

/// Gradients of k and v are mostly zeros, as many bytes as the update moves in a pass: it stores
/// them by the way, since it waits more than it moves.
void plan_zeros(Plan& plan, Workspace& memory) {
  const bool any = std::any_of(plan.source, plan.source + plan.sources,
                               [&](const Source& s) { return is_stored_by_token(s, plan); });
  if (!any || plan.routing.top_k == plan.routing.M) return;
  take_zeros(plan.routing, memory);
  plan.table.zeros = plan.routing.zeros, plan.table.zero_words = plan.routing.zero_words();
}

/// Whether the update looks up rows: those of its tensor core kernels.
bool reads_by_table(const Call& call, const Plan& plan) {
  const View* d_o = find_view(call.cotangents, "d_", "o");
  if (!tensor_core_widths(plan.binding) || call.options.qk_l2norm) return false;
  if (d_o && d_o->dtype != DType::bf16) return false;
  return std::all_of(plan.source, plan.source + plan.sources, [&](const Source& s) {
    return !is_row(s) || (can_be_found(s, s.mem, s.shared, plan) && s.mem->dtype == DType::bf16);
  });
}

MdnTable::Input* input_of(MdnTable& table, Slot slot) {
  switch (slot) {
    case Slot::k:
      return &table.k;
    case Slot::v:
      return &table.v;
    case Slot::decay:
      return &table.alpha;
    case Slot::mu:
      return &table.mu;
    case Slot::beta:
      return &table.beta;
    case Slot::eta:
      return &table.eta;
    default:
      return nullptr;
  }
}

/// The view of memory 0 with as many steps as there are rows; the table gets the rest.
View found_view(const char* name, const View* mem, const View* shared, const Source& s,
                std::int64_t rows, std::int64_t H, MdnTable::Input* input) {
  View v = *mem;
  if (input) {
    *input = {true, v.stride[2] * bytes_of(v.dtype), strided(shared, s.spec->axes, H)};
    v = without_axis(v, 2);
  }
  v.name = name;
  v.shape[0] = 1, v.shape[1] = rows, v.stride[0] = rows * v.stride[1];
  return v;
}

/// What is read before it is combined: fp32, unless all of it is made of bf16 and of a width for
/// which the update's tensor core kernels want to store bf16.
DType read_format(const Plan& plan) {
  if (plan.by_table) return DType::bf16;
  if (!tensor_core_widths(plan.binding)) return DType::f32;
  for (const MomField& f : plan.gathered.field) {
    if (f.width > 1 && f.dtype != DType::bf16) return DType::f32;
  }
  return plan.gathered.field[0].dtype == DType::bf16 ? DType::bf16 : DType::f32;
}

void plan_read_out(const Call& call, Plan& plan, Workspace& memory) {
  const cpu::Binding& b = plan.binding;
  const Routing& r = plan.routing;
  const std::int64_t V = b.axis('V'), rows = r.rows();
  const View* o = find_view(call.outputs, "", "o");
  const View* d_o = find_view(call.cotangents, "d_", "o");
  const View* d_logits = find_view(call.gradients, "d_", "router_logits");
  const DType format = read_format(plan);
  char* packed = nullptr;
  if (o || (d_logits && d_o)) {
    packed = memory.take<char>(rows * b.H * V * bytes_of(format));
    plan.outputs.add(plain_view("o", packed, format, {1, rows, b.H, V}));
  }
  if (o) plan.output = {r, packed, format, strided(o, "BTHV", b.H), b.H * V, true};
  if (call.gradients.count == 0) return;
  MomReadOut& out = plan.read_out;
  out.routing = r, out.H = static_cast<int>(b.H), out.V = static_cast<int>(V);
  out.d_o = strided(d_o, "BTHV", b.H);
  out.packed = packed, out.dtype = format;
  out.d_logits = strided(d_logits, "BTM", 1);
  if (!d_o) return;
  const std::int64_t unit = bytes_of(d_o->dtype);
  const bool dense = (V == 1 || out.d_o.column == unit) && (b.H == 1 || out.d_o.head == V * unit);
  const auto in_pieces_of = [&](std::int64_t bytes) {
    const auto start = reinterpret_cast<std::uintptr_t>(out.d_o.data);
    return dense && b.H * V * unit % bytes == 0 && out.d_o.batch % bytes == 0 &&
           out.d_o.time % bytes == 0 && start % static_cast<std::uintptr_t>(bytes) == 0;
  };
  out.flat = in_pieces_of(4 * unit);
  // fp32 for the same reason: small weights times fp16 leave its range.
  const bool narrow = d_o->dtype == DType::bf16 && format == DType::bf16;
  out.d_dtype = narrow ? DType::bf16 : DType::f32;
  out.eights = narrow && in_pieces_of(16);
  out.d_packed = memory.take<char>(rows * b.H * V * bytes_of(out.d_dtype));
  out.d_weight = memory.take<float>(rows);
  plan.cotangents.add(plain_view("d_o", out.d_packed, out.d_dtype, {1, rows, b.H, V}));
  plan.spreads = true;
}

void plan_fields(Plan& plan, Workspace& memory) {
  const std::int64_t rows = plan.routing.rows();
  plan.gathered.routing = plan.scattered.routing = plan.d_query.routing = plan.routing;
  for (int i = 0; i < plan.sources; ++i) {
    const Source& s = plan.source[i];
    MomField f = packed_field(s, plan.binding, false);
    const bool has_width = s.spec->axes[std::strlen(s.spec->axes) - 1] != 'H';
    const auto take = [&](MomField& field) {
      field.packed = memory.take<char>(rows * field.heads * field.width * bytes_of(field.dtype));
    };
    const std::int64_t H = plan.binding.H;
    if (is_looked_up(s, plan)) {
      MdnTable::Input* input = input_of(plan.table, s.spec->slot);
      plan.inputs.add(found_view(s.name(), s.mem, s.shared, s, rows, H, input));
    } else {
      take(f);
      plan.inputs.add(packed_view(s.name(), f, rows, has_width));
      plan.gathered.field[plan.gathered.count++] = f;
    }
    if (!s.d_mem && !s.d_shared) continue;
    MomField d = packed_field(s, plan.binding, true);
    // Gradients have the names of their inputs with d_ before; the longest is d_log_alpha.
    static thread_local char names[kMomFields][16];
    std::snprintf(names[i], sizeof names[i], "d_%s", s.name());
    if (is_stored_by_token(s, plan)) {
      MdnTable::Input* input = s.spec->slot == Slot::k ? &plan.table.d_k : &plan.table.d_v;
      plan.gradients.add(found_view(names[i], s.d_mem, s.d_shared, s, rows, H, input));
      continue;
    }
    take(d);
    plan.gradients.add(packed_view(names[i], d, rows, has_width));
    if (s.spec->slot == Slot::q) {
      plan.d_query.packed = d.packed, plan.d_query.dtype = d.dtype;
      plan.d_query.out = d.mem.tensor;
      plan.d_query.out.given = true;
      plan.d_query.width = std::int64_t{d.heads} * d.width;
    } else {
      plan.scattered.field[plan.scattered.count++] = d;
    }
  }
}

Outcome plan_inner(const Call& call, Plan& plan, Workspace& memory) {
  const std::int64_t segments = plan.routing.segments();
  // In planning there is no memory yet, but it is known that there will be bounds.
  static std::int64_t later[1];
  std::int64_t* bounds = plan.routing.bounds ? plan.routing.bounds : later;
  plan.inputs.add(plain_view("cu_seqlens", bounds, DType::i64, {segments + 1}));
  Call& inner = plan.inner;
  inner.inputs = plan.inputs.list(), inner.outputs = plan.outputs.list();
  inner.cotangents = plan.cotangents.list(), inner.gradients = plan.gradients.list();
  inner.options = call.options;
  inner.options.form = cpu::Form::unspecified;
  const Outcome o = plan.by_table
                        ? plan_mdn(plan.update.spec, inner, &inner.workspace_bytes, &plan.table)
                        : plan.update.kernel->plan(inner, &inner.workspace_bytes);
  if (o.status != Status::ok) return o;
  inner.workspace = memory.take<char>(static_cast<std::int64_t>(inner.workspace_bytes));
  return {};
}

/// Into an object of its own place: views and specifications in it point at each other.
Outcome make_plan(const Call& call, void* memory, Plan& plan) {
  if (const Outcome o = refuse_fp64(call); o.status != Status::ok) return o;
  const auto update = find_update(call.options.update);
  if (!update) {
    return refuse(Status::unsupported, "mom: no update '%s' on the device", call.options.update);
  }
  plan.update = *update;
  plan.described.emplace(plan.update.spec, has_shared_memory(call));
  Call any_form = call;
  any_form.options.form = cpu::Form::unspecified;
  const Outcome bound = bind(plan.described->spec(), any_form, plan.binding);
  if (bound.status != Status::ok) return bound;
  if (const Outcome o = read_routing(call, plan); o.status != Status::ok) return o;
  if (const Outcome o = read_sources(call, plan); o.status != Status::ok) return o;
  Workspace pieces(memory);
  plan.decodes = decode_fits(call, plan);
  if (plan.decodes) {
    plan_decode(call, plan, pieces);
  } else {
    take_routing(plan.routing, pieces, true);
    plan.by_table = reads_by_table(call, plan);
    if (plan.by_table) {
      int* token = pieces.take<int>(plan.routing.rows());
      plan.routing.out_token = {reinterpret_cast<char*>(token), false};
      plan.table.token = token;
      plan.table.memories = plan.routing.R(), plan.table.shared = plan.routing.shared;
      plan.table.longest = plan.routing.T;
      plan_zeros(plan, pieces);
    }
    plan_fields(plan, pieces);
    plan_read_out(call, plan, pieces);
    add_states(call, plan, pieces);
    if (const Outcome o = plan_inner(call, plan, pieces); o.status != Status::ok) return o;
  }
  plan.workspace_bytes = pieces.used();
  return {};
}

Outcome plan_mom(const Call& call, std::size_t* bytes) {
  Plan plan;
  const Outcome o = make_plan(call, nullptr, plan);
  *bytes = plan.workspace_bytes;
  return o;
}

// ---- The run -----------------------------------------------------------------------------------

cudaError_t before_update(const Plan& plan, cudaStream_t stream) {
  cudaError_t e = route(plan.routing, stream);
  if (e == cudaSuccess) e = dispatch(plan.routing, stream);
  if (e == cudaSuccess) e = gather(plan.gathered, stream);
  if (e == cudaSuccess && plan.spreads) e = spread(plan.read_out, stream);
  for (int i = 0; e == cudaSuccess && i < plan.copy_count; ++i) {
    e = copy_states(plan.copies[i], stream);
  }
  return e;
}

cudaError_t after_update(const Plan& plan, cudaStream_t stream) {
  cudaError_t e = cudaSuccess;
  // The update's last rows first, while they are in the cache.
  if (plan.d_query.packed) e = combine(plan.d_query, stream);
  if (e == cudaSuccess) e = scatter(plan.scattered, stream);
  if (e != cudaSuccess) return e;
  if (reads_out_at_once(plan.read_out, plan.output)) {
    return read_out(plan.read_out, plan.output, stream);
  }
  if (plan.output.packed) e = combine(plan.output, stream);
  if (e == cudaSuccess && plan.read_out.d_logits.given) e = weigh(plan.read_out, stream);
  return e;
}

cudaError_t run_step(const Plan& plan, cudaStream_t stream) {
  cudaError_t e = route(plan.routing, stream);
  if (e == cudaSuccess) e = launch_mom_decode(plan.decode, stream);
  if (e == cudaSuccess && plan.output.packed) e = combine(plan.output, stream);
  return e;
}

RunOutcome run_mom(const Call& call, cudaStream_t stream) {
  Plan plan;
  RunOutcome out;
  out.refusal = make_plan(call, call.workspace, plan);
  if (out.refusal.status == Status::ok) {
    out.refusal = check_workspace(call, plan.workspace_bytes);
  }
  if (out.refusal.status != Status::ok) return out;
  if (plan.decodes) {
    out.error = run_step(plan, stream);
    return out;
  }
  out.error = before_update(plan, stream);
  if (out.error != cudaSuccess) return out;
  if (plan.inner.outputs.count + plan.inner.gradients.count > 0) {
    out = plan.by_table ? run_mdn(plan.update.spec, plan.inner, stream, &plan.table)
                        : plan.update.kernel->run(plan.inner, stream);
    if (out.refusal.status != Status::ok || out.error != cudaSuccess) return out;
  }
  out.error = after_update(plan, stream);
  return out;
}

}  // namespace

const OpKernel mom_kernel{"mom", plan_mom, run_mom};

}  // namespace assay::cuda
