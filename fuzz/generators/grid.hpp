// The boundary grid: every place where public kernels have been wrong, one at a time and always.
#pragma once

#include <string>
#include <vector>

#include "fuzz/generators/random_case.hpp"

namespace assay {

struct GridCase {
  CaseRecipe recipe;
  CaseClasses classes;  // {"grid": "length C+1"}
};

/// Lengths around the chunk, pairs K != V up to 256, head groups, packed sequences (empty, of one
/// token, aligned, with a short tail), gates at 0, 1 and far below, write strengths 0, 1, 2, keys
/// without direction or all in one, subnormals and -0.0, states absent or zero, each cotangent
/// alone, absent or one-hot, long memory, the routings of a mixture, and what the operation adds.
std::vector<GridCase> boundary_grid(const Operation& operation, const PrecisionModel& model,
                                    std::uint64_t seed);

}  // namespace assay
