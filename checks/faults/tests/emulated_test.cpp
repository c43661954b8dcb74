// Candidates in emulated arithmetic: correct ones stay within their unit roundoff of the truth,
// wrong ones do what their fault does, and variations of the arithmetic are real variations.
#include <catch2/catch.hpp>
#include <cmath>

#include "checks/faults/candidate.hpp"
#include "checks/faults/fault.hpp"
#include "reference/case/generate.hpp"
#include "reference/oracle/registry.hpp"
#include "reference/scalars/scalars.hpp"

namespace {

using namespace assay;  // NOLINT

ValidCase make_case(const std::string& op, const std::string& shape, DType dtype, int seed = 3) {
  const Operation& operation = find_operation(op);
  const auto provider = [&](const Case* data) { return operation.schema(data); };
  GenerateRequest request;
  request.op = op;
  request.shape = shape;
  request.dtype = dtype;
  request.seed = seed;
  Case data = generate(provider, request);
  const Schema schema = provider(&data);
  return validate(std::move(data), schema);
}

double rms(const std::vector<double>& v) {
  double sum = 0;
  for (double x : v) sum += x * x;
  return v.empty() ? 0 : std::sqrt(sum / static_cast<double>(v.size()));
}

/// Largest root mean square error of a tensor in units of u times its root mean square.
double worst_error(const ValidCase& c, const RunResult& run, double u) {
  const Result<double> truth = evaluate(lift<double>(c), RunOptions{Form::recurrent, true, 1, {}});
  double worst = 0;
  const auto look = [&](const std::map<std::string, Tensor<double>>& got,
                        const std::map<std::string, Tensor<double>>& want) {
    REQUIRE(got.size() == want.size());
    for (const auto& [name, t] : want) {
      std::vector<double> e;
      for (std::int64_t i = 0; i < t.size(); ++i) e.push_back(got.at(name).data[i] - t.data[i]);
      const double error = rms(e) / (u * rms(t.data));
      if (!(error <= worst)) worst = error;
    }
  };
  look(run.outputs, truth.outputs);
  look(run.gradients, truth.gradients);
  return worst;
}

TEST_CASE("emulated: correct candidates stay near the truth", "[emulated]") {
  struct Row {
    const char* spec;
    DType dtype;
    double u;
    double limit = 40;
  };
  const std::vector<Row> rows = {
      {"fp32", DType::F32, 0x1p-24},
      {"fp32,fma", DType::F32, 0x1p-24},
      {"fp32,order=reversed", DType::F32, 0x1p-24},
      {"fp32,order=pairwise,fma,chunk=8", DType::F32, 0x1p-24},
      {"fp32,truncate", DType::F32, 0x1p-23, 200},  // all errors of a sum have one sign
      {"tf32,order=pairwise", DType::F32, 0x1p-11},
      {"fp16,chunk=16", DType::F16, 0x1p-11},
      {"bf16,chunk=32", DType::BF16, 0x1p-8},
      {"bf16,order=reversed,fma", DType::BF16, 0x1p-8},
  };
  for (const Row& row : rows) {
    const auto candidate = make_emulated_candidate(row.spec);
    CHECK(candidate->info().name == std::string("emulated:") + row.spec);
    for (const char* op : {"mdn", "gdn", "kda", "m2rnn", "gla", "mom"}) {
      const std::string heads = op == std::string("m2rnn") ? "N=2" : "H=2";
      const ValidCase c = make_case(op, "B=1,T=40,K=8,V=8," + heads, row.dtype);
      const RunResult run = candidate->run(c, true);
      INFO(row.spec << " " << op << ": " << run.detail);
      REQUIRE(run.status == RunStatus::ran);
      const double error = worst_error(c, run, row.u);
      INFO("error " << error << " u");
      CHECK(error < row.limit);
      CHECK(error > 0.01);  // and is no evaluation in double
    }
  }
}

TEST_CASE("emulated: order, FMA, chunk and truncation change the bits", "[emulated]") {
  const ValidCase c = make_case("mdn", "B=1,T=40,K=8,V=8,H=2", DType::F32);
  const auto outputs = [&](const std::string& spec) {
    return make_emulated_candidate(spec)->run(c, false).outputs.at("o").data;
  };
  const std::vector<double> plain = outputs("fp32");
  for (const char* spec : {"fp32,fma", "fp32,order=reversed", "fp32,order=pairwise",
                           "fp32,truncate", "fp32,chunk=16", "tf32", "bf16"}) {
    INFO(spec);
    CHECK(outputs(spec) != plain);
  }
  CHECK(outputs("fp32,order=forward") == plain);
  // A run leaves no trace in the thread.
  CHECK(outputs("fp32") == plain);
}

TEST_CASE("emulated: truncation rounds towards zero", "[emulated]") {
  for (Format format : {Format::fp32, Format::tf32, Format::fp16, Format::bf16}) {
    const double u = 2 * unit_roundoff(format);
    CHECK(truncate_to(format, 1 + 0.75 * u) == 1);
    CHECK(truncate_to(format, -1 - 0.75 * u) == -1);
    CHECK(truncate_to(format, 1 - 0.1 * u) == 1 - 0.5 * u);  // spacing halves below 1
    CHECK(truncate_to(format, 1 + u) == 1 + u);
    CHECK(truncate_to(format, 0x1p-149 * 1.5) <= 0x1p-149);
    CHECK(std::isfinite(truncate_to(format, 1e300)));
    CHECK(std::isnan(truncate_to(format, std::nan(""))));
    CHECK(truncate_to(format, kInf) == kInf);
  }
}

TEST_CASE("emulated: specifications that make no sense are refused", "[emulated]") {
  for (const char* spec : {"", "fp31", "fp32,chunk=0", "fp32,order=up", "fp32,fast"}) {
    CHECK_THROWS_AS(make_emulated_candidate(spec), InputError);
  }
}

TEST_CASE("fault candidate: its error is the fault's, in every model", "[faults][candidate]") {
  const std::vector<std::pair<const char*, DType>> models = {
      {"fp32", DType::F32}, {"tf32", DType::F32}, {"fp16", DType::F16}, {"bf16", DType::BF16}};
  for (const auto& [name, dtype] : models) {
    const PrecisionModel model = preset_model(name);
    const ValidCase c = make_case("gdn", "B=1,T=40,K=8,V=8,H=2", dtype);
    const auto candidate = make_fault_candidate("gdn.residual_undecayed", model);
    const RunResult run = candidate->run(c, true);
    REQUIRE(run.status == RunStatus::ran);
    const RunOptions options{Form::recurrent, true, 1, {}};
    const Result<double> truth = evaluate(lift<double>(c), options);
    const Result<double> wrong = find_fault("gdn.residual_undecayed").evaluate(c, options);
    double along = 0, energy = 0;
    for (std::int64_t i = 0; i < truth.outputs.at("o").size(); ++i) {
      const double d = wrong.outputs.at("o").data[i] - truth.outputs.at("o").data[i];
      along += d * (run.outputs.at("o").data[i] - truth.outputs.at("o").data[i]);
      energy += d * d;
    }
    INFO(name);
    CHECK(std::fabs(along / energy - 1) < 0.1);
    CHECK(make_fault_candidate("mdn.momentum_sign", model)->run(c, true).status ==
          RunStatus::unsupported);
  }
}

TEST_CASE("fault candidate: every fault runs in rounded arithmetic", "[faults][candidate]") {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"mdn", "B=2,T=9,H=4,H.q=2,K=4,V=4"},
      {"m2rnn", "B=2,T=9,N=4,N.q=2,K=4,V=4"},
      {"gdn", "cu=0,4,9,H=4,H.q=2,K=4,V=4"},
      {"mom", "B=2,T=9,M=4,H=2,K=4,V=4"},
      {"rmsnorm_tp", "B=1,T=3,P=2,D=4"},
      {"m2rnn_block", "B=1,T=5,N=2,K=2,V=2,E=3,W=4"},
      {"mdn_fused_gates", "B=2,T=9,H=4,H.q=2,K=4,V=4"},
      {"mdn_gates", "B=1,T=3,H=2"},
      {"kda", "B=1,T=70,H=1,K=4,V=4"}};
  for (const auto& [op, shape] : cases) {
    const ValidCase c = make_case(op, shape, DType::F32);
    for (const Fault* fault : faults()) {
      if (!fault->applies(c)) continue;
      INFO(fault->info().id << " on " << op);
      const RunResult run =
          make_fault_candidate(fault->info().id, preset_model("fp32"))->run(c, true);
      INFO(run.detail);
      CHECK(run.status == RunStatus::ran);
      CHECK(run.gradients.size() ==
            evaluate(lift<double>(c), {Form::recurrent, true, 1, {}}).gradients.size());
    }
  }
}

}  // namespace
