// Does every correct kernel pass?
#include <fmt/format.h>

#include <algorithm>

#include "checks/candidate/stop_signal.hpp"
#include "checks/verdict/check.hpp"
#include "fuzz/generators/random_case.hpp"
#include "reference/oracle/parallel.hpp"
#include "reports/validation/campaign_parts.hpp"

namespace assay {
namespace {

/// Correct kernels of a model: the built-in ones where they have the format, and the reference in
/// emulated arithmetic with other orders of summation, fused multiply-adds, truncation and chunks.
std::vector<std::string> correct_candidates(const std::string& model) {
  std::vector<std::string> specs;
  if (model == "fp32" || model == "bf16") specs = {"cpu", "cpu@chunk=16", "cpu@recurrent"};
  for (const char* variant : {"", ",order=pairwise,fma", ",order=reversed", ",truncate",
                              ",chunk=16", ",chunk=32,fma", ",chunk=128,order=pairwise"}) {
    specs.push_back("emulated:" + model + variant);
  }
  return specs;
}

struct AlarmShare {
  std::int64_t cases = 0, elements = 0;
  double largest_z = 0, largest_rms = 0;
  std::vector<std::string> findings;
};

/// The cases whose number is `rest` modulo the number of candidates, on that candidate.
AlarmShare try_correct(const std::string& spec, const std::string& model_name, std::int64_t first,
                       std::int64_t last, std::int64_t step, const CampaignRequest& request) {
  AlarmShare share;
  const PrecisionModel preset = preset_model(model_name);
  const auto candidate = open_candidate(spec, preset, {});
  PrecisionModel model = preset;
  if (const auto& own = candidate->info().model) {
    const bool fits = own->input == preset.input;
    if (fits) model = *own;
  }
  std::vector<const Operation*> known;
  for (const Operation* operation : operations()) {
    const auto& declared = candidate->info().operations;
    if (declared.empty() || contains_name(declared, operation->name())) known.push_back(operation);
  }
  CheckRequest check;
  check.seed = request.seed;
  for (std::int64_t i = first; i < last && StopSignal::received() == 0; i += step) {
    const Operation& operation = *known[(i / step) % static_cast<std::int64_t>(known.size())];
    const RandomCase drawn = random_case(operation, model, request.seed, i, {96, 12, 2});
    Verdict verdict;
    try {
      verdict = check_case(*candidate, drawn.given, model, check);
    } catch (const Interrupted&) {
      break;
    }
    if (verdict.kind == VerdictKind::unsupported) continue;
    ++share.cases;
    for (const TensorVerdict& t : verdict.tensors) {
      share.elements += t.stats.elements;
      share.largest_z = std::max(share.largest_z, t.stats.max_z);
      if (t.stats.elements >= 256) share.largest_rms = std::max(share.largest_rms, t.stats.rms_z);
    }
    if (is_finding(verdict.kind)) {
      share.findings.push_back(fmt::format("{} case {}: {} {}: {}", spec, i,
                                           verdict_name(verdict.kind), verdict.case_line,
                                           verdict.sentence));
    }
  }
  return share;
}

}  // namespace

AlarmRow false_alarms(const std::string& model, const CampaignRequest& request) {
  constexpr std::int64_t kBlocks = 40;
  const std::vector<std::string> specs = correct_candidates(model);
  const auto step = static_cast<std::int64_t>(specs.size());
  struct Unit {
    std::size_t spec;
    std::int64_t first, last;
  };
  std::vector<Unit> units;
  for (std::int64_t block = 0; block < kBlocks; ++block) {
    const std::int64_t from = request.alarm_cases * block / kBlocks;
    const std::int64_t to = request.alarm_cases * (block + 1) / kBlocks;
    for (std::size_t s = 0; s < specs.size(); ++s) {
      std::int64_t first = from + (static_cast<std::int64_t>(s) - from % step + step) % step;
      if (first < to) units.push_back({s, first, to});
    }
  }
  std::vector<AlarmShare> shares(units.size());
  UnitCounter counter(request, "correct kernels in " + model,
                      static_cast<std::int64_t>(units.size()));
  parallel_for(static_cast<std::int64_t>(units.size()), request.threads, [&](std::int64_t u) {
    const Unit& unit = units[u];
    shares[u] = try_correct(specs[unit.spec], model, unit.first, unit.last, step, request);
    counter.done(specs[unit.spec]);
  });
  AlarmRow row;
  row.model = model;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const AlarmShare& share = shares[u];
    row.cases += share.cases;
    row.elements += share.elements;
    row.largest_z = std::max(row.largest_z, share.largest_z);
    row.largest_rms = std::max(row.largest_rms, share.largest_rms);
    row.findings.insert(row.findings.end(), share.findings.begin(), share.findings.end());
    row.candidates[specs[units[u].spec]] += share.cases;
  }
  return row;
}

}  // namespace assay
