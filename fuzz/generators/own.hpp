// What an operation adds to the generators that its schema gives it. Most add nothing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fuzz/generators/recipe.hpp"
#include "reference/case/random.hpp"

namespace assay {

struct OwnGenerator {
  /// Changes a random recipe; what it drew goes into the classes.
  void (*draw)(Stream& random, CaseRecipe& recipe, std::map<std::string, std::string>& classes);
  /// Further cases of the boundary grid, made from an ordinary one.
  std::vector<CaseRecipe> (*grid)(const CaseRecipe& ordinary);
};

/// Null for an operation that has none.
const OwnGenerator* own_generator(const std::string& op);

// One file each, with the name of its operation.
extern const OwnGenerator kMomGenerator;
extern const OwnGenerator kM2rnnGenerator;

}  // namespace assay
