// What only several runs show: results that change from run to run, results of another call, and
// strides that are ignored. The candidate is not told which call is which.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checks/candidate/candidate.hpp"

namespace assay {

struct HygieneReport {
  /// Kinds "nondeterministic", "stale", "strides ignored", and those that single runs had.
  std::vector<HygieneFinding> findings;
  std::vector<std::string> notes;    // what was not looked at, and why
  std::optional<RunResult> strided;  // to be judged like any other run, where it is supported
  /// The first run that did not come back; the rest was not tried then.
  std::optional<RunResult> broken;
  int runs = 0;
};

/// Runs the case twice, then other data in the same memory, then the case again, then the other
/// data in fresh memory, then the case with gaps and offsets. `atomics`: the model declares results
/// that differ in the last bits, so that bits are not compared.
HygieneReport examine_hygiene(Candidate& candidate, const ValidCase& c, bool gradients,
                              bool atomics);

/// The same case with the values of every floating tensor moved on by one place, so that they stay
/// in their domain.
ValidCase with_other_data(const ValidCase& c);

/// Where two results differ in their bits: "d_k at [0,3,1]: 0.5 and 0.25"; "" when they agree.
std::string first_difference(const RunResult& a, const RunResult& b);

}  // namespace assay
