// Verdicts on results made by the reference itself in rounded arithmetic, right and wrong.
#include "checks/verdict/verdict.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "checks/faults/candidate.hpp"
#include "checks/output/check_formats.hpp"
#include "checks/output/verdict_text.hpp"
#include "checks/verdict/check_cases.hpp"
#include "checks/verdict/dtypes.hpp"
#include "reference/case/generate.hpp"
#include "reference/scalars/scalars.hpp"

using namespace assay;

namespace {

/// What a correct kernel returns: fp32 arithmetic, results rounded to the model's output format.
RunResult emulate(const ValidCase& c, const PrecisionModel& model) {
  const FormatScope format(Format::fp32);
  const auto rounded = evaluate<Rounded>(lift<Rounded>(c), {Form::recurrent, true, 1, {}});
  RunResult result;
  const auto take = [&](const auto& from, auto& to) {
    for (const auto& [name, t] : from) {
      const OutputSpec* out = c.schema.find_output(name);
      const NumberFormat format = out && out->final_state ? model.final_state : model.output;
      Tensor<double> values(t.shape);
      for (std::int64_t i = 0; i < t.size(); ++i) {
        values.data[i] = round_to(format, t.data[i].value());
      }
      to.emplace(name, std::move(values));
    }
  };
  take(rounded.outputs, result.outputs);
  take(rounded.gradients, result.gradients);
  return result;
}

const CheckCase& ordinary(const std::string& op, const std::string& model) {
  static std::map<std::string, std::vector<CheckCase>> made;
  auto& cases = made[op + model];
  if (cases.empty()) {
    PrecisionModel small = preset_model(model);
    small.chunk = 16;
    cases = check_cases(find_operation(op), small, 3);
  }
  return cases[0];
}

Verdict judged(const CheckCase& c, const PrecisionModel& model, const RunResult& result) {
  JudgeRequest request;
  request.exact = c.exact;
  request.threads = 2;
  return judge(c.valid, model, result, request);
}

}  // namespace

TEST_CASE("verdict: correct results pass in every preset", "[verdict]") {
  for (const char* name : {"fp32", "bf16"}) {
    for (const char* op : {"gdn", "mdn", "m2rnn", "mom"}) {
      const PrecisionModel model = preset_model(name);
      const CheckCase& c = ordinary(op, name);
      const Verdict v = judged(c, model, emulate(c.valid, model));
      CAPTURE(name, op, v.sentence, v.cause);
      REQUIRE(v.kind == VerdictKind::pass);
    }
  }
}

TEST_CASE("verdict: an all-zero gradient is rejected", "[verdict]") {
  const PrecisionModel model = preset_model("bf16");
  const CheckCase& c = ordinary("gdn", "bf16");
  for (const char* name : {"q", "k", "v", "alpha", "beta", "s0"}) {
    RunResult result = emulate(c.valid, model);
    for (double& x : result.gradients.at(name).data) x = 0;
    const Verdict v = judged(c, model, result);
    CAPTURE(name, v.sentence);
    REQUIRE(is_finding(v.kind));
    REQUIRE(v.sentence.find(std::string("d_") + name) != std::string::npos);
  }
}

TEST_CASE("verdict: NaN fails whatever the tolerance", "[verdict]") {
  const PrecisionModel model = preset_model("bf16");
  const CheckCase& c = ordinary("gdn", "bf16");
  RunResult result = emulate(c.valid, model);
  result.outputs.at("o").data[7] = std::numeric_limits<double>::quiet_NaN();
  const Verdict v = judged(c, model, result);
  REQUIRE(v.kind == VerdictKind::wrong);
  REQUIRE(v.sentence.find("o has 1 non-finite") != std::string::npos);
}

TEST_CASE("verdict: a fault that gives NaN is named by the places", "[verdict]") {
  GenerateRequest request;
  request.op = "mdn";
  request.shape = "B=1,T=9,H=2,K=3,V=2";
  request.gates = {"dead"};
  request.options = {"chunk=3"};
  const Operation& operation = find_operation("mdn");
  const auto schema = [&](const Case* data) { return operation.schema(data); };
  Case data = generate(schema, request);
  const ValidCase c = validate(std::move(data), schema(nullptr));
  PrecisionModel model = preset_model("fp32");
  model.chunk = 3;
  const auto faulty = make_fault_candidate("mdn.mu_zero_nan", model);
  const Verdict v = judge(c, *faulty->info().model, faulty->run(c, true), JudgeRequest());
  CAPTURE(v.sentence, v.cause);
  CHECK(v.kind == VerdictKind::wrong);
  CHECK(std::count(v.blamed.begin(), v.blamed.end(), "mdn.mu_zero_nan") == 1);
}

