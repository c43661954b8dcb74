// The spectrum report as page, JSON and tables.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/spectrum/spectrum.hpp"

namespace assay::reports {
namespace {

using namespace render;

constexpr std::size_t kMostPanels = 8;  // units shown one by one; the tables have all

std::string percent(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? "-" : fmt::format("{:.1f} %", 100.0 * part / whole);
}

std::string growth_text(const NonNormal& n) {
  return fmt::format("{}{:.4g}", n.growth_complete ? "" : "≥ ", n.growth);
}

Panel plane(const UnitSpectrum& unit, bool steps) {
  Panel panel;
  panel.title = unit.name;
  panel.x = {"Re λ [1]", false, -1.15, 1.15};
  panel.y = {"Im λ [1]", false, -1.15, 1.15};
  for (const double value : unit.across) {
    if (std::abs(value) * 1.1 > *panel.x.hi) {
      panel.x = {"Re λ [1]", false, -std::abs(value) * 1.1, std::abs(value) * 1.1};
    }
  }
  for (std::size_t i = 0; i < unit.re.size(); ++i) {  // nothing may be cut off
    const double reach = std::max(std::abs(unit.re[i]), std::abs(unit.im[i])) * 1.1;
    if (reach > *panel.x.hi) panel.x = {"Re λ [1]", false, -reach, reach};
    if (reach > *panel.y.hi) panel.y = {"Im λ [1]", false, -reach, reach};
  }
  panel.unit_circle = true;
  panel.square = true;
  Series points;
  points.kind = Series::Kind::points;
  points.x = unit.re;
  points.y = unit.im;
  points.size = 0.3;
  points.name = unit.across.empty() ? "" : "along the key";
  if (steps && unit.re.size() <= 600) {
    for (const std::int64_t at : unit.at) points.tips.push_back(fmt::format("step {}", at));
  }
  if (!unit.across.empty()) {
    Series across;
    across.kind = Series::Kind::points;
    across.name = "across the key";
    across.x = unit.across;
    across.y.assign(unit.across.size(), 0.0);
    across.size = 0.3;
    across.colour = 1;
    panel.series.push_back(std::move(across));
  }
  points.colour = 0;
  panel.series.push_back(std::move(points));
  return panel;
}

Figure planes(const std::vector<UnitSpectrum>& units, bool steps, const std::string& caption) {
  Figure figure;
  figure.id = "eigenvalues";
  figure.title = "Frozen eigenvalues in the complex plane";
  figure.caption = caption;
  figure.panel_width = 360;
  figure.panel_height = 380;
  for (std::size_t n = 0; n < std::min(units.size(), kMostPanels); ++n) {
    figure.panels.push_back(plane(units[n], steps));
  }
  return figure;
}

Panel histogram(const std::vector<UnitSpectrum>& units, const Histogram UnitSpectrum::*which,
                const std::string& title, const std::string& label) {
  Panel panel;
  panel.title = title;
  panel.x.label = label;
  panel.y.label = "share of the eigenvalues [%]";
  panel.y.lo = 0;
  for (std::size_t n = 0; n < std::min(units.size(), kMostPanels); ++n) {
    const Histogram& h = units[n].*which;
    std::int64_t sum = 0;
    for (const std::int64_t count : h.counts) sum += count;
    Series bars;
    // Many filled histograms on one another cannot be told apart.
    bars.kind = units.size() <= 2 ? Series::Kind::bars : Series::Kind::line;
    bars.name = units[n].name;
    bars.width = units.size() <= 2 ? h.bin_width() : 0;
    for (std::size_t i = 0; i < h.counts.size(); ++i) {
      bars.x.push_back(h.centre(i));
      bars.y.push_back(sum == 0 ? 0 : 100.0 * h.counts[i] / sum);
    }
    panel.series.push_back(std::move(bars));
  }
  return panel;
}

Figure histograms(const std::vector<UnitSpectrum>& units) {
  Figure figure;
  figure.id = "histograms";
  figure.title = "Modulus and phase";
  figure.caption =
      "Distribution of the eigenvalues along the key (of dense transitions: the two largest) over "
      "the steps. Modulus 1 keeps for ever, above it grows; phase 0 decays without, phase π with "
      "a change of sign at every step. The last bin holds what is larger.";
  figure.panels = {histogram(units, &UnitSpectrum::modulus, "modulus", "|λ| [1]"),
                   histogram(units, &UnitSpectrum::phase, "phase", "|arg λ| [π]")};
  return figure;
}

const UnitSpectrum& most_growing(const std::vector<UnitSpectrum>& units) {
  const auto growth = [](const UnitSpectrum& unit) {
    double most = 0;
    for (const SampledStep& s : unit.samples) most = std::max(most, s.non_normal.growth);
    return most;
  };
  return *std::max_element(units.begin(), units.end(),
                           [&](const auto& a, const auto& b) { return growth(a) < growth(b); });
}

Figure pseudospectra(const UnitSpectrum& unit, bool dense) {
  Figure figure;
  figure.id = "pseudospectra";
  figure.title = "Pseudospectra and powers of the sampled step with the largest transient growth";
  figure.caption = fmt::format(
      "{}, step {}. Left: lines |(zI - A)⁻¹|₂ = 1/ε enclose every eigenvalue of A + E with "
      "|E|₂ <= ε; lines that leave the unit circle by more than ε mean growth. The dashed line is "
      "the numerical range. Right: |Aⁿ|₂, what n steps with these frozen gates can amplify.",
      unit.name, unit.worst_at);
  const double reach = std::max(1.3, 1.3 * unit.largest_radius);
  Panel left;
  left.title = "ε-pseudospectra";
  left.x = {"Re z [1]", false, -reach, reach};
  left.y = {"Im z [1]", false, -reach, reach};
  left.unit_circle = left.square = true;
  left.contours = Contours{pseudospectrum(unit.worst, reach, dense ? 25 : 121),
                           {1e-2, 3e-2, 0.1, 0.3},
                           {"ε = 0.01", "ε = 0.03", "ε = 0.1", "ε = 0.3"}};
  Series range;
  range.name = "numerical range";
  range.dashed = true;
  range.colour = 4;
  for (const auto& z : numerical_range(unit.worst, dense ? 60 : 180)) {
    range.x.push_back(z.real());
    range.y.push_back(z.imag());
  }
  left.series.push_back(range);
  Panel right;
  right.title = "powers";
  right.x.label = "n [steps]";
  right.y = {"|Aⁿ|₂ [1]", true};
  Series powers;
  powers.y = power_norms(unit.worst, 100);
  for (std::size_t n = 0; n < powers.y.size(); ++n) {
    powers.x.push_back(static_cast<double>(n));
    powers.y[n] = std::max(powers.y[n], 1e-12);
  }
  right.series.push_back(powers);
  figure.panels = {left, right};
  return figure;
}

Table summary(const std::vector<UnitSpectrum>& units, const std::string& what) {
  Table table;
  table.caption =
      "Over all analysed " + what +
      ". Jury margin: smallest of 1 - det, 1 ± trace + det of the 2x2 blocks (1 - |λ| for others); "
      "above 0 exactly when all eigenvalues lie inside the unit circle.";
  table.columns = {{"unit"},
                   {what, true},
                   {"largest |λ|", true},
                   {"smallest Jury margin", true},
                   {"outside", true},
                   {"complex pairs", true},
                   {"Re λ < 0", true},
                   {"largest |A|₂", true}};
  for (const UnitSpectrum& u : units) {
    table.rows.push_back(
        {u.name, fmt::format("{}", u.analysed),
         Cell(fmt::format("{:.6f}", u.largest_radius),
              u.outside_steps > 0 ? Tone::bad : Tone::neutral),
         fmt::format("{:.3g}", u.smallest_jury), percent(u.outside_steps, u.analysed),
         percent(u.complex_steps, u.analysed), percent(u.negative_steps, u.analysed),
         fmt::format("{:.4f}", u.largest_norm)});
  }
  return table;
}

Table sampled(const std::vector<UnitSpectrum>& units) {
  Table table;
  table.caption =
      "Some steps in full; the first of each unit has its largest spectral radius. Kreiss: "
      "sup over |z| > 1 of (|z| - 1) |(zI - A)⁻¹|₂, a lower bound by search.";
  table.columns = {{"unit"},
                   {"step", true},
                   {"|λ|max", true},
                   {"|A|₂", true},
                   {"numerical radius", true},
                   {"Kreiss constant", true},
                   {"sup |Aⁿ|₂", true},
                   {"at n", true},
                   {"closed form vs dense", true},
                   {"|λ|max enclosed"}};
  for (const UnitSpectrum& u : units) {
    for (const SampledStep& s : u.samples) {
      const NonNormal& n = s.non_normal;
      table.rows.push_back(
          {u.name, fmt::format("{}", s.token), fmt::format("{:.6f}", s.spectrum.radius),
           fmt::format("{:.4f}", n.norm), fmt::format("{:.4f}", n.numerical_radius),
           fmt::format("{:.4g}", n.kreiss), growth_text(n), fmt::format("{}", n.growth_at),
           std::isnan(s.deviation) ? "-" : fmt::format("{:.1e}", s.deviation),
           s.enclosure.empty() ? "-" : s.enclosure});
    }
  }
  // Columns that nobody asked for or that do not apply.
  for (std::size_t column = table.columns.size(); column-- > 0;) {
    if (std::any_of(table.rows.begin(), table.rows.end(),
                    [&](const auto& row) { return row[column].text != "-"; })) {
      continue;
    }
    table.columns.erase(table.columns.begin() + static_cast<std::ptrdiff_t>(column));
    for (auto& row : table.rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
  }
  return table;
}

Json unit_json(const UnitSpectrum& u) {
  Json samples = Json::array();
  for (const SampledStep& s : u.samples) {
    const NonNormal& n = s.non_normal;
    Json one = {{"step", s.token},
                {"spectral_radius", s.spectrum.radius},
                {"norm", n.norm},
                {"numerical_radius", n.numerical_radius},
                {"numerical_abscissa", n.numerical_abscissa},
                {"kreiss", json_number(n.kreiss)},
                {"growth", n.growth},
                {"growth_at", n.growth_at},
                {"growth_complete", n.growth_complete},
                {"deviation_from_dense", json_number(s.deviation)}};
    if (!s.enclosure.empty()) {
      one["enclosed_radius"] = s.enclosure;
      one["certainly_inside"] = s.enclosed_inside;
    }
    samples.push_back(one);
  }
  return {{"unit", u.name},
          {"steps", u.steps},
          {"analysed", u.analysed},
          {"largest_radius", u.largest_radius},
          {"largest_radius_at", u.radius_at},
          {"smallest_jury_margin", u.smallest_jury},
          {"largest_norm", u.largest_norm},
          {"outside_steps", u.outside_steps},
          {"complex_steps", u.complex_steps},
          {"negative_steps", u.negative_steps},
          {"modulus_histogram",
           {{"lo", u.modulus.lo}, {"hi", u.modulus.hi}, {"counts", u.modulus.counts}}},
          {"phase_histogram",
           {{"lo", u.phase.lo}, {"hi", u.phase.hi}, {"unit", "pi"}, {"counts", u.phase.counts}}},
          {"samples", samples}};
}

void add_tables(const std::vector<UnitSpectrum>& units, Report& report) {
  Csv summary{
      "summary",
      {"unit", "steps", "analysed", "largest_radius", "largest_radius_at", "smallest_jury_margin",
       "outside_steps", "complex_steps", "negative_steps", "largest_norm"},
      {}};
  Csv eigenvalues{"eigenvalues", {"unit", "step", "re", "im"}, {}};
  Csv histogram{"histograms", {"unit", "quantity", "bin_centre", "count"}, {}};
  for (const UnitSpectrum& u : units) {
    summary.rows.push_back({u.name, std::to_string(u.steps), std::to_string(u.analysed),
                            csv_number(u.largest_radius), std::to_string(u.radius_at),
                            csv_number(u.smallest_jury), std::to_string(u.outside_steps),
                            std::to_string(u.complex_steps), std::to_string(u.negative_steps),
                            csv_number(u.largest_norm)});
    for (std::size_t i = 0; i < u.re.size(); ++i) {
      eigenvalues.rows.push_back(
          {u.name, std::to_string(u.at[i]), csv_number(u.re[i]), csv_number(u.im[i])});
    }
    for (const auto& [name, h] : {std::pair{"modulus", &u.modulus}, {"phase_over_pi", &u.phase}}) {
      for (std::size_t i = 0; i < h->counts.size(); ++i) {
        histogram.rows.push_back(
            {u.name, name, csv_number(h->centre(i)), std::to_string(h->counts[i])});
      }
    }
  }
  report.tables = {summary, eigenvalues, histogram};
  report.json["units"] = Json::array();
  for (const UnitSpectrum& u : units) report.json["units"].push_back(unit_json(u));
}

void set_verdict(const std::vector<UnitSpectrum>& units, const std::string& what, Report& report) {
  std::int64_t outside = 0, analysed = 0, complex = 0;
  const UnitSpectrum* worst = &units.front();
  for (const UnitSpectrum& u : units) {
    outside += u.outside_steps;
    analysed += u.analysed;
    complex += u.complex_steps;
    if (u.largest_radius > worst->largest_radius) worst = &u;
  }
  Headline& v = report.page.verdict;
  report.outcome = outside > 0 ? Outcome::finding : Outcome::well;
  v.tone = outside > 0 ? Tone::bad : Tone::good;
  v.word = outside > 0 ? "OUTSIDE THE UNIT CIRCLE" : "INSIDE THE UNIT CIRCLE";
  v.sentence = fmt::format(
      "{} of {} {} have an eigenvalue outside the unit circle; the largest modulus is {:.6f} ({}), "
      "{} have complex pairs. Frozen eigenvalues say nothing about products of different steps: "
      "that is `assay report stability`.",
      outside, analysed, what, worst->largest_radius, worst->name, percent(complex, analysed));
}

}  // namespace

Report spectrum_report(const Trace& trace, const std::vector<UnitSpectrum>& units,
                       const SpectrumOptions& options) {
  Report report;
  report.name = "spectrum";
  report.page.title = "Spectrum of the frozen steps of " + trace.op();
  report.page.subtitle = trace.path();
  set_verdict(units, "steps", report);
  FrozenReader reader(trace.unit_schema());
  double deviation = 0;
  bool compared = false;
  for (const UnitSpectrum& u : units) {
    for (const SampledStep& s : u.samples) {
      if (std::isnan(s.deviation)) continue;
      compared = true;
      deviation = std::max(deviation, s.deviation);
    }
  }
  Notes notes{trace.notes()};
  if (trace.op() != trace.unit_op()) {
    notes.lines.push_back("Each memory is an own " + trace.unit_op() +
                          " over the tokens that are sent to it.");
  }
  if (units.size() > kMostPanels) {
    notes.lines.push_back(fmt::format("Pictures show the first {} of {} units, tables all.",
                                      kMostPanels, units.size()));
  }
  std::string how = reader.closed()
                        ? "Eigenvalues by the closed form of the step's 1x1 and 2x2 blocks"
                        : "Eigenvalues by the general eigen-solver from the operation's transition";
  if (compared) {
    how += fmt::format(
        "; at the sampled steps they differ from those of a dense eigen-solver, "
        "matched one by one, by at most {:.1e}",
        deviation);
  }
  notes.lines.push_back(how + ".");
  if (options.enclose > 0 && !trace.is_linear()) {
    notes.lines.push_back("Enclosures are of linear operations only.");
  }
  report.json["op"] = trace.op();
  report.json["notes"] = notes.lines;
  report.page.sections = {
      {"What was found", {summary(units, "steps"), notes}},
      {"Where the eigenvalues lie",
       {planes(units, true,
               "Eigenvalues of the step's map, with the unit circle: along the key (those that the "
               "write changes; of dense transitions the two largest), one or two per step, and "
               "across it, where the state only decays."),
        histograms(units)}},
      {"How far a frozen step can amplify",
       {pseudospectra(most_growing(units), !reader.closed()), sampled(units)}}};
  add_tables(units, report);
  return report;
}

Report box_spectrum_report(const std::vector<GateBox>& boxes,
                           const std::vector<UnitSpectrum>& results) {
  Report report;
  report.name = "spectrum";
  report.page.title = "Spectrum of frozen steps over gate boxes";
  set_verdict(results, "points", report);
  std::string names;
  for (const GateBox& box : boxes) names += (names.empty() ? "" : "; ") + box.text;
  report.page.subtitle = names;
  report.json["boxes"] = Json::array();
  for (const GateBox& box : boxes) report.json["boxes"].push_back(box.text);
  report.page.sections = {
      {"What was found",
       {summary(results, "points"),
        Notes{{"The corners of each box and points that fill it evenly; a sample, not a proof.",
               "Keys have the squared length kappa, 1 unless the box says otherwise."}}}},
      {"Where the eigenvalues lie",
       {planes(results, false,
               "Eigenvalues along and across the key for gates that fill the box, with the unit "
               "circle. Panels in the order of the boxes."),
        histograms(results)}},
      {"How far a frozen step can amplify",
       {pseudospectra(most_growing(results), false), sampled(results)}}};
  add_tables(results, report);
  return report;
}

}  // namespace assay::reports
