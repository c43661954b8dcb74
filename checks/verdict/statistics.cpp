#include "checks/verdict/statistics.hpp"

#include <cmath>
#include <limits>

namespace assay {

namespace {

/// May a correct candidate return this infinity, because some value near the truth rounds to it?
bool may_overflow(const ExpectedTensor& expected, std::size_t i, double infinity) {
  const double reach = expected.truth[i] + std::copysign(kMaxZ * expected.sigma[i], infinity);
  return round_to(expected.format, reach) == infinity;
}

}  // namespace

TensorStatistics statistics(const ExpectedTensor& expected, const std::vector<double>& values) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  TensorStatistics s;
  s.elements = static_cast<std::int64_t>(values.size());
  s.independent = expected.independent > 0 ? expected.independent : static_cast<double>(s.elements);
  s.z.resize(values.size());
  double sum_z2 = 0, sum_e2 = 0, sum_t2 = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double truth = expected.truth[i], value = values[i];
    // Somewhere on the way to it the declared formats overflow: nothing can be said.
    if (!std::isfinite(expected.sigma[i])) {
      ++s.beyond_range;
      continue;
    }
    double e = value - truth;
    if (std::isinf(value) && may_overflow(expected, i, value)) e = 0;
    if (!std::isfinite(e) && expected.may_be_spoiled(i)) {
      ++s.beyond_range;
      continue;
    }
    if (!std::isfinite(e)) {
      s.z[i] = kInfinite;
      if (s.non_finite++ == 0) {
        s.worst = static_cast<std::int64_t>(i);
        s.worst_value = value;
        s.worst_truth = truth;
      }
      ++s.allclose_violations;
      continue;
    }
    // What the truth itself is uncertain by is no error of the candidate.
    const double known = std::max(0.0, std::fabs(e) - expected.truth_error[i]);
    const double sigma = expected.sigma[i];
    s.z[i] = known == 0 ? 0 : sigma > 0 ? std::copysign(known, e) / sigma : kInfinite;
    if (s.non_finite == 0 && (s.worst < 0 || std::fabs(s.z[i]) > s.max_z)) {
      s.worst = static_cast<std::int64_t>(i);
      s.max_z = std::fabs(s.z[i]);
      s.worst_value = value;
      s.worst_truth = truth;
    }
    if (!expected.hard_bound.empty()) {
      const double bound = expected.hard_bound[i];
      const double ratio = known == 0 ? 0 : known / bound;
      if (s.hard_worst < 0 || !(ratio <= s.hard_ratio || std::isnan(s.hard_ratio))) {
        s.hard_worst = static_cast<std::int64_t>(i);
        s.hard_ratio = ratio;
      }
    }
    s.max_error = std::max(s.max_error, std::fabs(e));
    sum_z2 += s.z[i] * s.z[i];
    sum_e2 += e * e;
    sum_t2 += truth * truth;
    if (!(std::fabs(e) <= 1e-2 + 1e-2 * std::fabs(truth))) ++s.allclose_violations;
  }
  if (s.non_finite > 0) s.max_z = sum_z2 = sum_e2 = kInfinite;
  if (s.elements > 0) s.rms_z = std::sqrt(sum_z2 / static_cast<double>(s.elements));
  s.rms_ratio = sum_e2 == 0 ? 0 : std::sqrt(sum_e2 / sum_t2);
  s.snr_db = sum_e2 == 0 ? kInfinite : -20 * std::log10(s.rms_ratio);
  return s;
}

}  // namespace assay
