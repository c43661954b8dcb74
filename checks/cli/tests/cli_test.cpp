#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "checks/cli/tests/run_program.hpp"
#include "checks/faults/fault.hpp"
#include "checks/output/decimal.hpp"
#include "reference/case/safetensors.hpp"
#include "reference/oracle/registry.hpp"

namespace {

using namespace assay::tests;
using nlohmann::json;

/// Exit 2 and one line on stderr that begins with "assay: " and holds `part`.
void check_refused(const std::string& arguments, const std::string& part) {
  const ProgramRun run = run_program(arguments);
  CAPTURE(arguments, run.err);
  CHECK(run.exit_code == 2);
  CHECK(run.out.empty());
  CHECK(run.err.rfind("assay: ", 0) == 0);
  CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
  CHECK(run.err.find(part) != std::string::npos);
}

std::string small_gdn(const TemporaryFolder& folder) {
  const std::string path = folder.path("gdn.safetensors");
  const ProgramRun run =
      run_program("gen gdn --shape B=2,T=5,H=2,K=4,V=2 --seed 7 --out '" + path + "'");
  CAPTURE(run.err);
  REQUIRE(run.exit_code == 0);
  return path;
}

TEST_CASE("cli: help and version", "[cli]") {
  CHECK(run_program("--version").out.rfind("assay ", 0) == 0);
  const ProgramRun help = run_program("--help");
  CHECK(help.exit_code == 0);
  for (const char* command : {"list", "gen", "eval", "gradcheck", "verify"}) {
    CHECK(help.out.find(command) != std::string::npos);
    CHECK(run_program(std::string(command) + " --help").exit_code == 0);
  }
}

TEST_CASE("cli: bad usage is one line and exit 2", "[cli]") {
  check_refused("", "no command");
  check_refused("nonsense", "nonsense");
  check_refused("list nonsense", "nonsense");
  check_refused("list ops nonsense", "nonsense");
  check_refused("list ops nonsense --json", "nonsense");
  check_refused("list faults nonsense", "nonsense");
  check_refused("eval", "file");
  check_refused("eval /nonexistent.safetensors", "/nonexistent.safetensors");
  check_refused("eval x --nonsense", "nonsense");
  check_refused("gradcheck nonsense", "nonsense");
  check_refused("gradcheck gdn --checks G9", "G9");
  check_refused("verify --samples /nonexistent", "/nonexistent");
  const std::string file = "'" + sample("mdn_mqar") + "'";
  for (const char* digits : {"0", "-1", "100001", "ten", "1e3", "99999999999999999999"}) {
    check_refused("eval " + file + " --digits " + digits, "--digits");
  }
  check_refused("eval " + file + " --threads 0", "--threads");
  check_refused("eval " + file + " --form nonsense", "nonsense");
  check_refused("eval " + file + " --engine nonsense", "nonsense");
  check_refused("eval " + file + " --form chunk --chunk 0", "chunk");
  check_refused("eval '" + sample("m2rnn_s3") + "' --form chunk", "chunk");
}

TEST_CASE("cli/list: candidates, as text and as JSON", "[cli]") {
  const std::string text = run_program("list candidates").out;
  CHECK(text.find("outputs:FILE") != std::string::npos);
  CHECK(text.find("fault:ID") != std::string::npos);
  const json document = json::parse(run_program("list candidates --json").out);
  CHECK(document.at("schema_version") == 1);
  CHECK(document.at("candidates").size() >= 6);
}

TEST_CASE("cli/list: every fault, as text and as JSON", "[cli]") {
  const std::string text = run_program("list faults").out;
  const json document = json::parse(run_program("list faults --json").out);
  REQUIRE(document.at("faults").size() == assay::faults().size());
  for (const json& fault : document["faults"]) {
    CHECK(text.find(fault.at("id").get<std::string>()) != std::string::npos);
    CHECK(!fault.at("title").get<std::string>().empty());
    CHECK(!fault.at("source").get<std::string>().empty());
  }
  const json one = json::parse(run_program("list faults '*.packed_leak' --json").out);
  CHECK(one.at("faults").size() == 1);
}

TEST_CASE("cli/list: every operation, as text and as JSON", "[cli]") {
  const std::string text = run_program("list ops").out;
  const json document = json::parse(run_program("list ops --json").out);
  REQUIRE(document.at("ops").size() == assay::operations().size());
  std::size_t i = 0;
  for (const assay::Operation* operation : assay::operations()) {
    const std::string op = operation->schema(nullptr).op;
    CHECK(text.find(op) != std::string::npos);
    CHECK(document["ops"][i++].at("name") == op);
    CHECK(run_program("list ops " + op).exit_code == 0);
  }
}

TEST_CASE("cli/eval: JSON holds every value as decimal text", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = "'" + small_gdn(folder) + "'";
  const ProgramRun run = run_program("eval " + file + " --digits 30 --grad --json");
  CAPTURE(run.err);
  REQUIRE(run.exit_code == 0);
  const json document = json::parse(run.out);
  CHECK(document.at("op") == "gdn");
  CHECK(document.at("digits") == 30);
  CHECK(document.at("engine") == "ball");
  CHECK(document.at("form") == "recurrent");
  const json& o = document.at("outputs").at("o");
  CHECK(o.at("shape") == json({2, 5, 2, 2}));
  REQUIRE(o.at("values").size() == 40);
  for (const json& value : o.at("values")) {
    REQUIRE(value.is_string());
    CHECK(assay::decimals_agree(value.get<std::string>(), value.get<std::string>()));
  }
  CHECK(document.at("outputs").contains("s_final"));
  CHECK(document.at("gradients").contains("d_q"));
  const json without = json::parse(run_program("eval " + file + " --json").out);
  CHECK(without.at("gradients").empty());
  CHECK(without.at("digits") == 50);
}

TEST_CASE("cli/eval: forms and engines agree", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = "'" + small_gdn(folder) + "'";
  const auto values = [&](const std::string& flags) {
    const ProgramRun run = run_program("eval " + file + " --json --digits 25 " + flags);
    CAPTURE(flags, run.err);
    REQUIRE(run.exit_code == 0);
    return json::parse(run.out).at("outputs").at("o").at("values");
  };
  const json plain = values("");
  for (const char* flags :
       {"--engine mpfr", "--form chunk", "--form chunk --chunk 2", "--engine rational"}) {
    CAPTURE(flags);
    const json other = values(flags);
    REQUIRE(other.size() == plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i) {
      CHECK(assay::decimals_agree(plain[i].get<std::string>(), other[i].get<std::string>()));
    }
  }
}

TEST_CASE("cli/eval: the same bytes for any number of threads", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = "'" + small_gdn(folder) + "'";
  const std::string one = run_program("eval " + file + " --grad --json --threads 1").out;
  CHECK(!one.empty());
  CHECK(run_program("eval " + file + " --grad --json --threads 2").out == one);
  CHECK(run_program("eval " + file + " --grad --json --threads 7").out == one);
}

TEST_CASE("cli/eval: the file of --out holds the nearest doubles", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = "'" + small_gdn(folder) + "'", out = folder.path("out.safetensors");
  const ProgramRun run = run_program("eval " + file + " --grad --json --out '" + out + "'");
  REQUIRE(run.exit_code == 0);
  const json document = json::parse(run.out);
  const assay::SafetensorsFile written = assay::read_safetensors(out);
  std::size_t seen = 0;
  for (const char* group : {"outputs", "gradients"}) {
    for (const auto& [name, tensor] : document.at(group).items()) {
      REQUIRE(written.tensors.count(name) == 1);
      const assay::CaseTensor& stored = written.tensors.at(name);
      CHECK(stored.dtype == assay::DType::F64);
      CHECK(json(stored.shape) == tensor.at("shape"));
      for (std::size_t i = 0; i < stored.values.size(); ++i) {
        // strtod rounds correctly, and 50 digits decide the nearest double.
        CHECK(stored.values[i] == std::stod(tensor.at("values")[i].get<std::string>()));
      }
      ++seen;
    }
  }
  CHECK(written.tensors.size() == seen);
  check_refused("eval " + file + " --out /nonexistent/folder/x", "/nonexistent/folder/x");
}

TEST_CASE("cli/eval: the text fits one screen", "[cli]") {
  const TemporaryFolder folder;
  const ProgramRun run = run_program("eval '" + small_gdn(folder) + "' --grad --digits 80");
  REQUIRE(run.exit_code == 0);
  CHECK(std::count(run.out.begin(), run.out.end(), '\n') <= 50);
  std::size_t column = 0;
  for (char c : run.out) {
    column = c == '\n' ? 0 : column + 1;
    REQUIRE(column <= 100);
  }
}

TEST_CASE("cli/eval: values outside their domain are said, and refused with --strict", "[cli]") {
  const std::string file = "'" + sample("mdn_mqar") + "'";
  check_refused("eval " + file + " --strict --digits 5", "log_mu");
  const ProgramRun run = run_program("eval " + file + " --digits 5 --json");
  REQUIRE(run.exit_code == 0);
  const json notes = json::parse(run.out).at("notes");
  CHECK(notes.dump().find("log_mu") != std::string::npos);
}

TEST_CASE("cli: output that cannot be written is not taken for success", "[cli]") {
  const std::string program = std::string("'") + ASSAY_PROGRAM + "'";
  CHECK(run_program("--version >/dev/null; (" + program + " list ops >/dev/full)").exit_code == 3);
}

TEST_CASE("cli/gradcheck: an operation's own cases pass", "[cli]") {
  const ProgramRun run = run_program("gradcheck linear_attention --checks G1 --json");
  CAPTURE(run.err);
  REQUIRE(run.exit_code == 0);
  const json document = json::parse(run.out);
  REQUIRE(!document.at("reports").empty());
  for (const json& report : document.at("reports")) {
    CHECK(report.at("op") == "linear_attention");
    CHECK(report.at("failed") == false);
  }
}

}  // namespace
