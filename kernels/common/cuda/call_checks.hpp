// What every operation of the plug-in asks of a call before anything else.
#pragma once

#include <initializer_list>

#include "kernels/common/binding.hpp"

namespace assay::cuda {

/// Refuses a call with a tensor of fp64.
inline cpu::Outcome refuse_fp64(const cpu::Call& call) {
  for (const cpu::ViewList* list :
       {&call.inputs, &call.outputs, &call.cotangents, &call.gradients}) {
    for (int i = 0; i < list->count; ++i) {
      if (list->views[i].dtype != cpu::DType::f64) continue;
      return cpu::refuse(cpu::Status::unsupported, "tensor '%s': no fp64 on the device",
                         list->views[i].name);
    }
  }
  return {};
}

/// Refuses a run with less workspace than was planned.
inline cpu::Outcome check_workspace(const cpu::Call& call, std::size_t needed) {
  if (needed <= call.workspace_bytes) return {};
  return cpu::refuse(cpu::Status::bad_argument, "the workspace is too small");
}

}  // namespace assay::cuda
