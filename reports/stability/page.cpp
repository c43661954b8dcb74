// The stability report as page, JSON and tables.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/stability/stability.hpp"

namespace assay::reports {
namespace {

using namespace render;

constexpr std::size_t kMostLines = 6;  // as many as there are colours

/// Units by leading exponent, largest first.
std::vector<const UnitStability*> ranked(const std::vector<UnitStability>& units) {
  std::vector<const UnitStability*> order;
  for (const UnitStability& u : units) order.push_back(&u);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->exponents.value.front() > b->exponents.value.front();
  });
  return order;
}

bool grows(const UnitStability& u) {
  const double band = u.exponents.half_width.front();
  return u.exponents.value.front() - (std::isnan(band) ? 0 : band) > 0;
}

bool decays(const UnitStability& u) {
  const double band = u.exponents.half_width.front();
  return u.exponents.value.front() + (std::isnan(band) ? 0 : band) <= 0;
}

std::string exponent_text(const UnitStability& u) {
  const double band = u.exponents.half_width.front();
  return std::isnan(band) ? fmt::format("{:+.5f}", u.exponents.value.front())
                          : fmt::format("{:+.5f} ± {:.5f}", u.exponents.value.front(), band);
}

Panel norms(const std::vector<const UnitStability*>& order, NormSeries UnitStability::*which,
            const std::string& title, const std::string& label) {
  Panel panel;
  panel.title = title;
  panel.x.label = "t [steps]";
  panel.y.label = label;
  for (std::size_t n = 0; n < std::min(order.size(), kMostLines); ++n) {
    Series line;
    line.name = order[n]->name;
    line.x = (order[n]->*which).t;
    line.y = (order[n]->*which).log10_norm;
    if (!line.x.empty() && line.x.front() > line.x.back()) {
      std::reverse(line.x.begin(), line.x.end());
      std::reverse(line.y.begin(), line.y.end());
    }
    thin_out(line.x, line.y, 800);
    panel.series.push_back(std::move(line));
  }
  return panel;
}

Figure products(const std::vector<const UnitStability*>& order) {
  Figure figure;
  figure.id = "products";
  figure.title = "Norm of the products of steps";
  figure.caption =
      "Left: log10 |A_t ... A_1|₂, what a perturbation of the first state has become. Right: "
      "log10 |(A_T ... A_{t+1})ᵀ|₂, what a cotangent of the last state has become on its way back "
      "to t. Both meet in the whole product.";
  if (order.size() > kMostLines) {
    figure.caption +=
        fmt::format(" The {} units with the largest exponents of {}.", kMostLines, order.size());
  }
  figure.panels = {norms(order, &UnitStability::forward, "forward", "log10 |A_t ... A_1|₂ [1]"),
                   norms(order, &UnitStability::backward, "backward (adjoint)",
                         "log10 |(A_T ... A_{t+1})ᵀ|₂ [1]")};
  figure.panel_height = 420;
  return figure;
}

Figure exponents(const std::vector<const UnitStability*>& order) {
  Figure figure;
  figure.id = "exponents";
  figure.title = "Finite-time Lyapunov exponents";
  figure.caption =
      "Mean logarithmic growth per step along the orthogonal directions that the products prefer, "
      "largest first, with 95 % bands from the spread of stretches of equal length. Above 0: "
      "grows for as long as such steps come.";
  Panel panel;
  panel.x.label = "direction [number]";
  panel.y.label = "exponent [1/step]";
  for (std::size_t n = 0; n < std::min(order.size(), kMostLines); ++n) {
    const Exponents& e = order[n]->exponents;
    Series band, line;
    band.kind = Series::Kind::band;
    line.name = order[n]->name;
    band.colour = line.colour = static_cast<int>(n);
    for (std::size_t i = 0; i < e.value.size(); ++i) {
      const double half = std::isnan(e.half_width[i]) ? 0 : e.half_width[i];
      const bool shown = std::isfinite(e.value[i]);
      line.x.push_back(static_cast<double>(i + 1));
      line.y.push_back(shown ? e.value[i] : std::nan(""));
      if (!shown) continue;
      band.x.push_back(static_cast<double>(i + 1));
      band.y.push_back(e.value[i] - half);
      band.y2.push_back(e.value[i] + half);
    }
    panel.series.push_back(band);
    panel.series.push_back(line);
  }
  figure.panels = {panel};
  figure.panel_width = 760;
  return figure;
}

