#include "checks/candidate/tests/candidate_cases.hpp"

#include <cmath>
#include <cstdlib>

#include "reference/case/generate.hpp"
#include "reference/oracle/evaluate.hpp"
#include "reference/oracle/registry.hpp"

namespace assay::tests {
namespace {

double worst(const std::map<std::string, Tensor<double>>& expected,
             const std::map<std::string, Tensor<double>>& found) {
  double distance = 0;
  for (const auto& [name, x] : expected) {
    const auto it = found.find(name);
    if (it == found.end() || it->second.shape != x.shape) return kInf;
    for (std::size_t i = 0; i < x.data.size(); ++i) {
      const double d = std::abs(x.data[i] - it->second.data[i]);
      if (!(d <= distance)) distance = std::isnan(d) ? kInf : d;
    }
  }
  return distance;
}

}  // namespace

ValidCase attention_case(std::int64_t T, DType dtype) {
  const Operation& operation = find_operation("linear_attention");
  GenerateRequest request;
  request.op = "linear_attention";
  request.shape = "B=1,T=" + std::to_string(T) + ",H=2,K=3,V=4";
  request.dtype = dtype;
  request.seed = 5;
  const Case data = generate([&](const Case* c) { return operation.schema(c); }, request);
  return validate(data, operation.schema(&data));
}

std::unique_ptr<Candidate> open_plugin(const std::string& name, double seconds,
                                       std::uint64_t memory_bytes) {
  RunLimits limits;
  limits.seconds = seconds;
  limits.memory_bytes = memory_bytes;
  return open_candidate(std::string(ASSAY_TEST_PLUGINS) + "/" + name + ".so", PrecisionModel{},
                        limits);
}

double distance_to_truth(const ValidCase& c, const RunResult& result, bool gradients) {
  RunOptions options;
  options.gradients = gradients;
  const Result<double> truth = evaluate(lift<double>(c), options);
  const double distance = worst(truth.outputs, result.outputs);
  return gradients ? std::max(distance, worst(truth.gradients, result.gradients)) : distance;
}

std::string hygiene_text(const std::vector<HygieneFinding>& findings) {
  std::string text;
  for (const HygieneFinding& f : findings) text += f.kind + " " + f.tensor + ": " + f.detail + "\n";
  return text;
}

bool has_finding(const std::vector<HygieneFinding>& findings, const std::string& kind,
                 const std::string& tensor) {
  for (const HygieneFinding& f : findings) {
    if (f.kind == kind && f.tensor == tensor) return true;
  }
  return false;
}

Environment::Environment(const char* name, const std::string& value) : name_(name) {
  const char* old = std::getenv(name);
  was_set_ = old != nullptr;
  if (was_set_) before_ = old;
  setenv(name, value.c_str(), 1);
}

Environment::~Environment() {
  if (was_set_) {
    setenv(name_, before_.c_str(), 1);
  } else {
    unsetenv(name_);
  }
}

}  // namespace assay::tests
