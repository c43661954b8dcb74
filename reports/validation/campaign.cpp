#include "reports/validation/campaign.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>
#include <optional>

#include "checks/candidate/stop_signal.hpp"
#include "checks/faults/candidate.hpp"
#include "checks/faults/fault.hpp"
#include "checks/verdict/check.hpp"
#include "fuzz/generators/random_case.hpp"
#include "reference/case/generate.hpp"
#include "reference/oracle/parallel.hpp"

namespace assay {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
// Short chunks make short cases; what a fault does at the edge of one it does at any length.
constexpr int kChunk = 16;
// Enough to see whether a fault is named, few enough to try all of them.
constexpr int kCasesPerFault = 3;

/// Counts finished units of a part.
class Counter {
 public:
  Counter(const CampaignRequest& request, std::string part, std::int64_t total)
      : request_(request), part_(std::move(part)), total_(std::max<std::int64_t>(total, 1)) {}
  void done(const std::string& what) {
    const std::lock_guard lock(mutex_);
    ++done_;
    if (!request_.progress) return;
    request_.progress(static_cast<double>(done_) / static_cast<double>(total_),
                      fmt::format("{}: {} of {}, {}", part_, done_, total_, what));
  }

 private:
  const CampaignRequest& request_;
  const std::string part_;
  const std::int64_t total_;
  std::int64_t done_ = 0;
  std::mutex mutex_;
};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

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
    // Of n independent errors the sum of squares is n ± √(2n), in σ².
    const double change = squares / count, stands_out = change * std::sqrt(e.independent / 2);
    most = std::max(most, std::min(std::sqrt(change), stands_out / kFilterThreshold));
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
  if (contains(verdict.blamed, id)) {
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
    try_cases(operation, preset, preset.chunk, request, rows,
              [&](const KillRow& row) { return row.killed == 0 && contains(starved, row.fault); });
  }
  // What was not rejected before somebody stopped it might have been.
  const bool stopped = StopSignal::received() != 0;
  std::erase_if(rows,
                [&](const KillRow& row) { return row.cases == 0 || (stopped && row.killed == 0); });
  return rows;
}

void kills(const CampaignRequest& request, CampaignReport& report) {
  struct Unit {
    const Operation* operation;
    std::string model;
  };
  std::vector<Unit> units;
  for (const std::string& model : request.models) {
    for (const Operation* operation : operations()) {
      if (!request.operations.empty() && !contains(request.operations, operation->name())) continue;
      units.push_back({operation, model});
    }
  }
  std::vector<std::vector<KillRow>> rows(units.size());
  Counter counter(request, "faults", static_cast<std::int64_t>(units.size()));
  parallel_for(static_cast<std::int64_t>(units.size()), request.threads, [&](std::int64_t i) {
    rows[i] = try_faults(*units[i].operation, units[i].model, request);
    counter.done(units[i].operation->name() + " in " + units[i].model);
  });
  for (auto& unit : rows) {
    report.kills.insert(report.kills.end(), unit.begin(), unit.end());
  }
}

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
    if (declared.empty() || contains(declared, operation->name())) known.push_back(operation);
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

