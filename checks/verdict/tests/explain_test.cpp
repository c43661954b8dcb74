// Kernels that are wrong in ways that are no fault of the dictionary: is the cause named, with its
// size, and no other?
#include "checks/verdict/explain.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "checks/faults/candidate.hpp"
#include "checks/faults/fault.hpp"
#include "checks/verdict/accounts.hpp"
#include "checks/verdict/check_cases.hpp"
#include "reference/case/generate.hpp"
#include "reference/scalars/scalars.hpp"

using namespace assay;

namespace {

using Change = std::function<void(Problem<Rounded>&)>;

/// A kernel in the model's arithmetic that reads a changed problem.
RunResult kernel(const ValidCase& c, const PrecisionModel& model, const Change& change = {}) {
  const FormatScope format(emulated_format(model.accumulator));
  Emulation emulation;
  emulation.operand = emulated_format(model.operand);
  emulation.casts = unit_roundoff(model.operand) > unit_roundoff(model.accumulator);
  const EmulationScope scope(emulation);
  Problem<Rounded> problem = lift<Rounded>(c);
  if (change) change(problem);
  const auto rounded = evaluate<Rounded>(problem, {Form::recurrent, true, 1, {}});
  RunResult result;
  const auto take = [&](const auto& from, auto& to) {
    for (const auto& [name, t] : from) {
      const OutputSpec* out = c.schema.find_output(name);
      const bool state = out && out->final_state;
      Tensor<double> values(t.shape);
      for (std::int64_t i = 0; i < t.size(); ++i) {
        values.data[i] = round_to(state ? model.final_state : model.output, t.data[i].value());
      }
      to.emplace(name, std::move(values));
    }
  };
  take(rounded.outputs, result.outputs);
  take(rounded.gradients, result.gradients);
  return result;
}

ValidCase make(const std::string& op, const std::string& shape, const std::string& model,
               bool log_gates = false, const std::vector<std::string>& options = {}) {
  GenerateRequest request;
  request.op = op;
  request.shape = shape;
  request.dtype = storage_dtype(preset_model(model).input);
  request.seed = 11;
  request.log_gates = log_gates;
  request.options = options;
  const Operation& operation = find_operation(op);
  Case data = generate([&](const Case* c) { return operation.schema(c); }, request);
  const Schema schema = operation.schema(&data);
  return validate(std::move(data), schema);
}

Verdict judged(const ValidCase& c, const std::string& model, const RunResult& result,
               const std::vector<std::string>& without = {}) {
  JudgeRequest request;
  request.threads = 2;
  request.without = without;
  return judge(c, preset_model(model), result, request);
}

bool blames(const Verdict& v, const std::string& id) {
  return std::find(v.blamed.begin(), v.blamed.end(), id) != v.blamed.end();
}
bool says(const Verdict& v, const std::string& what) {
  return v.cause.find(what) != std::string::npos;
}

void scale(std::vector<double>& values, double factor) {
  for (double& x : values) x *= factor;
}

/// [B,T,H,…]: head h of the result is head map[h].
std::vector<double> with_heads(const Tensor<double>& t, const std::vector<std::int64_t>& map) {
  const std::int64_t H = t.shape[2], inner = t.size() / (t.shape[0] * t.shape[1] * H);
  std::vector<double> result(t.data.size());
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const std::int64_t h = i / inner % H;
    result[i] = t.data[i + (map[h] - h) * inner];
  }
  return result;
}

}  // namespace

