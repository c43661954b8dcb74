#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "reports/render/contour.hpp"
#include "reports/render/process.hpp"
#include "reports/render/sha256.hpp"
#include "reports/render/svg.hpp"
#include "reports/tests/example_page.hpp"

using namespace assay::render;

TEST_CASE("render/sha256: the published digests", "[render]") {
  const auto digest = [](const std::string& text) {
    Sha256 hash;
    hash.update(text);
    return hash.finish();
  };
  // FIPS 180-4 examples and the empty message.
  CHECK(digest("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(digest("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(digest(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("render/process: output, errors, exit code, time limit, absence", "[render]") {
  const ProcessResult echo = run_process({"sh", "-c", "cat; echo no >&2; exit 3"}, "text", 10);
  CHECK(echo.started);
  CHECK(echo.output == "text");
  CHECK(echo.errors == "no\n");
  CHECK(echo.exit_code == 3);
  const ProcessResult slow = run_process({"sh", "-c", "sleep 60"}, "", 0.05);
  CHECK(slow.timed_out);
  CHECK_FALSE(run_process({"assay-no-such-program"}, "", 1).started);
}

TEST_CASE("render/contour: the level of a distance is a circle, of a saddle two branches",
          "[render]") {
  Grid grid;
  for (int i = 0; i <= 80; ++i) grid.x.push_back(-2 + 0.05 * i);
  grid.y = grid.x;
  Grid saddle = grid;
  for (const double y : grid.y) {
    for (const double x : grid.x) {
      grid.values.push_back(std::hypot(x, y));
      saddle.values.push_back(x * y);
    }
  }
  double length = 0;
  for (const auto& s : contour_segments(grid, 1.01)) {
    CHECK(std::abs(std::hypot(s[0], s[1]) - 1.01) < 1e-3);
    length += std::hypot(s[2] - s[0], s[3] - s[1]);
  }
  CHECK(std::abs(length - 2 * M_PI * 1.01) < 0.01);
  for (const auto& s : contour_segments(saddle, 0.5)) {
    CHECK(std::abs(s[0] * s[1] - 0.5) < 1e-3);
    CHECK(s[0] * s[2] > 0);  // no piece joins the two branches
  }
}

TEST_CASE("render/svg: names from files are text", "[render]") {
  CHECK(escape_markup("<a href=\"x\">&'\x01") == "&lt;a href=&quot;x&quot;&gt;&amp;&#39; ");
  const std::string page = render_page(example_page());
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find("<img") == std::string::npos);
  CHECK(page.find("<b>") == std::string::npos);
}

TEST_CASE("render/figure: same figure, same bytes; ids are unique; tooltips are there",
          "[render]") {
  const std::string page = render_page(example_page());
  CHECK(page == render_page(example_page()));
  std::set<std::string> ids;
  const std::regex id("\\bid=['\"]([^'\"]+)['\"]");
  for (std::sregex_iterator hit(page.begin(), page.end(), id), end; hit != end; ++hit) {
    CHECK(ids.insert((*hit)[1]).second);
  }
  CHECK(ids.size() > 10);
  CHECK(page.find("<title>&lt;b>cosine&lt;/b> 'quoted' `id`</title>") != std::string::npos);
  CHECK(page.find("<title>unit circle</title>") != std::string::npos);
  CHECK(page.find("onmouse") == std::string::npos);
  CHECK(page.find("<title>first 'a'</title>") != std::string::npos);
  CHECK(page.find("<title>second &lt;b></title>") != std::string::npos);
}

TEST_CASE("render/figure: files are SVG, PNG and PDF", "[render]") {
  const Figure figure = std::get<Figure>(example_page().sections[1].blocks[1]);
  CHECK(figure_svg(figure).rfind("<?xml", 0) == 0);
  CHECK(figure_png(figure).rfind("\x89PNG", 0) == 0);
  CHECK(figure_pdf(figure).rfind("%PDF", 0) == 0);
}

TEST_CASE("render/figure: without gnuplot one line names the package", "[render]") {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  std::string message;
  try {
    figure_svg(std::get<Figure>(example_page().sections[1].blocks[0]));
  } catch (const RenderError& error) {
    message = error.what();
  }
  setenv("PATH", path.c_str(), 1);
  CHECK(message.find("gnuplot-nox") != std::string::npos);
  CHECK(message.find('\n') == std::string::npos);
}

TEST_CASE("render/figure: thinning keeps the extremes", "[render]") {
  std::vector<double> x, y;
  for (int i = 0; i < 100000; ++i) {
    x.push_back(i);
    y.push_back(i == 77777 ? 50 : std::sin(i));
  }
  thin_out(x, y, 1000);
  CHECK(x.size() <= 1000);
  CHECK(*std::max_element(y.begin(), y.end()) == 50);
  CHECK(std::is_sorted(x.begin(), x.end()));
}

TEST_CASE("render/page: writes the example for the browser", "[render]") {
  const std::filesystem::path folder(ASSAY_PAGES);
  std::filesystem::create_directories(folder);
  std::ofstream file(folder / "example.html");
  file << render_page(example_page());
  CHECK(file.good());
}