TEST_CASE("verdict: what overflows excuses its own sequence only", "[verdict]") {
  GenerateRequest request;
  request.op = "delta";
  request.shape = "B=2,T=40,H=1,K=4,V=2";
  request.gates = {"beta=2:2"};
  const Operation& operation = find_operation("delta");
  const auto schema = [&](const Case* data) { return operation.schema(data); };
  Case data = generate(schema, request);
  // (1 - 2 |k|²)^40 is far beyond fp32 in the first sequence and harmless in the second.
  std::vector<double>& k = data.tensors.at("k").values;
  for (std::size_t i = 0; i < k.size(); ++i) k[i] *= i < k.size() / 2 ? 64 : 0.125;
  const ValidCase c = validate(std::move(data), schema(nullptr));
  const PrecisionModel model = preset_model("fp32");
  RunResult result = emulate(c, model);
  Verdict v = judge(c, model, result, JudgeRequest());
  CAPTURE(v.sentence, v.notes);
  CHECK(v.kind == VerdictKind::pass);
  std::vector<double>& o = result.outputs.at("o").data;
  CHECK_FALSE(std::isfinite(o[o.size() / 2 - 1]));
  o[o.size() - 1] = std::numeric_limits<double>::quiet_NaN();
  v = judge(c, model, result, JudgeRequest());
  CHECK(v.kind == VerdictKind::wrong);
  for (auto* set : {&result.outputs, &result.gradients}) {
    for (auto& [name, t] : *set) {
      std::fill(t.data.begin(), t.data.end(), std::numeric_limits<double>::quiet_NaN());
    }
  }
  CHECK(judge(c, model, result, JudgeRequest()).kind == VerdictKind::wrong);
}

TEST_CASE("verdict: where an output overflows everywhere, the case does not pass", "[verdict]") {
  GenerateRequest request;
  request.op = "gdn";
  request.shape = "B=1,T=8,H=2,K=4,V=3";
  request.options = {"scale=1e300"};
  const Operation& operation = find_operation("gdn");
  const auto schema = [&](const Case* data) { return operation.schema(data); };
  Case data = generate(schema, request);
  const ValidCase c = validate(std::move(data), schema(nullptr));
  const PrecisionModel model = preset_model("fp32");
  RunResult result = emulate(c, model);
  Verdict v = judge(c, model, result, JudgeRequest());
  CAPTURE(v.sentence);
  CHECK(v.kind == VerdictKind::weak_test);
  CHECK(v.sentence.find("every value of ") != std::string::npos);
  CHECK(v.sentence.find(", o:") != std::string::npos);
  CHECK(says_nothing(v.kind));
  // What can be judged is.
  result.outputs.at("s_final").data[0] += 1;
  v = judge(c, model, result, JudgeRequest());
  CHECK(is_finding(v.kind));
}

TEST_CASE("verdict: a gate that is slightly off is found and named", "[verdict]") {
  const PrecisionModel model = preset_model("fp32");
  const CheckCase& c = ordinary("gdn", "fp32");
  ValidCase changed = c.valid;
  for (double& x : changed.data.tensors.at("alpha").values) x *= 1 + 3e-5;
  const Verdict v = judged(c, model, emulate(changed, model));
  REQUIRE(v.kind == VerdictKind::inconsistent);
  REQUIRE(v.filters.size() >= 1);
  REQUIRE(v.filters[0].id == "gate alpha");
  REQUIRE(v.filters[0].coefficient == Approx(3e-5).epsilon(0.05));
}

TEST_CASE("verdict: on the lattice one unit in the last place is wrong", "[verdict]") {
  const PrecisionModel model = preset_model("fp32");
  for (const char* op : {"gdn", "mdn", "linear_attention", "kda"}) {
    const auto cases = check_cases(find_operation(op), model, 5);
    const auto exact =
        std::find_if(cases.begin(), cases.end(), [](const auto& c) { return c.exact; });
    CAPTURE(op);
    REQUIRE(exact != cases.end());
    RunResult result = emulate(exact->valid, model);
    REQUIRE(judged(*exact, model, result).kind == VerdictKind::pass);
    for (double& x : result.outputs.at("o").data) {
      if (x == 0) continue;
      x = std::nextafter(static_cast<float>(x), 1e30f);
      break;
    }
    REQUIRE(judged(*exact, model, result).kind == VerdictKind::wrong);
  }
}

TEST_CASE("verdict: a missing tensor and a wrong shape are named", "[verdict]") {
  const PrecisionModel model = preset_model("fp32");
  const CheckCase& c = ordinary("gdn", "fp32");
  RunResult result = emulate(c.valid, model);
  result.gradients.erase("beta");
  REQUIRE(judged(c, model, result).sentence == "d_beta was not returned");
  result = emulate(c.valid, model);
  result.outputs.at("o").shape.back() -= 1;
  REQUIRE(judged(c, model, result).kind == VerdictKind::wrong);
}