TEST_CASE("explain: a tensor off by a factor is named with it", "[verdict][explain]") {
  for (const char* model : {"fp32", "bf16"}) {
    const ValidCase c = make("gdn", "B=2,T=20,H=3,K=6,V=5", model);
    const RunResult right = kernel(c, preset_model(model));
    REQUIRE(judged(c, model, right).cause.empty());
    for (const double factor : {2.0, 0.5, -1.0, 1.25}) {
      for (const char* name : {"q", "k", "alpha", "s0"}) {
        RunResult result = right;
        scale(result.gradients.at(name).data, factor);
        const Verdict v = judged(c, model, result);
        CAPTURE(model, factor, name, v.cause);
        REQUIRE(is_finding(v.kind));
        REQUIRE(v.blamed == std::vector<std::string>{std::string("factor d_") + name});
        REQUIRE(v.filters.size() >= 1);
        const FilterResult& r = *std::find_if(v.filters.begin(), v.filters.end(),
                                              [&](const auto& f) { return f.id == v.blamed[0]; });
        CHECK(std::fabs(r.coefficient - (factor - 1)) <= 6 * r.standard_error + 1e-6);
        CHECK(r.standard_error < 0.01);
        CHECK(says(v, std::string("d_") + name + " is "));
        CHECK(says(v, "times what it should be"));
        CHECK(says(v, "the sign is wrong") == (factor == -1));
      }
    }
    RunResult result = right;
    for (auto& [name, t] : result.gradients) scale(t.data, 4);
    Verdict v = judged(c, model, result);
    CAPTURE(model, v.cause);
    CHECK(v.blamed.size() == result.gradients.size());
    CHECK((says(v, " are 4.0") || says(v, " are 3.99")));
    result = right;
    scale(result.outputs.at("s_final").data, 3);
    v = judged(c, model, result);
    CAPTURE(v.cause);
    CHECK(v.blamed == std::vector<std::string>{"factor s_final"});
  }
}

TEST_CASE("explain: a factor that is a known fault is called by its name first",
          "[verdict][explain]") {
  const ValidCase c = make("gdn", "B=1,T=20,H=2,K=6,V=5", "fp32");
  RunResult result = kernel(c, preset_model("fp32"));
  scale(result.gradients.at("q").data, std::sqrt(6.0));
  for (double& x : result.gradients.at("q").data) x = round_to(NumberFormat::fp32, x);
  const Verdict v = judged(c, "fp32", result);
  CAPTURE(v.cause);
  REQUIRE(v.blamed == std::vector<std::string>{"*.scale_missing_in_dq"});
  REQUIRE(says(v, "d_q is 2.449"));
  const Verdict unknown = judged(c, "fp32", result, v.blamed);
  REQUIRE(unknown.blamed == std::vector<std::string>{"factor d_q"});
}

TEST_CASE("explain: mixed-up heads and batches", "[verdict][explain]") {
  for (const char* model : {"fp32", "bf16"}) {
    const ValidCase c = make("gdn", "B=2,T=20,H=4,K=6,V=5", model);
    const RunResult right = kernel(c, preset_model(model));
    const auto with = [&](const std::vector<std::int64_t>& map) {
      RunResult result = right;
      result.outputs.at("o").data = with_heads(right.outputs.at("o"), map);
      return judged(c, model, result).cause;
    };
    CAPTURE(model);
    CHECK(with({1, 0, 2, 3}).find("heads 0 and 1 exchanged in o") != std::string::npos);
    CHECK(with({0, 0, 1, 1}).find("head h is that of head h/2 in o") != std::string::npos);
    CHECK(with({0, 1, 0, 1}).find("head h is that of head h mod 2 in o") != std::string::npos);
    CHECK(with({3, 2, 1, 0}).find("heads in reverse order in o") != std::string::npos);
    CHECK(with({2, 2, 2, 2}).find("every head is that of head 2 in o") != std::string::npos);

    RunResult result = right;
    for (const char* name : {"q", "k", "v", "alpha"}) {
      Tensor<double>& t = result.gradients.at(name);
      t.data = with_heads(t, {2, 1, 0, 3});
    }
    Verdict v = judged(c, model, result);
    CAPTURE(v.cause);
    CHECK(says(v, "heads 0 and 2 exchanged in d_alpha, d_k, d_q and d_v (coefficient "));

    result = right;
    std::vector<double>& o = result.outputs.at("o").data;
    std::rotate(o.begin(), o.begin() + static_cast<std::ptrdiff_t>(o.size() / 2), o.end());
    v = judged(c, model, result);
    CAPTURE(v.cause);
    CHECK(says(v, "batches 0 and 1 exchanged in o"));
  }
}

