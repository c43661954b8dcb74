#include "checks/verdict/check.hpp"

#include <algorithm>
#include <chrono>

namespace assay {
namespace {

double now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

bool same_bits(const std::map<std::string, Tensor<double>>& a,
               const std::map<std::string, Tensor<double>>& b, std::string& where) {
  for (const auto& [name, tensor] : a) {
    const auto found = b.find(name);
    if (found == b.end() || found->second.shape != tensor.shape) continue;
    for (std::int64_t i = 0; i < tensor.size(); ++i) {
      const double x = tensor.data[i], y = found->second.data[i];
      if (x == y || (x != x && y != y)) continue;
      where = name + index_text(tensor.shape, i);
      return false;
    }
  }
  return true;
}

}  // namespace

bool CheckReport::failed() const {
  return std::any_of(verdicts.begin(), verdicts.end(),
                     [](const Verdict& v) { return is_finding(v.kind); });
}

bool CheckReport::nothing_ran() const {
  return std::none_of(verdicts.begin(), verdicts.end(),
                      [](const Verdict& v) { return v.kind != VerdictKind::unsupported; });
}

Verdict check_case(Candidate& candidate, const CheckCase& c, const PrecisionModel& model,
                   const CheckRequest& request) {
  const bool gradients = request.gradients && candidate.info().has_backward;
  RunResult result = candidate.run(c.valid, gradients);
  if (result.status == RunStatus::ran) {
    const RunResult again = candidate.run(c.valid, gradients);
    std::string where;
    if (again.status == RunStatus::ran && (!same_bits(result.outputs, again.outputs, where) ||
                                           !same_bits(result.gradients, again.gradients, where))) {
      result.hygiene.push_back({"nondeterministic", where, "differs between two runs of one case"});
    }
  }
  JudgeRequest judging;
  judging.gradients = gradients;
  judging.threads = request.threads;
  judging.seed = request.seed;
  judging.exact = c.exact;
  Verdict verdict = judge(c.valid, model, result, judging);
  verdict.case_line += " (" + c.why + ")";
  return verdict;
}

CheckReport check(Candidate& candidate, const PrecisionModel& model, const CheckRequest& request) {
  CheckReport report;
  report.candidate = candidate.info().name;
  report.model = model;
  const double start = now();
  std::vector<std::string> names = request.operations;
  if (names.empty()) names = candidate.info().operations;
  if (names.empty()) {
    for (const Operation* operation : operations()) names.push_back(operation->name());
  }
  for (std::size_t n = 0; n < names.size(); ++n) {
    const Operation& operation = find_operation(names[n]);
    const auto cases = check_cases(operation, model, request.seed);
    // Time that one operation leaves over is the next one's.
    const double until = start + request.budget_seconds * static_cast<double>(n + 1) /
                                     static_cast<double>(names.size());
    std::size_t done = 0;
    for (const CheckCase& c : cases) {
      if (done > 0 && now() >= until) break;
      if (request.interrupted && request.interrupted()) break;
      if (request.progress) {
        request.progress((now() - start) / request.budget_seconds, names[n] + ": " + c.why);
      }
      report.verdicts.push_back(check_case(candidate, c, model, request));
      ++done;
    }
    if (done < cases.size()) {
      report.skipped.push_back(names[n] + ": " + std::to_string(cases.size() - done) + " of " +
                               std::to_string(cases.size()) + " cases not run within the budget");
    }
  }
  report.seconds = now() - start;
  return report;
}

}  // namespace assay
