// The operation mom_dispatch of the CUDA plug-in.
#include "kernels/common/cuda/kernels.hpp"
#include "kernels/common/cuda/router_call.hpp"

namespace assay::cuda {
namespace {

using cpu::Call;
using cpu::find_view;
using cpu::Outcome;
using cpu::refuse;
using cpu::Status;

Outcome make_plan(const Call& call, void* memory, Routing& r, std::size_t* bytes) {
  if (const Outcome o = read_routing("mom_dispatch", call, r); o.status != Status::ok) return o;
  if (call.gradients.count > 0) {
    return refuse(Status::unsupported, "mom_dispatch has nothing to differentiate");
  }
  for (int i = 0; i < call.outputs.count; ++i) {
    const cpu::View& v = call.outputs.views[i];
    if (v.dtype != DType::i64 && v.dtype != DType::i32) {
      return refuse(Status::bad_argument, "output '%s' must be an integer tensor", v.name);
    }
  }
  r.out_memory = integers(find_view(call.outputs, "", "memory"));
  r.out_row = integers(find_view(call.outputs, "", "inverse"));
  r.out_token = integers(find_view(call.outputs, "", "token"));
  r.out_bounds = integers(find_view(call.outputs, "", "cu_seqlens"));
  Workspace pieces(memory);
  take_routing(r, pieces, true);
  *bytes = pieces.used();
  return {};
}

Outcome plan(const Call& call, std::size_t* bytes) {
  Routing r;
  return make_plan(call, nullptr, r, bytes);
}

RunOutcome run(const Call& call, cudaStream_t stream) {
  Routing r;
  RunOutcome out;
  std::size_t bytes = 0;
  out.refusal = make_plan(call, call.workspace, r, &bytes);
  if (out.refusal.status == Status::ok) out.refusal = check_workspace(call, bytes);
  if (out.refusal.status != Status::ok) return out;
  out.error = route(r, stream);
  if (out.error == cudaSuccess) out.error = dispatch(r, stream);
  return out;
}

}  // namespace

const OpKernel mom_dispatch_kernel{"mom_dispatch", plan, run};

}  // namespace assay::cuda