Figure bounds(const std::vector<const UnitStability*>& order) {
  Figure figure;
  figure.id = "jacobian";
  figure.title = "Bound and cotangents of the state";
  figure.caption =
      "Left: running product of f + (1-f) |W|₂ max(1 - Z²), which no product of Jacobians can "
      "exceed in the Frobenius norm. Right: largest element of the state's cotangent at t, from "
      "the "
      "file's own cotangents, not clipped.";
  Panel left, right;
  left.title = "bound";
  left.x.label = right.x.label = "t [steps]";
  left.y.label = "log10 of the bound [1]";
  right.title = "cotangent";
  right.y.label = "log10 max |C_t| [1]";
  for (std::size_t n = 0; n < std::min(order.size(), kMostLines); ++n) {
    const UnitStability& u = *order[n];
    if (u.jacobian) {
      Series line;
      line.name = u.name;
      line.x = u.jacobian->bound.t;
      line.y = u.jacobian->bound.log10_norm;
      left.series.push_back(line);
    }
    if (u.clip) {
      Series line;
      line.name = u.name;
      line.x = u.clip->largest_element.t;
      line.y = u.clip->largest_element.log10_norm;
      std::reverse(line.x.begin(), line.x.end());
      std::reverse(line.y.begin(), line.y.end());
      right.series.push_back(line);
    }
  }
  if (!left.series.empty()) figure.panels.push_back(left);
  if (!right.series.empty()) figure.panels.push_back(right);
  return figure;
}

Table summary(const std::vector<UnitStability>& units) {
  Table table;
  table.caption =
      "Growth by unit. Norms are exact up to rounding where all directions are followed.";
  table.columns = {{"unit"},
                   {"steps", true},
                   {"directions", true},
                   {"leading exponent [1/step]", true},
                   {"largest log10 |A_t ... A_1|", true},
                   {"at t", true},
                   {"whole product, log10", true},
                   {"worst window: log10", true},
                   {"length", true},
                   {"from t", true}};
  for (const UnitStability& u : units) {
    const auto worst =
        std::max_element(u.windows.begin(), u.windows.end(),
                         [](const auto& a, const auto& b) { return a.log10_norm < b.log10_norm; });
    const bool any = worst != u.windows.end();
    table.rows.push_back(
        {u.name, fmt::format("{}", u.steps),
         u.exact ? fmt::format("all {}", u.order) : fmt::format("{} of {}", u.directions, u.order),
         Cell(exponent_text(u), grows(u)    ? Tone::bad
                                : decays(u) ? Tone::good
                                            : Tone::warn),
         fmt::format("{}{:.3f}", u.exact ? "" : "≥ ", u.largest_log10),
         fmt::format("{}", u.largest_at), fmt::format("{:.3f}", u.forward.log10_norm.back()),
         any ? fmt::format("≥ {:.3f}", worst->log10_norm) : "-",
         any ? fmt::format("{}", worst->length) : "-",
         any ? fmt::format("{}", worst->start) : "-"});
  }
  return table;
}

Table windows(const std::vector<UnitStability>& units) {
  Table table;
  table.caption = "Largest |A_{t+L-1} ... A_t|₂ by length L among the windows tried, from below.";
  table.columns = {{"unit"},
                   {"L [steps]", true},
                   {"log10 norm", true},
                   {"from t", true},
                   {"windows tried", true}};
  for (const UnitStability& u : units) {
    for (const WorstWindow& w : u.windows) {
      table.rows.push_back({u.name, fmt::format("{}", w.length),
                            fmt::format("{:.4f}", w.log10_norm), fmt::format("{}", w.start),
                            fmt::format("{}", w.tried)});
    }
  }
  return table;
}

