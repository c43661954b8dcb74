// `assay check` and `assay judge` as a user meets them.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "checks/cli/tests/run_program.hpp"
#include "reference/case/safetensors.hpp"

using namespace assay::tests;
using json = nlohmann::json;
namespace fs = std::filesystem;

TEST_CASE("cli/check: a finding leaves a folder that replays it", "[cli][check]") {
  const TemporaryFolder folder;
  const ProgramRun run = run_program(
      "check gdn --candidate fault:gdn.residual_undecayed --model fp32 --only 5 "
      "--json - --failures " +
      folder.path("found"));
  CHECK(run.exit_code == 1);
  const json report = json::parse(run.out);
  REQUIRE(report.at("verdicts").size() == 1);
  const json& verdict = report["verdicts"][0];
  CHECK(verdict.at("blamed").at(0) == "gdn.residual_undecayed");
  REQUIRE(fs::is_directory(folder.path("found")));
  const fs::path place = *fs::directory_iterator(folder.path("found"));
  CHECK(verdict.at("replay").get<std::string>().find(place.string()) != std::string::npos);
  for (const char* name : {"case.safetensors", "evidence.safetensors", "model.json", "verdict.txt",
                           "verdict.json", "replay.sh"}) {
    INFO(name);
    CHECK(fs::is_regular_file(place / name));
  }
  const auto evidence = assay::read_safetensors((place / "evidence.safetensors").string());
  for (const char* name : {"o", "o.truth", "o.sigma", "d_k", "d_k.truth"}) {
    CHECK(evidence.tensors.count(name) == 1);
  }
  const ProgramRun again = run_program(
      "check --candidate fault:gdn.residual_undecayed --json - --model " +
      (place / "model.json").string() + " --case " + (place / "case.safetensors").string());
  CHECK(again.exit_code == 1);
  const json second = json::parse(again.out);
  CHECK(second["verdicts"][0]["tensors"] == verdict["tensors"]);
}

TEST_CASE("cli/check: the replay line of a case without a file", "[cli][check]") {
  const std::string line = "check gdn --candidate fault:gdn.residual_undecayed --only 5";
  const ProgramRun run = run_program(line);
  CHECK(run.exit_code == 1);
  CHECK(run.out.find("replay: assay " + line) != std::string::npos);
}

TEST_CASE("cli/check: a case that overflows everywhere decides nothing", "[cli][check]") {
  const TemporaryFolder folder;
  const std::string c = folder.path("case.safetensors");
  REQUIRE(run_program(
              "gen delta --shape B=1,T=8,H=2,K=4,V=3 --dtype f32 --option scale=1e300 --out " + c)
              .exit_code == 0);
  const ProgramRun run = run_program("check --candidate cpu --quick --case " + c);
  CHECK(run.exit_code == 3);
  CHECK(run.out.rfind("WEAK-TEST", 0) == 0);
  CHECK(run.out.find("the declared formats overflow on the way to every value of") !=
        std::string::npos);
}

TEST_CASE("cli/check: bad usage is one line", "[cli][check]") {
  const auto refused = [](const std::string& arguments, const std::string& word) {
    INFO(arguments);
    const ProgramRun run = run_program(arguments);
    CHECK(run.exit_code == 2);
    CHECK(run.out.empty());
    CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
    CHECK(run.err.find(word) != std::string::npos);
  };
  refused("check gdn --only 99", "there is no number 99");
  refused("check gdn mdn --only 1", "--only");
  refused("check gdn --budget soon", "'soon'");
  refused("check nothing", "nothing");
  refused("check gdn --candidate fault:nothing", "nothing");
  refused("check gdn --model fp33", "fp33");
  refused("judge /nowhere.safetensors", "/nowhere.safetensors");
}

TEST_CASE("cli/judge: results computed elsewhere, with their inputs or beside them",
          "[cli][check]") {
  const TemporaryFolder folder;
  const std::string c = folder.path("case.safetensors"), truth = folder.path("truth.safetensors");
  REQUIRE(run_program("gen gdn --shape B=1,T=9,H=2,K=4,V=3 --seed 4 --out " + c).exit_code == 0);
  REQUIRE(run_program("eval " + c + " --grad --out " + truth).exit_code == 0);
  CHECK(run_program("judge " + truth + " --case " + c).exit_code == 0);

  auto results = assay::read_safetensors(truth);
  auto both = assay::read_safetensors(c);
  for (const auto& [name, tensor] : results.tensors) {
    if (!both.tensors.count(name)) both.tensors[name] = tensor;
  }
  const std::string joined = folder.path("joined.safetensors");
  assay::write_safetensors(joined, both);
  CHECK(run_program("judge " + joined).exit_code == 0);

  both.tensors.at("o").values[5] += 1e-4;
  assay::write_safetensors(joined, both);
  const ProgramRun wrong = run_program("judge " + joined);
  CHECK(wrong.exit_code == 1);
  CHECK(wrong.out.find("t=0 (t mod 64 = 0), head 1, column 2") != std::string::npos);

  both.tensors.clear();
  both.tensors["o"] = results.tensors.at("o");
  assay::write_safetensors(joined, both);
  const ProgramRun alone = run_program("judge " + joined);
  CHECK(alone.exit_code == 2);
  CHECK(alone.err.find("--case") != std::string::npos);
}

TEST_CASE("cli/check: a page with pictures", "[cli][check]") {
  if (std::system("command -v gnuplot > /dev/null") != 0) return;
  const TemporaryFolder folder;
  const std::string page = folder.path("page.html");
  const ProgramRun run =
      run_program("check gdn --candidate fault:gdn.residual_undecayed --only 1 --html " + page);
  CHECK(run.exit_code == 1);
  const std::string text = read_text(page);
  CHECK(text.find("<svg") != std::string::npos);
  CHECK(text.find("gdn.residual_undecayed") != std::string::npos);
  CHECK(text.find("http://") == text.find("http://www.w3.org"));
}
