// Certain bounds of eigenvalues, by ball arithmetic.
#pragma once

#include <string>

#include "reports/trace/trace.hpp"

namespace assay::reports {

struct EnclosedSpectrum {
  bool available = false;  // linear operations of small order, or with 2x2 blocks
  std::string radius;      // the spectral radius as decimals with error, e.g. "0.99812 +/- 1e-25"
  double lower = 0, upper = 0;  // doubles that certainly bound it
};

/// Step s of a unit: the gates and keys are the exact stored numbers, logarithms are taken back in
/// ball arithmetic. mdn from its 2x2 blocks by the quadratic formula, other operations from their
/// `transition` up to order 32 by acb_mat_eig_multiple.
EnclosedSpectrum enclose_spectrum(const Trace& trace, const TraceUnit& unit, std::int64_t s);

}  // namespace assay::reports