Table jacobians(const std::vector<UnitStability>& units) {
  Table table;
  table.caption =
      "f + (1-f) |W|₂ max(1 - Z²) along the trace. |W|₂ <= 1 would exclude growth for all inputs.";
  table.columns = {{"unit"},
                   {"|W|₂", true},
                   {"mean log of the bound [1/step]", true},
                   {"largest", true},
                   {"steps above 1 [%]", true},
                   {"mean leading exponent of the rows [1/step]", true}};
  for (const UnitStability& u : units) {
    if (!u.jacobian) continue;
    table.rows.push_back({u.name, fmt::format("{:.4f}", u.jacobian->norm_w),
                          fmt::format("{:+.5f}", u.jacobian->mean_log),
                          fmt::format("{:.4f}", u.jacobian->largest),
                          fmt::format("{:.1f}", 100.0 * u.jacobian->above_one / u.steps),
                          fmt::format("{:+.5f}", u.mean_leading)});
  }
  return table;
}

Table clips(const std::vector<UnitStability>& units) {
  Table table;
  table.caption =
      "How often a clamp of the state's cotangent to [-c, c] would act: share of steps with any "
      "element beyond c, and (in brackets) share of all elements. Cotangents as the file has them, "
      "not clipped.";
  table.columns = {{"unit"}, {"largest |C|", true}};
  for (const UnitStability& u : units) {
    if (!u.clip) continue;
    if (table.rows.empty()) {
      for (const double c : u.clip->threshold)
        table.columns.push_back({fmt::format("c = {:g}", c), true});
    }
    std::vector<Cell> row = {u.name, fmt::format("{:.3e}", u.clip->largest)};
    for (std::size_t i = 0; i < u.clip->threshold.size(); ++i) {
      row.push_back(
          fmt::format("{:.1f} % ({:.1f} %)", 100 * u.clip->steps[i], 100 * u.clip->elements[i]));
    }
    table.rows.push_back(row);
  }
  return table;
}

Json unit_json(const UnitStability& u) {
  Json json = {{"unit", u.name},
               {"steps", u.steps},
               {"order", u.order},
               {"blocks", u.blocks},
               {"directions", u.directions},
               {"norms_exact", u.exact},
               {"largest_log10_norm", json_number(u.largest_log10)},
               {"largest_at", u.largest_at},
               {"whole_product_log10_norm", json_number(u.forward.log10_norm.back())},
               {"adjoint_log10_norm", json_number(u.backward.log10_norm.back())}};
  json["exponents"] = Json::array();
  for (std::size_t i = 0; i < u.exponents.value.size(); ++i) {
    json["exponents"].push_back({{"value", json_number(u.exponents.value[i])},
                                 {"half_width_95", json_number(u.exponents.half_width[i])}});
  }
  json["mean_leading_exponent"] = json_number(u.mean_leading);
  json["windows"] = Json::array();
  for (const WorstWindow& w : u.windows) {
    json["windows"].push_back({{"length", w.length},
                               {"start", w.start},
                               {"log10_norm", json_number(w.log10_norm)},
                               {"tried", w.tried}});
  }
  if (u.jacobian) {
    json["jacobian_bound"] = {{"norm_w", u.jacobian->norm_w},
                              {"mean_log", u.jacobian->mean_log},
                              {"largest", u.jacobian->largest},
                              {"steps_above_one", u.jacobian->above_one}};
  }
  if (u.clip) {
    json["clip"] = {{"threshold", u.clip->threshold},
                    {"share_of_steps", u.clip->steps},
                    {"share_of_elements", u.clip->elements},
                    {"largest", u.clip->largest}};
  }
  return json;
}

