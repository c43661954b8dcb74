#include "checks/verdict/check.hpp"

#include <algorithm>
#include <chrono>

#include "checks/candidate/hygiene.hpp"
#include "checks/candidate/stop_signal.hpp"

namespace assay {
namespace {

double now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// What only several calls show; the candidate is not told which is which. A strided call whose bits
// differ is judged like any other.
void look_for_dirty_hands(Candidate& candidate, const ValidCase& c, const PrecisionModel& model,
                          bool gradients, const JudgeRequest& judging, RunResult& result,
                          std::vector<std::string>& notes) {
  const HygieneReport report = examine_hygiene(candidate, c, gradients, model.atomics);
  for (const HygieneFinding& found : report.findings) {
    const bool known =
        std::any_of(result.hygiene.begin(), result.hygiene.end(), [&](const HygieneFinding& h) {
          return h.kind == found.kind && h.tensor == found.tensor && h.detail == found.detail;
        });
    if (!known) result.hygiene.push_back(found);  // every call has what the first one has
  }
  notes.insert(notes.end(), report.notes.begin(), report.notes.end());
  if (report.broken && report.broken->status != RunStatus::unsupported) {
    result.status = report.broken->status;
    result.detail = "in a repeated call: " + report.broken->detail;
    return;
  }
  if (!report.strided || report.strided->status != RunStatus::ran) return;
  if (first_difference(result, *report.strided).empty()) return;
  JudgeRequest quick = judging;
  quick.diagnose = false;
  const Verdict strided = judge(c, model, *report.strided, quick);
  if (is_finding(strided.kind)) {
    result.hygiene.push_back({"wrong with strided inputs", "", strided.sentence});
  }
}

}  // namespace

bool CheckReport::failed() const {
  return std::any_of(verdicts.begin(), verdicts.end(),
                     [](const Verdict& v) { return is_finding(v.kind); });
}

bool CheckReport::nothing_judged() const {
  return std::all_of(verdicts.begin(), verdicts.end(),
                     [](const Verdict& v) { return says_nothing(v.kind); });
}

void take_declared(const Candidate& candidate, PrecisionModel& model) {
  const auto& own = candidate.info().model;
  if (!own) return;
  const bool preset = !model.form_declared;
  // Which form it computes nobody knows better than the kernel.
  if (own->form_declared || preset) {
    model.form = own->form;
    model.chunk = own->chunk;
    model.form_declared = own->form_declared;
  }
  if (!preset) return;
  model.exp_error = std::max(model.exp_error, own->exp_error);
  model.tanh_error = std::max(model.tanh_error, own->tanh_error);
  model.softplus_error = std::max(model.softplus_error, own->softplus_error);
  model.rsqrt_error = std::max(model.rsqrt_error, own->rsqrt_error);
  model.truncating_accumulator = model.truncating_accumulator || own->truncating_accumulator;
  model.atomics = model.atomics || own->atomics;
}

Verdict check_case(Candidate& candidate, const CheckCase& c, const PrecisionModel& model,
                   const CheckRequest& request) {
  bool gradients = request.gradients && candidate.info().has_backward;
  RunResult result = candidate.run(c.valid, gradients);
  std::vector<std::string> notes;
  if (result.status == RunStatus::ran && gradients && result.gradients.empty() &&
      result.detail.rfind("forward only", 0) == 0) {
    gradients = false;
    notes.push_back(result.detail);
  }
  JudgeRequest judging;
  judging.gradients = gradients;
  judging.threads = request.threads;
  judging.seed = request.seed;
  judging.exact = c.exact;
  if (result.status == RunStatus::ran && request.quick) {
    notes.push_back("quick: repeated calls, strides and properties were not tried");
  } else if (result.status == RunStatus::ran) {
    look_for_dirty_hands(candidate, c.valid, model, gradients, judging, result, notes);
  }
  Expectation expectation;
  if (result.status == RunStatus::ran)
    expectation = expectation_for(c.valid, model, judging, result);
  if (!candidate.info().any_case) {
    // Whoever computed it elsewhere chose what to store.
    for (auto e = expectation.begin(); e != expectation.end();) {
      const bool there = result.find(e->first) != nullptr;
      if (!there) notes.push_back("not judged, because it is not there: " + e->first);
      e = there ? std::next(e) : expectation.erase(e);
    }
  }
  Verdict verdict = judge(c.valid, model, result, judging, expectation);
  verdict.notes.insert(verdict.notes.end(), notes.begin(), notes.end());
  if (result.status == RunStatus::ran && !c.exact && !request.quick && candidate.info().any_case) {
    add_properties(examine_properties(candidate, c.valid, model, gradients, result, expectation),
                   verdict);
  }
  verdict.gradients_judged = gradients;
  verdict.case_line += " (" + c.why + ")";
  verdict.number = c.number;
  if (request.observe) request.observe(verdict, {c, result, expectation});
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
    if (request.only > static_cast<int>(cases.size())) {
      throw InputError(names[n] + " has " + std::to_string(cases.size()) +
                       " cases under this model, there is no number " +
                       std::to_string(request.only));
    }
    for (const CheckCase& c : cases) {
      if (request.only != 0 && c.number != request.only) continue;
      if ((done > 0 && now() >= until) || report.signal != 0) break;
      if (request.progress) {
        request.progress((now() - start) / request.budget_seconds, names[n] + ": " + c.why);
      }
      try {
        report.verdicts.push_back(check_case(candidate, c, model, request));
        ++done;
      } catch (const Interrupted&) {
      }
      report.signal = StopSignal::received();
    }
    if (request.only == 0 && done < cases.size()) {
      report.skipped.push_back(names[n] + ": " + std::to_string(cases.size() - done) + " of " +
                               std::to_string(cases.size()) + " cases not run " +
                               (report.signal ? "before the interrupt" : "within the budget"));
    }
  }
  report.seconds = now() - start;
  return report;
}

}  // namespace assay
