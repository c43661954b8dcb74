// Random cases of any operation, drawn where kernels go wrong: lengths around the chunk, K != V,
// head groups, packed sequences with empty ones, gates at the ends of their domain, degenerate
// keys, absent states and cotangents, router logits far apart or nearly equal.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checks/verdict/check_cases.hpp"
#include "fuzz/generators/recipe.hpp"
#include "reference/case/random.hpp"

namespace assay {

struct CaseLimits {
  std::int64_t tokens = 128;  // of one sequence, or of all packed ones
  std::int64_t width = 16;    // of K, V and the like
  std::int64_t heads = 4;
};

/// One value of every class that was drawn: "gates" -> "edge", "layout" -> "packed", …
using CaseClasses = std::map<std::string, std::string>;

struct RandomRecipe {
  CaseRecipe recipe;
  CaseClasses classes;
};

/// From the schema alone, with the numbers of `random`.
RandomRecipe random_recipe(const Operation& operation, const PrecisionModel& model, Stream& random,
                           const CaseLimits& limits = {});
/// Number `index` of `seed`: the same on every machine, whatever was drawn before.
RandomRecipe random_recipe(const Operation& operation, const PrecisionModel& model,
                           std::uint64_t seed, std::uint64_t index, const CaseLimits& limits = {});

/// Values of an option beside its default: of numbers a quarter and four times of it and the ends
/// of the range at 0, of names and of yes or no all. None of options that a candidate declares or
/// whose numbers only the operation knows.
std::vector<std::string> option_values(const OptionSpec& option);

/// What must be set beside these options, or one of them has no effect.
std::vector<std::string> needed_options(const std::vector<std::string>& options);

struct RandomCase {
  CheckCase given;
  CaseClasses classes;
};

/// The same, made.
RandomCase random_case(const Operation& operation, const PrecisionModel& model, std::uint64_t seed,
                       std::uint64_t index, const CaseLimits& limits = {});

/// How often each class was drawn: {"gates": {"edge": 17, …}, …}.
class ClassMix {
 public:
  void add(const CaseClasses& classes);
  void add(const std::string& kind, const std::string& value, std::int64_t count) {
    counts_[kind][value] += count;
  }
  const std::map<std::string, std::map<std::string, std::int64_t>>& counts() const {
    return counts_;
  }

 private:
  std::map<std::string, std::map<std::string, std::int64_t>> counts_;
};

}  // namespace assay
