#include "checks/verdict/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "checks/verdict/dtypes.hpp"
#include "checks/verdict/explain.hpp"
#include "checks/verdict/hard_bound.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay {
namespace {

std::string place(const ExpectedTensor& e, std::int64_t flat, std::int64_t chunk) {
  if (flat < 0) return "";
  std::string text;
  std::int64_t stride = static_cast<std::int64_t>(e.truth.size());
  for (std::size_t a = 0; a < e.shape.size() && a < e.axes.size(); ++a) {
    stride /= e.shape[a];
    const std::int64_t i = flat / stride % e.shape[a];
    if (e.shape[a] == 1 && e.axes[a] != 'T') continue;
    text += text.empty() ? "" : ", ";
    switch (e.axes[a]) {
      case 'T':
        text += fmt::format("t={} (t mod {} = {})", i, chunk, i % chunk);
        break;
      case 'B':
        text += fmt::format("batch {}", i);
        break;
      case 'H':
      case 'N':
        text += fmt::format("head {}", i);
        break;
      case 'K':
        text += fmt::format("row {}", i);
        break;
      case 'V':
        text += fmt::format("column {}", i);
        break;
      default:
        text += fmt::format("{} {}", e.axes[a], i);
    }
  }
  return text;
}

VerdictKind kind_of(RunStatus status) {
  switch (status) {
    case RunStatus::ran:
      return VerdictKind::pass;
    case RunStatus::unsupported:
      return VerdictKind::unsupported;
    case RunStatus::failed:
      return VerdictKind::failed;
    case RunStatus::crashed:
      return VerdictKind::crashed;
    case RunStatus::timed_out:
      return VerdictKind::timed_out;
    case RunStatus::out_of_memory:
      return VerdictKind::out_of_memory;
  }
  return VerdictKind::failed;
}

/// Missing tensors and wrong shapes; empty when everything expected is there.
std::string missing_or_misshapen(const Expectation& expectation, const RunResult& result) {
  for (const auto& [name, e] : expectation) {
    const Tensor<double>* given = result.find(name);
    if (!given) {
      for (const HygieneFinding& h : result.hygiene) {
        if (h.tensor == name && h.kind == "wrong shape") return name + " has shape " + h.detail;
      }
      return name + " was not returned";
    }
    if (given->shape != e.shape) {
      return fmt::format("{} has shape {}, must be {}", name, shape_text(given->shape),
                         shape_text(e.shape));
    }
  }
  return "";
}

// A wrong tensor of zeros, and the error of the next coarser state, must not pass.
void try_sentinels(const ValidCase& c, const PrecisionModel& model, const Expectation& expectation,
                   const JudgeRequest& request, Verdict& verdict) {
  bool zeros_pass = true, any = false;
  for (const auto& [name, e] : expectation) {
    const bool zero = std::all_of(e.truth.begin(), e.truth.end(), [](double x) { return x == 0; });
    if (zero) continue;
    any = true;
    zeros_pass = zeros_pass && statistics(e, std::vector<double>(e.truth.size(), 0)).accepted();
  }
  if (any && zeros_pass) {
    verdict.kind = VerdictKind::weak_test;
    verdict.sentence = "all tensors set to zero would pass: the case is too weak for this model";
    return;
  }
  const NumberFormat coarser = NumberFormat::bf16;  // the state that shipped kernels get wrong
  if (unit_roundoff(coarser) <= unit_roundoff(model.state)) return;
  PrecisionModel weak = model;
  weak.state = coarser;
  const ExpectationRequest again{
      request.gradients, Noisy::kLanes, request.seed + 77, request.threads, {}, true};
  bool seen = false;
  const Expectation coarse = expect(c, weak, again);
  for (const auto& [name, e] : expectation) {
    std::vector<double> wrong(e.truth.size());
    for (std::size_t i = 0; i < wrong.size(); ++i)
      wrong[i] = e.truth[i] + coarse.at(name).lanes[0][i];
    seen = seen || !statistics(e, wrong).accepted();
  }
  if (!seen) {
    verdict.notes.push_back("sentinel: a state kept in " + format_name(coarser) +
                            " would not be seen in this case");
  }
}

void judge_exactly(const Expectation& expectation, const RunResult& result, std::int64_t chunk,
                   Verdict& verdict) {
  for (const auto& [name, e] : expectation) {
    const std::vector<double>& values = result.find(name)->data;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] == e.truth[i]) continue;
      verdict.kind = VerdictKind::wrong;
      verdict.sentence = fmt::format(
          "{} is {} where exactly {} is due ({}); every intermediate of this case is "
          "representable, so the tolerance is zero",
          name, values[i], e.truth[i], place(e, static_cast<std::int64_t>(i), chunk));
      return;
    }
  }
}

