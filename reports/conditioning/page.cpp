// The conditioning report as page, JSON and tables.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/conditioning/conditioning.hpp"

namespace assay::reports {
namespace {

using namespace render;

constexpr std::size_t kMostLines = 6;
constexpr double kBadError = 1e-2;     // of the largest coefficient: the chunk's output is wrong
constexpr double kBadCondition = 1e5;  // fp32 keeps two digits

std::string error_text(const CoefficientError& e) {
  if (e.non_finite > 0) return fmt::format("{} not finite", e.non_finite);
  return fmt::format("{:.1e}", e.scaled);
}

Tone error_tone(const CoefficientError& e) {
  return e.non_finite > 0 || !(e.scaled <= kBadError) ? Tone::bad : Tone::neutral;
}

Table errors(const std::vector<UnitConditioning>& units) {
  Table table;
  table.caption =
      "Largest error of a coefficient γ_ij, relative to the largest of its chunk, when it is "
      "computed in that format from gates rounded to it; digits lost: log10 of that over the "
      "format's unit roundoff.";
  table.columns = {{"unit"}, {"C", true}, {"form"}};
  for (const char* format : kFormatNames) {
    table.columns.push_back({format, true});
    table.columns.push_back({"digits lost", true});
  }
  for (const UnitConditioning& u : units) {
    for (const LengthConditioning& l : u.lengths) {
      for (std::size_t form = 0; form < 3; ++form) {
        std::vector<Cell> row = {u.name, fmt::format("{}", l.C), kFormNames[form]};
        for (std::size_t format = 0; format < 3; ++format) {
          const CoefficientError& e = l.error[form][format];
          const double unit_error = unit_roundoff(kFormats[format]);
          row.emplace_back(error_text(e), error_tone(e));
          row.emplace_back(
              e.non_finite > 0
                  ? "all"
                  : fmt::format("{:.1f}", std::log10(std::max(1.0, e.scaled / unit_error))));
        }
        table.rows.push_back(row);
      }
    }
  }
  return table;
}

Table ranges(const std::vector<UnitConditioning>& units) {
  Table table;
  table.caption =
      "Dynamic range and condition. Largest factor: what direct products meet on the way (fp32, "
      "bf16 overflow at "
      "10^38.5, fp16 at 10^4.8). Largest exponent: exp of it overflows fp32 above 88.72. Cancelled "
      "digits: in 1 - exp(ℓ_{j-1} - "
      "ℓ_i) of the log form. Condition: |L|₂ |L⁻¹|₂ of L = I + (P K̂ᵀ) ∘ Γ⁻; its logarithm is how "
      "many "
      "digits the solve can lose.";
  table.columns = {{"unit"},
                   {"C", true},
                   {"chunks", true},
                   {"γ from", true},
                   {"to", true},
                   {"largest factor [log10]", true},
                   {"largest exponent", true},
                   {"cancelled digits", true},
                   {"|L⁻¹|₂", true},
                   {"condition", true},
                   {"digits lost", true},
                   {"chunk at t", true}};
  for (const UnitConditioning& u : units) {
    for (const LengthConditioning& l : u.lengths) {
      const ChunkRange& w = l.worst;
      table.rows.push_back(
          {u.name, fmt::format("{}", l.C), fmt::format("{}", l.chunks),
           fmt::format("{:.1e}", w.smallest), fmt::format("{:.3g}", w.largest),
           fmt::format("{:.1f}", w.largest_factor), fmt::format("{:.1f}", w.largest_exponent),
           fmt::format("{:.1f}", w.cancelled_digits), fmt::format("{:.3g}", w.inverse_norm),
           Cell(fmt::format("{:.3g}", w.condition),
                w.condition > kBadCondition ? Tone::bad : Tone::neutral),
           fmt::format("{:.1f}", std::log10(w.condition)), fmt::format("{}", l.condition_at)});
    }
  }
  return table;
}

Figure along(const std::vector<UnitConditioning>& units) {
  Figure figure;
  figure.id = "chunks";
  figure.title = "Chunk by chunk, C = 64";
  figure.caption =
      "Left: condition number of I + (P K̂ᵀ) ∘ Γ⁻. Right: largest fp32 error of a coefficient "
      "relative to the largest of its chunk, solid by the log domain, dashed by the recursion "
      "(floor 1e-9; a gap: not finite).";
  Panel left, right;
  left.title = "condition of the triangular system";
  left.x.label = right.x.label = "first step of the chunk [steps]";
  left.y = {"condition number [1]", true};
  right.title = "error of the coefficients in fp32";
  right.y = {"error / largest γ [1]", true};
  for (std::size_t n = 0; n < std::min(units.size(), kMostLines); ++n) {
    const UnitConditioning& u = units[n];
    Series condition, log_form, recursion;
    condition.name = u.name;
    log_form.name = u.name + ", log";
    recursion.name = u.name + ", recursion";
    condition.colour = log_form.colour = recursion.colour = static_cast<int>(n);
    recursion.dashed = true;
    condition.x = log_form.x = recursion.x = u.at;
    condition.y = u.condition;
    log_form.y = u.log_error;
    recursion.y = u.recursion_error;
    left.series.push_back(condition);
    right.series.push_back(log_form);
    right.series.push_back(recursion);
  }
  figure.panels = {left, right};
  figure.panel_height = 430;
  return figure;
}

Figure maps() {
  Figure figure;
  figure.id = "map";
  figure.title = "Where the published coefficients fail: constant gates, β = 1 - α, C = 64, fp32";
  figure.caption =
      "Largest error of a coefficient relative to the largest of the chunk. Left: the published "
      "log "
      "domain; it cancels where μ decays faster than α. Right: the recursion without subtraction. "
      "Empty cells: not finite.";
  for (const CoefficientForm form : {CoefficientForm::log, CoefficientForm::recursion}) {
    Panel panel;
    panel.title = kFormNames[static_cast<std::size_t>(form)];
    panel.x.label = "α [1]";
    panel.y.label = "μ [1]";
    HeatMap heat{error_map(form, 60), "error / largest γ [1]", true, 1e-8, 1.0};
    panel.heat = std::move(heat);
    figure.panels.push_back(std::move(panel));
  }
  return figure;
}

Json unit_json(const UnitConditioning& u) {
  Json lengths = Json::array();
  for (const LengthConditioning& l : u.lengths) {
    Json one = {{"C", l.C},
                {"chunks", l.chunks},
                {"smallest_coefficient", json_number(l.worst.smallest)},
                {"largest_coefficient", l.worst.largest},
                {"largest_factor_log10", json_number(l.worst.largest_factor)},
                {"largest_exponent", json_number(l.worst.largest_exponent)},
                {"cancelled_digits", l.worst.cancelled_digits},
                {"inverse_norm", json_number(l.worst.inverse_norm)},
                {"condition", json_number(l.worst.condition)},
                {"condition_at", l.condition_at}};
    for (std::size_t form = 0; form < 3; ++form) {
      for (std::size_t format = 0; format < 3; ++format) {
        const CoefficientError& e = l.error[form][format];
        one["error"][kFormNames[form]][kFormatNames[format]] = {
            {"relative", json_number(e.relative)},
            {"scaled", json_number(e.scaled)},
            {"non_finite", e.non_finite}};
      }
    }
    lengths.push_back(one);
  }
  return {{"unit", u.name}, {"lengths", lengths}};
}

void add_tables(const std::vector<UnitConditioning>& units, Report& report) {
  Csv errors{"errors", {"unit", "C", "form", "format", "relative", "scaled", "non_finite"}, {}};
  Csv ranges{"ranges",
             {"unit", "C", "chunks", "smallest", "largest", "largest_factor_log10",
              "largest_exponent", "cancelled_digits", "inverse_norm", "condition"},
             {}};
  Csv chunks{"chunks", {"unit", "start", "condition", "log_error", "recursion_error"}, {}};
  for (const UnitConditioning& u : units) {
    for (const LengthConditioning& l : u.lengths) {
      const ChunkRange& w = l.worst;
      ranges.rows.push_back(
          {u.name, std::to_string(l.C), std::to_string(l.chunks), csv_number(w.smallest),
           csv_number(w.largest), csv_number(w.largest_factor), csv_number(w.largest_exponent),
           csv_number(w.cancelled_digits), csv_number(w.inverse_norm), csv_number(w.condition)});
      for (std::size_t form = 0; form < 3; ++form) {
        for (std::size_t format = 0; format < 3; ++format) {
          const CoefficientError& e = l.error[form][format];
          errors.rows.push_back({u.name, std::to_string(l.C), kFormNames[form],
                                 kFormatNames[format], csv_number(e.relative), csv_number(e.scaled),
                                 std::to_string(e.non_finite)});
        }
      }
    }
    for (std::size_t i = 0; i < u.at.size(); ++i) {
      chunks.rows.push_back({u.name, csv_number(u.at[i]), csv_number(u.condition[i]),
                             csv_number(u.log_error[i]), csv_number(u.recursion_error[i])});
    }
    report.json["units"].push_back(unit_json(u));
  }
  report.tables = {errors, ranges, chunks};
}

}  // namespace

Report conditioning_report(const std::string& title, const std::string& subtitle,
                           const std::vector<UnitConditioning>& units,
                           std::vector<std::string> notes, bool delta) {
  Report report;
  report.name = "conditioning";
  report.page.title = title;
  report.page.subtitle = subtitle;
  report.json["notes"] = notes;
  report.json["units"] = Json::array();
  double condition = 0, worst_log = 0, worst_recursion = 0;
  std::int64_t broken = 0;
  for (const UnitConditioning& u : units) {
    for (const LengthConditioning& l : u.lengths) {
      if (l.C > 64) continue;  // longer than what kernels use
      condition = std::max(condition, l.worst.condition);
      worst_log = std::max(worst_log, l.error[1][0].scaled);
      broken += l.error[1][0].non_finite;
      worst_recursion = std::max(worst_recursion, l.error[2][0].scaled);
    }
  }
  const bool log_fails = broken > 0 || !(worst_log <= kBadError);
  const bool ill = !(condition <= kBadCondition);
  Headline& v = report.page.verdict;
  v.tone = log_fails || ill ? Tone::bad : Tone::good;
  v.word = ill ? "ILL CONDITIONED" : log_fails ? "LOG DOMAIN FAILS" : "WELL CONDITIONED";
  report.outcome = log_fails || ill ? Outcome::finding : Outcome::well;
  v.sentence = fmt::format(
      "Chunks up to 64 steps in fp32: coefficients by the log domain are off by up to {:.1e} of "
      "the "
      "largest{}, by the recursion by {:.1e}; the triangular system has condition numbers up to "
      "{:.3g}.",
      worst_log, broken > 0 ? fmt::format(" and {} are not finite", broken) : "", worst_recursion,
      condition);
  report.page.sections = {{"What was found", {ranges(units), Notes{notes}}},
                          {"Digits lost by form and format", {along(units), errors(units)}}};
  if (!delta) report.page.sections.push_back({"Over all constant gates", {maps()}});
  add_tables(units, report);
  return report;
}

}  // namespace assay::reports
