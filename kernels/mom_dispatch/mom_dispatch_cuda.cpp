// The operation mom_dispatch of the CUDA plug-in.
#include "kernels/common/cuda/one_block.hpp"
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

cudaError_t launch(const Call&, const Routing& r, cudaStream_t stream) {
  const cudaError_t error = route(r, stream);
  return error == cudaSuccess ? dispatch(r, stream) : error;
}

}  // namespace

const OpKernel mom_dispatch_kernel{"mom_dispatch", plan_block<Routing, make_plan>,
                                   run_block<Routing, make_plan, launch>};

}  // namespace assay::cuda