TEST_CASE("explain: an input read for another", "[verdict][explain]") {
  using Problem = Problem<Rounded>;
  struct Planted {
    const char* op;
    bool log;
    Change change;
    const char* says;
  };
  const auto heads = [](const char* name, std::vector<std::int64_t> map) {
    return [=](Problem& p) {
      auto& t = p.inputs.at(name);
      const auto given = t;
      const std::int64_t H = t.shape[2], inner = t.size() / (t.shape[0] * t.shape[1] * H);
      for (std::int64_t i = 0; i < t.size(); ++i) {
        const std::int64_t h = i / inner % H;
        t.data[i] = given.data[i + (map[h] - h) * inner];
      }
    };
  };
  const std::vector<Planted> all = {
      {"gdn", false, [](Problem& p) { p.inputs.at("alpha") = p.inputs.at("beta"); },
       "alpha read as beta"},
      {"gdn", false, [](Problem& p) { std::swap(p.inputs.at("alpha"), p.inputs.at("beta")); },
       "alpha and beta exchanged"},
      {"mdn", false, [](Problem& p) { p.inputs.at("mu") = p.inputs.at("alpha"); },
       "mu read as alpha"},
      {"mdn", true, [](Problem& p) { std::swap(p.inputs.at("log_mu"), p.inputs.at("log_alpha")); },
       "log_alpha and log_mu exchanged"},
      {"gdn", false, [](Problem& p) { std::swap(p.inputs.at("q"), p.inputs.at("k")); },
       "k and q exchanged"},
      {"gdn", false, heads("v", {0, 0, 1, 1}), "v read with head h is that of head h/2"},
      {"gdn", false, heads("beta", {1, 0, 3, 2}), "beta read with heads exchanged in pairs"},
      {"gdn", false,
       [](Problem& p) {
         for (auto& x : p.inputs.at("s0").data) x = Rounded(0);
       },
       "s0 not read, 0 in its place"},
      {"gdn", false,
       [](Problem& p) {
         for (auto& x : p.inputs.at("v").data) x *= Rounded(2);
       },
       "effective v 2.000000"},
      {"gdn", false,
       [](Problem& p) {
         for (auto& x : p.inputs.at("k").data) x *= Rounded(2);
       },
       "k read as 2 times what it is"},
  };
  for (const Planted& planted : all) {
    const std::string order = planted.says;
    const ValidCase c = make(planted.op, "B=1,T=20,H=4,K=6,V=5", "fp32", planted.log);
    const Verdict v = judged(c, "fp32", kernel(c, preset_model("fp32"), planted.change));
    CAPTURE(planted.op, planted.says, v.cause, v.sentence);
    CHECK(is_finding(v.kind));
    CHECK(
        (says(v, planted.says) || (order == "k and q exchanged" && says(v, "q and k exchanged"))));
  }
}

TEST_CASE("explain: gradients that follow, forward pass alone, automatic differentiation",
          "[verdict][explain]") {
  const ValidCase c = make("gdn", "B=1,T=20,H=3,K=6,V=5", "fp32");
  const PrecisionModel model = preset_model("fp32");
  // The heads of o exchanged behind the recurrence: its cotangent reaches the other head.
  RunResult result = kernel(c, model, [](Problem<Rounded>& p) {
    auto& t = p.cotangents.at("o");
    const auto given = t;
    for (std::int64_t i = 0; i < t.size(); ++i) {
      const std::int64_t h = i / 5 % 3;
      t.data[i] = given.data[i + (h == 0 ? 5 : h == 1 ? -5 : 0)];
    }
  });
  Tensor<double>& o = result.outputs.at("o");
  o.data = with_heads(o, {1, 0, 2});
  Verdict v = judged(c, "fp32", result);
  CAPTURE(v.cause);
  CHECK(says(v, "heads 0 and 1 exchanged in o, and the gradients follow"));

  const RunResult right = kernel(c, model);
  const Change swapped = [](Problem<Rounded>& p) { p.inputs.at("alpha") = p.inputs.at("beta"); };
  result = kernel(c, model, swapped);
  Tensor<double>&d_alpha = result.gradients.at("alpha"), &d_beta = result.gradients.at("beta");
  for (std::int64_t i = 0; i < d_beta.size(); ++i) d_beta.data[i] += d_alpha.data[i];
  scale(d_alpha.data, 0);
  v = judged(c, "fp32", result);
  CAPTURE(v.cause);
  CHECK(blames(v, "alpha read as beta"));

  result = kernel(c, model, swapped);
  result.gradients = right.gradients;
  v = judged(c, "fp32", result);
  CAPTURE(v.cause);
  CHECK(blames(v, "alpha read as beta in the forward pass alone"));
}

