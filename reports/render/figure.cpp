// Figures as gnuplot programs: data and text inline, nothing read from or written to the disk.
#include "reports/render/figure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reference/case/text.hpp"
#include "reports/render/contour.hpp"
#include "reports/render/process.hpp"
#include "reports/render/svg.hpp"

namespace assay::render {
namespace {

constexpr double kTimeLimit = 60;  // seconds for one call of gnuplot; pictures take well below one

constexpr const char* kViridis =
    "set palette defined (0 '#440154', 0.125 '#472d7b', 0.25 '#3b528b', 0.375 '#2c728e', "
    "0.5 '#21918c', 0.625 '#28ae80', 0.75 '#5ec962', 0.875 '#addc30', 1 '#fde725')\n";

constexpr const char* kDecades = "10^{%L}";
constexpr const char* kFill = " fs transparent solid 0.35 noborder";

/// In single quotes gnuplot reads everything literally, backquotes too.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += '\'';
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return out + "'";
}

/// A column of a data block, where quotes cannot be doubled.
std::string data_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    out += c == '"' ? '\'' : c == '\\' ? '/' : static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.7g}", value) : "NaN";
}

/// A gnuplot program in the making.
class Program {
 public:
  Program(std::string terminal, const Figure& figure) : figure_(figure) {
    text_ = "set encoding utf8\nset terminal " + terminal + "\n";
    text_ += kViridis;
    text_ += "set grid lc rgb '#8a8a8a' lw 0.5 dt 3\nset key noenhanced\nset tics nomirror\n";
  }
  void panel(const Panel& panel);
  void raw(const std::string& line) { text_ += line + "\n"; }
  const std::string& text() const { return text_; }

 private:
  std::string block(const std::string& rows) {
    const std::string name = fmt::format("$d{}", blocks_++);
    text_ += name + " << ASSAY_END\n" + rows + "ASSAY_END\n";
    return name;
  }
  void axis(const char* which, const Axis& axis, const Panel& panel);
  void series(const Series& s, int colour, std::vector<std::string>& plots);
  void heat(const HeatMap& heat, std::vector<std::string>& plots);
  void contours(const Contours& contours, int& colour, std::vector<std::string>& plots);

  const Figure& figure_;
  std::string text_;
  int blocks_ = 0;
};

std::string title_of(const std::string& name) {
  return name.empty() ? " notitle" : " title " + quoted(name);
}

std::string colour_text(int index) {
  const auto& colours = palette();
  return " lc rgb '" + colours[static_cast<std::size_t>(index) % colours.size()] + "'";
}

void Program::axis(const char* which, const Axis& a, const Panel& panel) {
  // Away from the key, which gnuplot puts right below.
  const char* offset = which[0] == 'x' ? " offset 0,0.3" : "";
  text_ += fmt::format("set {}label {}{} noenhanced\n", which, quoted(a.label), offset);
  text_ += fmt::format("{} logscale {}\n", a.log ? "set" : "unset", which);
  text_ += fmt::format("set format {} '{}'\n", which, a.log ? kDecades : "%g");
  const auto end = [](const std::optional<double>& v) { return v ? number(*v) : "*"; };
  std::optional<double> lo = a.lo, hi = a.hi;
  if (panel.contours) {  // the whole grid, also where there are no lines
    const auto& grid = which[0] == 'x' ? panel.contours->grid.x : panel.contours->grid.y;
    if (!grid.empty() && !lo) lo = grid.front();
    if (!grid.empty() && !hi) hi = grid.back();
  }
  text_ += fmt::format("set {}range [{}:{}]{}\n", which, end(lo), end(hi),
                       panel.heat ? " noextend" : "");
  if (a.ticks.empty()) {
    text_ += fmt::format("set {}tics autofreq enhanced\n", which);
    return;
  }
  text_ += fmt::format("set {}tics noenhanced (", which);
  for (std::size_t i = 0; i < a.ticks.size(); ++i) {
    text_ += (i ? ", " : "") + quoted(a.ticks[i].second) + " " + number(a.ticks[i].first);
  }
  text_ += ")\n";
}