AlarmRow alarms(const std::string& model, const CampaignRequest& request) {
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
  Counter counter(request, "correct kernels in " + model, static_cast<std::int64_t>(units.size()));
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

struct GateOf {
  const char *op, *gate, *shape;
  std::vector<std::string> options;
};
// B T H V >= 10^5 each; heads of 128 and keys of norm 1 where trained models have them.
const std::vector<GateOf> kGates = {
    {"gdn", "alpha", "B=2,T=128,H=4,K=128,V=128", {"qk_l2norm=true"}},
    {"mdn", "mu", "B=2,T=128,H=4,K=128,V=128", {"qk_l2norm=true"}},
    {"m2rnn", "f", "B=2,T=256,N=16,K=8,V=16", {}}};

SensitivityRow sensitivity(const GateOf& what, const std::string& model_name,
                           const CampaignRequest& request) {
  const Operation& operation = find_operation(what.op);
  const std::string spec = "emulated:" + model_name;
  const auto candidate = open_candidate(spec, preset_model(model_name), {});
  const auto baseline = open_candidate("emulated:" + model_name + ",order=pairwise,fma",
                                       preset_model(model_name), {});
  const PrecisionModel model = *candidate->info().model;
  GenerateRequest make;
  make.op = what.op;
  make.shape = what.shape;
  make.dtype = storage_dtype(model.input);
  make.seed = request.seed;
  make.options = what.options;
  make.gates = {"model", std::string(what.gate) + "=0.5:0.99"};  // not rounded to 1 in bf16
  Case data = generate([&](const Case* c) { return operation.schema(c); }, make);
  const ValidCase c = validate(std::move(data), operation.schema(nullptr));

  JudgeRequest judging;
  judging.seed = request.seed;
  judging.threads = request.threads;
  const RunResult right = candidate->run(c, true), other = baseline->run(c, true);
  const Expectation expectation = expectation_for(c, model, judging, right);
  const std::vector<Direction> known = directions(c, model, true, request.threads);
  judging.known = &known;
  judging.threads = 1;  // every ε has a thread from here on
  const auto largest_errors = [&](const RunResult& r) {
    std::map<std::string, double> largest;
    for (const auto& [name, e] : expectation) {
      const auto& values = r.find(name)->data;
      for (std::size_t i = 0; i < values.size(); ++i) {
        largest[name] = std::max(largest[name], std::fabs(values[i] - e.truth[i]));
      }
    }
    return largest;
  };
  const auto limit = largest_errors(other);
  struct Rules {
    bool found, allclose, rms, baseline;
  };
  const auto at = [&](double epsilon) {
    ValidCase scaled = c;
    CaseTensor& gate = scaled.data.tensors.at(what.gate);
    gate.dtype = DType::F64;  // the scaling happens inside the kernel, after the gate was read
    for (double& x : gate.values) x *= 1 + epsilon;
    const RunResult result = open_candidate(spec, preset_model(model_name), {})->run(scaled, true);
    const Verdict verdict = judge(c, model, result, judging, expectation);
    Rules rules{is_finding(verdict.kind), false, false, false};
    for (const TensorVerdict& t : verdict.tensors) {
      rules.allclose = rules.allclose || t.stats.allclose_violations > 0;
      rules.rms = rules.rms || !(t.stats.rms_ratio <= 0.005);
    }
    for (const auto& [name, error] : largest_errors(result)) {
      rules.baseline = rules.baseline || error > 2 * limit.at(name);
    }
    return rules;
  };
  SensitivityRow row;
  row.op = what.op;
  row.gate = what.gate;
  row.model = model_name;
  const std::string head(1, operation.schema(nullptr).head_axis);
  row.elements = c.sizes['B'] * c.sizes['T'] * c.sizes[head[0]] * c.sizes['V'];
  row.found = row.allclose = row.rms_ratio = row.baseline = kNone;
  // The first is none: a rule that already rejects the correct kernel says nothing.
  const std::vector<double> tried = {0,    1e-7, 2e-7, 5e-7, 1e-6, 2e-6, 5e-6, 1e-5, 2e-5,
                                     5e-5, 1e-4, 2e-4, 3e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2};
  std::vector<Rules> rules(tried.size());
  const auto count = static_cast<std::int64_t>(tried.size());
  parallel_for(count, request.threads, [&](std::int64_t i) { rules[i] = at(tried[i]); });
  for (std::size_t i = tried.size(); i-- > 0;) {  // the smallest last
    if (rules[i].found) row.found = tried[i];
    if (rules[i].allclose) row.allclose = tried[i];
    if (rules[i].rms) row.rms_ratio = tried[i];
    if (rules[i].baseline) row.baseline = tried[i];
  }
  return row;
}

/// Within the declared rounding: nobody could see it.
bool invisible(const KillRow& row) { return row.killed == 0 && row.effect <= 1; }

std::string epsilon_text(double x) {
  if (x == 0) return "rejects the correct kernel";
  return std::isinf(x) ? "> 1e-2" : fmt::format("{:.0e}", x);
}

struct KillSummary {
  int pairs = 0, rejected = 0, within_rounding = 0, missed = 0;
  int cases_killed = 0, named = 0, wrong = 0, misled = 0;
};

std::map<std::string, KillSummary> summaries(const CampaignReport& campaign) {
  std::map<std::string, KillSummary> by_model;
  for (const KillRow& row : campaign.kills) {
    KillSummary& s = by_model[row.model];
    ++s.pairs;
    s.rejected += row.killed > 0;
    s.within_rounding += invisible(row);
    s.missed += row.killed == 0 && !invisible(row);
    s.cases_killed += row.killed;
    s.named += row.named;
    s.wrong += row.wrong;
    s.misled += row.misled;
  }
  return by_model;
}

std::string percent(int part, int whole) {
  return whole == 0 ? "–" : fmt::format("{:.1f} %", 100.0 * part / whole);
}

}  // namespace

