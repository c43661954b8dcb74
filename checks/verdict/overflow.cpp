#include <algorithm>
#include <cmath>
#include <iterator>

#include "checks/faults/candidate.hpp"
#include "checks/faults/fault.hpp"
#include "checks/verdict/diagnosis.hpp"
#include "checks/verdict/statistics.hpp"

namespace assay {

NonFinite non_finite(const Expectation& expectation, const RunResult& result) {
  NonFinite places;
  for (const auto& [name, e] : expectation) {
    const Tensor<double>* given = result.find(name);
    if (!given || given->data.size() != e.truth.size()) continue;
    const TensorStatistics s = statistics(e, given->data);
    if (s.non_finite == 0) continue;
    for (std::size_t i = 0; i < s.z.size(); ++i) {
      if (std::isinf(s.z[i]) && !std::isfinite(given->data[i])) places[name].push_back(i);
    }
  }
  return places;
}

std::vector<OverflowCause> overflow_causes(const ValidCase& c, const PrecisionModel& model,
                                           const Expectation& expectation, const NonFinite& seen,
                                           bool gradients,
                                           const std::vector<std::string>& without) {
  constexpr double kAgreement = 0.9;
  std::vector<OverflowCause> causes;
  for (const Fault* fault : faults()) {
    const std::string& id = fault->info().id;
    if (std::find(without.begin(), without.end(), id) != without.end() || !fault->applies(c)) {
      continue;
    }
    const RunResult result = make_fault_candidate(id, model)->run(c, gradients);
    if (result.status != RunStatus::ran) continue;
    const NonFinite own = non_finite(expectation, result);
    double both = 0, either = 0;
    for (const auto& [name, e] : expectation) {
      const auto a = seen.find(name), b = own.find(name);
      const std::vector<std::size_t> none, &x = a == seen.end() ? none : a->second,
                                           &y = b == own.end() ? none : b->second;
      std::vector<std::size_t> common;
      std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(common));
      both += static_cast<double>(common.size());
      either += static_cast<double>(x.size() + y.size() - common.size());
    }
    if (both > 0 && both >= kAgreement * either) causes.push_back({id, both / either});
  }
  std::stable_sort(causes.begin(), causes.end(),
                   [](const auto& a, const auto& b) { return a.agreement > b.agreement; });
  return causes;
}

}  // namespace assay
