#include "fuzz/campaign/search.hpp"

#include <algorithm>

#include "checks/output/failure_folder.hpp"
#include "reference/case/text.hpp"
#include "reference/oracle/registry.hpp"

namespace assay {
namespace {

constexpr int kSteps = 12;

const std::vector<std::pair<Target, std::string>> kTargets = {
    {Target::z, "z"}, {Target::hard, "hard"}, {Target::growth, "growth"}, {Target::time, "time"}};

double score(const Outcome& o, Target target) {
  switch (target) {
    case Target::z:
      return o.max_z;
    case Target::hard:
      return o.hard_ratio;
    case Target::growth:
      return o.growth;
    case Target::time:
      return o.elements == 0 ? 0 : o.seconds / static_cast<double>(o.elements);
  }
  return 0;
}

/// One trait of `r` in place of that of another random recipe.
CaseRecipe changed(const CaseRecipe& r, const CaseRecipe& other, std::int64_t trait) {
  CaseRecipe out = r;
  switch (trait) {
    case 0:
      out.shape = other.shape;
      break;
    case 1:
      out.gates = other.gates;
      out.log_gates = other.log_gates;
      break;
    case 2:
      out.keys = other.keys;
      break;
    case 3:
      out.values = other.values;
      out.states = other.states;
      break;
    case 4:
      out.cotangents = other.cotangents;
      break;
    default:
      out.seed = other.seed;
  }
  return out;
}

}  // namespace

Target parse_target(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [target, known] : kTargets) {
    if (known == name) return target;
    names.push_back(known);
  }
  throw InputError("target " + quote_name(name) + ": known are " + join(names, ", "));
}

std::string target_name(Target target) {
  for (const auto& [known, name] : kTargets) {
    if (known == target) return name;
  }
  return "";
}

CaseRecord search(Examiner& examiner, const Plan& plan, const PlannedCase& start, Target target) {
  CaseRecord record;
  record.index = start.index;
  record.phase = start.phase;
  record.op = start.op;
  record.line = start.line;
  record.classes = {{"search", target_name(target)}};
  record.tried = 0;
  Stream random(start.seed, "search");
  CaseRecipe best = start.recipe;
  double best_score = -1;
  for (int step = 0; step <= kSteps; ++step) {
    CaseRecipe recipe = best;
    if (step > 0) {
      const CaseRecipe other = random_recipe(find_operation(start.op), plan.request().model, random,
                                             plan.request().limits)
                                   .recipe;
      recipe = changed(best, other, random.below(6));
    }
    CheckCase given;
    Outcome o;
    try {
      given = {build_case(recipe), "target search", false};
      o = examiner.examine(given, target == Target::hard ? Depth::thorough : Depth::quick);
    } catch (const InputError&) {
      continue;  // the trait does not fit the rest: a zero key that is to be normalised
    }
    if (o.signature.kind == VerdictKind::unsupported) {
      if (step == 0) record.outcome = o;
      continue;
    }
    ++record.tried;
    o.elements += record.outcome.elements;
    o.lost_children += record.outcome.lost_children;
    const double s = score(o, target);
    const bool finding = o.finding();
    if (s > best_score || finding) {
      best = recipe;
      best_score = s;
      record.outcome = o;
      record.line = recipe_line(recipe);
    } else {
      record.outcome.elements = o.elements;
      record.outcome.lost_children = o.lost_children;
    }
    if (finding) {
      record.recipe = record.line;
      record.hash = case_hash(given);
      break;
    }
  }
  return record;
}

}  // namespace assay