CampaignReport run_campaign(const CampaignRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  CampaignReport report;
  if (contains(request.parts, "kills")) kills(request, report);
  if (contains(request.parts, "alarms")) {
    for (const std::string& model : request.models) {
      report.alarms.push_back(alarms(model, request));
    }
  }
  if (contains(request.parts, "sensitivity")) {
    std::vector<GateOf> gates;
    for (const GateOf& gate : kGates) {
      if (request.operations.empty() || contains(request.operations, gate.op)) {
        gates.push_back(gate);
      }
    }
    Counter counter(request, "sensitivity",
                    static_cast<std::int64_t>(gates.size() * request.models.size()));
    for (const std::string& model : request.models) {
      for (const GateOf& gate : gates) {
        if (StopSignal::received() != 0) break;
        report.sensitivity.push_back(sensitivity(gate, model, request));
        counter.done(std::string(gate.op) + " " + gate.gate);
      }
    }
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  report.seconds = spent.count();
  report.signal = StopSignal::received();
  return report;
}

std::string campaign_markdown(const CampaignReport& campaign) {
  std::string text;
  if (campaign.signal != 0) text += "Interrupted: not everything was run.\n\n";
  if (!campaign.kills.empty()) {
    text +=
        "| model | fault and operation | rejected | within the declared rounding | missed | named "
        "first, of rejected cases | another blamed | unknown, yet blamed on a known one |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
    for (const auto& [model, s] : summaries(campaign)) {
      text +=
          fmt::format("| {} | {} | {} | {} | {} | {} of {} ({}) | {} | {} |\n", model, s.pairs,
                      s.rejected, s.within_rounding, s.missed, s.named, s.cases_killed,
                      percent(s.named, s.cases_killed), s.wrong, percent(s.misled, s.cases_killed));
    }
    std::string hidden;
    for (const KillRow& row : campaign.kills) {
      if (!invisible(row)) continue;
      hidden +=
          fmt::format("| {} | {} | {} | {:.2g} |\n", row.model, row.fault, row.op, row.effect);
    }
    if (!hidden.empty()) {
      text +=
          "\n| model | fault | operation | effect, of the declared rounding |\n"
          "| --- | --- | --- | --- |\n" +
          hidden;
    }
    text += "\n";
  }
  if (!campaign.alarms.empty()) {
    text +=
        "| model | cases | elements | false alarms | largest z | largest rms z |\n"
        "| --- | --- | --- | --- | --- | --- |\n";
    for (const AlarmRow& row : campaign.alarms) {
      text += fmt::format("| {} | {} | {:.1f} M | {} | {:.2f} | {:.2f} |\n", row.model, row.cases,
                          static_cast<double>(row.elements) * 1e-6, row.findings.size(),
                          row.largest_z, row.largest_rms);
    }
    text += "\n";
  }
  if (!campaign.sensitivity.empty()) {
    text +=
        "| gate | model | elements | assay | allclose(1e-2) | RMS ratio 0.005 | 2 x baseline |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n";
    for (const SensitivityRow& row : campaign.sensitivity) {
      text += fmt::format("| {} {} | {} | {} | {} | {} | {} | {} |\n", row.op, row.gate, row.model,
                          row.elements, epsilon_text(row.found), epsilon_text(row.allclose),
                          epsilon_text(row.rms_ratio), epsilon_text(row.baseline));
    }
  }
  return text;
}

render::Report campaign_report(const CampaignReport& campaign) {
  render::Report report;
  report.name = "validation";
  render::Page& page = report.page;
  page.title = "How far the verdict can be trusted";
  page.subtitle = "planted faults, correct kernels, one gate slightly off";
  int missed = 0;
  std::size_t false_alarms = 0;
  render::Json kills = render::Json::array(), alarms = render::Json::array(),
               gates = render::Json::array();
  render::Table kill_table{"Faults",
                           {{"fault"},
                            {"operation"},
                            {"model"},
                            {"cases", true},
                            {"rejected", true},
                            {"named", true},
                            {"effect, of the rounding", true},
                            {"result"}},
                           {}};
  render::Csv kill_csv{"faults",
                       {"fault", "operation", "model", "cases", "rejected", "named", "other_blamed",
                        "misled_when_unknown", "effect"},
                       {}};
  for (const KillRow& row : campaign.kills) {
    const bool hidden = invisible(row);
    missed += row.killed == 0 && !hidden;
    const render::Cell result = row.killed > 0 ? render::Cell("rejected", render::Tone::good)
                                : hidden ? render::Cell("within rounding", render::Tone::neutral)
                                         : render::Cell("missed", render::Tone::bad);
    kill_table.rows.push_back({row.fault, row.op, row.model, std::to_string(row.cases),
                               std::to_string(row.killed), std::to_string(row.named),
                               fmt::format("{:.2g}", row.effect), result});
    kill_csv.rows.push_back({row.fault, row.op, row.model, std::to_string(row.cases),
                             std::to_string(row.killed), std::to_string(row.named),
                             std::to_string(row.wrong), std::to_string(row.misled),
                             render::csv_number(row.effect)});
    kills.push_back({{"fault", row.fault},
                     {"op", row.op},
                     {"model", row.model},
                     {"cases", row.cases},
                     {"rejected", row.killed},
                     {"named", row.named},
                     {"other_blamed", row.wrong},
                     {"misled_when_unknown", row.misled},
                     {"effect", render::json_number(row.effect)}});
  }
  render::Table alarm_table{"Correct kernels",
                            {{"model"},
                             {"cases", true},
                             {"elements", true},
                             {"false alarms", true},
                             {"largest z [σ]", true},
                             {"largest rms z [σ]", true}},
                            {}};
  std::vector<std::string> lines;
  for (const AlarmRow& row : campaign.alarms) {
    false_alarms += row.findings.size();
    lines.insert(lines.end(), row.findings.begin(), row.findings.end());
    alarm_table.rows.push_back(
        {row.model, std::to_string(row.cases), std::to_string(row.elements),
         render::Cell(std::to_string(row.findings.size()),
                      row.findings.empty() ? render::Tone::good : render::Tone::bad),
         fmt::format("{:.2f}", row.largest_z), fmt::format("{:.2f}", row.largest_rms)});
    alarms.push_back({{"model", row.model},
                      {"cases", row.cases},
                      {"elements", row.elements},
                      {"largest_z", render::json_number(row.largest_z)},
                      {"largest_rms_z", render::json_number(row.largest_rms)},
                      {"candidates", row.candidates},
                      {"false_alarms", row.findings}});
  }
  render::Table gate_table{"Smallest scaling of a gate that is found",
                           {{"gate"},
                            {"model"},
                            {"elements", true},
                            {"assay", true},
                            {"allclose(1e-2)", true},
                            {"RMS ratio 0.005", true},
                            {"2 x baseline", true}},
                           {}};
  for (const SensitivityRow& row : campaign.sensitivity) {
    gate_table.rows.push_back({row.op + " " + row.gate, row.model, std::to_string(row.elements),
                               epsilon_text(row.found), epsilon_text(row.allclose),
                               epsilon_text(row.rms_ratio), epsilon_text(row.baseline)});
    gates.push_back({{"op", row.op},
                     {"gate", row.gate},
                     {"model", row.model},
                     {"elements", row.elements},
                     {"assay", render::json_number(row.found)},
                     {"allclose", render::json_number(row.allclose)},
                     {"rms_ratio", render::json_number(row.rms_ratio)},
                     {"baseline", render::json_number(row.baseline)}});
  }
  const bool well = missed == 0 && false_alarms == 0, whole = campaign.signal == 0;
  report.outcome = !well   ? render::Outcome::finding
                   : whole ? render::Outcome::well
                           : render::Outcome::undecided;
  std::vector<std::string> said;
  if (!campaign.kills.empty()) said.push_back(fmt::format("{} visible faults missed", missed));
  if (!campaign.alarms.empty()) said.push_back(fmt::format("{} false alarms", false_alarms));
  if (!campaign.sensitivity.empty()) {
    said.push_back(fmt::format("{} gates scaled", campaign.sensitivity.size()));
  }
  if (!whole) said.push_back("interrupted");
  page.verdict = {well && whole ? render::Tone::good : render::Tone::bad,
                  !well   ? "FINDINGS"
                  : whole ? "PASS"
                          : "INCOMPLETE",
                  fmt::format("{}.", fmt::join(said, ", "))};
  const auto add = [&](const char* title, const render::Table& table) {
    if (!table.rows.empty()) page.sections.push_back({title, {table}});
  };
  add("Correct kernels", alarm_table);
  if (!lines.empty()) page.sections.back().blocks.push_back(render::Notes{lines});
  add("Sensitivity", gate_table);
  add("Planted faults", kill_table);
  page.sections.push_back(
      {"As text", {render::Details{"Markdown", {render::Code{campaign_markdown(campaign)}}}}});
  report.json = {
      {"kills", kills}, {"alarms", alarms}, {"sensitivity", gates}, {"seconds", campaign.seconds}};
  report.tables = {kill_csv};
  return report;
}

}  // namespace assay
