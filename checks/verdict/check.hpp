// `assay check`: a candidate against the cases of one or more operations.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checks/verdict/check_cases.hpp"
#include "checks/verdict/verdict.hpp"

namespace assay {

/// All that a verdict was made from.
struct Evidence {
  const CheckCase& given;
  const RunResult& result;
  const Expectation& expectation;  // empty when the candidate did not come back
};

struct CheckRequest {
  std::vector<std::string> operations;  // empty: all that the candidate declares
  double budget_seconds = 60;           // of all operations together; every operation gets a share
  std::uint64_t seed = 1;
  int threads = 1;
  bool gradients = true;
  bool quick = false;  // one call of a case: no repeated calls, no properties
  int only = 0;        // the number of the only case to run; 0: all
  /// Called with every verdict, which it may complete (replay line).
  std::function<void(Verdict&, const Evidence&)> observe = {};
  /// Called before every case: share of the budget, what is run.
  std::function<void(double, const std::string&)> progress = {};
};

struct CheckReport {
  std::string candidate;
  PrecisionModel model;
  bool model_inferred = false;
  std::vector<Verdict> verdicts;     // in the order run
  std::vector<std::string> skipped;  // operations or cases that did not run, with the reason
  double seconds = 0;
  int signal = 0;       // that ended it early, or 0
  bool failed() const;  // some verdict is a finding
  bool nothing_judged() const;
};

/// The form is the one the candidate declares, if it does. A model that names formats only (a
/// preset) takes its error bounds of transcendentals too, where they are larger.
void take_declared(const Candidate& candidate, PrecisionModel& model);

/// One case, run and judged, with the repeat run that looks for non-determinism.
Verdict check_case(Candidate& candidate, const CheckCase& c, const PrecisionModel& model,
                   const CheckRequest& request);

CheckReport check(Candidate& candidate, const PrecisionModel& model, const CheckRequest& request);

}  // namespace assay
