// What a call of mom says: its update, its inputs routed and shared, and the router.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "kernels/common/cuda/router_call.hpp"
#include "kernels/common/fast_weight_tensors.hpp"
#include "kernels/mom/mom_plan.hpp"

namespace assay::cuda {
namespace {

using cpu::Call;
using cpu::find_view;
using cpu::Outcome;
using cpu::refuse;
using cpu::Slot;
using cpu::Status;
using cpu::TensorSpec;
using cpu::View;
using cpu::ViewList;

constexpr TensorSpec kDelta[] = {cpu::kQuery,        cpu::kKey,     cpu::kValue,     cpu::kWrite,
                                 cpu::kInitialState, cpu::kReadOut, cpu::kFinalState};
constexpr TensorSpec kGdn[] = {cpu::kQuery, cpu::kKey,          cpu::kValue,   cpu::kHeadDecay,
                               cpu::kWrite, cpu::kInitialState, cpu::kReadOut, cpu::kFinalState};
constexpr TensorSpec kMdn[] = {cpu::kQuery,         cpu::kKey,           cpu::kValue,
                               cpu::kHeadDecay,     cpu::kMomentumDecay, cpu::kWrite,
                               cpu::kResidualScale, cpu::kInitialState,  cpu::kInitialMomentum,
                               cpu::kReadOut,       cpu::kFinalState,    cpu::kFinalMomentum};

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

}  // namespace

std::optional<MomUpdate> find_update(const char* name) {
  const MomUpdate all[] = {{cpu::op_spec("gdn", kGdn), &gdn_kernel, false},
                           {cpu::op_spec("delta", kDelta), &delta_kernel, false},
                           {cpu::op_spec("mdn", kMdn), &mdn_kernel, true}};
  for (const MomUpdate& u : all) {
    if (std::strcmp(u.spec.op, name) == 0) return u;
  }
  return std::nullopt;
}

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

Outcome read_sources(const Call& call, MomPlan& plan) {
  const cpu::OpSpec& spec = plan.update.spec;
  for (int i = 0; i < spec.count; ++i) {
    const TensorSpec& t = spec.tensors[i];
    if (t.role != cpu::Role::token) continue;
    MomSource s;
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

Outcome read_routing(const Call& call, MomPlan& plan) {
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

bool tensor_core_widths(const cpu::Binding& b) {
  const auto fits = [](std::int64_t width) { return width == 64 || width == 128; };
  return fits(b.axis('K')) && fits(b.axis('V'));
}

MomField packed_field(const MomSource& s, const cpu::Binding& b, bool gradient) {
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

}  // namespace assay::cuda
