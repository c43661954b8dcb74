// The map of errors over constant gates: what is known of it without a kernel's help.
#include "reports/conditioning/gate_map.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "reports/tests/traces.hpp"

using namespace assay;
using namespace assay::reports;

namespace {

/// 2 x 2 points; the published formula is not finite at one of them.
GateMap small_map() {
  GateMap map;
  map.candidate = "path/kernel.so", map.model = "bf16", map.shape = "T=64,K=8,V=8,C=64";
  map.asked = 1e-2;
  map.alpha = {0.2, 1}, map.log_mu = {-2, 0};
  map.candidate_error = {1e-3, 2e-3, 3e-3, 4e-3};
  map.published_error = {0.5, std::nan(""), 1e-6, 1e-7};
  return map;
}

}  // namespace

TEST_CASE("gate map/report: the verdict is that of the candidate alone", "[conditioning]") {
  const render::Report good = gate_map_report(small_map());
  CHECK(good.outcome == render::Outcome::well);
  CHECK(good.page.verdict.sentence.find("4.0e-03 at most") != std::string::npos);
  CHECK(good.page.verdict.sentence.find("not finite at 1 points") != std::string::npos);
  CHECK(good.tables.at(0).rows.size() == 4);
  for (const double bad : {0.02, std::nan("")}) {
    GateMap map = small_map();
    map.candidate_error[2] = bad;
    CHECK(gate_map_report(map).outcome == render::Outcome::finding);
  }
}

TEST_CASE("gate map/json: what is printed reads back, NaN as null", "[conditioning]") {
  const GateMap map = small_map();
  const std::string path =
      (std::filesystem::temp_directory_path() / ("gate_map_" + std::to_string(getpid()) + ".json"))
          .string();
  std::ofstream(path) << render::report_json(gate_map_report(map)).dump();
  const GateMap back = read_gate_map(path);
  CHECK(back.candidate == map.candidate);
  CHECK(back.alpha == map.alpha);
  CHECK(back.candidate_error == map.candidate_error);
  CHECK(std::isnan(back.published_error[1]));
  CHECK(back.published_error[2] == map.published_error[2]);
  std::ofstream(path) << R"({"map": {"alpha": [0.2, 1]}})";
  CHECK_THROWS_AS(read_gate_map(path), InputError);
  std::ofstream(path) << "nothing";
  CHECK_THROWS_AS(read_gate_map(path), InputError);
  std::filesystem::remove(path);
}