void add_tables(const std::vector<UnitStability>& units, Report& report) {
  Csv exponents{"exponents", {"unit", "direction", "exponent", "half_width_95"}, {}};
  Csv norms{"norms", {"unit", "direction", "t", "log10_norm"}, {}};
  Csv windows{"windows", {"unit", "length", "start", "log10_norm", "tried"}, {}};
  for (const UnitStability& u : units) {
    for (std::size_t i = 0; i < u.exponents.value.size(); ++i) {
      exponents.rows.push_back({u.name, std::to_string(i + 1), csv_number(u.exponents.value[i]),
                                csv_number(u.exponents.half_width[i])});
    }
    for (const auto& [name, series] :
         {std::pair{"forward", &u.forward}, {"backward", &u.backward}}) {
      for (std::size_t i = 0; i < series->t.size(); ++i) {
        norms.rows.push_back(
            {u.name, name, csv_number(series->t[i]), csv_number(series->log10_norm[i])});
      }
    }
    for (const WorstWindow& w : u.windows) {
      windows.rows.push_back({u.name, std::to_string(w.length), std::to_string(w.start),
                              csv_number(w.log10_norm), std::to_string(w.tried)});
    }
    report.json["units"].push_back(unit_json(u));
  }
  report.tables = {exponents, norms, windows};
}

}  // namespace

Report stability_report(const Trace& trace, const std::vector<UnitStability>& units) {
  Report report;
  report.name = "stability";
  report.page.title = "Stability of products of steps of " + trace.op();
  report.page.subtitle = trace.path();
  report.json["op"] = trace.op();
  report.json["notes"] = trace.notes();
  report.json["units"] = Json::array();
  const auto order = ranked(units);
  const auto growing = std::count_if(units.begin(), units.end(), grows);
  const auto decaying = std::count_if(units.begin(), units.end(), decays);
  const bool all_decay = decaying == static_cast<std::ptrdiff_t>(units.size());
  Headline& v = report.page.verdict;
  v.tone = growing > 0 ? Tone::bad : all_decay ? Tone::good : Tone::warn;
  v.word = growing > 0 ? "GROWS" : all_decay ? "DOES NOT GROW" : "UNDECIDED";
  report.outcome = growing > 0 ? Outcome::finding : all_decay ? Outcome::well : Outcome::undecided;
  const auto most = std::max_element(units.begin(), units.end(), [](const auto& a, const auto& b) {
    return a.largest_log10 < b.largest_log10;
  });
  v.sentence = fmt::format(
      "{} of {} units have products that grow beyond doubt, {} do not grow; the largest leading "
      "exponent is {} per step ({}), the largest |A_t ... A_1|₂ 10^{:.2f} at t = {} ({}). This is "
      "what happened on this trace, not what the gates allow.",
      growing, units.size(), decaying, exponent_text(*order.front()), order.front()->name,
      most->largest_log10, most->largest_at, most->name);
  Notes notes{trace.notes()};
  if (trace.op() != trace.unit_op()) {
    notes.lines.push_back("Each memory is an own " + trace.unit_op() +
                          " over the tokens that are sent to it; in between it stands still.");
  }
  double differ = 0;
  bool compare = true;
  for (const UnitStability& u : units) {
    compare = compare && u.exact;
    const double gap = std::abs(u.forward.log10_norm.back() - u.backward.log10_norm.back());
    if (!(gap <= differ)) differ = gap;
  }
  if (compare) {
    notes.lines.push_back(fmt::format(
        "Forward and backward passes share no product, yet must end at the same norm: their log10 "
        "differ by at most {:.1e}.",
        differ));
  } else {
    notes.lines.push_back(
        "Some units are followed in a few directions only: their norms are lower bounds.");
  }
  report.page.sections = {
      {"What was found", {summary(units), notes}},
      {"Products along the trace",
       {products(order), exponents(order), Details{"Worst windows by length", {windows(units)}}}}};
  const bool bounded =
      std::any_of(units.begin(), units.end(), [](const auto& u) { return u.jacobian || u.clip; });
  if (bounded) {
    Section section{"Bound of the Jacobian, and clipping", {}};
    const Table j = jacobians(units), c = clips(units);
    if (!j.rows.empty()) section.blocks.push_back(j);
    section.blocks.push_back(bounds(order));
    if (!c.rows.empty()) section.blocks.push_back(c);
    report.page.sections.push_back(section);
  }
  add_tables(units, report);
  return report;
}

}  // namespace assay::reports
