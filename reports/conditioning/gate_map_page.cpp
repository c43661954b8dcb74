// The map over constant gates as page, JSON and table.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/conditioning/gate_map.hpp"

namespace assay::reports {
namespace {

using namespace render;

constexpr double kWorthless = 0.1;          // relative error of a result that means nothing
constexpr double kLeast = 1e-8, kMost = 1;  // of the colours

struct Summary {
  double largest = 0, median = 0;
  std::size_t finite = 0, worthless = 0, not_finite = 0;
};

Summary summary(std::vector<double> errors) {
  Summary s;
  const auto end =
      std::partition(errors.begin(), errors.end(), [](double x) { return std::isfinite(x); });
  s.finite = static_cast<std::size_t>(end - errors.begin());
  s.not_finite = errors.size() - s.finite;
  std::sort(errors.begin(), end);
  for (std::size_t i = 0; i < s.finite; ++i) s.worthless += errors[i] > kWorthless;
  if (s.finite > 0) s.largest = errors[s.finite - 1], s.median = errors[s.finite / 2];
  return s;
}

std::string text_of(const Summary& s) {
  if (s.finite == 0) return "not finite anywhere";
  return fmt::format(
      "{:.1e} at most, {:.1e} in the middle{}", s.largest, s.median,
      s.not_finite > 0 ? fmt::format(", not finite at {} points", s.not_finite) : "");
}

Panel panel(const GateMap& map, const std::string& title, const std::vector<double>& errors) {
  Panel panel;
  panel.title = title;
  panel.x.label = "α [1]";
  panel.y.label = "μ [1]";
  for (const double mu : {0.14, 0.2, 0.3, 0.5, 0.7, 1.0}) {
    panel.y.ticks.emplace_back(std::log(mu), fmt::format("{}", mu));
  }
  Grid grid{map.alpha, map.log_mu, errors};
  for (double& x : grid.values) x = std::isfinite(x) ? std::max(x, kLeast) : std::nan("");
  panel.heat = HeatMap{std::move(grid), "relative error of o [1]", true, kLeast, kMost};
  return panel;
}

Figure maps(const GateMap& map) {
  Figure figure;
  figure.id = "gates";
  figure.title = "Relative error of the read-out over constant gates";
  figure.caption = fmt::format(
      "|o - o_true|₂ / |o_true|₂ of mdn, {}, unit keys, β between 0.02 and 1; a cell for each (α, "
      "μ), empty where a result is not finite. Left: {} under {}. Right: the chunk form with the "
      "published coefficients (logarithms and a difference), in fp32 throughout.",
      map.shape, map.candidate, map.model);
  figure.panels = {panel(map, map.candidate + ", " + map.model, map.candidate_error),
                   panel(map, "published formula, fp32", map.published_error)};
  return figure;
}

Table table_of(const GateMap& map) {
  Table table;
  table.caption = "Errors along each row of the map: over all α at one μ.";
  table.columns = {{"μ", true},
                   {"largest error", true},
                   {"in the middle", true},
                   {"published: largest error", true},
                   {"in the middle", true},
                   {"above 0.1", true},
                   {"not finite", true}};
  const std::size_t width = map.alpha.size();
  for (std::size_t row = 0; row < map.log_mu.size(); ++row) {
    const auto part = [&](const std::vector<double>& errors) {
      const auto first = errors.begin() + static_cast<std::ptrdiff_t>(row * width);
      return summary({first, first + static_cast<std::ptrdiff_t>(width)});
    };
    const Summary ours = part(map.candidate_error), published = part(map.published_error);
    const auto number = [](const Summary& s, double x) {
      return s.finite > 0 ? fmt::format("{:.1e}", x) : std::string("none");
    };
    const bool off = ours.not_finite > 0 || !(ours.largest <= map.asked);
    const bool lost = published.not_finite > 0 || published.worthless > 0;
    table.rows.push_back(
        {fmt::format("{:.3f}", std::exp(map.log_mu[row])),
         Cell(number(ours, ours.largest), off ? Tone::bad : Tone::neutral),
         number(ours, ours.median),
         Cell(number(published, published.largest), lost ? Tone::bad : Tone::neutral),
         number(published, published.median), fmt::format("{}", published.worthless),
         fmt::format("{}", published.not_finite)});
  }
  return table;
}

}  // namespace

Report gate_map_report(const GateMap& map) {
  const Summary ours = summary(map.candidate_error), published = summary(map.published_error);
  const bool off = ours.not_finite > 0 || !(ours.largest <= map.asked);
  Report report;
  report.name = "conditioning";
  report.outcome = off ? Outcome::finding : Outcome::well;
  report.page.title = "Accuracy of mdn over its gates";
  report.page.subtitle = map.candidate + " under " + map.model + ", " + map.shape;
  Headline& v = report.page.verdict;
  v.tone = off ? Tone::bad : Tone::good;
  v.word = off ? "INACCURATE" : "ACCURATE";
  v.sentence = fmt::format(
      "Over α in [{:.2g}, {:.2g}] and μ in [{:.3f}, {:.2g}], {} points, o of {} is off by {} "
      "(asked: {:.0e}); by the published coefficients in fp32, {}, and more than {} at {} points.",
      map.alpha.front(), map.alpha.back(), std::exp(map.log_mu.front()),
      std::exp(map.log_mu.back()), map.candidate_error.size(), map.candidate, text_of(ours),
      map.asked, text_of(published), kWorthless, published.worthless);
  report.page.sections = {{"Over all constant gates", {maps(map), table_of(map)}}};
  report.json["map"] = gate_map_json(map);
  Csv errors{"gates", {"alpha", "mu", "candidate_error", "published_formula_fp32_error"}, {}};
  for (std::size_t i = 0; i < map.candidate_error.size(); ++i) {
    errors.rows.push_back({csv_number(map.alpha[i % map.alpha.size()]),
                           csv_number(std::exp(map.log_mu[i / map.alpha.size()])),
                           csv_number(map.candidate_error[i]), csv_number(map.published_error[i])});
  }
  report.tables = {errors};
  return report;
}

}  // namespace assay::reports
