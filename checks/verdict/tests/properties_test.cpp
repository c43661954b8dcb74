#include "checks/verdict/properties.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "checks/faults/candidate.hpp"
#include "checks/verdict/verdict.hpp"
#include "reference/case/generate.hpp"
#include "reference/oracle/registry.hpp"

using namespace assay;

namespace {

ValidCase make_case(const std::string& op, const std::string& shape, std::uint64_t seed = 3) {
  const Operation& operation = find_operation(op);
  GenerateRequest request;
  request.op = op;
  request.shape = shape;
  request.seed = seed;
  Case data = generate([&](const Case* c) { return operation.schema(c); }, request);
  const Schema schema = operation.schema(&data);
  return validate(std::move(data), schema);
}

/// The reference in emulated fp32, with something done to what it returns.
class Spoiled : public Candidate {
 public:
  using Spoil = std::function<void(const ValidCase&, RunResult&)>;
  explicit Spoiled(Spoil spoil)
      : inner_(make_emulated_candidate("fp32")), spoil_(std::move(spoil)) {}
  const CandidateInfo& info() const override { return inner_->info(); }
  RunResult run(const ValidCase& c, bool gradients) override {
    RunResult result = inner_->run(c, gradients);
    spoil_(c, result);
    return result;
  }

 private:
  std::unique_ptr<Candidate> inner_;
  Spoil spoil_;
};

PropertyReport examine(const ValidCase& c, Spoiled::Spoil spoil) {
  Spoiled candidate(std::move(spoil));
  const PrecisionModel model = *candidate.info().model;
  const RunResult first = candidate.run(c, true);
  const Expectation expected = expectation_for(c, model, {}, first);
  return examine_properties(candidate, c, model, true, first, expected);
}

bool names(const PropertyReport& report, const std::string& property) {
  return std::any_of(report.findings.begin(), report.findings.end(),
                     [&](const PropertyFinding& f) { return f.property == property; });
}

void nothing(const ValidCase&, RunResult&) {}

const char* const kShape = "B=2,T=40,H=2,K=6,V=5";

}  // namespace

TEST_CASE("properties: correct kernels have all that the operation has", "[properties]") {
  for (const char* op : {"gdn", "mdn", "m2rnn", "mom", "gru", "rmsnorm"}) {
    INFO(op);
    const std::string shape = std::string(op) == "m2rnn"     ? "B=2,T=40,N=2,K=6,V=5"
                              : std::string(op) == "gru"     ? "B=2,T=40,H=2,D=5,E=4"
                              : std::string(op) == "rmsnorm" ? "B=2,T=40,D=5"
                                                             : kShape;
    const PropertyReport report = examine(make_case(op, shape), nothing);
    CHECK(report.findings.empty());
    const auto held = [&](const std::string& name) {
      return std::find(report.held.begin(), report.held.end(), name) != report.held.end();
    };
    CHECK(held("causality"));
    CHECK(held("independent sequences"));
    CHECK(held("permutation of the batch"));
    CHECK(held("two halves through the states") == (std::string(op) != "rmsnorm"));
    CHECK(held("linearity in the values") ==
          (std::string(op) == "gdn" || std::string(op) == "mdn" || std::string(op) == "mom"));
  }
  const PropertyReport packed = examine(make_case("gdn", "cu=0,0,9,10,40,H=2,K=6,V=5"), nothing);
  CHECK(packed.findings.empty());
  CHECK(std::find(packed.held.begin(), packed.held.end(), "packed = one by one") !=
        packed.held.end());
}

TEST_CASE("properties: a look into the future", "[properties]") {
  const ValidCase c = make_case("gdn", kShape);
  const auto report = examine(c, [](const ValidCase& given, RunResult& r) {
    const auto& v = given.data.tensors.at("v").values;
    auto& o = r.outputs.at("o").data;
    if (v.size() != o.size()) return;
    for (std::size_t i = 0; i + 10 < o.size(); ++i) o[i] += 0.01 * v[i + 10];  // H V = 10: t + 1
  });
  CHECK(names(report, "causality"));
}

TEST_CASE("properties: gradients that see cotangents of the past", "[properties]") {
  const auto report = examine(make_case("gdn", kShape), [](const ValidCase& given, RunResult& r) {
    const auto& d = given.data.tensors.at("d_o").values;
    if (!r.gradients.count("v")) return;
    auto& dv = r.gradients.at("v").data;
    for (std::size_t i = 10; i < dv.size(); ++i) dv[i] += 0.01 * d[i - 10];
  });
  CHECK(names(report, "causality of the gradients"));
}

TEST_CASE("properties: sequences and heads that know of each other", "[properties]") {
  const auto report = examine(make_case("gdn", kShape), [](const ValidCase& given, RunResult& r) {
    const auto& v = given.data.tensors.at("v").values;
    for (double& x : r.outputs.at("o").data) x += 0.001 * v[v.size() - 3];
  });
  CHECK(names(report, "independent sequences"));
  CHECK(names(report, "independent heads"));
}

TEST_CASE("properties: an initial state that is not read", "[properties]") {
  const auto report = examine(make_case("gdn", kShape), [](const ValidCase& given, RunResult& r) {
    // Whoever starts from 0 is right for the whole case, whose state is absent here, and wrong
    // when it is resumed.
    if (!given.data.tensors.count("s0") || given.sizes['T'] == 40) return;
    for (double& x : r.outputs.at("o").data) x *= 0.5;
  });
  CHECK(names(report, "two halves through the states"));
}

TEST_CASE("properties: values that are clipped", "[properties]") {
  const auto report = examine(make_case("gdn", kShape), [](const ValidCase&, RunResult& r) {
    for (double& x : r.outputs.at("o").data) x = std::clamp(x, -0.2, 0.2);
  });
  CHECK(names(report, "linearity in the values"));
}

TEST_CASE("properties: values near the end of their format stay in it", "[properties]") {
  ValidCase c = make_case("gdn", kShape);
  for (double& x : c.data.tensors.at("v").values) x = round_to_dtype(x * 0x1p126, DType::F32);
  Spoiled candidate([](const ValidCase& given, RunResult&) {
    for (const auto& [name, tensor] : given.data.tensors) {
      for (const double x : tensor.values) {
        CAPTURE(name, x);
        CHECK(std::isfinite(round_to_dtype(x, tensor.dtype)));
      }
    }
  });
  const PrecisionModel model = *candidate.info().model;
  const RunResult first = candidate.run(c, false);
  const Expectation expected = expectation_for(c, model, {}, first);
  const auto report = examine_properties(candidate, c, model, false, first, expected);
  CHECK(report.findings.empty());
  CHECK(std::any_of(report.notes.begin(), report.notes.end(), [](const std::string& note) {
    return note == "linearity in the values: not tried, v would leave its format";
  }));
}

TEST_CASE("properties: a place in the batch that is special", "[properties]") {
  const auto report = examine(make_case("gdn", kShape), [](const ValidCase&, RunResult& r) {
    r.outputs.at("o").data[7] += 0.01;
  });
  CHECK(names(report, "permutation of the batch"));
}
