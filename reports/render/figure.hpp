// Figures: what a picture shows, and the picture, drawn by gnuplot.
//
// A figure is one panel or several side by side. Labels are plain text in UTF-8 ("λ₁", "η [1]");
// nothing in them is markup, so names from files may stand in them. NaN breaks a line and leaves a
// cell of a heat map empty. Same figure, same bytes.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace assay::render {

struct Axis {
  std::string label;  // with its unit in brackets
  bool log = false;   // values that are not positive are left out
  std::optional<double> lo = {}, hi = {};
  std::vector<std::pair<double, std::string>> ticks = {};  // empty: chosen by gnuplot
};

/// One set of data in a panel.
struct Series {
  enum class Kind {
    line,
    points,
    steps,  // y holds until the next x
    bars,   // y over [x - width/2, x + width/2], filled: a histogram
    band,   // filled between y and y2
  };
  Kind kind = Kind::line;
  std::string name;  // in the key and as tooltip; empty: not in the key
  std::vector<double> x, y, y2 = {};
  std::vector<std::string> tips = {};  // points: a tooltip each, in SVG
  int colour = -1;                     // index into the palette; -1: the next one
  bool dashed = false;
  double width = 0;  // line: in points (0: 1.8); bars: in units of x
  double size = 0;   // points: diameter (0: 0.5 of gnuplot's)
};

/// Values on a grid: values[row * x.size() + column] at (x[column], y[row]); x and y are equally
/// spaced and rising.
struct Grid {
  std::vector<double> x, y, values;
};

/// A grid as colours, viridis, with a colour bar.
struct HeatMap {
  Grid grid;
  std::string label;  // of the colour bar, with its unit
  bool log = false;
  std::optional<double> lo = {}, hi = {};
};

/// Lines of equal value.
struct Contours {
  Grid grid;
  std::vector<double> levels;
  std::vector<std::string> names;  // one per level, in the key
};

struct Panel {
  std::string title;
  Axis x, y;
  std::vector<Series> series;
  std::optional<HeatMap> heat = {};
  std::optional<Contours> contours = {};
  bool unit_circle = false;
  bool square = false;  // one unit of x is as long as one of y
};

struct Figure {
  std::string id;  // [a-z0-9_]+, unique on a page: names files and elements
  std::string title;
  std::string caption;  // what is measured, in which unit, on what
  std::vector<Panel> panels;
  int panel_width = 520, panel_height = 400;  // of one panel, in pixels of a screen
};

/// gnuplot is missing, failed or took too long; one line that says which and what to do.
struct RenderError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One SVG element per panel for the inside of a page: no XML header, colours of text and axes are
/// the page's `currentColor`, ids start with the figure's.
std::vector<std::string> panel_svgs(const Figure& figure);

/// A file of its own: all panels side by side, title on top, on white.
std::string figure_svg(const Figure& figure);
std::string figure_png(const Figure& figure);
std::string figure_pdf(const Figure& figure);

/// The Okabe-Ito colours that are dark enough on white and light enough on black, "#rrggbb".
const std::vector<std::string>& palette();

/// Thousands of points as a picture cannot show them: at most `count` points that keep the smallest
/// and the largest value of every stretch.
void thin_out(std::vector<double>& x, std::vector<double>& y, std::size_t count = 2000);

}  // namespace assay::render
