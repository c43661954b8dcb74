// How little of an error in a gate is found, by this program and by other rules?
#include <algorithm>
#include <cmath>
#include <limits>

#include "checks/candidate/stop_signal.hpp"
#include "checks/verdict/check.hpp"
#include "reference/case/generate.hpp"
#include "reference/oracle/parallel.hpp"
#include "reports/validation/campaign_parts.hpp"

namespace assay {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

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

}  // namespace

std::vector<SensitivityRow> scaled_gates(const CampaignRequest& request) {
  std::vector<GateOf> gates;
  for (const GateOf& gate : kGates) {
    if (request.operations.empty() || contains_name(request.operations, gate.op)) {
      gates.push_back(gate);
    }
  }
  std::vector<SensitivityRow> rows;
  UnitCounter counter(request, "sensitivity",
                      static_cast<std::int64_t>(gates.size() * request.models.size()));
  for (const std::string& model : request.models) {
    for (const GateOf& gate : gates) {
      if (StopSignal::received() != 0) return rows;
      rows.push_back(sensitivity(gate, model, request));
      counter.done(std::string(gate.op) + " " + gate.gate);
    }
  }
  return rows;
}

}  // namespace assay
