#include "reports/render/contour.hpp"

#include <cmath>

namespace assay::render {
namespace {

struct Point {
  double x, y, value;
};

/// Where the level is crossed between a and b, of which one is above.
std::array<double, 2> crossing(const Point& a, const Point& b, double level) {
  const double s = (level - a.value) / (b.value - a.value);
  return {a.x + s * (b.x - a.x), a.y + s * (b.y - a.y)};
}

}  // namespace

std::vector<std::array<double, 4>> contour_segments(const Grid& grid, double level) {
  std::vector<std::array<double, 4>> segments;
  const std::size_t nx = grid.x.size(), ny = grid.y.size();
  for (std::size_t j = 0; j + 1 < ny; ++j) {
    for (std::size_t i = 0; i + 1 < nx; ++i) {
      const auto at = [&](std::size_t di, std::size_t dj) {
        return Point{grid.x[i + di], grid.y[j + dj], grid.values[(j + dj) * nx + i + di]};
      };
      const std::array<Point, 4> corner = {at(0, 0), at(1, 0), at(1, 1), at(0, 1)};
      double sum = 0;
      std::array<bool, 4> above;
      for (int n = 0; n < 4; ++n) {
        sum += corner[n].value;
        above[n] = corner[n].value >= level;
      }
      if (!std::isfinite(sum)) continue;
      // Crossings in the order of the edges 0-1, 1-2, 2-3, 3-0.
      std::vector<std::array<double, 2>> cuts;
      for (int n = 0; n < 4; ++n) {
        const int next = (n + 1) % 4;
        if (above[n] != above[next]) cuts.push_back(crossing(corner[n], corner[next], level));
      }
      const auto join = [&](std::size_t a, std::size_t b) {
        segments.push_back({cuts[a][0], cuts[a][1], cuts[b][0], cuts[b][1]});
      };
      if (cuts.size() == 2) join(0, 1);
      if (cuts.size() == 4) {  // opposite corners are above: do they touch in the middle?
        const bool touch = (sum / 4 >= level) == above[0];
        join(0, touch ? 1 : 3);
        join(2, touch ? 3 : 1);
      }
    }
  }
  return segments;
}

}  // namespace assay::render
