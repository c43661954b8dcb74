// Tiny cases of every operation, for the self-test of plug-ins. They hold names and shapes only:
// nothing here knows a right answer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/hosts/call_frame.hpp"

namespace assay::hosts {

struct TensorPlan {
  std::string name;
  Shape shape;
  bool state = false;  // an initial state, optional
  double lo = -1, hi = 1;
};

struct CasePlan {
  std::vector<TensorPlan> inputs, outputs;  // outputs: only name and shape count
};

/// Nothing for an operation without a case. `log_gates`: log_alpha instead of alpha.
std::optional<CasePlan> case_for(const std::string& operation, bool log_gates);

/// Deterministic values in [lo, hi] of that dtype (F64, F32, F16 or BF16).
std::string draw_bytes(const TensorPlan& tensor, const std::string& dtype);

}  // namespace assay::hosts
