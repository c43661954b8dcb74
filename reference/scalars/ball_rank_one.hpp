// S_ij = b S_ij + x_i y_j on balls, faster than a product and a sum of Arb. Internal to Ball.
#pragma once

#include "reference/scalars/ball.hpp"

namespace assay::detail {

// For all i < rows, j < cols: S[i, j] = scale S[i, j] + sign x[i] y[j]; scale null means 1, sign -1
// if `subtract`. The result is a valid enclosure for any input. Unlike arb_addmul, a relative
// radius of about 2^-bits is added even where the result is exact.
void ball_rank_one(long rows, long cols, const Ball* scale, const Ball* x, bool subtract,
                   const Ball* y, Ball* S, long bits);

}  // namespace assay::detail