void Program::series(const Series& s, int colour, std::vector<std::string>& plots) {
  std::string rows;
  const bool tips = s.kind == Series::Kind::points && s.tips.size() == s.x.size();
  const double bar = s.width > 0 ? s.width : 1;
  for (std::size_t i = 0; i < s.x.size(); ++i) {
    rows += number(s.x[i]) + " " + number(s.y[i]);
    if (s.kind == Series::Kind::band) rows += " " + number(s.y2[i]);
    if (s.kind == Series::Kind::bars) rows += " " + number(bar);
    if (tips) rows += " " + data_text(s.tips[i]);
    rows += "\n";
  }
  if (s.x.empty()) rows = "NaN NaN NaN\n";
  std::string plot = block(rows);
  const double width = s.width > 0 ? s.width : 1.8;
  switch (s.kind) {
    case Series::Kind::line:
    case Series::Kind::steps:
      plot += s.kind == Series::Kind::line ? " using 1:2 with lines" : " using 1:2 with steps";
      plot += fmt::format(" lw {:g}{}", width, s.dashed ? " dt 2" : "");
      break;
    case Series::Kind::points:
      plot += tips ? " using 1:2:3 with labels hypertext noenhanced point pt 7"
                   : " using 1:2 with points pt 7";
      plot += fmt::format(" ps {:g}", s.size > 0 ? s.size : 0.5);
      break;
    case Series::Kind::bars:
      plot += " using 1:2:3 with boxes" + std::string(kFill);
      break;
    case Series::Kind::band:
      plot += " using 1:2:3 with filledcurves" + std::string(kFill);
      break;
  }
  plots.push_back(plot + colour_text(colour) + title_of(s.name));
}

void Program::heat(const HeatMap& h, std::vector<std::string>& plots) {
  std::string rows;
  for (std::size_t j = 0; j < h.grid.y.size(); ++j) {
    for (std::size_t i = 0; i < h.grid.x.size(); ++i) {
      const double value = h.grid.values[j * h.grid.x.size() + i];
      const bool shown = std::isfinite(value) && (!h.log || value > 0);
      rows += number(h.grid.x[i]) + " " + number(h.grid.y[j]) + " " +
              (shown ? number(value) : "NaN") + "\n";
    }
  }
  const auto end = [](const std::optional<double>& v) { return v ? number(*v) : "*"; };
  text_ += fmt::format("set cbrange [{}:{}]\nset cblabel {} noenhanced\n", end(h.lo), end(h.hi),
                       quoted(h.label));
  text_ += h.log ? "set logscale cb\nset format cb '10^{%L}'\n"
                 : "unset logscale cb\nset format cb '%g'\n";
  plots.push_back(block(rows) + " using 1:2:3 with image notitle");
}

void Program::contours(const Contours& c, int& colour, std::vector<std::string>& plots) {
  for (std::size_t n = 0; n < c.levels.size(); ++n, ++colour) {
    std::string rows;
    for (const auto& s : contour_segments(c.grid, c.levels[n])) {
      rows +=
          fmt::format("{} {}\n{} {}\n\n", number(s[0]), number(s[1]), number(s[2]), number(s[3]));
    }
    if (rows.empty()) continue;
    const std::string name = n < c.names.size() ? c.names[n] : number(c.levels[n]);
    plots.push_back(block(rows) + " using 1:2 with lines lw 1.5" + colour_text(colour) +
                    title_of(name));
  }
}

void Program::panel(const Panel& p) {
  std::vector<std::string> plots;
  axis("x", p.x, p);
  axis("y", p.y, p);
  text_ += p.title.empty() ? "unset title\n" : "set title " + quoted(p.title) + " noenhanced\n";
  text_ += p.square ? "set size ratio -1\n" : "set size noratio\n";
  const int named = static_cast<int>(std::count_if(
      p.series.begin(), p.series.end(), [](const Series& s) { return !s.name.empty(); }));
  const bool key = named > 0 || p.contours;
  text_ += key ? "set key outside bottom center horizontal reverse Left\n" : "unset key\n";
  if (p.heat) heat(*p.heat, plots);
  int colour = 0;
  for (const Series& s : p.series) {
    series(s, s.colour < 0 ? colour : s.colour, plots);
    if (s.colour < 0) ++colour;
  }
  if (p.contours) contours(*p.contours, colour, plots);
  if (p.unit_circle) {
    text_ += "set parametric\nset trange [0:2*pi]\n";
    plots.push_back("[0:2*pi] cos(t), sin(t) with lines lw 1 dt 2 lc rgb '#8a8a8a' notitle");
    text_ += "set samples 181\n";
  }
  text_ +=
      "plot " +
      (plots.empty() ? std::string("NaN notitle") : fmt::format("{}", fmt::join(plots, ", "))) +
      "\n";
  if (p.unit_circle) text_ += "unset parametric\n";
  if (p.heat) text_ += "unset cblabel\n";
}