TEST_CASE("verdict: a result of a dtype that is not the model's is a finding", "[verdict]") {
  struct Row {
    const char *model, *name;
    DType dtype;
    const char* detail;  // empty: allowed
  };
  for (const Row& row : {
           Row{"fp32", "o", DType::F32, ""},
           Row{"fp32", "o", DType::F64, "is F64, must be F32 under fp32"},
           Row{"fp32", "o", DType::F16, "is F16, must be F32 under fp32"},
           Row{"fp32", "o", DType::I64, "is I64, must be F32 under fp32"},
           Row{"tf32", "d_q", DType::F32, ""},
           Row{"tf32", "d_q", DType::BF16, "is BF16, must be F32 under tf32"},
           Row{"fp32", "s_final", DType::BF16, "is BF16, must be F32 under fp32"},
           Row{"bf16", "s_final", DType::BF16, ""},
           Row{"bf16", "s_final", DType::F32, ""},
           Row{"bf16", "s_final", DType::F16, "is F16, must be F32 under bf16"},
           Row{"bf16", "o", DType::F16, "is F16, must be BF16 under bf16"},
           Row{"bf16", "d_q", DType::F32, ""},
           Row{"bf16", "d_q", DType::F64, "is F64, must be BF16 under bf16"},
           Row{"fp16", "o", DType::BF16, "is BF16, must be F16 under fp16"},
       }) {
    const PrecisionModel model = preset_model(row.model);
    const CheckCase& c = ordinary("gdn", row.model);
    RunResult result = emulate(c.valid, model);
    result.stored[row.name] = row.dtype;
    const auto found = wrong_dtypes(c.valid, model, result);
    CAPTURE(row.model, row.name, dtype_name(row.dtype));
    REQUIRE(found.size() == (*row.detail ? 1 : 0));
    if (found.empty()) continue;
    CHECK(found[0].kind == "wrong dtype");
    CHECK(found[0].detail == row.detail);
  }
  const PrecisionModel model = preset_model("fp32");
  const CheckCase& c = ordinary("gdn", "fp32");
  RunResult result = emulate(c.valid, model);
  result.stored["o"] = DType::F64;
  Verdict v = judged(c, model, result);
  CHECK(v.kind == VerdictKind::wrong);
  CHECK(v.sentence == "wrong dtype: o is F64, must be F32 under fp32");
  // Whoever saves results, or hands over F64 himself, may have it, and a note says what is judged.
  result.saved = true;
  v = judged(c, model, result);
  CHECK(v.kind == VerdictKind::pass);
  REQUIRE(!v.notes.empty());
  CHECK(v.notes[0].find("o was handed over as F64") == 0);
  result.saved = false;
  ValidCase wide = c.valid;
  wide.data.tensors.at("q").dtype = DType::F64;
  CHECK(wrong_dtypes(wide, model, result).empty());
}

TEST_CASE("verdict: a gradient may come in the format of its input", "[verdict]") {
  PrecisionModel model = preset_model("bf16");
  model.output = NumberFormat::fp32;
  const CheckCase& c = ordinary("gdn", "bf16");
  REQUIRE(c.valid.data.tensors.at("q").dtype == DType::BF16);
  RunResult result = emulate(c.valid, preset_model("bf16"));
  result.stored["o"] = DType::F32;
  result.stored["d_q"] = DType::BF16;
  CHECK(wrong_dtypes(c.valid, model, result).empty());
  // It is judged by the rounding of that format, and a larger error than that is one.
  const Expectation by_bf16 = expectation_for(c.valid, model, {}, result);
  CHECK(by_bf16.at("d_q").format == NumberFormat::bf16);
  CHECK(by_bf16.at("d_k").format == NumberFormat::fp32);
  result.stored["d_q"] = DType::F16;  // cannot hold bf16
  CHECK(expectation_for(c.valid, model, {}, result).at("d_q").format != NumberFormat::bf16);
  result.stored["d_q"] = DType::BF16;
  result.stored["o"] = DType::BF16;
  REQUIRE(wrong_dtypes(c.valid, model, result).size() == 1);
  CHECK(wrong_dtypes(c.valid, model, result)[0].tensor == "o");
}

TEST_CASE("verdict: what a candidate says it does not compute is no error", "[verdict]") {
  const PrecisionModel model = preset_model("fp32");
  const CheckCase& c = ordinary("gdn", "fp32");
  RunResult result = emulate(c.valid, model);
  result.outputs.erase("s_final");
  CHECK(judged(c, model, result).kind == VerdictKind::wrong);
  result.declined = {"s_final"};
  const Verdict v = judged(c, model, result);
  CHECK(v.kind == VerdictKind::unsupported);
  CHECK(v.sentence == "s_final is not computed: the candidate gave None for it");
}

