// What a call of mom on the device becomes: the launches before and after the update, and the
// update's own call. Into an object of its own place: views and specifications in it point at each
// other.
#pragma once

#include <initializer_list>
#include <optional>

#include "kernels/common/binding.hpp"
#include "kernels/common/cuda/kernels.hpp"
#include "kernels/common/cuda/workspace.hpp"
#include "kernels/mdn/mdn_ops.hpp"
#include "kernels/mom/mom_cuda.hpp"
#include "kernels/mom/mom_spec.hpp"

namespace assay::cuda {

struct MomUpdate {
  cpu::OpSpec spec;
  const OpKernel* kernel;
  bool momentum;
};

/// The views of the update's call; names are those of its operation.
struct MomViews {
  cpu::View views[16];
  int count = 0;
  void add(const cpu::View& v) { views[count++] = v; }
  cpu::ViewList list() const { return {views, count}; }
};

/// What is known of an input of the update: its tensors and their gradients, routed and shared.
struct MomSource {
  const cpu::TensorSpec* spec = nullptr;
  const cpu::View *mem = nullptr, *shared = nullptr, *d_mem = nullptr, *d_shared = nullptr;
  bool is_log = false;
  const char* name() const { return is_log ? spec->log_name : spec->name; }
};

struct MomPlan {
  std::optional<cpu::MomSpec> described;
  cpu::Binding binding;
  MomUpdate update{};
  Routing routing;
  MomSource source[kMomFields];
  int sources = 0;

  MomFields gathered, scattered;
  MomStates copies[4];
  int copy_count = 0;
  MomSum output, d_query;
  MomReadOut read_out;
  bool spreads = false;

  MomViews inputs, outputs, cotangents, gradients;
  cpu::Call inner;
  bool by_table = false;  // the update looks up rows of its inputs itself
  MdnTable table;
  bool decodes = false;
  MomDecode decode;
  std::size_t workspace_bytes = 0;
};

/// A tensor without gaps.
cpu::View plain_view(const char* name, void* data, DType dtype,
                     std::initializer_list<std::int64_t> shape);
cpu::View without_axis(const cpu::View& from, int axis);

/// gdn, delta or mdn.
std::optional<MomUpdate> find_update(const char* name);
cpu::Outcome read_sources(const cpu::Call& call, MomPlan& plan);
cpu::Outcome read_routing(const cpu::Call& call, MomPlan& plan);
/// Widths for which the updates' tensor core kernels read and store bf16, and nothing else.
bool tensor_core_widths(const cpu::Binding& b);
/// Heads and format of the packed rows of an input, or of its gradient: those of both sides, or all
/// heads and fp32.
MomField packed_field(const MomSource& s, const cpu::Binding& b, bool gradient);

/// Whether the kernel of a single step takes the call.
bool step_fits(const cpu::Call& call, const MomPlan& plan);
void plan_step(const cpu::Call& call, MomPlan& plan, Workspace& memory);
cpu::Outcome plan_sequences(const cpu::Call& call, MomPlan& plan, Workspace& memory);

}  // namespace assay::cuda
