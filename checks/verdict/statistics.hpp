// The statistics of one tensor: z scores, and what other suites would have said.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "checks/verdict/noise.hpp"

namespace assay {

/// Acceptance of the scale test. Correct kernels stay near max 4.2 and rms 0.75; a Gaussian exceeds
/// 6.5 once in 10^10 elements.
inline constexpr double kMaxZ = 6.5, kMaxRmsZ = 1.3;
/// The rms of z of correct kernels: their sums cancel more than random signs do.
inline constexpr double kUsualRmsZ = 0.75;

struct TensorStatistics {
  std::int64_t elements = 0;
  double independent = 0;   // of their errors, see ExpectedTensor
  std::int64_t worst = -1;  // flat index of max |z| (or of the first non-finite element)
  double worst_value = 0, worst_truth = 0;
  double max_z = 0, rms_z = 0;
  double max_error = 0;
  double hard_ratio = 0;          // max |e| / proved bound; above 1 (or NaN) is wrong for certain
  std::int64_t hard_worst = -1;   // flat index of it; -1 where there is no bound
  double rms_ratio = 0;           // ||e|| / ||truth||
  double snr_db = 0;              // 20 log10 of its inverse
  std::int64_t beyond_range = 0;  // not judged: the formats overflow on the way
  std::int64_t non_finite = 0;    // of the candidate where the truth is finite
  std::int64_t allclose_violations = 0;  // |e| > 1e-2 + 1e-2 |truth|
  std::vector<double> z;

  /// Is there not one element of which anything can be said? (Of none there is nothing to say.)
  bool unjudged() const { return elements > 0 && beyond_range == elements; }
  bool within_hard_bound() const { return hard_worst < 0 || hard_ratio <= 1; }
  /// Written so that NaN fails. The rms of few independent errors spreads: the bound is 1.3 plus
  /// four of its standard errors, which for a variance of one are 1/√n.
  bool accepted() const {
    if (elements == 0) return true;
    if (!within_hard_bound()) return false;
    const double few = 4 / std::sqrt(independent);
    return non_finite == 0 && max_z <= kMaxZ && rms_z <= kMaxRmsZ + few;
  }
};

TensorStatistics statistics(const ExpectedTensor& expected, const std::vector<double>& values);

}  // namespace assay