TEST_CASE("verdict: indices are whole numbers", "[verdict]") {
  const PrecisionModel model = preset_model("fp32");
  const CheckCase& c = ordinary("mom_dispatch", "fp32");
  RunResult result = emulate(c.valid, model);
  const std::string name = result.outputs.begin()->first;
  REQUIRE(c.valid.schema.find_output(name)->integer);
  for (const DType dtype : {DType::I64, DType::I32}) {
    result.stored[name] = dtype;
    CHECK(judged(c, model, result).kind == VerdictKind::pass);
  }
  result.stored[name] = DType::F32;
  CHECK(judged(c, model, result).sentence == "wrong dtype: " + name + " is F32, must be I64");
}

TEST_CASE("verdict: an unknown small bias is found by structure", "[verdict]") {
  const PrecisionModel model = preset_model("fp32");
  const CheckCase& c = ordinary("gdn", "fp32");
  RunResult result = emulate(c.valid, model);
  const ExpectationRequest request{true, 64, 1, 2};
  const Expectation expectation = expect(c.valid, model, request);
  // Two standard deviations on every element of one head: no element stands out.
  std::vector<double>& o = result.outputs.at("o").data;
  const std::int64_t V = c.valid.sizes['V'], H = c.valid.sizes['H'];
  for (std::size_t i = 0; i < o.size(); ++i) {
    if (static_cast<std::int64_t>(i) / V % H == 1) o[i] += 2 * expectation.at("o").sigma[i];
  }
  const Verdict v = judged(c, model, result);
  REQUIRE(v.kind == VerdictKind::inconsistent);
  REQUIRE(!v.structures.empty());
  REQUIRE(v.structures[0].tensor == "o");
}

TEST_CASE("verdict: an error whose square overflows is explained by nothing", "[verdict]") {
  const PrecisionModel model = preset_model("fp32");
  const CheckCase& c = ordinary("gdn", "fp32");
  RunResult result = emulate(c.valid, model);
  for (double& x : result.outputs.at("o").data) x *= 1e200;
  const Verdict v = judged(c, model, result);
  CAPTURE(v.sentence, v.cause);
  CHECK(is_finding(v.kind));
  CHECK(v.filters.empty());
  CHECK(v.cause.empty());
  for (const StructureFinding& s : v.structures) CHECK(std::isfinite(s.significance));
}

TEST_CASE("verdict: who cannot normalise is asked for the other options all the same",
          "[verdict]") {
  int scaled = 0, normalised = 0;
  for (const CheckCase& c : check_cases(find_operation("gdn"), preset_model("fp32"), 3)) {
    if (c.exact) continue;
    const auto& options = c.valid.data.options;
    scaled += options.count("scale") == 1;
    normalised += options.count("qk_l2norm") == 1 && options.count("l2norm_eps") == 1;
    CHECK(options.count("scale") + options.count("qk_l2norm") < 2);
  }
  CHECK(scaled == 1);
  CHECK(normalised == 1);
}

TEST_CASE("verdict: what stands out has a unit", "[verdict][output]") {
  Verdict v;
  v.structures = {{"o", "t", 3, "mean", 36.5}, {"o", "t", 4, "mean", 5.65e36}};
  const std::string text = verdict_text(v);
  CHECK(text.find("structure o: mean of z at t = 3 stands out by 36.5 standard errors\n") !=
        std::string::npos);
  CHECK(text.find("t = 4 stands out by 5.65e+36 standard errors\n") != std::string::npos);
}

TEST_CASE("verdict: reports in other formats say the same", "[verdict][output]") {
  CheckReport report;
  report.candidate = "x<y>&\"z\"";
  Verdict good, bad;
  good.op = bad.op = "gdn";
  bad.kind = VerdictKind::inconsistent;
  bad.case_line = "gdn T=1";
  bad.sentence = "100 % wrong\nat two lines";
  report.verdicts = {good, bad};
  const std::string junit = check_junit(report);
  REQUIRE(junit.find("tests=\"2\" failures=\"1\"") != std::string::npos);
  REQUIRE(junit.find("x&lt;y&gt;&amp;&quot;z&quot;") != std::string::npos);
  REQUIRE(check_sarif(report)["runs"][0]["results"].size() == 1);
  REQUIRE(check_github(report) ==
          "::error title=assay INCONSISTENT::gdn T=1: 100 %25 wrong%0Aat two lines\n");
  REQUIRE(check_json(report)["verdicts"].size() == 2);
}
