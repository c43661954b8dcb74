// One step from a recipe towards a simpler one. (Tensors are made smaller in fuzz/campaign/shrink.)
#pragma once

#include <vector>

#include "fuzz/generators/recipe.hpp"

namespace assay {

/// All recipes that differ from `r` by one simplification and can still be made; the boldest first.
/// Repeated, it ends: each is smaller in the sum of its lengths or in what it asks for.
std::vector<CaseRecipe> simpler_recipes(const CaseRecipe& r);

}  // namespace assay
