#include "checks/output/verdict_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace assay {
namespace {

std::string number(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  return fmt::format("{:.3g}", x);
}

/// What the rules of other suites say of the same output.
std::string other_rules(const Verdict& verdict) {
  std::int64_t violations = 0;
  double ratio = 0;
  for (const TensorVerdict& t : verdict.tensors) {
    violations += t.stats.allclose_violations;
    ratio = std::max(ratio, std::isnan(t.stats.rms_ratio) ? 1e300 : t.stats.rms_ratio);
  }
  return fmt::format("allclose(1e-2) would {}; an RMS ratio of 0.005 would {} ({})",
                     violations == 0 ? "pass" : fmt::format("fail at {} elements", violations),
                     ratio <= 0.005 ? "pass" : "fail", number(ratio));
}

/// Why some tensors have no hard bound: "no hard bound: the chunk form ... (o, d_q, ...)".
std::string missing_bounds(const Verdict& v) {
  std::map<std::string, std::string> names;
  for (const TensorVerdict& t : v.tensors) {
    if (t.no_hard_bound.empty()) continue;
    std::string& list = names[t.no_hard_bound];
    list += (list.empty() ? "" : ", ") + t.name;
  }
  std::string text;
  for (const auto& [why, list] : names) {
    text += fmt::format("  no hard bound: {} ({})\n", why, list);
  }
  return text;
}

}  // namespace

std::string verdict_text(const Verdict& v) {
  std::string text = fmt::format("{}  {}\n", verdict_name(v.kind), v.case_line);
  if (!v.sentence.empty()) text += "  " + v.sentence + "\n";
  if (!v.cause.empty()) text += "  probable cause: " + v.cause + "\n";
  if (!v.tensors.empty()) {
    text += fmt::format("  {:<16} {:>9} {:>9} {:>9} {:>9} {:>10} {:>8}  {}\n", "tensor", "max |z|",
                        "rms z", "hard", "max error", "RMS ratio", "SNR dB", "worst at");
  }
  for (const TensorVerdict& t : v.tensors) {
    text += fmt::format(
        "  {:<16} {:>9} {:>9} {:>9} {:>9} {:>10} {:>8}  {}{}\n", t.name, number(t.stats.max_z),
        number(t.stats.rms_z), t.stats.hard_worst < 0 ? "-" : number(t.stats.hard_ratio),
        number(t.stats.max_error), number(t.stats.rms_ratio), number(t.stats.snr_db), t.where,
        t.stats.accepted() ? "" : "  <-- rejected");
  }
  text += missing_bounds(v);
  for (std::size_t i = 0; i < std::min<std::size_t>(v.filters.size(), 3); ++i) {
    const FilterResult& f = v.filters[i];
    text += fmt::format("  filter    {}: coefficient {:.3g} ± {:.1g}, explains {:.1f} %\n", f.id,
                        f.coefficient, f.uncertainty(), 100 * std::min(1.0, f.explained));
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(v.structures.size(), 3); ++i) {
    const StructureFinding& s = v.structures[i];
    text += fmt::format("  structure {}: {} of z at {} = {} stands out by {} standard errors\n",
                        s.tensor, s.statistic, s.axis, s.index, number(s.significance));
  }
  for (const HygieneFinding& h : v.hygiene) {
    text += fmt::format("  hygiene   {}: {} {}\n", h.kind, h.tensor, h.detail);
  }
  for (const PropertyFinding& p : v.properties) {
    text += fmt::format("  property  {}: {} {}\n", p.property, p.tensor, p.detail);
  }
  for (const std::string& note : v.notes) text += "  note: " + note + "\n";
  if (v.fitted_unit > 0) {
    text += fmt::format(
        "  fitted precision: errors like those of a unit roundoff of 2^{:.1f}, {} declared\n",
        std::log2(v.fitted_unit), v.declared_unit);
  }
  if (is_finding(v.kind) && !v.tensors.empty()) text += "  " + other_rules(v) + "\n";
  if (!v.replay.empty()) text += "  replay: " + v.replay + "\n";
  return text;
}

std::string check_text(const CheckReport& report) {
  std::string text;
  std::map<VerdictKind, int> counts;
  const Verdict* worst = nullptr;
  for (const Verdict& v : report.verdicts) {
    ++counts[v.kind];
    double z = 0;
    for (const TensorVerdict& t : v.tensors) z = std::max(z, t.stats.max_z);
    text += fmt::format("{:<16} max z {:>8}  {}\n", verdict_name(v.kind), number(z),
                        v.case_line + (says_nothing(v.kind) ? ": " + v.sentence : ""));
    if (is_finding(v.kind) && !worst) worst = &v;
  }
  if (worst) text += "\n" + verdict_text(*worst);
  text += fmt::format("\n{} under {}: {} case(s) in {:.1f} s:", report.candidate, report.model.name,
                      report.verdicts.size(), report.seconds);
  for (const auto& [kind, count] : counts) text += fmt::format(" {} {}", count, verdict_name(kind));
  text += "\n";
  const auto forward_only = std::count_if(report.verdicts.begin(), report.verdicts.end(),
                                          [](const Verdict& v) { return !v.gradients_judged; });
  if (forward_only > 0) {
    text += fmt::format(
        "gradients were NOT judged in {} case(s): none were asked for or computed\n", forward_only);
  }
  if (report.model_inferred) text += "the precision model was inferred; give --model to set it\n";
  for (const std::string& line : report.skipped) text += "not run: " + line + "\n";
  return text;
}

}  // namespace assay