void explain_overflow(const ValidCase& c, const PrecisionModel& model,
                      const Expectation& expectation, const RunResult& result,
                      const JudgeRequest& request, Verdict& verdict) {
  const auto causes = overflow_causes(c, model, expectation, non_finite(expectation, result),
                                      request.gradients, request.without);
  if (causes.empty()) return;
  verdict.cause = fmt::format("{:.0f} % of the places are those of {}", 100 * causes[0].agreement,
                              causes[0].id);
  for (const OverflowCause& cause : causes) {
    if (cause.agreement < causes[0].agreement) break;
    verdict.blamed.push_back(cause.id);
    if (verdict.blamed.size() > 1) {
      verdict.cause += (verdict.blamed.size() == 2 ? "; and of " : ", ") + cause.id;
    }
  }
}

std::string unjudged_tensors(const Verdict& verdict) {
  std::string names;
  for (const TensorVerdict& t : verdict.tensors) {
    if (t.stats.unjudged()) names += (names.empty() ? "" : ", ") + t.name;
  }
  return names;
}

/// By how much and where a tensor is beyond its proved bound; empty when none is.
std::string beyond_hard_bound(const PrecisionModel& model, const Expectation& expectation,
                              const Verdict& verdict, const ErrorTensors& error) {
  const TensorVerdict* worst = nullptr;
  for (const TensorVerdict& t : verdict.tensors) {
    if (t.stats.within_hard_bound()) continue;
    if (!worst || t.stats.hard_ratio > worst->stats.hard_ratio) worst = &t;
  }
  if (!worst) return "";
  const ExpectedTensor& e = expectation.at(worst->name);
  const auto at = static_cast<std::size_t>(worst->stats.hard_worst);
  return fmt::format(
      "{} is wrong by {:.3g}, {:.3g} times the proved bound {:.3g} of step-by-step {} arithmetic, "
      "at {}",
      worst->name, std::fabs(error.at(worst->name)[at]), worst->stats.hard_ratio, e.hard_bound[at],
      model.name, place(e, worst->stats.hard_worst, model.chunk));
}

/// "Behaves like a 2^-8.9 state": the coarsest declared unit, scaled by what is seen.
void fit_precision(const PrecisionModel& model, Verdict& verdict) {
  NumberFormat coarsest = NumberFormat::fp64;
  for (NumberFormat f : {model.operand, model.accumulator, model.state, model.gate, model.output}) {
    if (unit_roundoff(f) > unit_roundoff(coarsest)) coarsest = f;
  }
  double sum = 0, n = 0;
  for (const TensorVerdict& t : verdict.tensors) {
    const double elements = static_cast<double>(t.stats.elements);
    sum += t.stats.rms_z * t.stats.rms_z * elements;
    n += elements;
  }
  if (n == 0 || !std::isfinite(sum) || sum == 0) return;
  verdict.fitted_unit = unit_roundoff(coarsest) * std::sqrt(sum / n) / kUsualRmsZ;
  verdict.declared_unit =
      fmt::format("2^{:.0f} ({})", std::log2(unit_roundoff(coarsest)), format_name(coarsest));
}

}  // namespace

std::string verdict_name(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::pass:
      return "PASS";
    case VerdictKind::wrong:
      return "WRONG";
    case VerdictKind::inconsistent:
      return "INCONSISTENT";
    case VerdictKind::nondeterministic:
      return "NONDETERMINISTIC";
    case VerdictKind::weak_test:
      return "WEAK-TEST";
    case VerdictKind::failed:
      return "FAILED";
    case VerdictKind::crashed:
      return "CRASHED";
    case VerdictKind::timed_out:
      return "TIMEOUT";
    case VerdictKind::out_of_memory:
      return "OUT-OF-MEMORY";
    case VerdictKind::unsupported:
      return "UNSUPPORTED";
  }
  return "";
}

bool is_finding(VerdictKind kind) { return kind != VerdictKind::pass && !says_nothing(kind); }

bool says_nothing(VerdictKind kind) {
  return kind == VerdictKind::weak_test || kind == VerdictKind::unsupported;
}

std::string case_line(const ValidCase& c) {
  std::string line = c.data.op + " ";
  bool first = true;
  for (const auto& [letter, length] : c.sizes.by_letter) {
    line += fmt::format("{}{}={}", first ? "" : ",", letter, length);
    first = false;
  }
  DType dtype = DType::F64;
  bool logs = false;
  for (const auto& [name, tensor] : c.data.tensors) {
    if (c.schema.find_input(name) && !is_integer(tensor.dtype)) dtype = tensor.dtype;
    logs = logs || name.rfind("log_", 0) == 0;
  }
  line += " " + dtype_name(dtype);
  if (logs) line += ", log gates";
  if (c.packed()) line += fmt::format(", packed in {} sequences", c.cu_seqlens.size() - 1);
  if (!c.data.seed.empty()) line += ", seed " + c.data.seed;
  return line;
}

