#include "checks/gradcheck/gradcheck.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "checks/gradcheck/task.hpp"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;

struct NamedCheck {
  const char* name;
  CheckOutcome (*run)(const CheckTask&);
};
constexpr NamedCheck kChecks[] = {
    {"G1", check_field}, {"G2", check_taylor}, {"G3", check_differences}, {"G4", check_steps}};

/// Why no check can say anything about this case; empty: they can.
std::string nothing_to_check(const ValidCase& c) {
  if (c.schema.find_option("state_grad_clip") != nullptr && option_real(c, "state_grad_clip")) {
    return "with state_grad_clip the result is by definition not the gradient";
  }
  if (differentiable_outputs(c).empty()) return "all outputs are integers";
  if (differentiable_inputs(c).empty()) return "no input is differentiable";
  return "";
}

/// Runs one check. What stops it is a reason to skip only where another form can do without.
CheckOutcome run_check(const NamedCheck& check, const CheckTask& task) {
  try {
    return check.run(task);
  } catch (const InputError& error) {
    if (task.form != Form::chunk_log) throw;
    return skipped(error.what());
  }
}

}  // namespace

bool GradcheckReport::failed() const {
  return std::any_of(outcomes.begin(), outcomes.end(), [](const CheckOutcome& outcome) {
    return outcome.status == CheckOutcome::Status::failed;
  });
}

std::vector<std::string> differentiable_inputs(const ValidCase& c) {
  std::vector<std::string> names;
  for (const InputSpec& input : c.schema.inputs) {
    const std::string name = given_name(c.data, input);
    if (!name.empty() && input.differentiable && !input.integer) names.push_back(name);
  }
  return names;
}

std::vector<const OutputSpec*> differentiable_outputs(const ValidCase& c) {
  std::vector<const OutputSpec*> outputs;
  for (const OutputSpec& output : c.schema.outputs) {
    if (!output.integer) outputs.push_back(&output);
  }
  return outputs;
}

bool is_pinned(const CaseTensor& tensor, std::int64_t i) { return tensor.values[i] == -kInf; }

GradcheckReport gradcheck_with(const Operation& operation, const ValidCase& c,
                               const GradcheckRequest& request) {
  GradcheckReport report;
  report.op = c.schema.op;
  std::vector<NamedCheck> checks;
  for (const NamedCheck& check : kChecks) {
    const auto& asked = request.checks;
    const bool all = asked.empty();
    if (all || std::find(asked.begin(), asked.end(), check.name) != asked.end()) {
      checks.push_back(check);
    }
  }
  const std::string nothing = nothing_to_check(c);
  const std::size_t total = checks.size() * c.schema.forms.size();
  std::size_t done = 0;
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(request.budget_seconds));
  for (const Form form : c.schema.forms) {
    const std::string prefix = c.schema.forms.size() > 1 ? form_name(form) + " form: " : "";
    for (const NamedCheck& check : checks) {
      CheckTask task{operation, c, form, request.seed, request.threads};
      if (request.budget_seconds > 0) {
        // Each check may use its share of what is left.
        const auto left = std::max(Clock::duration::zero(), end - Clock::now());
        const Clock::time_point stop = Clock::now() + left / (total - done);
        task.out_of_time = [stop] { return Clock::now() >= stop; };
      }
      if (request.progress) {
        task.progress = [&, done](double share) {
          request.progress((static_cast<double>(done) + share) / static_cast<double>(total),
                           prefix + check.name);
        };
      }
      CheckOutcome outcome = nothing.empty() ? run_check(check, task) : skipped(nothing);
      outcome.check = check.name;
      outcome.detail = prefix + outcome.detail;
      report.outcomes.push_back(std::move(outcome));
      ++done;
    }
  }
  return report;
}

GradcheckReport gradcheck(const ValidCase& c, const GradcheckRequest& request) {
  return gradcheck_with(find_operation(c.data.op), c, request);
}

}  // namespace assay
