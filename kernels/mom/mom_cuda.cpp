// The operation mom of the CUDA plug-in: from a call to launches, with the update's own kernel in
// the middle. Updates: gdn, delta, mdn.
#include "kernels/common/cuda/call_checks.hpp"
#include "kernels/common/cuda/router_call.hpp"
#include "kernels/mom/mom_plan.hpp"

namespace assay::cuda {
namespace {

using cpu::Call;
using cpu::Outcome;
using cpu::refuse;
using cpu::Status;

Outcome make_plan(const Call& call, void* memory, MomPlan& plan) {
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
  plan.decodes = step_fits(call, plan);
  if (plan.decodes) {
    plan_step(call, plan, pieces);
  } else if (const Outcome o = plan_sequences(call, plan, pieces); o.status != Status::ok) {
    return o;
  }
  plan.workspace_bytes = pieces.used();
  return {};
}

Outcome plan_mom(const Call& call, std::size_t* bytes) {
  MomPlan plan;
  const Outcome o = make_plan(call, nullptr, plan);
  *bytes = plan.workspace_bytes;
  return o;
}

cudaError_t before_update(const MomPlan& plan, cudaStream_t stream) {
  cudaError_t e = route(plan.routing, stream);
  if (e == cudaSuccess) e = dispatch(plan.routing, stream);
  if (e == cudaSuccess) e = gather(plan.gathered, stream);
  if (e == cudaSuccess && plan.spreads) e = spread(plan.read_out, stream);
  for (int i = 0; e == cudaSuccess && i < plan.copy_count; ++i) {
    e = copy_states(plan.copies[i], stream);
  }
  return e;
}

cudaError_t after_update(const MomPlan& plan, cudaStream_t stream) {
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

cudaError_t run_step(const MomPlan& plan, cudaStream_t stream) {
  cudaError_t e = route(plan.routing, stream);
  if (e == cudaSuccess) e = launch_mom_decode(plan.decode, stream);
  if (e == cudaSuccess && plan.output.packed) e = combine(plan.output, stream);
  return e;
}

RunOutcome run_mom(const Call& call, cudaStream_t stream) {
  MomPlan plan;
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