std::string run_gnuplot(const std::string& program) {
  const ProcessResult result = run_process({"gnuplot", "-d"}, program, kTimeLimit);
  if (!result.started) {
    throw RenderError("gnuplot is not installed, no picture can be drawn (Debian: gnuplot-nox)");
  }
  if (result.timed_out) {
    throw RenderError(fmt::format("gnuplot took longer than {} s and was stopped", kTimeLimit));
  }
  if (result.exit_code != 0 || result.output.empty()) {
    std::string line;
    for (const std::string& part : split(result.errors, '\n')) {
      if (part.find_first_not_of(" \t\r^") != std::string::npos) line = part;
    }
    throw RenderError("gnuplot failed: " + printable(line.empty() ? "no picture came" : line));
  }
  return result.output;
}

/// All panels in one picture, under the figure's title.
std::string whole(const Figure& figure, const std::string& terminal) {
  Program program(terminal, figure);
  const std::size_t n = std::max<std::size_t>(1, figure.panels.size());
  program.raw(
      fmt::format("set multiplot layout 1,{} title {} noenhanced", n, quoted(figure.title)));
  for (const Panel& panel : figure.panels) program.panel(panel);
  program.raw("unset multiplot");
  return run_gnuplot(program.text());
}

constexpr int kTitleHeight = 30;

int whole_width(const Figure& f) {
  return f.panel_width * std::max(1, static_cast<int>(f.panels.size()));
}

/// Names of the plots of a panel, in gnuplot's order: the tooltips.
std::vector<std::string> plot_names(const Panel& panel) {
  std::vector<std::string> names;
  if (panel.heat) names.push_back(panel.heat->label);
  for (const Series& s : panel.series) names.push_back(s.name);
  if (panel.contours) {
    const Contours& c = *panel.contours;
    for (std::size_t n = 0; n < c.levels.size(); ++n) {
      if (contour_segments(c.grid, c.levels[n]).empty()) continue;
      names.push_back(n < c.names.size() ? c.names[n] : number(c.levels[n]));
    }
  }
  if (panel.unit_circle) names.push_back("unit circle");
  return names;
}

}  // namespace

const std::vector<std::string>& palette() {
  static const std::vector<std::string> colours = {"#0072b2", "#d55e00", "#009e73",
                                                   "#cc79a7", "#e69f00", "#56b4e9"};
  return colours;
}

std::vector<std::string> panel_svgs(const Figure& figure) {
  std::vector<std::string> svgs;
  for (std::size_t n = 0; n < figure.panels.size(); ++n) {
    const Panel& panel = figure.panels[n];
    const std::string id = fmt::format("{}_{}", figure.id, n + 1);
    Program program(fmt::format("svg size {},{} dynamic font 'sans-serif,13' enhanced standalone "
                                "name 'gnuplot'",
                                figure.panel_width, figure.panel_height),
                    figure);
    program.panel(panel);
    const std::string label =
        panel.title.empty() ? figure.title : figure.title + ": " + panel.title;
    svgs.push_back(inline_svg(run_gnuplot(program.text()), id, label, plot_names(panel)));
  }
  return svgs;
}

std::string figure_svg(const Figure& figure) {
  const std::string svg =
      whole(figure, fmt::format("svg size {},{} fixed font 'sans-serif,13' enhanced standalone "
                                "background rgb 'white' name 'gnuplot'",
                                whole_width(figure), figure.panel_height + kTitleHeight));
  return file_svg(svg, figure.id, figure.title);
}

std::string figure_png(const Figure& figure) {
  return whole(figure,
               fmt::format("pngcairo size {},{} font 'sans,10' enhanced fontscale 1.6 "
                           "linewidth 1.6 background rgb 'white'",
                           2 * whole_width(figure), 2 * (figure.panel_height + kTitleHeight)));
}

std::string figure_pdf(const Figure& figure) {
  // 96 pixels of a screen are an inch.
  return whole(
      figure, fmt::format("pdfcairo size {:.2f}in,{:.2f}in font 'sans,10' enhanced",
                          whole_width(figure) / 96.0, (figure.panel_height + kTitleHeight) / 96.0));
}

void thin_out(std::vector<double>& x, std::vector<double>& y, std::size_t count) {
  const std::size_t n = x.size(), stretches = std::max<std::size_t>(1, count / 2);
  if (n <= 2 * stretches) return;
  std::vector<double> kept_x, kept_y;
  for (std::size_t s = 0; s < stretches; ++s) {
    const std::size_t begin = s * n / stretches, end = (s + 1) * n / stretches;
    std::size_t lo = begin, hi = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (!(y[i] >= y[lo])) lo = i;
      if (!(y[i] <= y[hi])) hi = i;
    }
    for (const std::size_t i : {std::min(lo, hi), std::max(lo, hi)}) {
      if (!kept_x.empty() && kept_x.back() == x[i]) continue;
      kept_x.push_back(x[i]);
      kept_y.push_back(y[i]);
    }
  }
  x = std::move(kept_x);
  y = std::move(kept_y);
}

}  // namespace assay::render
