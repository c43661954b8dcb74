// Python functions as candidates. Those in nested lists run with any interpreter; NumPy and PyTorch
// are tried where they can be imported.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "checks/candidate/hygiene.hpp"
#include "checks/candidate/tests/candidate_cases.hpp"

namespace assay {
namespace {

using namespace tests;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

const std::string kFolder = std::string(ASSAY_SOURCE_DIR) + "/checks/candidate/tests/python";
constexpr const char* kPython = ASSAY_TEST_PYTHON;

bool has_module(const std::string& name) {
  const std::string command =
      "'" + std::string(kPython) + "' -c 'import " + name + "' >/dev/null 2>&1";
  if (std::system(command.c_str()) == 0) return true;
  WARN("skipped: " << kPython << " cannot import " << name);
  return false;
}

struct Python {
  Environment interpreter{"ASSAY_PYTHON", kPython};
  Environment path{"PYTHONPATH", kFolder};
  Environment no_bytecode{"PYTHONDONTWRITEBYTECODE", "1"};

  static std::unique_ptr<Candidate> open(const std::string& function, double seconds = 60,
                                         std::uint64_t memory_bytes = 8ull << 30) {
    RunLimits limits;
    limits.seconds = seconds;
    limits.memory_bytes = memory_bytes;
    return open_candidate("python:" + function, PrecisionModel{}, limits);
  }
};

/// Runs the case that shows the misbehaviour, then one that does not.
RunResult run_function(const std::string& function, double seconds = 60,
                       std::uint64_t memory_bytes = 8ull << 30) {
  const Python python;
  const auto candidate = Python::open("planted_functions:" + function, seconds, memory_bytes);
  RunResult result = candidate->run(attention_case(5), false);
  const ValidCase good = attention_case(6);
  const RunResult next = candidate->run(good, false);
  INFO(function << ": " << next.detail << hygiene_text(next.hygiene));
  CHECK(next.status == RunStatus::ran);
  CHECK(distance_to_truth(good, next, false) < 1e-12);
  return result;
}

TEST_CASE("candidate/python: nested lists need no library", "[candidate][python]") {
  const Python python;
  const auto candidate = Python::open("planted_functions:attention");
  CHECK(candidate->info().name == "attention");
  CHECK_FALSE(candidate->info().has_backward);
  const ValidCase c = attention_case(7);
  const RunResult result = candidate->run(c, true);
  INFO(result.detail << hygiene_text(result.hygiene));
  CHECK(result.status == RunStatus::ran);
  CHECK(result.gradients.empty());
  CHECK(result.stored.empty());  // Python numbers have no dtype
  CHECK_THAT(result.detail, Contains("forward only"));
  CHECK(distance_to_truth(c, result, false) < 1e-12);
}

TEST_CASE("candidate/python: a companion function is the backward", "[candidate][python]") {
  const Python python;
  const auto candidate = Python::open("planted_functions:with_backward");
  CHECK(candidate->info().has_backward);
  const ValidCase c = attention_case(7);
  const RunResult result = candidate->run(c, true);
  INFO(result.detail << hygiene_text(result.hygiene));
  CHECK(result.status == RunStatus::ran);
  CHECK(distance_to_truth(c, result, true) < 1e-12);
}

TEST_CASE("candidate/python: exceptions and exits are errors with a place", "[candidate][python]") {
  const RunResult raised = run_function("raises");
  CHECK(raised.status == RunStatus::failed);
  CHECK_THAT(raised.detail, Contains("ValueError: planted (planted_functions.py:"));

  const RunResult exited = run_function("exits");
  CHECK(exited.status == RunStatus::failed);
  CHECK_THAT(exited.detail, Contains("SystemExit: 4"));

  const RunResult died = run_function("dies");
  CHECK(died.status == RunStatus::crashed);
  CHECK_THAT(died.detail, Contains("exited with code 4"));
}

TEST_CASE("candidate/python: a crash names its Python line", "[candidate][python]") {
  const RunResult result = run_function("segfaults");
  CHECK(result.status == RunStatus::crashed);
  CHECK_THAT(result.detail, Contains("SIGSEGV"));
  CHECK_THAT(result.detail, Contains(" in dereference (planted_functions.py:"));
  CHECK_THAT(result.detail, EndsWith("its last line: noise"));
}

TEST_CASE("candidate/python: a hang ends at the time limit", "[candidate][python]") {
  CHECK(run_function("hangs", 2).status == RunStatus::timed_out);
}

TEST_CASE("candidate/python: hunger for memory is named", "[candidate][python]") {
  const RunResult result = run_function("devours", 60, 256ull << 20);
  INFO(result.detail);
  CHECK(result.status == RunStatus::out_of_memory);
}

TEST_CASE("candidate/python: what it prints does not matter", "[candidate][python]") {
  const RunResult result = run_function("prints");
  CHECK(result.status == RunStatus::ran);
  CHECK(distance_to_truth(attention_case(5), result, false) < 1e-12);
}

TEST_CASE("candidate/python: wrong shapes and missing outputs are found", "[candidate][python]") {
  const RunResult transposed = run_function("transposed");
  REQUIRE(transposed.hygiene.size() == 1);
  CHECK(transposed.hygiene[0].kind == "wrong shape");
  CHECK(transposed.hygiene[0].tensor == "o");
  CHECK(transposed.hygiene[0].detail == "[1,2,5,4], must be [1,5,2,4]");
  CHECK(transposed.outputs.count("s_final") == 1);

  const Python python;
  const ValidCase c = attention_case(5);
  const RunResult missing = Python::open("planted_functions:output_only")->run(c, false);
  REQUIRE(missing.hygiene.size() == 1);
  CHECK(missing.hygiene[0].kind == "not written");
  CHECK(missing.hygiene[0].tensor == "s_final");

  const RunResult declined = Python::open("planted_functions:output_declared_only")->run(c, false);
  CHECK(declined.status == RunStatus::ran);
  CHECK(declined.hygiene.empty());
  CHECK(declined.outputs.count("s_final") == 0);
}

TEST_CASE("candidate/python: a changed input is found", "[candidate][python]") {
  const RunResult result = run_function("modifies");
  REQUIRE(result.hygiene.size() == 1);
  CHECK(result.hygiene[0].kind == "input modified");
  CHECK(result.hygiene[0].tensor == "q");
  CHECK(result.hygiene[0].detail == "the first change is in element [0,1,1,2]");
  const Python python;
  const RunResult backward =
      Python::open("planted_functions:overwrites_cotangent")->run(attention_case(6), true);
  CHECK(has_finding(backward.hygiene, "input modified", "d_o"));
}

TEST_CASE("candidate/python: what a function does not take is unsupported", "[candidate][python]") {
  const Python python;
  const ValidCase c = attention_case(5);
  const RunResult state = Python::open("planted_functions:without_state")->run(c, false);
  CHECK(state.status == RunStatus::unsupported);
  CHECK(state.detail == "without_state takes no 's0'");
  const RunResult refused = Python::open("planted_functions:unsupported")->run(c, false);
  CHECK(refused.status == RunStatus::unsupported);
  CHECK(refused.detail == "not on this machine");
}

TEST_CASE("candidate/python: what cannot be started is bad input", "[candidate][python]") {
  const Python python;
  CHECK_THROWS_WITH(Python::open("absent_module:f"), Contains("ModuleNotFoundError"));
  CHECK_THROWS_WITH(Python::open("planted_functions:absent"), Contains("AttributeError"));
  CHECK_THROWS_WITH(Python::open("planted_functions"), Contains("python:module:function"));
  const Environment interpreter("ASSAY_PYTHON", "/nowhere/python3");
  CHECK_THROWS_WITH(Python::open("planted_functions:attention"), Contains("ASSAY_PYTHON"));
}

TEST_CASE("candidate/python: NumPy arrays, strided ones too", "[candidate][python]") {
  const Python python;
  if (!has_module("numpy")) return;
  const auto candidate = Python::open("planted_numpy:attention");
  for (const DType dtype : {DType::F32, DType::BF16, DType::F16, DType::F64}) {
    const ValidCase c = attention_case(9, dtype);
    const RunResult result = candidate->run(c, false);
    INFO(dtype_name(dtype) << " " << result.detail << hygiene_text(result.hygiene));
    CHECK(result.status == RunStatus::ran);
    CHECK(distance_to_truth(c, result, false) < (dtype == DType::F16 ? 1e-2 : 1e-4));
    CHECK(result.stored.at("o") == DType::F32);
  }
  const HygieneReport report = examine_hygiene(*candidate, attention_case(5), false, false);
  CHECK(report.findings.empty());
  REQUIRE(report.strided);
  CHECK(distance_to_truth(attention_case(5), *report.strided, false) < 1e-4);
  const RunResult modified = Python::open("planted_numpy:modifies")->run(attention_case(5), false);
  CHECK(has_finding(modified.hygiene, "input modified", "v"));
}

TEST_CASE("candidate/python: PyTorch with autograd", "[candidate][python]") {
  const Python python;
  if (!has_module("torch")) return;
  const auto candidate = Python::open("planted_torch:attention");
  CHECK(candidate->info().has_backward);
  for (const DType dtype : {DType::F64, DType::F32, DType::BF16}) {
    const ValidCase c = attention_case(4, dtype);
    const RunResult result = candidate->run(c, true);
    INFO(dtype_name(dtype) << " " << result.detail << hygiene_text(result.hygiene));
    CHECK(result.status == RunStatus::ran);
    CHECK(result.hygiene.empty());
    CHECK(distance_to_truth(c, result, true) < (dtype == DType::BF16 ? 0.5 : 1e-4));
  }
  const RunResult detached = Python::open("planted_torch:detached")->run(attention_case(4), true);
  CHECK(detached.status == RunStatus::ran);
  CHECK(detached.gradients.empty());
  CHECK_THAT(detached.detail, Contains("no output requires a gradient"));

  // A gradient that autograd never reaches is zero, and judged as such.
  const RunResult ignored = Python::open("planted_torch:ignores_v")->run(attention_case(4), true);
  CHECK(ignored.hygiene.empty());
  CHECK(ignored.gradients.at("v").data == std::vector<double>(32, 0.0));
}

TEST_CASE("candidate/python: JAX with vjp", "[candidate][python]") {
  const Python python;
  if (!has_module("jax")) return;
  const auto candidate = Python::open("planted_jax:attention");
  for (const DType dtype : {DType::F32, DType::BF16}) {
    const ValidCase c = attention_case(4, dtype);
    const RunResult result = candidate->run(c, true);
    INFO(dtype_name(dtype) << " " << result.detail << hygiene_text(result.hygiene));
    CHECK(result.status == RunStatus::ran);
    CHECK(result.hygiene.empty());
    CHECK(distance_to_truth(c, result, true) < (dtype == DType::BF16 ? 0.5 : 1e-4));
  }
  // Without its x64 mode JAX would round what it is given.
  CHECK(candidate->run(attention_case(4, DType::F64), true).status == RunStatus::unsupported);
}

}  // namespace
}  // namespace assay
