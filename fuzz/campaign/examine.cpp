#include "fuzz/campaign/examine.hpp"

#include <algorithm>
#include <cmath>

#include "checks/candidate/hygiene.hpp"
#include "checks/verdict/dtypes.hpp"
#include "reference/case/text.hpp"

namespace assay {
namespace {

const TensorVerdict* first_rejected(const Verdict& verdict) {
  const TensorVerdict* gradient = nullptr;
  for (const TensorVerdict& t : verdict.tensors) {
    if (t.stats.accepted()) continue;
    if (t.name.rfind("d_", 0) != 0) return &t;
    if (!gradient) gradient = &t;
  }
  return gradient;
}

}  // namespace

Signature signature_of(const Verdict& verdict) {
  Signature s;
  s.kind = verdict.kind;
  if (!is_finding(verdict.kind)) return s;
  const TensorVerdict* rejected = first_rejected(verdict);
  if (rejected) s.tensor = rejected->name;
  const auto hygiene =
      std::find_if(verdict.hygiene.begin(), verdict.hygiene.end(), [&](const HygieneFinding& h) {
        const bool chance = h.kind == "nondeterministic";
        return verdict.kind == (chance ? VerdictKind::nondeterministic : VerdictKind::wrong);
      });
  if (hygiene != verdict.hygiene.end()) {
    s.what = "hygiene: " + hygiene->kind;
    s.tensor = hygiene->tensor;
  } else if (verdict.kind != VerdictKind::wrong && verdict.kind != VerdictKind::inconsistent) {
    s.what = "call";
  } else if (rejected) {
    s.what = rejected->stats.non_finite > 0 ? "not finite" : "values";
  } else if (!verdict.properties.empty()) {
    s.what = "property: " + verdict.properties[0].property;
    s.tensor = verdict.properties[0].tensor;
  } else if (!verdict.filters.empty() || !verdict.structures.empty()) {
    s.what = "pattern";
    if (verdict.filters.empty()) s.tensor = verdict.structures[0].tensor;
  } else {
    // An exact case, or a tensor that is not there.
    s.what = verdict.tensors.empty() ? "bits or shape" : "bits";
  }
  return s;
}

Examiner::Examiner(const CandidateRequest& request) : request_(request) {
  const bool inferred = request.model.empty();
  model_ = inferred ? preset_model("fp32") : load_model(request.model);
  RunLimits limits;
  limits.seconds = request.call_seconds;
  candidate_ = open_candidate(request.spec, model_, limits);
  if (inferred && candidate_->info().model) {
    model_ = *candidate_->info().model;
    candidate_ = open_candidate(request.spec, model_, limits);
  }
  take_declared(*candidate_, model_);
  if (!candidate_->info().any_case) {
    throw InputError("candidate " + request.spec + ": has results of one case only");
  }
}

RunResult Examiner::run(const CheckCase& c, bool& gradients) {
  RunResult result = candidate_->run(c.valid, gradients);
  if (result.status == RunStatus::ran && gradients && result.gradients.empty() &&
      result.detail.rfind("forward only", 0) == 0) {
    gradients = false;
  }
  return result;
}

Verdict Examiner::judged(const CheckCase& c, const RunResult& result, bool gradients,
                         bool diagnose) const {
  JudgeRequest judging;
  judging.gradients = gradients;
  judging.exact = c.exact;
  judging.diagnose = diagnose;
  return judge(c.valid, model_, result, judging);
}

Outcome Examiner::outcome_of(const Verdict& verdict) const {
  Outcome o;
  o.signature = signature_of(verdict);
  o.sentence = verdict.sentence;
  o.seconds = verdict.seconds;
  o.full = true;
  for (const TensorVerdict& t : verdict.tensors) {
    o.elements += t.stats.elements;
    o.max_z = std::max(o.max_z, t.stats.max_z);
    o.hard_ratio = std::max(o.hard_ratio, t.stats.hard_ratio);
    if (t.stats.elements >= 256) o.rms_z = std::max(o.rms_z, t.stats.rms_z);
  }
  return o;
}

bool Examiner::dirty_hands(const CheckCase& c, bool gradients) {
  const HygieneReport report = examine_hygiene(*candidate_, c.valid, gradients, model_.atomics);
  return report.broken || !report.findings.empty();
}

Outcome Examiner::examine(const CheckCase& c, Depth depth) {
  const int lost_before = candidate_->lost_children();
  Outcome o = examined(c, depth);
  o.lost_children = candidate_->lost_children() - lost_before;
  return o;
}

Outcome Examiner::examined(const CheckCase& c, Depth depth) {
  if (depth == Depth::thorough || c.exact) return outcome_of(verdict(c));
  bool gradients = request_.gradients && candidate_->info().has_backward;
  const RunResult result = run(c, gradients);
  if (result.status != RunStatus::ran || !result.hygiene.empty() ||
      !wrong_dtypes(c.valid, model_, result).empty()) {
    return outcome_of(judged(c, result, gradients, false));
  }
  Outcome o;
  if (depth == Depth::repeated && dirty_hands(c, gradients)) {
    o = outcome_of(verdict(c));
    if (o.finding()) return o;
  }
  const Screen first = screen(c.valid, model_, result, gradients, 1);
  if (first.suspicious) {
    // Most of what is wrong is so in single elements; why is asked later.
    o = outcome_of(judged(c, result, gradients, false));
    if (!o.finding()) o = outcome_of(verdict(c));
  } else {
    o.elements = first.elements;
    o.max_z = first.max_z;
    o.rms_z = first.rms_z;
    o.seconds = result.seconds;
    if (!first.unjudged.empty()) {
      o.signature.kind = VerdictKind::weak_test;
      o.sentence = "every value of " + first.unjudged + " is beyond the range of the formats";
    }
  }
  o.growth = first.growth;
  return o;
}

Verdict Examiner::verdict(const CheckCase& c,
                          std::function<void(Verdict&, const Evidence&)> observe) {
  CheckRequest request;
  request.gradients = request_.gradients;
  request.observe = std::move(observe);
  return check_case(*candidate_, c, model_, request);
}

bool Examiner::shows(const CheckCase& c, const Signature& wanted) {
  try {
    return shows_unguarded(c, wanted);
  } catch (const InputError&) {
    return false;  // no case: a vector of zeros that is to be normalised
  }
}

bool Examiner::shows_unguarded(const CheckCase& c, const Signature& wanted) {
  const bool in_values = wanted.what == "values" || wanted.what == "not finite" ||
                         wanted.what == "bits" || wanted.what == "bits or shape";
  if (!in_values && wanted.what != "call") {
    return signature_of(verdict(c)).same_class(wanted);
  }
  bool gradients = request_.gradients && candidate_->info().has_backward;
  const RunResult result = run(c, gradients);
  if (wanted.what == "call" || result.status != RunStatus::ran) {
    return signature_of(judged(c, result, gradients, false)).same_class(wanted);
  }
  if (!c.exact && !screen(c.valid, model_, result, gradients, 1).suspicious) return false;
  return signature_of(judged(c, result, gradients, false)).same_class(wanted);
}

}  // namespace assay
