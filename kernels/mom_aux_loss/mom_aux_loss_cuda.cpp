// The operation mom_aux_loss of the CUDA plug-in: from a call to launches.
#include "kernels/mom_aux_loss/mom_aux_loss_cuda.hpp"

#include <cstring>

#include "kernels/common/cuda/one_block.hpp"
#include "kernels/common/cuda/router_call.hpp"

namespace assay::cuda {
namespace {

using cpu::Call;
using cpu::find_view;
using cpu::Outcome;
using cpu::refuse;
using cpu::Status;

/// One of each list that has the shape it must have, or is not there.
Outcome read(const cpu::ViewList& list, const char* prefix, const char* name, const char* axes,
             const Routing& r, Strided& to) {
  const cpu::View* view = find_view(list, prefix, name);
  if (!view) return {};
  const std::int64_t shape[] = {r.batches, r.T, r.M};
  bool fits = view->rank == static_cast<int>(std::strlen(axes));
  for (int i = 0; fits && i < view->rank; ++i) fits = view->shape[i] == shape[i];
  if (!fits) return refuse(Status::bad_argument, "'%s%s' has another shape", prefix, name);
  if (view->dtype == DType::i32 || view->dtype == DType::i64) {
    return refuse(Status::unsupported, "tensor '%s%s' is an integer tensor", prefix, name);
  }
  to = strided(view, axes, 1);
  return {};
}

Outcome make_plan(const Call& call, void* memory, AuxLoss& a, std::size_t* bytes) {
  Routing& r = a.routing;
  if (const Outcome o = read_routing("mom_aux_loss", call, r); o.status != Status::ok) return o;
  Outcome o = read(call.outputs, "", "loss", "", r, a.loss);
  if (o.status == Status::ok) o = read(call.cotangents, "d_", "loss", "", r, a.d_loss);
  if (o.status == Status::ok) {
    o = read(call.gradients, "d_", "router_logits", "BTM", r, a.d_logits);
  }
  if (o.status != Status::ok) return o;
  Workspace pieces(memory);
  take_routing(r, pieces, false);
  a.scale = pieces.take<float>(r.M);
  a.parts = pieces.take<double>(r.tiles());
  *bytes = pieces.used();
  return {};
}

cudaError_t launch(const Call&, const AuxLoss& a, cudaStream_t stream) {
  cudaError_t error = route(a.routing, stream);
  if (error == cudaSuccess) error = add_tiles(a.routing, stream);
  return error == cudaSuccess ? aux_loss(a, stream) : error;
}

}  // namespace

const OpKernel mom_aux_loss_kernel{"mom_aux_loss", plan_block<AuxLoss, make_plan>,
                                   run_block<AuxLoss, make_plan, launch>};

}  // namespace assay::cuda
