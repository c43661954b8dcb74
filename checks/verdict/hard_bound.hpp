// The hard bound: what a kernel that computes the recurrent form in the declared arithmetic cannot
// exceed, element by element, whatever the order of its sums. Assumptions and derivation:
// HARD_BOUND.md beside this file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checks/verdict/precision_model.hpp"
#include "reference/case/schema.hpp"

namespace assay {

/// Of one output or gradient (named "d_<input>").
struct ErrorBound {
  /// |returned - true value| <= bound, element by element; infinite where nothing is proved.
  std::vector<double> bound;
  /// Why there is no bound at all (then `bound` is empty), one line.
  std::string none;
};

using HardBounds = std::map<std::string, ErrorBound>;

struct HardBoundRequest {
  bool gradients = true;
  int threads = 1;
  /// Formats in which tensors are handed over, where that is not the model's `output`.
  std::map<std::string, NumberFormat> formats = {};
};

HardBounds hard_bound(const ValidCase& c, const PrecisionModel& model,
                      const HardBoundRequest& request);

}  // namespace assay
