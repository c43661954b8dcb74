// Properties that need no reference values: what must not change when something else does.
//
// Which elements must stay is not written down per operation: the reference is run on both inputs
// in double, and where its bits agree the candidate's result must stay too. A candidate whose bits
// differ there but within its rounding is noted; beyond it is a finding.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checks/candidate/candidate.hpp"
#include "checks/verdict/noise.hpp"

namespace assay {

struct PropertyFinding {
  std::string property;  // "causality", "independent heads", …
  std::string tensor;
  std::string detail;  // where, and by how much
};

struct PropertyReport {
  std::vector<PropertyFinding> findings;
  std::vector<std::string> notes;  // not bit for bit; not tried, and why
  std::vector<std::string> held;   // the names of those that were tried and hold
  /// A call that did not come back; the rest was not tried then.
  std::optional<RunResult> broken;
  std::string broken_in;
};

/// Causality forward and backward, independence of sequences and heads, permutation of the batch,
/// linearity in the values, two halves through the states, packed = one by one, chunk lengths.
/// `first` is the candidate's result for `c`, `expected` gives the scale of its rounding.
PropertyReport examine_properties(Candidate& candidate, const ValidCase& c,
                                  const PrecisionModel& model, bool gradients,
                                  const RunResult& first, const Expectation& expected);

}  // namespace assay
