// A case as one readable line, from which its tensors are made:
//
//   mdn B=1,T=65,H=2,K=8,V=8 bf16 C=64 gates=edge,beta=2 log keys=one-hot cot=s_final:one-hot
//   seed=31
//
// Words may stand in any order after the operation and the shape; what is left out has its default.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "reference/case/schema.hpp"

namespace assay {

struct CaseRecipe {
  std::string op;
  std::string shape;  // axes as `assay gen --shape` has them; empty: small defaults
  DType dtype = DType::F32;
  std::int64_t chunk = 64;  // of the candidate, from which the lengths were chosen
  /// Presets and ranges as `assay gen --gates` has them; "ladder" puts 0, 1e-3, …, 100 and infinity
  /// below the top of every decay, in turn.
  std::vector<std::string> gates = {"model"};
  bool log_gates = false;
  std::string keys = "random";         // key_kinds()
  std::string values = "random";       // value_kinds()
  std::string routing = "random";      // routing_kinds()
  std::string activations = "random";  // activation_kinds()
  std::string states = "random";       // random, zero, absent
  /// Of outputs whose cotangent is not random in every element: "absent", "one-hot".
  std::map<std::string, std::string> cotangents = {};
  std::vector<std::string> options = {}, without = {};
  bool optional_inputs = true;
  std::uint64_t seed = 0;
  bool operator==(const CaseRecipe&) const = default;
};

/// Of key tensors: random, zero, zero-rows, repeated (parallel), alternating, orthogonal (unit
/// vectors in turn), one-hot (unit vectors at random).
const std::vector<std::string>& key_kinds();
/// Of queries, keys and values: random, unit, subnormal (with -0.0 in between), minus-zero.
const std::vector<std::string>& value_kinds();
/// Of router logits: random, one (every token to one memory), empty (some memories get none), ties
/// (nearly), gaps (above 17).
const std::vector<std::string>& routing_kinds();

/// Of what passes through a sigmoid, tanh or softplus (pre-activations, inputs of the classical
/// cells): random, saturated (20 to 100, of either sign), mixed (saturated now and then).
const std::vector<std::string>& activation_kinds();
/// Is the input one of those?
bool is_activation(const InputSpec& input, const Schema& schema);

/// The line of a recipe, and back: `parse_recipe(recipe_line(r)) == r`. Throws InputError, one
/// line, for whatever is not such a line; sizes are judged by `build_case` alone.
std::string recipe_line(const CaseRecipe& recipe);
CaseRecipe parse_recipe(std::string_view line);

/// The case of a recipe: the same bytes on every machine. Throws InputError where the operation
/// has no such axes, inputs or options.
ValidCase build_case(const CaseRecipe& recipe);

}  // namespace assay