TEST_CASE("explain: what is right, and what nobody knows, is blamed on nothing",
          "[verdict][explain]") {
  for (const char* op : {"gdn", "mdn", "m2rnn", "lstm"}) {
    const ValidCase c = make(op, "", "fp32");
    const RunResult right = kernel(c, preset_model("fp32"));
    Verdict v = judged(c, "fp32", right);
    CAPTURE(op, v.cause);
    CHECK(v.kind == VerdictKind::pass);
    CHECK((v.cause.empty() && v.blamed.empty()));
    // One element, errors of one percent everywhere, one head of one tensor scaled.
    for (auto* tensors : {&right.outputs, &right.gradients}) {
      for (const auto& [name, t] : *tensors) {
        for (const int kind : {0, 1, 2}) {
          RunResult result = right;
          auto& changed = tensors == &right.outputs ? result.outputs : result.gradients;
          std::vector<double>& x = changed.at(name).data;
          if (x.size() < 8) continue;  // of so few, any error may look like something
          for (std::size_t i = 0; i < x.size(); ++i) {
            if (kind == 0) x[i] += i == x.size() / 3 ? 0.5 : 0;
            if (kind == 1) x[i] *= 1 + 0.01 * std::sin(12.9898 * static_cast<double>(i * i));
            if (kind == 2 && i < x.size() / 2) x[i] *= 1.5;
          }
          v = judged(c, "fp32", result);
          CAPTURE(name, kind, v.cause);
          CHECK(is_finding(v.kind));
          CHECK((v.cause.empty() && v.blamed.empty()));
        }
      }
    }
  }
}

TEST_CASE("explain: what cannot be evaluated is no cause", "[verdict][explain]") {
  // A key that is not read is a row of zeros, which has no direction.
  const ValidCase c =
      make("gdn", "B=1,T=12,H=2,K=6,V=5", "fp32", false, {"qk_l2norm=true", "l2norm_eps=0"});
  RunResult result = kernel(c, preset_model("fp32"));
  for (std::size_t i = 0; i < 30; ++i)
    result.outputs.at("o").data[i] += 0.1 * static_cast<double>(i);
  Verdict v;
  CHECK_NOTHROW(v = judged(c, "fp32", result));
  CHECK(is_finding(v.kind));
  CHECK(v.blamed.empty());
}

