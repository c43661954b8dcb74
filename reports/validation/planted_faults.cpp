// Is every fault of the dictionary rejected, and named?
#include <algorithm>
#include <cmath>
#include <optional>

#include "checks/candidate/stop_signal.hpp"
#include "checks/faults/candidate.hpp"
#include "checks/faults/fault.hpp"
#include "checks/verdict/check.hpp"
#include "reference/oracle/parallel.hpp"
#include "reports/validation/campaign_parts.hpp"

namespace assay {
namespace {

// Short chunks make short cases; what a fault does at the edge of one it does at any length.
constexpr int kChunk = 16;
// Enough to see whether a fault is named, few enough to try all of them.
constexpr int kCasesPerFault = 3;

/// What all faults of an operation are judged by on one case.
struct Judged {
  Expectation expectation;
  std::map<std::string, DType> stored;  // for results handed over in these dtypes
};

/// Its own direction as the error, without any rounding.
double effect_of_formula(const Direction& direction, const Expectation& expectation) {
  ErrorTensors error;
  for (const auto& [name, e] : expectation) {
    const auto found = direction.d.find(name);
    error[name] = found != direction.d.end() ? found->second : std::vector<double>(e.truth.size());
  }
  return matched_filters(expectation, error, {direction}, {}, 1)[0].significance() /
         kFilterThreshold;
}

/// The mean square that it adds to the errors of a tensor, over what the declared rounding may add
/// by itself: 1 in σ², and kFilterThreshold of the standard errors √(2/n) with which n independent
/// errors have that. The root of it.
double effect_of_rounding(const CheckCase& c, const PrecisionModel& model, const RunResult& result,
                          const Expectation& expectation) {
  const RunResult plain = make_plain_candidate(model)->run(c.valid, true);
  double most = 0;
  for (const auto& [name, e] : expectation) {
    const Tensor<double>*with = result.find(name), *without = plain.find(name);
    if (!with || !without) continue;
    double squares = 0, count = 0;
    for (std::size_t i = 0; i < e.sigma.size(); ++i) {
      if (!(e.sigma[i] > 0) || !std::isfinite(e.sigma[i])) continue;
      const double wrong = (with->data[i] - e.truth[i]) / e.sigma[i];
      const double right = (without->data[i] - e.truth[i]) / e.sigma[i];
      squares += wrong * wrong - right * right;
      count += 1;
    }
    if (!(squares > 0)) continue;
    const double declared = 1 + kFilterThreshold * std::sqrt(2 / e.independent);
    most = std::max(most, std::sqrt(squares / count / declared));
  }
  return most;
}

void try_fault_on(const CheckCase& c, const std::string& id, const PrecisionModel& preset,
                  const std::vector<Direction>& known, std::optional<Judged>& shared,
                  JudgeRequest judging, KillRow& row) {
  const auto candidate = make_fault_candidate(id, preset);
  const PrecisionModel model = *candidate->info().model;
  const RunResult result = candidate->run(c.valid, true);
  if (result.status != RunStatus::ran) return;
  ++row.cases;
  if (!shared || shared->stored != result.stored) {
    shared = Judged{expectation_for(c.valid, model, judging, result), result.stored};
  }
  const Expectation& expectation = shared->expectation;
  judging.known = &known;
  const Verdict verdict = judge(c.valid, model, result, judging, expectation);
  const auto direction =
      std::find_if(known.begin(), known.end(), [&](const Direction& d) { return d.id == id; });
  if (direction != known.end()) {
    row.effect =
        std::max(row.effect, direction->rounding ? effect_of_rounding(c, model, result, expectation)
                                                 : effect_of_formula(*direction, expectation));
  }
  if (!is_finding(verdict.kind)) return;
  ++row.killed;
  if (contains_name(verdict.blamed, id)) {
    ++row.named;
  } else if (!verdict.blamed.empty()) {
    ++row.wrong;
  }
  // The same error as something unknown: neither this fault nor what equals it is considered.
  JudgeRequest blind = judging;
  blind.without = verdict.blamed;
  blind.without.push_back(id);
  const Verdict unknown = judge(c.valid, model, result, blind, expectation);
  for (const std::string& other : unknown.blamed) {
    // What a tensor holds, a gate that is off: no fault of the dictionary.
    const auto named = [&](const Fault* fault) { return fault->info().id == other; };
    if (std::none_of(faults().begin(), faults().end(), named)) continue;
    ++row.misled;
    break;
  }
}

/// The faults that `wants` one more case, on the cases of `check` with chunks of that length.
template <class Wants>
void try_cases(const Operation& operation, PrecisionModel preset, int chunk,
               const CampaignRequest& request, std::vector<KillRow>& rows, Wants wants) {
  preset.chunk = chunk;
  JudgeRequest judging;
  judging.seed = request.seed;
  for (CheckCase& c : check_cases(operation, preset, request.seed)) {
    if (c.exact) continue;
    if (StopSignal::received() != 0) return;
    if (c.valid.schema.find_option("chunk")) {
      c.valid.data.options["chunk"] = std::int64_t{chunk};
    }
    std::vector<Direction> known;
    std::optional<Judged> shared;
    for (std::size_t f = 0; f < rows.size(); ++f) {
      if (!wants(rows[f]) || !faults()[f]->applies(c.valid)) continue;
      if (known.empty()) known = directions(c.valid, preset, true, 1);
      try_fault_on(c, rows[f].fault, preset, known, shared, judging, rows[f]);
    }
  }
}

/// Every fault on the first cases that can show it, and on further ones until it is rejected; where
/// short chunks leave too few, as in operations without chunks, on those of `check` as they are.
std::vector<KillRow> try_faults(const Operation& operation, const std::string& model_name,
                                const CampaignRequest& request) {
  const PrecisionModel preset = preset_model(model_name);
  std::vector<KillRow> rows;
  for (const Fault* fault : faults())
    rows.push_back({fault->info().id, operation.name(), model_name});
  try_cases(operation, preset, kChunk, request, rows,
            [](const KillRow& row) { return row.cases < kCasesPerFault || row.killed == 0; });
  std::vector<std::string> starved;
  for (const KillRow& row : rows) {
    if (row.cases > 0 && row.cases < kCasesPerFault && row.killed == 0)
      starved.push_back(row.fault);
  }
  if (!starved.empty()) {
    try_cases(operation, preset, preset.chunk, request, rows, [&](const KillRow& row) {
      return row.killed == 0 && contains_name(starved, row.fault);
    });
  }
  // What was not rejected before somebody stopped it might have been.
  const bool stopped = StopSignal::received() != 0;
  std::erase_if(rows,
                [&](const KillRow& row) { return row.cases == 0 || (stopped && row.killed == 0); });
  return rows;
}

}  // namespace

std::vector<KillRow> planted_faults(const CampaignRequest& request) {
  struct Unit {
    const Operation* operation;
    std::string model;
  };
  std::vector<Unit> units;
  for (const std::string& model : request.models) {
    for (const Operation* operation : operations()) {
      if (!request.operations.empty() && !contains_name(request.operations, operation->name()))
        continue;
      units.push_back({operation, model});
    }
  }
  std::vector<std::vector<KillRow>> rows(units.size());
  UnitCounter counter(request, "faults", static_cast<std::int64_t>(units.size()));
  parallel_for(static_cast<std::int64_t>(units.size()), request.threads, [&](std::int64_t i) {
    rows[i] = try_faults(*units[i].operation, units[i].model, request);
    counter.done(units[i].operation->name() + " in " + units[i].model);
  });
  std::vector<KillRow> all;
  for (auto& unit : rows) all.insert(all.end(), unit.begin(), unit.end());
  return all;
}

}  // namespace assay
