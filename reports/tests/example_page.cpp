#include "reports/tests/example_page.hpp"

#include <cmath>

namespace assay::render {
namespace {

std::vector<double> range(double lo, double hi, int n) {
  std::vector<double> x;
  for (int i = 0; i < n; ++i) x.push_back(lo + (hi - lo) * i / (n - 1));
  return x;
}

template <class F>
std::vector<double> map(const std::vector<double>& x, F f) {
  std::vector<double> y;
  for (const double v : x) y.push_back(f(v));
  return y;
}

Figure curves() {
  const std::vector<double> x = range(0.01, 10, 200);
  const auto sine = map(x, [](double v) { return std::sin(v); });
  const auto low = map(sine, [](double v) { return v - 0.2; });
  const auto high = map(sine, [](double v) { return v + 0.2; });
  Panel left{"lines & bands", {"time t [steps]"}, {"value [1]"}, {}};
  left.series = {{Series::Kind::band, "mean ± 0.2", x, low, high, {}, 0},
                 {Series::Kind::line, "sine", x, sine, {}, {}, 0},
                 {Series::Kind::line,
                  "<b>cosine</b> 'quoted' `id`",
                  x,
                  map(x, [](double v) { return std::cos(v); }),
                  {},
                  {},
                  1,
                  true},
                 {Series::Kind::points,
                  "points",
                  {2, 5},
                  {0.5, -0.5},
                  {},
                  {"first \"a\"", "second <b>"},
                  2,
                  false,
                  0,
                  0.9}};
  Panel right{"histogram", {"z [σ]"}, {"density [1/σ]"}, {}};
  const std::vector<double> bins = range(-3, 3, 25);
  const auto gauss = [](double v) { return std::exp(-v * v / 2) / std::sqrt(2 * M_PI); };
  right.series = {
      {Series::Kind::bars,
       "observed",
       bins,
       map(bins, [&](double v) { return gauss(v) * (1 + 0.1 * std::sin(9 * v)); }),
       {},
       {},
       0,
       false,
       0.25},
      {Series::Kind::line, "normal", range(-3, 3, 101), map(range(-3, 3, 101), gauss), {}, {}, 1}};
  Panel third{"decades", {"k [1]", true}, {"error [1]", true}, {}};
  third.series = {{Series::Kind::steps, "steps", {1, 10, 100, 1000}, {1e-3, 1e-5, 1e-4, 1e-8}, {}}};
  return {"curves",
          "Lines, bands, a histogram and decades",
          "Left: two waves. Middle: what a histogram looks like. Right: axes by decades.",
          {left, right, third},
          420,
          360};
}

Figure maps() {
  Grid grid{range(-1.5, 1.5, 61), range(-1.5, 1.5, 61), {}};
  for (const double y : grid.y) {
    for (const double x : grid.x) grid.values.push_back(x * x + y * y < 0.01 ? NAN : x * x + y * y);
  }
  Panel heat{"heat map", {"Re λ"}, {"Im λ"}, {}, HeatMap{grid, "|λ|² [1]", true, {}, {}}};
  heat.square = true;
  Panel lines{"contours", {"Re λ"}, {"Im λ"}, {}, {}, Contours{grid, {0.25, 1, 2}, {"¼", "1", "2"}},
              true,       true};
  return {"maps",
          "A heat map and contours",
          "Squared distance from the centre; a hole where there is no value.",
          {heat, lines}};
}

}  // namespace

Page example_page() {
  Page page;
  page.title = "A page with one of everything";
  page.subtitle =
      "tests/example_page.cpp, "
      "a_very_long_file_name_without_any_place_to_break_it_which_browsers_do_not_like.safetensors";
  page.verdict = {Tone::bad, "INCONSISTENT",
                  "d_k is off by 3.2e+06 standard deviations <script>alert(1)</script> at t = 39."};
  Table table{"What was found", {{"tensor"}, {"max |z|", true}, {"place"}, {"note"}}, {}};
  table.rows = {{"o", "4.2", "t = 3, head 0", Cell("within", Tone::good)},
                {"d_alpha & d_beta", "1.41e+06", "t = 10 (t mod 64 = 10), head 0",
                 Cell("beyond 6.5", Tone::bad)},
                {"<img src=x>", "5.9", "t = 1", Cell("near the limit", Tone::warn)}};
  page.sections = {
      {"Table",
       {Paragraph{"Numbers stand right."}, table,
        Notes{{"log_mu: 256 values outside [-inf, 0]", "a second remark"}}}},
      {"Figures", {curves(), maps()}},
      {"Rest",
       {Code{"assay check gdn --candidate fault:gdn.residual_undecayed --model fp32 --seed 1 "
             "--budget 60s --html report.html"},
        Details{"More", {Paragraph{"inside"}}}, Download{"data.csv", "text/csv", "a,b\n1,2\n"}}}};
  page.provenance = {
      {"program", "assay 0.1.0"},
      {"command", "assay report spectrum --trace case.safetensors --out report"},
      {"sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}};
  return page;
}

}  // namespace assay::render