TEST_CASE("explain: an option that is not read is named", "[verdict][explain]") {
  struct Row {
    const char *op, *shape, *option;
    OptionValue read;
  };
  const auto option_of = [](const Row& row) {
    return std::string(row.option).substr(0, std::string(row.option).find('='));
  };
  int tried = 0;
  for (const char* model : {"fp32", "bf16"}) {
    for (const Row& row : {
             Row{"rmsnorm", "B=2,T=20,D=12", "eps=0.001", 0.0},
             Row{"rmsnorm", "B=2,T=20,D=12", "eps=0.05", 0.0},
             Row{"rmsnorm", "B=2,T=20,D=12", "eps=1", 0.0},
             Row{"rmsnorm", "B=2,T=20,D=12", "eps=1", 1e-6},
             Row{"rmsnorm", "B=1,T=4,D=64", "eps=0.1", 0.0},
             Row{"rmsnorm_tp", "B=2,T=20,D=12,P=2", "eps=0.2", 0.0},
             Row{"m2rnn_block", "B=1,T=12,E=6,N=2,K=4,V=4,W=4", "eps=0.1", 0.0},
             Row{"gdn", "B=1,T=20,H=2,K=6,V=5", "l2norm_eps=0.5", 0.0},
             Row{"mdn_gates", "B=1,T=20,H=2", "s=2", 1.0},
             Row{"mdn_gates", "B=1,T=20,H=2", "tau=2", 1.0},
             Row{"gdn", "B=1,T=20,H=2,K=6,V=5", "qk_l2norm=true", false},
         }) {
      std::vector<std::string> options = {row.option};
      if (option_of(row) == "l2norm_eps") options.push_back("qk_l2norm=true");
      const ValidCase c = make(row.op, row.shape, model, false, options);
      ValidCase read = c;
      read.data.options[option_of(row)] = row.read;
      const Verdict v = judged(c, model, kernel(read, preset_model(model)));
      CAPTURE(model, row.op, row.option, v.sentence, v.cause);
      if (!is_finding(v.kind)) continue;  // in bf16 eps = 0.001 makes no difference
      ++tried;
      CHECK(std::any_of(v.blamed.begin(), v.blamed.end(), [&](const std::string& id) {
        return id.rfind("option " + option_of(row), 0) == 0;
      }));
      CHECK(says(v, option_of(row)));
    }
  }
  CHECK(tried >= 20);
}

TEST_CASE("explain: what is stored in another order, and time that runs backwards",
          "[verdict][explain]") {
  const ValidCase c = make("gdn", "B=1,T=20,H=2,K=6,V=5", "fp32");
  const RunResult right = kernel(c, preset_model("fp32"));
  RunResult result = right;
  Tensor<double>& s = result.outputs.at("s_final");
  const Tensor<double> given = s;
  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t k = 0; k < 6; ++k) {
      for (std::int64_t v = 0; v < 5; ++v) {
        s.data[h * 30 + v * 6 + k] = given.data[h * 30 + k * 5 + v];
      }
    }
  }
  Verdict v = judged(c, "fp32", result);
  CAPTURE(v.cause);
  CHECK(says(v, "stored as [B,H,V,K], not [B,H,K,V], in s_final"));
  result = right;
  Tensor<double>& o = result.outputs.at("o");
  const Tensor<double> forwards = o;
  for (std::int64_t i = 0; i < o.size(); ++i)
    o.data[i] = forwards.data[(19 - i / 10) * 10 + i % 10];
  v = judged(c, "fp32", result);
  CAPTURE(v.cause);
  CHECK(says(v, "time runs backwards in o"));
  result = right;
  std::swap(result.gradients.at("q"), result.gradients.at("k"));
  v = judged(c, "fp32", result);
  CAPTURE(v.cause);
  CHECK(says(v, "d_k and d_q exchanged"));
}

TEST_CASE("explain: a scaled key is a scaled key, or the case cannot tell", "[verdict][explain]") {
  const ValidCase c = make("gdn", "B=1,T=40,H=2,K=6,V=5", "fp32");
  for (const double size : {1e-4, 1e-3, 3e-2}) {
    const auto by = [&](const char* name) {
      return [=](Problem<Rounded>& p) {
        for (auto& x : p.inputs.at(name).data) x = Rounded::from(x.value() * (1 + size));
      };
    };
    for (const char* name : {"k", "q", "v", "beta", "alpha"}) {
      const Verdict v = judged(c, "fp32", kernel(c, preset_model("fp32"), by(name)));
      CAPTURE(size, name, v.cause);
      CHECK(is_finding(v.kind));
      CHECK(says(v, std::string("effective ") + name + " too large by"));
      const bool gate = std::string(name) == "beta" || std::string(name) == "alpha";
      CHECK((gate || !says(v, "effective beta")));
      const auto r = std::find_if(v.filters.begin(), v.filters.end(), [&](const FilterResult& f) {
        return f.id == (gate ? "gate " : "input ") + std::string(name);
      });
      REQUIRE(r != v.filters.end());
      CHECK(std::fabs(r->coefficient - size) <= 6 * r->uncertainty() + 1e-6);
    }
  }
}

