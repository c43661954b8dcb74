// Finite-time Lyapunov exponents as they are reported.
#pragma once

#include <vector>

namespace assay::reports {

/// Finite-time exponents, largest first, in natural logarithms per step.
struct Exponents {
  std::vector<double> value;
  /// Half width of the 95 % confidence band, from the spread of `batches` stretches of equal length
  /// (Student's t); NaN when there are fewer than 4 of them.
  std::vector<double> half_width;
  int batches = 0;
};

}  // namespace assay::reports
