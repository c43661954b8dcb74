// The gradient checks G1-G4: is the hand-derived adjoint the adjoint of the forward recurrence?
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "reference/case/schema.hpp"
#include "reference/oracle/registry.hpp"

namespace assay {

struct GradcheckRequest {
  std::vector<std::string> checks = {};  // "G1".."G4"; empty: all
  std::uint64_t seed = 1;
  int threads = 1;
  double budget_seconds = 0;  // 0: none
  std::function<void(double share, const std::string& what)> progress = {};
};

struct CheckOutcome {
  enum class Status { passed, failed, skipped };

  std::string check;
  Status status = Status::passed;
  std::string detail;  // one line
  std::string worst_tensor, worst_index;
  std::vector<std::string> lines = {};  // more, when failed
};

struct GradcheckReport {
  std::string op;
  std::vector<CheckOutcome> outcomes;
  bool failed() const;
};

/// Runs the checks on one case, in every form the operation has; one outcome each. A check that
/// cannot say anything about the case, or could not decide ("undecided: ..."), is skipped with the
/// reason. Throws InputError for a case that cannot be evaluated.
GradcheckReport gradcheck(const ValidCase& c, const GradcheckRequest& request);

/// The same for an operation that need not be registered.
GradcheckReport gradcheck_with(const Operation& operation, const ValidCase& c,
                               const GradcheckRequest& request);

/// Small random cases that together cover the options of an operation.
std::vector<ValidCase> gradcheck_cases(const Operation& operation, std::uint64_t seed);

}  // namespace assay
