// `assay prove`, `verify-cert` and `list claims` as a user meets them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "checks/cli/tests/run_program.hpp"

using assay::tests::ProgramRun;
using assay::tests::read_text;
using assay::tests::run_program;
using assay::tests::TemporaryFolder;
using assay::tests::write_text;
using json = nlohmann::json;

TEST_CASE("cli/prove: a choice by glob, certificates, counterexamples, JSON", "[cli][proofs]") {
  const TemporaryFolder folder;
  const std::string certificates = folder.path("certs");
  const ProgramRun run = run_program("prove 'mdn/eq*' gdn/spectral-radius --siblings --json " +
                                     folder.path("out.json") + " --certificates " + certificates);
  CHECK(run.exit_code == 0);
  CHECK(run.out.find("3 of 3 claims as stated") != std::string::npos);
  CHECK(run.out.find("sibling refused: refuted:") != std::string::npos);
  const json document = json::parse(read_text(folder.path("out.json")));
  CHECK(document.at("schema_version") == 1);
  REQUIRE(document.at("claims").size() == 3);
  for (const json& claim : document["claims"]) CHECK(claim.at("answer") == "REFUTED");

  const ProgramRun checked = run_program("verify-cert " + certificates);
  CHECK(checked.exit_code == 0);
  CHECK(checked.out.find("3 of 3 valid") != std::string::npos);
  const ProgramRun evaluated =
      run_program("eval " + certificates + "/mdn_eq8-ratio.safetensors --engine rational");
  CHECK(evaluated.exit_code == 0);
}

TEST_CASE("cli/verify-cert: a changed, a foreign and an unreadable file", "[cli][proofs]") {
  const TemporaryFolder folder;
  REQUIRE(run_program("prove mdn/complex-modulus --certificates " + folder.path("c")).exit_code ==
          0);
  const std::string name = folder.path("c") + "/mdn_complex-modulus.json";
  std::string text = read_text(name);
  text[text.find("\"terms\"") + 9] = '7';
  write_text(name, text);
  const ProgramRun changed = run_program("verify-cert " + name);
  CHECK(changed.exit_code == 1);
  CHECK(changed.out.find("REJECTED") != std::string::npos);
  write_text(name, "not a certificate");
  CHECK(run_program("verify-cert " + name).exit_code == 1);
  CHECK(run_program("verify-cert " + folder.path("nothing")).exit_code == 2);
  CHECK(run_program("verify-cert").exit_code == 2);
}

TEST_CASE("cli/prove: an id that nobody has is bad input, one line", "[cli][proofs]") {
  for (const std::string arguments : {"prove mdn/no-such", "prove mdn/eq8-ratio 'x*'",
                                      "prove mdn/eq8-ratio --readme /tmp/x.md"}) {
    const ProgramRun run = run_program(arguments);
    INFO(run.err);
    CHECK(run.exit_code == 2);
    CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
  }
}

TEST_CASE("cli/list claims: as text and as JSON", "[cli][proofs]") {
  const json document = json::parse(run_program("list claims --json").out);
  REQUIRE(document.at("claims").size() > 70);
  const std::string text = run_program("list claims").out;
  for (const json& claim : document["claims"]) {
    CHECK(text.find(claim.at("id").get<std::string>()) != std::string::npos);
    CHECK(!claim.at("false_sibling").get<std::string>().empty());
  }
  CHECK(run_program("list claims mdn/nothing").exit_code == 2);
  CHECK(run_program("list claims 'gdn/*'").out.find("false sibling") != std::string::npos);
}
