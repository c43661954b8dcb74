// The cases of `assay check OP`: the boundary grid, small enough for a budget of seconds.
#pragma once

#include <string>
#include <vector>

#include "checks/verdict/precision_model.hpp"
#include "reference/oracle/registry.hpp"

namespace assay {

struct CheckCase {
  ValidCase valid;
  std::string why;  // what this case looks for, a few words
  bool exact = false;
  int number = 0;  // its place in the list, from 1
};

/// Cases in the order in which they are run: first one ordinary case of medium size, then the edges
/// (lengths around the chunk, K != V, head groups, packed sequences, gates of exactly 0 and 1 and
/// very small ones, absent states and cotangents, long memory, the exact lattice), then more
/// ordinary cases with other seeds. Made from the schema alone.
std::vector<CheckCase> check_cases(const Operation& operation, const PrecisionModel& model,
                                   std::uint64_t seed);

}  // namespace assay
