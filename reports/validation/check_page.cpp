#include "reports/validation/check_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "checks/output/verdict_text.hpp"

namespace assay {
namespace {

using render::Cell;
using render::Panel;
using render::Series;
using render::Tone;

constexpr std::int64_t kMostColumns = 96, kMostRows = 48;
constexpr double kZRange = 8;  // of the histogram; what lies beyond is in the last bin

/// A tensor seen as time × everything else of one sequence and head.
struct Plane {
  std::int64_t time = 1, rows = 1;
  std::vector<double> z;  // [time][rows]
  std::string rows_name, fixed;
};

std::string row_name(const std::string& axes) {
  std::string name;
  for (char c : axes) {
    const std::string word = c == 'K' ? "row" : c == 'V' ? "column" : std::string("index ") + c;
    name += (name.empty() ? "" : " × ") + word;
  }
  return name.empty() ? "value" : name;
}

/// The plane that holds the worst element. Axes after the time axis without the heads are the rows.
Plane worst_plane(const TensorVerdict& t, const std::string& axes, const Schema& schema) {
  Plane plane;
  std::int64_t rest = static_cast<std::int64_t>(t.stats.z.size());
  std::int64_t worst = std::max<std::int64_t>(t.stats.worst, 0);
  std::vector<std::int64_t> at(t.shape.size()), stride(t.shape.size());
  for (std::size_t a = 0; a < t.shape.size(); ++a) {
    rest /= t.shape[a];
    stride[a] = rest;
    at[a] = worst / rest % t.shape[a];
  }
  std::vector<std::size_t> row_axes;
  std::size_t time_axis = t.shape.size();
  std::string row_letters;
  for (std::size_t a = 0; a < t.shape.size() && a < axes.size(); ++a) {
    if (axes[a] == 'T') {
      time_axis = a;
      plane.time = t.shape[a];
    } else if (axes[a] == 'B' || axes[a] == schema.head_axis) {
      if (t.shape[a] > 1) {
        plane.fixed += fmt::format("{}{} {}", plane.fixed.empty() ? "" : ", ",
                                   axes[a] == 'B' ? "batch" : "head", at[a]);
      }
    } else {
      row_axes.push_back(a);
      row_letters += axes[a];
      plane.rows *= t.shape[a];
    }
  }
  // Without a time axis (states, parameters) the first of the others takes its place.
  if (time_axis == t.shape.size() && !row_axes.empty()) {
    time_axis = row_axes[0];
    plane.time = t.shape[time_axis];
    plane.rows /= plane.time;
    row_axes.erase(row_axes.begin());
    row_letters.erase(0, 1);
  }
  plane.rows_name = row_name(row_letters);
  plane.z.resize(plane.time * plane.rows);
  for (std::int64_t i = 0; i < plane.time; ++i) {
    for (std::int64_t r = 0; r < plane.rows; ++r) {
      std::int64_t flat = 0, index = r;
      for (std::size_t a = 0; a < t.shape.size(); ++a) flat += at[a] * stride[a];
      if (time_axis < t.shape.size()) flat += (i - at[time_axis]) * stride[time_axis];
      for (std::size_t k = row_axes.size(); k-- > 0;) {
        const std::size_t a = row_axes[k];
        flat += (index % t.shape[a] - at[a]) * stride[a];
        index /= t.shape[a];
      }
      plane.z[i * plane.rows + r] = t.stats.z[flat];
    }
  }
  return plane;
}

std::vector<double> count_up(std::int64_t n, double step) {
  std::vector<double> x;
  for (std::int64_t i = 0; i < n; ++i) x.push_back((static_cast<double>(i) + 0.5) * step - 0.5);
  return x;
}

/// |z|, the largest of the elements that share a cell.
Panel error_map(const Plane& plane, const std::string& time_name) {
  const std::int64_t columns = std::min(plane.time, kMostColumns);
  const std::int64_t rows = std::min(plane.rows, kMostRows);
  render::Grid grid;
  grid.x = count_up(columns, static_cast<double>(plane.time) / static_cast<double>(columns));
  grid.y = count_up(rows, static_cast<double>(plane.rows) / static_cast<double>(rows));
  grid.values.assign(columns * rows, 0);
  for (std::int64_t i = 0; i < plane.time; ++i) {
    for (std::int64_t r = 0; r < plane.rows; ++r) {
      double& cell = grid.values[r * rows / plane.rows * columns + i * columns / plane.time];
      const double z = std::fabs(plane.z[i * plane.rows + r]);
      cell = std::max(cell, std::isfinite(z) ? z : 1e300);
    }
  }
  double most = 0;
  for (double& z : grid.values) most = std::max(most, z);
  Panel panel{"Where", {time_name}, {plane.rows_name}, {}};
  const bool log = most > 100;
  if (log) {
    for (double& z : grid.values) z = std::max(z, 1e-2);
  }
  panel.heat = render::HeatMap{grid, "|z| [σ]", log, {}, {}};
  return panel;
}

Panel histogram(const std::vector<double>& z) {
  constexpr int kBins = 64;
  const double width = 2 * kZRange / kBins;
  std::vector<double> x, density(kBins), curve_x, curve;
  for (int i = 0; i < kBins; ++i) x.push_back(-kZRange + (i + 0.5) * width);
  for (const double value : z) {
    const double clipped = std::clamp(std::isnan(value) ? kZRange : value, -kZRange, kZRange);
    const int bin = std::min(kBins - 1, static_cast<int>((clipped + kZRange) / width));
    density[bin] += 1 / (width * static_cast<double>(z.size()));
  }
  for (double v = -kZRange; v <= kZRange; v += 0.1) {
    curve_x.push_back(v);
    curve.push_back(std::exp(-v * v / 2) / std::sqrt(2 * M_PI));
  }
  Panel panel{
      "How it is distributed", {"z [σ], beyond ±8 in the last bins"}, {"density [1/σ]"}, {}};
  panel.series = {
      {Series::Kind::bars, "candidate", x, density, {}, {}, 0, false, width},
      {Series::Kind::line, "declared arithmetic at its limit", curve_x, curve, {}, {}, 1}};
  return panel;
}

Panel over_time(const Plane& plane, const std::string& time_name) {
  std::vector<double> x, rms, most;
  for (std::int64_t i = 0; i < plane.time; ++i) {
    double sum = 0, largest = 0;
    for (std::int64_t r = 0; r < plane.rows; ++r) {
      const double z = std::min(std::fabs(plane.z[i * plane.rows + r]), 1e150);
      sum += z * z;
      largest = std::max(largest, z);
    }
    x.push_back(static_cast<double>(i));
    rms.push_back(std::sqrt(sum / static_cast<double>(std::max<std::int64_t>(plane.rows, 1))));
    most.push_back(largest);
  }
  const double top = most.empty() ? 0 : *std::max_element(most.begin(), most.end());
  Panel panel{"How it grows", {time_name}, {"|z| [σ]", top > 100}, {}};
  for (auto* y : {&rms, &most}) {
    if (top > 100) {
      for (double& v : *y) v = std::max(v, 1e-2);
    }
  }
  panel.series = {{Series::Kind::line, "largest", x, most, {}, {}, 0},
                  {Series::Kind::line, "rms", x, rms, {}, {}, 1},
                  {Series::Kind::line,
                   "limit of an element",
                   {0, x.empty() ? 1 : x.back()},
                   {kMaxZ, kMaxZ},
                   {},
                   {},
                   2,
                   true}};
  return panel;
}

std::string id_of(const std::string& op) {
  std::string id = "check_";
  for (char c : op) id += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return id;
}

Tone tone_of(VerdictKind kind) {
  if (kind == VerdictKind::pass) return Tone::good;
  return is_finding(kind) ? Tone::bad : Tone::warn;
}

std::string short_number(double x) { return std::isfinite(x) ? fmt::format("{:.3g}", x) : "inf"; }

double largest_z(const Verdict& v) {
  double z = 0;
  for (const TensorVerdict& t : v.tensors) z = std::max(z, t.stats.max_z);
  return z;
}

render::Table case_table(const std::vector<const Verdict*>& verdicts) {
  render::Table table{
      "Cases",
      {{"no.", true}, {"verdict"}, {"largest z [σ]", true}, {"rms z [σ]", true}, {"case"}},
      {}};
  for (const Verdict* v : verdicts) {
    double sum = 0, n = 0;
    for (const TensorVerdict& t : v->tensors) {
      sum += t.stats.rms_z * t.stats.rms_z * static_cast<double>(t.stats.elements);
      n += static_cast<double>(t.stats.elements);
    }
    table.rows.push_back({std::to_string(v->number), Cell(verdict_name(v->kind), tone_of(v->kind)),
                          v->tensors.empty() ? "–" : short_number(largest_z(*v)),
                          n == 0 ? "–" : short_number(std::sqrt(sum / n)), v->case_line});
  }
  return table;
}

}  // namespace

void CheckPictures::add(const Verdict& verdict, const Evidence& evidence) {
  const TensorVerdict* worst = nullptr;
  for (const TensorVerdict& t : verdict.tensors) {
    if (t.stats.elements == 0 || t.stats.z.empty()) continue;
    if (!worst || (worst->stats.accepted() && !t.stats.accepted()) ||
        (worst->stats.accepted() == t.stats.accepted() && t.stats.max_z > worst->stats.max_z)) {
      worst = &t;
    }
  }
  if (!worst || evidence.given.exact) return;
  Picture& picture = pictures_[verdict.op];
  const bool finding = is_finding(verdict.kind);
  const double z = worst->stats.max_z;
  const bool better = picture.z < 0 || (finding && !picture.finding) ||
                      (!finding && !picture.finding && z > picture.z);
  if (!better) return;
  const auto found = evidence.expectation.find(worst->name);
  if (found == evidence.expectation.end()) return;
  const std::string& axes = found->second.axes;
  const Plane plane = worst_plane(*worst, axes, evidence.given.valid.schema);
  const std::string time_name = axes.find('T') != std::string::npos ? "t [steps]" : "index";
  picture.finding = finding;
  picture.z = z;
  render::Figure& f = picture.figure;
  f.id = id_of(verdict.op);
  f.title = verdict.op + ": " + worst->name;
  f.caption = fmt::format(
      "Error of {}{}{} in standard deviations σ of the declared arithmetic, case {}: {}. Left: the "
      "largest |z| of each cell. Middle: all elements of the tensor beside a normal density of "
      "variance 1. Right: over time.",
      worst->name, plane.fixed.empty() ? "" : ", ", plane.fixed, verdict.number, verdict.case_line);
  f.panels = {error_map(plane, time_name), histogram(worst->stats.z), over_time(plane, time_name)};
  f.panel_width = 420;
  f.panel_height = 320;
}

const render::Figure* CheckPictures::of(const std::string& op) const {
  const auto found = pictures_.find(op);
  return found == pictures_.end() ? nullptr : &found->second.figure;
}

std::vector<render::Section> check_sections(const CheckReport& report,
                                            const CheckPictures& pictures) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const Verdict*>> by_op;
  for (const Verdict& v : report.verdicts) {
    if (!by_op.count(v.op)) order.push_back(v.op);
    by_op[v.op].push_back(&v);
  }
  std::vector<render::Section> sections;
  for (const std::string& op : order) {
    render::Section section{op, {}};
    const auto& verdicts = by_op[op];
    const auto finding = std::find_if(verdicts.begin(), verdicts.end(),
                                      [](const Verdict* v) { return is_finding(v->kind); });
    if (finding != verdicts.end()) {
      section.blocks.push_back(render::Code{verdict_text(**finding)});
    }
    if (const render::Figure* figure = pictures.of(op)) section.blocks.push_back(*figure);
    section.blocks.push_back(case_table(verdicts));
    sections.push_back(std::move(section));
  }
  return sections;
}

