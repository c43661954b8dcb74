// Lines of equal value on a grid.
#pragma once

#include <array>
#include <vector>

#include "reports/render/figure.hpp"

namespace assay::render {

/// Pieces of the line value = level, x0 y0 x1 y1 each, by marching squares: bilinear in each cell,
/// saddles decided by the mean of the corners. Cells with a NaN have none.
std::vector<std::array<double, 4>> contour_segments(const Grid& grid, double level);

}  // namespace assay::render
