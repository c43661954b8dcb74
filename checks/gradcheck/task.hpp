// What the gradient checks have in common: the task, the random draws, the names of what is tested.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checks/gradcheck/gradcheck.hpp"
#include "reference/case/random.hpp"

namespace assay {

/// One form of one case, to be checked.
struct CheckTask {
  const Operation& operation;
  const ValidCase& c;
  Form form = Form::recurrent;
  std::uint64_t seed = 1;
  int threads = 1;
  std::function<bool()> out_of_time = [] { return false; };
  std::function<void(double)> progress = [](double) {};

  /// A stream of its own for every purpose and round.
  Stream stream(const std::string& purpose, int round = 0) const {
    return Stream(seed + static_cast<std::uint64_t>(round) * 0x9E3779B97F4A7C15u, purpose);
  }
  RunOptions run_options(bool gradients) const {
    RunOptions options;
    options.form = form;
    options.gradients = gradients;
    options.threads = threads;
    return options;
  }
};

CheckOutcome check_field(const CheckTask& task);        // G1
CheckOutcome check_taylor(const CheckTask& task);       // G2
CheckOutcome check_differences(const CheckTask& task);  // G3
CheckOutcome check_steps(const CheckTask& task);        // G4

/// Names under which the case holds its differentiable inputs, in the order of the schema.
std::vector<std::string> differentiable_inputs(const ValidCase& c);

/// Outputs that have a cotangent.
std::vector<const OutputSpec*> differentiable_outputs(const ValidCase& c);

/// A logarithmic gate at -inf: it cannot be moved, and its gradient is 0 by definition.
bool is_pinned(const CaseTensor& tensor, std::int64_t i);

inline CheckOutcome skipped(std::string reason) {
  CheckOutcome outcome;
  outcome.status = CheckOutcome::Status::skipped;
  outcome.detail = std::move(reason);
  return outcome;
}

}  // namespace assay