render::Page check_page(const CheckReport& report, const CheckPictures& pictures,
                        const std::string& command) {
  render::Page page;
  page.title = "Verdict on " + report.candidate;
  page.subtitle = "under the precision model " + report.model.name;
  int findings = 0, passed = 0;
  const Verdict* worst = nullptr;
  for (const Verdict& v : report.verdicts) {
    findings += is_finding(v.kind);
    passed += v.kind == VerdictKind::pass;
    if (is_finding(v.kind) && !worst) worst = &v;
  }
  if (worst) {
    page.verdict = {Tone::bad, verdict_name(worst->kind),
                    fmt::format("{} of {} cases are findings. The first: {}. {}", findings,
                                report.verdicts.size(), worst->case_line, worst->sentence)};
    if (!worst->cause.empty()) page.verdict.sentence += " Probable cause: " + worst->cause + ".";
  } else if (passed > 0) {
    page.verdict = {Tone::good, "PASS",
                    fmt::format("{} of {} cases passed; the rest could not be judged.", passed,
                                report.verdicts.size())};
    if (passed == static_cast<int>(report.verdicts.size())) {
      page.verdict.sentence = fmt::format("All {} cases passed.", passed);
    }
  } else {
    page.verdict = {Tone::warn, "NOTHING JUDGED", "No case could be run and judged."};
  }
  page.sections = check_sections(report, pictures);
  std::string model = model_json(report.model);
  for (std::size_t at = 0; (at = model.find(",\"", at)) != std::string::npos; at += 2) {
    model.replace(at, 1, ",\n ");
  }
  render::Section about{"Precision model", {render::Code{model}}};
  if (!report.skipped.empty()) {
    about.blocks.push_back(render::Paragraph{"Not run:"});
    about.blocks.push_back(render::Notes{report.skipped});
  }
  page.sections.push_back(std::move(about));
  page.provenance = {{"command", command}, {"candidate", report.candidate}};
  return page;
}

}  // namespace assay
