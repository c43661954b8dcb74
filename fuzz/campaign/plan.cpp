#include "fuzz/campaign/plan.hpp"

#include <algorithm>

#include "checks/verdict/verdict.hpp"
#include "reference/case/text.hpp"
#include "reference/oracle/registry.hpp"

namespace assay {
namespace {

/// Of so many numbers after the grid, the last is a search.
constexpr std::int64_t kSearchEvery = 40;

const std::vector<std::pair<Phase, std::string>> kPhases = {{Phase::corpus, "corpus"},
                                                            {Phase::past, "past"},
                                                            {Phase::grid, "grid"},
                                                            {Phase::random, "random"},
                                                            {Phase::target, "target"}};

bool wants(const PlanRequest& request, Phase phase) {
  return std::find(request.phases.begin(), request.phases.end(), phase) != request.phases.end();
}

}  // namespace

std::string phase_name(Phase phase) {
  for (const auto& [known, name] : kPhases) {
    if (known == phase) return name;
  }
  return "";
}

Phase parse_phase(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [phase, known] : kPhases) {
    if (known == name) return phase;
    names.push_back(known);
  }
  throw InputError("phase " + quote_name(name) + ": known are " + join(names, ", "));
}

Plan::Plan(PlanRequest request) : request_(std::move(request)) {
  const auto of_these = [&](std::vector<PinnedCase>& cases) {
    std::erase_if(cases, [&](const PinnedCase& c) {
      const auto& ops = request_.operations;
      // What is stored in two bytes comes back in two bytes, whatever the model says.
      const NumberFormat stored = infer_model(c.given.valid.data).input;
      return std::find(ops.begin(), ops.end(), c.given.valid.data.op) == ops.end() ||
             (stored != NumberFormat::fp32 && stored != request_.model.input);
    });
    return static_cast<std::int64_t>(cases.size());
  };
  if (wants(request_, Phase::corpus)) corpus_ = of_these(request_.corpus);
  if (wants(request_, Phase::past)) past_ = of_these(request_.past);
  random_ = wants(request_, Phase::random) && !request_.operations.empty();
  target_ = wants(request_, Phase::target) && !request_.operations.empty();
  if (!wants(request_, Phase::grid)) return;
  std::vector<std::vector<GridCase>> grids;
  std::size_t longest = 0;
  for (const std::string& op : request_.operations) {
    grids.push_back(boundary_grid(find_operation(op), request_.model, request_.seed));
    longest = std::max(longest, grids.back().size());
  }
  for (std::size_t i = 0; i < longest; ++i) {
    for (std::vector<GridCase>& grid : grids) {
      if (i < grid.size()) grid_.push_back(std::move(grid[i]));
    }
  }
}

Phase Plan::phase(std::int64_t index) const {
  if (index < corpus_) return Phase::corpus;
  if (index < corpus_ + past_) return Phase::past;
  if (index < fixed()) return Phase::grid;
  if (!random_) return Phase::target;
  return target_ && beyond(index) % kSearchEvery == kSearchEvery - 1 ? Phase::target
                                                                     : Phase::random;
}

std::string Plan::operation(std::int64_t index) const {
  switch (phase(index)) {
    case Phase::corpus:
      return request_.corpus[index].given.valid.data.op;
    case Phase::past:
      return request_.past[index - corpus_].given.valid.data.op;
    case Phase::grid:
      return grid_[index - corpus_ - past_].recipe.op;
    default: {
      const auto n = static_cast<std::int64_t>(request_.operations.size());
      // A step of 40 numbers must not meet the same operations again and again.
      const bool search = random_ && phase(index) == Phase::target;
      return request_.operations[(search ? beyond(index) / kSearchEvery : beyond(index)) % n];
    }
  }
}

PlannedCase Plan::make(std::int64_t index) const {
  PlannedCase p;
  p.index = index;
  p.phase = phase(index);
  p.op = operation(index);
  if (p.phase == Phase::corpus || p.phase == Phase::past) {
    const PinnedCase& pinned =
        p.phase == Phase::corpus ? request_.corpus[index] : request_.past[index - corpus_];
    p.given = pinned.given;
    p.line = phase_name(p.phase) + " " + pinned.name + " (" + case_line(pinned.given.valid) + ")";
    p.classes = {{"phase", phase_name(p.phase)}};
    return p;
  }
  if (p.phase == Phase::grid) {
    const GridCase& g = grid_[index - corpus_ - past_];
    p.recipe = g.recipe;
    p.classes = g.classes;
  } else {
    const auto number = static_cast<std::uint64_t>(beyond(index));
    RandomRecipe drawn =
        random_recipe(find_operation(p.op), request_.model, request_.seed, number, request_.limits);
    p.recipe = std::move(drawn.recipe);
    p.classes = std::move(drawn.classes);
    p.seed = request_.seed * 0x9E3779B97F4A7C15u + number;
  }
  p.line = recipe_line(p.recipe);
  p.given = {build_case(p.recipe), phase_name(p.phase), false};
  return p;
}

}  // namespace assay
