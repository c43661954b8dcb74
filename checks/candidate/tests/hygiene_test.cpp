// Hygiene that takes several runs.
#include "checks/candidate/hygiene.hpp"

#include <catch2/catch.hpp>

#include "checks/candidate/tests/candidate_cases.hpp"

namespace assay {
namespace {

using namespace tests;

HygieneReport examine(const std::string& plugin, bool atomics = false) {
  const auto candidate = open_plugin(plugin);
  return examine_hygiene(*candidate, attention_case(5), true, atomics);
}

TEST_CASE("candidate/hygiene: a correct plug-in has no finding", "[candidate][hygiene]") {
  const HygieneReport report = examine("correct");
  INFO(hygiene_text(report.findings));
  CHECK(report.findings.empty());
  CHECK_FALSE(report.broken);
  CHECK(report.runs == 6);
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0] == "strided inputs were not tried: takes contiguous tensors only");
}

TEST_CASE("candidate/hygiene: runs that differ are found, unless declared",
          "[candidate][hygiene]") {
  const HygieneReport report = examine("random");
  INFO(hygiene_text(report.findings));
  CHECK(has_finding(report.findings, "nondeterministic", "o"));
  CHECK_FALSE(has_finding(report.findings, "stale", "o"));
  CHECK(examine("random", true).findings.empty());
}

TEST_CASE("candidate/hygiene: results of an earlier call are found", "[candidate][hygiene]") {
  const HygieneReport report = examine("stale");
  INFO(hygiene_text(report.findings));
  CHECK(has_finding(report.findings, "stale", "o"));
  CHECK_FALSE(has_finding(report.findings, "nondeterministic", "o"));
}

TEST_CASE("candidate/hygiene: strides that are ignored read the gaps", "[candidate][hygiene]") {
  const HygieneReport report = examine("strides");
  INFO(hygiene_text(report.findings));
  CHECK(has_finding(report.findings, "strides ignored", "o"));
  CHECK(report.strided);
}

TEST_CASE("candidate/hygiene: findings of single runs are reported once", "[candidate][hygiene]") {
  const HygieneReport report = examine("after");
  CHECK(report.findings.size() == 1);
  CHECK(has_finding(report.findings, "written outside", "o"));
}

TEST_CASE("candidate/hygiene: a crash ends the examination", "[candidate][hygiene]") {
  const HygieneReport report = examine("segfault");
  REQUIRE(report.broken);
  CHECK(report.broken->status == RunStatus::crashed);
  CHECK(report.runs == 1);
}

TEST_CASE("candidate/hygiene: other data keeps its domain", "[candidate][hygiene]") {
  const ValidCase c = attention_case(5), other = with_other_data(c);
  const auto &before = c.data.tensors.at("q").values, &after = other.data.tensors.at("q").values;
  CHECK(before != after);
  CHECK(std::is_permutation(before.begin(), before.end(), after.begin()));
}

}  // namespace
}  // namespace assay
