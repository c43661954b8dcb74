// Operations whose whole plan is one block of parameters: the frame that they share.
#pragma once

#include "kernels/common/cuda/call_checks.hpp"
#include "kernels/common/cuda/kernels.hpp"

namespace assay::cuda {

/// `make(call, memory, params, &bytes)` checks a call, fills the parameters and counts the bytes of
/// workspace, with null memory while nothing runs. `launch(call, params, stream)` does not wait.
template <class Params, auto make>
cpu::Outcome plan_block(const cpu::Call& call, std::size_t* bytes) {
  Params params;
  return make(call, nullptr, params, bytes);
}

template <class Params, auto make, auto launch>
RunOutcome run_block(const cpu::Call& call, cudaStream_t stream) {
  Params params;
  RunOutcome out;
  std::size_t bytes = 0;
  out.refusal = make(call, call.workspace, params, &bytes);
  if (out.refusal.status == cpu::Status::ok) out.refusal = check_workspace(call, bytes);
  if (out.refusal.status == cpu::Status::ok) out.error = launch(call, params, stream);
  return out;
}

}  // namespace assay::cuda