TEST_CASE("explain: what a case cannot tell apart is named together", "[verdict][explain]") {
  // The state of linear attention is bilinear in keys and values.
  const ValidCase c = make("linear_attention", "B=1,T=30,H=2,K=6,V=5", "fp32");
  RunResult result = kernel(c, preset_model("fp32"), [](Problem<Rounded>& p) {
    for (auto& x : p.inputs.at("k").data) x = Rounded::from(x.value() * 1.001);
  });
  result.gradients.clear();
  JudgeRequest request;
  request.gradients = false;
  const Verdict v = judge(c, preset_model("fp32"), result, request);
  CAPTURE(v.cause, v.sentence);
  CHECK(blames(v, "input k"));
  CHECK(blames(v, "input v"));
  CHECK(says(v, "this case does not tell which"));
}

TEST_CASE("explain: a coefficient says how far it can be trusted", "[verdict][explain]") {
  // Something that no direction has: the error along beta's direction, and as much beside it.
  const ValidCase c = make("gdn", "B=1,T=40,H=2,K=6,V=5", "fp32");
  const Verdict v = judged(c, "fp32", kernel(c, preset_model("fp32"), [](Problem<Rounded>& p) {
                             auto& beta = p.inputs.at("beta").data;
                             for (std::size_t i = 0; i < beta.size(); ++i) {
                               beta[i] = Rounded::from(beta[i].value() * (i % 3 ? 1.001 : 1.003));
                             }
                           }));
  CAPTURE(v.cause);
  for (const FilterResult& r : v.filters) {
    if (r.id != "gate beta") continue;
    CHECK(r.uncertainty() > 1e-4);
  }
}

TEST_CASE("explain: values with their errors", "[verdict][explain]") {
  CHECK(value_with_error(2, 0.0012) == "2.000(2)");
  CHECK(value_with_error(-1, 3e-8) == "-1.00000000(3)");
  CHECK(value_with_error(0.5, 0) == "0.5");
  CHECK(value_with_error(120.4, 20) == "120(20)");
  CHECK(map_text("head", {0, 1, 2}).empty());
  CHECK(map_text("head", {1, 2, 3, 0}) == "head h is that of head (h + 1) mod 4");
  CHECK(map_text("head", {0, 2, 4, 1, 3, 5}) == "head h is that of head (h mod 3) * 2 + h/3");
  CHECK(map_text("batch", {1, 0}) == "batches 0 and 1 exchanged");
}

TEST_CASE("explain: an error within the noise is not blamed on what explains a part of it",
          "[verdict][explain]") {
  const ValidCase c = make("gdn", "B=1,T=130,H=2,K=24,V=20", "bf16");
  const RunResult right = kernel(c, preset_model("bf16"));
  for (const char* name : {"q", "v"}) {
    RunResult result = right;
    scale(result.gradients.at(name).data, 1.01);
    const Verdict v = judged(c, "bf16", result);
    CAPTURE(name, v.cause);
    REQUIRE(is_finding(v.kind));
    REQUIRE(v.blamed == std::vector<std::string>{std::string("factor d_") + name});
  }
}

TEST_CASE("explain: a scale off by a hundredth is named beside the query", "[verdict][explain]") {
  const ValidCase c = make("gdn", "B=1,T=30,H=2,K=6,V=5", "fp32");
  ValidCase wrong = c;
  wrong.data.options["scale"] = 1.01 / std::sqrt(6.0);
  const Verdict v = judged(c, "fp32", kernel(wrong, preset_model("fp32")));
  CAPTURE(v.cause);
  REQUIRE(blames(v, "option scale"));
}

TEST_CASE("explain: a number among the options that is off is named", "[verdict][explain]") {
  const ValidCase c = make("mdn_gates", "B=2,T=20,H=3", "fp32", false, {"tau=2"});
  ValidCase wrong = c;
  wrong.data.options["tau"] = 2.02;
  const Verdict v = judged(c, "fp32", kernel(wrong, preset_model("fp32")));
  CAPTURE(v.cause);
  REQUIRE(blames(v, "option tau"));
}
