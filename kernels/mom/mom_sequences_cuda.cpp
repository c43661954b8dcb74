// mom over whole sequences: the update's call over all segments, on rows that are gathered for it
// or that it finds through a table, and what is done before and after it.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "kernels/mom/mom_plan.hpp"

namespace assay::cuda {
namespace {

using cpu::Call;
using cpu::find_view;
using cpu::Outcome;
using cpu::Slot;
using cpu::Status;
using cpu::View;
using cpu::ViewList;

View packed_view(const char* name, const MomField& f, std::int64_t rows, bool has_width) {
  if (has_width) return plain_view(name, f.packed, f.dtype, {1, rows, f.heads, f.width});
  return plain_view(name, f.packed, f.dtype, {1, rows, f.heads});
}

/// [B,R,H,K,V] as the states of B R sequences; copied first where that is no uniform stride.
View states_of(const View& v, const char* name, MomPlan& plan, Workspace& memory) {
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

void add_states(const Call& call, MomPlan& plan, Workspace& memory) {
  const struct {
    const ViewList& list;
    const char *prefix, *name, *full;
    MomViews& to;
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

bool is_row(const MomSource& s) { return std::strlen(s.spec->axes) == 4; }

/// Whether the update can find rows of an input, or of its gradient, where they lie: tokens lie
/// regularly, both sides have the same heads and format, and rows may be read by 16 bytes.
bool can_be_found(const MomSource& s, const View* mem, const View* shared, const MomPlan& plan) {
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
bool is_looked_up(const MomSource& s, const MomPlan& plan) {
  return plan.by_table && can_be_found(s, s.mem, s.shared, plan);
}
/// Whether the update stores rows of a gradient at their tokens: of k and v with all heads.
bool is_stored_by_token(const MomSource& s, const MomPlan& plan) {
  const bool of_rows = s.spec->slot == Slot::k || s.spec->slot == Slot::v;
  return plan.by_table && of_rows && can_be_found(s, s.d_mem, s.d_shared, plan) &&
         s.d_mem->dtype == DType::bf16 && s.d_mem->shape[3] == plan.binding.H;
}

/// Gradients of k and v are mostly zeros, as many bytes as the update moves in a pass: it stores
/// them by the way, since it waits more than it moves.
void plan_zeros(MomPlan& plan, Workspace& memory) {
  const bool any = std::any_of(plan.source, plan.source + plan.sources,
                               [&](const MomSource& s) { return is_stored_by_token(s, plan); });
  if (!any || plan.routing.top_k == plan.routing.M) return;
  take_zeros(plan.routing, memory);
  plan.table.zeros = plan.routing.zeros, plan.table.zero_words = plan.routing.zero_words();
}

/// Whether the update looks up rows: those of its tensor core kernels.
bool reads_by_table(const Call& call, const MomPlan& plan) {
  const View* d_o = find_view(call.cotangents, "d_", "o");
  if (!tensor_core_widths(plan.binding) || call.options.qk_l2norm) return false;
  if (d_o && d_o->dtype != DType::bf16) return false;
  return std::all_of(plan.source, plan.source + plan.sources, [&](const MomSource& s) {
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
View found_view(const char* name, const View* mem, const View* shared, const MomSource& s,
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
DType read_format(const MomPlan& plan) {
  if (plan.by_table) return DType::bf16;
  if (!tensor_core_widths(plan.binding)) return DType::f32;
  for (const MomField& f : plan.gathered.field) {
    if (f.width > 1 && f.dtype != DType::bf16) return DType::f32;
  }
  return plan.gathered.field[0].dtype == DType::bf16 ? DType::bf16 : DType::f32;
}

void plan_read_out(const Call& call, MomPlan& plan, Workspace& memory) {
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

void plan_fields(MomPlan& plan, Workspace& memory) {
  const std::int64_t rows = plan.routing.rows();
  plan.gathered.routing = plan.scattered.routing = plan.d_query.routing = plan.routing;
  for (int i = 0; i < plan.sources; ++i) {
    const MomSource& s = plan.source[i];
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

Outcome plan_inner(const Call& call, MomPlan& plan, Workspace& memory) {
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

}  // namespace

Outcome plan_sequences(const Call& call, MomPlan& plan, Workspace& memory) {
  take_routing(plan.routing, memory, true);
  plan.by_table = reads_by_table(call, plan);
  if (plan.by_table) {
    int* token = memory.take<int>(plan.routing.rows());
    plan.routing.out_token = {reinterpret_cast<char*>(token), false};
    plan.table.token = token;
    plan.table.memories = plan.routing.R(), plan.table.shared = plan.routing.shared;
    plan.table.longest = plan.routing.T;
    plan_zeros(plan, memory);
  }
  plan_fields(plan, memory);
  plan_read_out(call, plan, memory);
  add_states(call, plan, memory);
  return plan_inner(call, plan, memory);
}

}  // namespace assay::cuda