Expectation expectation_for(const ValidCase& c, const PrecisionModel& model,
                            const JudgeRequest& request, const RunResult& result) {
  Expectation expectation =
      expect(c, model,
             {request.gradients, request.exact ? Noisy::kLanes : request.lanes, request.seed,
              request.threads, result.stored});
  if (request.exact) return expectation;  // where every bit counts no bound is needed
  PrecisionModel declared = model;
  // A form that nobody declared may be any that the operation has.
  if (!model.form_declared) declared.form = Form::chunk;
  HardBoundRequest hard{request.gradients, request.threads, {}};
  for (const auto& [name, e] : expectation) hard.formats[name] = e.format;
  for (auto& [name, bound] : hard_bound(c, declared, hard)) {
    const auto found = expectation.find(name);
    if (found == expectation.end()) continue;
    found->second.hard_bound = std::move(bound.bound);
    found->second.no_hard_bound = bound.none;
  }
  return expectation;
}

Verdict judge(const ValidCase& c, const PrecisionModel& model, const RunResult& result,
              const JudgeRequest& request) {
  if (result.status != RunStatus::ran) return judge(c, model, result, request, Expectation());
  return judge(c, model, result, request, expectation_for(c, model, request, result));
}

Verdict judge(const ValidCase& c, const PrecisionModel& model, const RunResult& result,
              const JudgeRequest& request, const Expectation& expectation) {
  Verdict verdict;
  verdict.op = c.data.op;
  verdict.case_line = case_line(c);
  verdict.seconds = result.seconds;
  verdict.hygiene = result.hygiene;
  verdict.kind = kind_of(result.status);
  if (verdict.kind != VerdictKind::pass) {
    verdict.sentence = result.detail;
    return verdict;
  }
  const std::int64_t chunk = model.chunk;
  const std::vector<HygieneFinding> dtypes = wrong_dtypes(c, model, result);
  verdict.hygiene.insert(verdict.hygiene.begin(), dtypes.begin(), dtypes.end());
  for (const std::string& name : result.declined) {
    if (expectation.count(name) == 0) continue;
    verdict.kind = VerdictKind::unsupported;
    verdict.sentence = name + " is not computed: the candidate gave None for it";
    return verdict;
  }
  const std::string missing = missing_or_misshapen(expectation, result);
  if (!missing.empty()) {
    verdict.kind = VerdictKind::wrong;
    verdict.sentence = missing;
    return verdict;
  }
  if (request.exact) {
    judge_exactly(expectation, result, chunk, verdict);
    if (verdict.kind == VerdictKind::wrong) return verdict;
  }
  for (const auto& [name, dtype] : result.stored) {
    if (dtype != DType::F64 || model.output == NumberFormat::fp64 || !dtypes.empty()) continue;
    verdict.notes.push_back(name + " was handed over as F64, finer than the model's " +
                            format_name(model.output) + "; its rounding is judged as that of " +
                            format_name(model.output));
    break;
  }
  ErrorTensors error;
  bool accepted = true, finite = true;
  const TensorVerdict* worst = nullptr;
  verdict.tensors.reserve(expectation.size());
  for (const auto& [name, e] : expectation) {
    const std::vector<double>& values = result.find(name)->data;
    TensorVerdict t{name, e.shape, statistics(e, values), "", e.no_hard_bound};
    t.where = place(e, t.stats.worst, chunk);
    accepted = accepted && t.stats.accepted();
    finite = finite && t.stats.non_finite == 0;
    std::vector<double>& err = error[name];
    err.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double difference = values[i] - e.truth[i];
      err[i] = std::isfinite(difference) ? difference : 0;
    }
    verdict.tensors.push_back(std::move(t));
  }
  if (!request.exact) fit_precision(model, verdict);
  std::int64_t elements = 0, beyond = 0;
  for (const TensorVerdict& t : verdict.tensors) {
    elements += t.stats.elements;
    beyond += t.stats.beyond_range;
  }
  if (beyond > 0) {
    verdict.notes.push_back(
        fmt::format("{} of {} values were not judged: the formats overflow on the way to them",
                    beyond, elements));
  }
  for (const TensorVerdict& t : verdict.tensors) {
    if (t.stats.accepted()) continue;
    if (!worst || t.stats.max_z > worst->stats.max_z) worst = &t;
  }
  if (!finite) {
    verdict.kind = VerdictKind::wrong;
    verdict.sentence =
        fmt::format("{} has {} non-finite value(s) where the truth is finite, first at {}",
                    worst->name, worst->stats.non_finite, worst->where);
  } else if (const std::string beyond = beyond_hard_bound(model, expectation, verdict, error);
             !beyond.empty()) {
    verdict.kind = VerdictKind::wrong;
    verdict.sentence = beyond;
  } else if (!accepted) {
    verdict.kind = VerdictKind::inconsistent;
    const TensorStatistics& stats = worst->stats;
    verdict.sentence =
        std::isfinite(stats.max_z)
            ? fmt::format(
                  "{} is off by {:.3g} standard deviations of what {} arithmetic does, at {}",
                  worst->name, stats.max_z, model.name, worst->where)
            : fmt::format(
                  "{} is {:.9g} where {} arithmetic makes no error: it must be {:.9g}, at {}",
                  worst->name, stats.worst_value, model.name, stats.worst_truth, worst->where);
  }
  if (request.diagnose && !request.exact && !finite) {
    explain_overflow(c, model, expectation, result, request, verdict);
  }
  if (request.diagnose && !request.exact && finite) {
    std::vector<Direction> own;
    if (!request.known) {
      own = directions(c, model, request.gradients, request.threads, request.without);
    }
    const std::vector<Direction>& known = request.known ? *request.known : own;
    for (FilterResult& r :
         matched_filters(expectation, error, known, request.without, request.threads)) {
      if (r.significance() > kFilterThreshold) verdict.filters.push_back(std::move(r));
    }
    verdict.structures = structure(expectation, error, chunk);
    if (verdict.structures.size() > 8) verdict.structures.resize(8);
    const auto accused =
        std::find_if(verdict.filters.begin(), verdict.filters.end(), [](const FilterResult& r) {
          // A fault has its own size; many times that is no fault.
          constexpr double kMost = 2;
          return r.accuses && !(r.is_fault && std::fabs(r.coefficient) > kMost);
        });
    if (verdict.kind == VerdictKind::pass && accused != verdict.filters.end()) {
      verdict.kind = VerdictKind::inconsistent;
      verdict.sentence = fmt::format(
          "no element stands out, but the error as a whole points along "
          "{} ({:.1f} standard errors)",
          accused->id, accused->significance());
    } else if (verdict.kind == VerdictKind::pass && !verdict.structures.empty()) {
      const StructureFinding& s = verdict.structures[0];
      verdict.kind = VerdictKind::inconsistent;
      verdict.sentence = fmt::format(
          "no element stands out, but {} {} at {} = {} ({:.1f} standard errors)", s.tensor,
          s.statistic == "rms" ? "is noisier" : "is biased", s.axis, s.index, s.significance);
    }
    if (verdict.kind != VerdictKind::pass) {
      name_cause(c, Filters(expectation, error), known, request, verdict);
    }
  }
  if (!verdict.hygiene.empty()) {
    const HygieneFinding& h = verdict.hygiene[0];
    if (h.kind == "nondeterministic") {
      if (!model.atomics && verdict.kind == VerdictKind::pass) {
        verdict.kind = VerdictKind::nondeterministic;
      }
    } else {
      verdict.kind = VerdictKind::wrong;
    }
    if (verdict.sentence.empty() || verdict.kind == VerdictKind::wrong) {
      verdict.sentence = h.kind + ": " + h.tensor + " " + h.detail;
    }
  }
  if (verdict.kind == VerdictKind::pass && !request.exact) {
    const std::string unjudged = unjudged_tensors(verdict);
    if (!unjudged.empty()) {
      verdict.kind = VerdictKind::weak_test;
      verdict.sentence = "the declared formats overflow on the way to every value of " + unjudged +
                         ": nothing of that could be judged";
    }
  }
  if (verdict.kind == VerdictKind::pass && !request.exact) {
    try_sentinels(c, model, expectation, request, verdict);
  }
  return verdict;
}

void add_properties(const PropertyReport& report, Verdict& verdict) {
  verdict.properties = report.findings;
  verdict.notes.insert(verdict.notes.end(), report.notes.begin(), report.notes.end());
  if (report.broken) {
    verdict.kind = kind_of(report.broken->status);
    verdict.sentence = "in a further call (" + report.broken_in + "): " + report.broken->detail;
    return;
  }
  if (report.findings.empty()) return;
  const PropertyFinding& f = report.findings[0];
  const std::string what = f.property + " is broken: " + f.tensor + " " + f.detail;
  if (verdict.kind == VerdictKind::pass || verdict.kind == VerdictKind::weak_test) {
    verdict.kind = VerdictKind::inconsistent;
    verdict.sentence = what;
  } else if (verdict.kind == VerdictKind::nondeterministic) {
    return;  // two calls that disagree break every property
  } else if (verdict.cause.empty() && verdict.structures.empty()) {
    verdict.cause = what;
  } else if (verdict.cause.empty()) {
    const StructureFinding& s = verdict.structures[0];
    verdict.cause = fmt::format("none that is known; errors of {} stand out at {} = {}", s.tensor,
                                s.axis, s.index);
  }
}

}  // namespace assay
