// Which cases a campaign tries: case number i is the same on every machine and in every order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/corpus/corpus.hpp"
#include "fuzz/generators/grid.hpp"
#include "fuzz/generators/random_case.hpp"

namespace assay {

enum class Phase { corpus, past, grid, random, target };
std::string phase_name(Phase phase);
/// Throws InputError for an unknown name.
Phase parse_phase(const std::string& name);

struct PlanRequest {
  std::vector<std::string> operations;  // none: no cases
  PrecisionModel model;
  std::uint64_t seed = 1;
  CaseLimits limits = {};
  std::vector<Phase> phases = {Phase::corpus, Phase::past, Phase::grid, Phase::random,
                               Phase::target};
  std::vector<PinnedCase> corpus = {}, past = {};
};

/// One number of the plan, made.
struct PlannedCase {
  std::int64_t index = 0;
  Phase phase = Phase::random;
  std::string op, line;  // the line reproduces random and grid cases
  CheckCase given;
  CaseClasses classes;
  CaseRecipe recipe;       // of random cases and where a search starts
  std::uint64_t seed = 0;  // of a search
};

class Plan {
 public:
  explicit Plan(PlanRequest request);

  /// Numbers before the random cases: corpus, past failures, grid.
  std::int64_t fixed() const { return corpus_ + past_ + static_cast<std::int64_t>(grid_.size()); }
  /// Are there numbers beyond `fixed`?
  bool endless() const { return random_ || target_; }
  Phase phase(std::int64_t index) const;
  std::string operation(std::int64_t index) const;
  /// Throws InputError when the case cannot be made.
  PlannedCase make(std::int64_t index) const;

  const PlanRequest& request() const { return request_; }

 private:
  std::int64_t beyond(std::int64_t index) const { return index - fixed(); }

  PlanRequest request_;
  std::int64_t corpus_ = 0, past_ = 0;
  std::vector<GridCase> grid_;  // the operations in turn
  bool random_ = false, target_ = false;
};

}  // namespace assay
