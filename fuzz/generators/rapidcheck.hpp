// The same cases as RapidCheck generators, for property tests: `*recipes(operation, model)` draws a
// recipe, and a failing one shrinks towards fewer and shorter axes and plainer contents.
#pragma once

#include <rapidcheck.h>

#include <ostream>

#include "fuzz/generators/random_case.hpp"
#include "fuzz/generators/simpler.hpp"

namespace assay {

inline std::ostream& operator<<(std::ostream& out, const CaseRecipe& recipe) {
  return out << recipe_line(recipe);
}

/// Of any operation, made from its schema; sizes grow with RapidCheck's size up to `limits`.
inline rc::Gen<CaseRecipe> recipes(const Operation& operation, const PrecisionModel& model,
                                   const CaseLimits& limits = {}) {
  return [&operation, model, limits](const rc::Random& random, int size) {
    rc::Random copy = random;
    Stream stream(copy.next());
    CaseLimits grown = limits;
    const std::int64_t share = std::clamp(size, 1, 100);
    grown.tokens = std::max<std::int64_t>(2, limits.tokens * share / 100);
    grown.width = std::max<std::int64_t>(1, limits.width * share / 100);
    return rc::shrinkable::shrinkRecur(
        random_recipe(operation, model, stream, grown).recipe,
        [](const CaseRecipe& r) { return rc::seq::fromContainer(simpler_recipes(r)); });
  };
}

}  // namespace assay

namespace rc {
inline void showValue(const assay::CaseRecipe& recipe, std::ostream& out) {
  out << assay::recipe_line(recipe);
}
}  // namespace rc
