#include "checks/gradcheck/gradcheck.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "reference/case/generate.hpp"
#include "reference/case/options.hpp"

namespace {

using namespace assay;  // NOLINT
using Status = CheckOutcome::Status;

ValidCase make_case(const std::string& op, const std::string& shape,
                    const std::vector<std::string>& options = {},
                    const std::vector<std::string>& gates = {}, bool log_gates = false) {
  const Operation& operation = find_operation(op);
  const auto provider = [&](const Case* data) { return operation.schema(data); };
  GenerateRequest request;
  request.op = op;
  request.shape = shape;
  request.options = options;
  request.gates = gates;
  request.log_gates = log_gates;
  request.seed = 11;
  Case data = generate(provider, request);
  const Schema schema = provider(&data);
  return validate(std::move(data), schema);
}

CheckOutcome run(const ValidCase& c, const std::string& check, const GradcheckRequest& base = {}) {
  GradcheckRequest request = base;
  request.checks = {check};
  const GradcheckReport report = gradcheck(c, request);
  REQUIRE(!report.outcomes.empty());
  return report.outcomes.front();
}

std::string describe(const ValidCase& c) {
  std::string text = c.data.op + " seed " + c.data.seed + " " + options_text(c.data.options);
  for (const auto& [name, tensor] : c.data.tensors) text += " " + name + shape_text(tensor.shape);
  return text;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("gradcheck/all: every operation passes on its own cases", "[gradcheck][all]") {
  const std::size_t i = GENERATE(range<std::size_t>(0, operations().size()));
  const Operation& operation = *operations()[i];
  const std::uint64_t seed = 1;
  GradcheckRequest request;
  request.seed = seed;
  request.threads = 2;
  const std::vector<ValidCase> cases = gradcheck_cases(operation, seed);
  CHECK(cases.size() >= 6);
  int passed = 0;
  bool nothing_to_check = true;
  for (const ValidCase& c : cases) {
    const GradcheckReport report = gradcheck(c, request);
    CHECK(report.outcomes.size() == 4 * c.schema.forms.size());
    for (const CheckOutcome& outcome : report.outcomes) {
      INFO("replay: assay gradcheck " << operation.name() << " --seed " << seed << "; "
                                      << describe(c));
      INFO(outcome.check << " " << outcome.detail << "; " << outcome.worst_tensor
                         << outcome.worst_index);
      for (const std::string& line : outcome.lines) UNSCOPED_INFO(line);
      CHECK(outcome.status != Status::failed);
      CHECK(!outcome.detail.empty());
      CHECK(!contains(outcome.detail, "undecided"));
      passed += outcome.status == Status::passed;
      nothing_to_check = nothing_to_check && contains(outcome.detail, "all outputs are integers");
    }
  }
  INFO(operation.name());
  CHECK((passed > 0) != nothing_to_check);
}

TEST_CASE("gradcheck/cases: they cover gates, options, groups, packing and forms",
          "[gradcheck][cases]") {
  const std::vector<ValidCase> cases = gradcheck_cases(find_operation("mdn"), 1);
  const auto any = [&](const auto& property) {
    return std::any_of(cases.begin(), cases.end(), property);
  };
  const auto holds = [&](const std::string& name, double value) {
    return any([&](const ValidCase& c) {
      const auto found = c.data.tensors.find(name);
      if (found == c.data.tensors.end()) return false;
      const std::vector<double>& values = found->second.values;
      return std::find(values.begin(), values.end(), value) != values.end();
    });
  };
  CHECK(holds("alpha", 0));
  CHECK(holds("alpha", 1));
  CHECK(holds("mu", 0));
  CHECK(holds("log_alpha", -kInf));
  CHECK(holds("log_alpha", 0));
  CHECK(holds("log_mu", -kInf));
  for (const char* name : {"eta", "s0", "m0", "q_correction"}) {
    INFO(name);
    CHECK(any([&](const ValidCase& c) { return c.data.tensors.count(name) == 1; }));
    CHECK(any([&](const ValidCase& c) { return c.data.tensors.count(name) == 0; }));
  }
  CHECK(any([](const ValidCase& c) { return c.data.tensors.at("q").shape[2] < c.sizes['H']; }));
  CHECK(any([](const ValidCase& c) { return c.data.tensors.at("v").shape[2] < c.sizes['H']; }));
  CHECK(any([](const ValidCase& c) {
    const auto& cu = c.cu_seqlens;
    return c.packed() && std::adjacent_find(cu.begin(), cu.end()) != cu.end();
  }));
  CHECK(any([](const ValidCase& c) { return option_bool(c, "qk_l2norm"); }));
  CHECK(any([](const ValidCase& c) { return option_real(c, "scale").has_value(); }));
  CHECK(any([](const ValidCase& c) {
    const std::int64_t C = option_int(c, "chunk");
    return C > 1 && c.sizes['T'] > C && c.sizes['T'] % C != 0;
  }));
}

TEST_CASE("gradcheck/cases: every choice of an option has a case", "[gradcheck][cases]") {
  const std::vector<ValidCase> cases = gradcheck_cases(find_operation("mom"), 1);
  const Schema schema = find_operation("mom").schema(nullptr);
  for (const std::string& choice : schema.find_option("update")->choices) {
    INFO(choice);
    CHECK(std::any_of(cases.begin(), cases.end(),
                      [&](const ValidCase& c) { return option_string(c, "update") == choice; }));
  }
}

TEST_CASE("gradcheck/skip: with state_grad_clip nothing passes", "[gradcheck][skip]") {
  const GradcheckReport report =
      gradcheck(make_case("m2rnn", "B=1,T=3,N=1,K=2,V=2", {"state_grad_clip=0.5"}), {});
  REQUIRE(report.outcomes.size() == 4);
  for (const CheckOutcome& outcome : report.outcomes) {
    CHECK(outcome.status == Status::skipped);
    CHECK(contains(outcome.detail, "by definition not the gradient"));
  }
  CHECK(!report.failed());
}

TEST_CASE("gradcheck/skip: a check that cannot run says so", "[gradcheck][skip]") {
  const GradcheckReport integers = gradcheck(make_case("mom_dispatch", "B=1,T=3,M=3"), {});
  for (const CheckOutcome& outcome : integers.outcomes) {
    CHECK(outcome.status == Status::skipped);
    CHECK(outcome.detail == "all outputs are integers");
  }
  const CheckOutcome whole = run(make_case("mom_aux_loss", "B=1,T=3,M=3"), "G4");
  CHECK(whole.status == Status::skipped);
  CHECK(contains(whole.detail, "no recursion in time"));

  const CheckOutcome no_steps = run(make_case("gdn", "B=1,T=0,H=1,K=2,V=2"), "G4");
  CHECK(no_steps.status == Status::skipped);
  CHECK(contains(no_steps.detail, "no steps"));
}

TEST_CASE("gradcheck/skip: chunk_log where a gate is 0", "[gradcheck][skip]") {
  const GradcheckReport report =
      gradcheck(make_case("mdn", "B=1,T=3,H=1,K=2,V=2", {}, {"mu=0"}), {});
  REQUIRE(report.outcomes.size() == 12);
  for (std::size_t i = 0; i < report.outcomes.size(); ++i) {
    INFO(report.outcomes[i].detail);
    CHECK(report.outcomes[i].status == (i < 8 ? Status::passed : Status::skipped));
  }
}

TEST_CASE("gradcheck/skip: what has no derivative at a tie is left out and said",
          "[gradcheck][skip]") {
  ValidCase c = make_case("mom", "B=1,T=2,H=1,K=2,V=2,M=3");
  std::vector<double>& logits = c.data.tensors.at("router_logits").values;
  std::fill(logits.begin(), logits.end(), 0.25);
  for (const char* check : {"G2", "G3"}) {
    const CheckOutcome outcome = run(c, check);
    INFO(check << " " << outcome.detail);
    for (const std::string& line : outcome.lines) UNSCOPED_INFO(line);
    CHECK(outcome.status == Status::passed);
    CHECK(contains(outcome.detail, "left out: no derivative here"));
  }
}

TEST_CASE("gradcheck/skip: what has no derivative at a floor is left out and said",
          "[gradcheck][skip]") {
  const ValidCase c = make_case("mdn_gates", "B=1,T=2,H=1", {"log_mu_min=0.0"}, {"a_mu=0"});
  for (const char* check : {"G2", "G3"}) {
    const CheckOutcome outcome = run(c, check);
    INFO(check << " " << outcome.detail);
    CHECK(outcome.status == Status::passed);
    CHECK(contains(outcome.detail, "left out: no derivative here"));
  }
}

TEST_CASE("gradcheck/sample: a large case is sampled and says of how many", "[gradcheck][sample]") {
  const ValidCase c = make_case("gdn", "B=1,T=40,H=2,K=8,V=8");
  GradcheckRequest request;
  request.budget_seconds = 1e-9;
  const CheckOutcome outcome = run(c, "G3", request);
  INFO(outcome.detail);
  CHECK(outcome.status == Status::passed);
  CHECK(contains(outcome.detail, "sampled 6 of "));
  CHECK(run(c, "G1", request).status == Status::passed);
  CHECK(run(c, "G2", request).status == Status::passed);
  CHECK(run(c, "G4", request).status == Status::passed);
}

TEST_CASE("gradcheck/request: the same for any number of threads", "[gradcheck][request]") {
  const ValidCase c = make_case("mdn", "B=2,T=4,H=2,K=2,V=3", {"chunk=3"}, {"edge"}, true);
  GradcheckRequest one, two;
  two.threads = 2;
  const GradcheckReport a = gradcheck(c, one), b = gradcheck(c, two);
  REQUIRE(a.outcomes.size() == b.outcomes.size());
  for (std::size_t i = 0; i < a.outcomes.size(); ++i) {
    CHECK(a.outcomes[i].detail == b.outcomes[i].detail);
    CHECK(a.outcomes[i].worst_index == b.outcomes[i].worst_index);
  }
}

TEST_CASE("gradcheck/request: checks are chosen, progress is told", "[gradcheck][request]") {
  GradcheckRequest request;
  request.checks = {"G4", "G1"};
  double last = 0;
  bool rises = true;
  request.progress = [&](double share, const std::string& what) {
    rises = rises && share >= last && share <= 1 && !what.empty();
    last = share;
  };
  const GradcheckReport report = gradcheck(make_case("rnn", "B=1,T=3,H=1,D=2"), request);
  REQUIRE(report.outcomes.size() == 2);
  CHECK(report.outcomes[0].check == "G1");
  CHECK(report.outcomes[1].check == "G4");
  CHECK(rises);
  CHECK(last == 1);
}

}  // namespace
