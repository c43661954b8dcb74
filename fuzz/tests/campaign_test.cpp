#include "fuzz/campaign/campaign.hpp"

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>

#include "checks/faults/candidate.hpp"
#include "checks/faults/fault.hpp"
#include "fuzz/campaign/fault_table.hpp"
#include "fuzz/campaign/folder.hpp"
#include "fuzz/campaign/screen.hpp"
#include "reference/oracle/registry.hpp"

using namespace assay;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

class Folder {
 public:
  Folder() {
    register_emulated_candidates();
    std::string pattern = (std::filesystem::temp_directory_path() / "assay-fuzz-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator()(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

FuzzRequest request(const std::string& candidate, const std::string& out, std::int64_t cases) {
  FuzzRequest r;
  r.candidate.spec = candidate;
  r.operations = {"delta", "gdn"};
  r.cases = cases;
  r.budget_seconds = 0;
  r.threads = 2;
  r.out = out;
  r.shrink_steps = 100;
  return r;
}

Json without_run(const FuzzReport& report) {
  Json json = fuzz_json(report);
  json.erase("run");
  return json;
}

}  // namespace

TEST_CASE("campaign: the result does not depend on the number of threads", "[fuzz]") {
  const Folder folder;
  FuzzRequest one = request("fault:*.tail_unwritten", folder("one"), 60);
  one.threads = 1;
  const FuzzReport a = run_fuzz(one);
  const FuzzReport b = run_fuzz(request("fault:*.tail_unwritten", folder("two"), 60));
  CHECK(a.tally.findings > 0);
  CHECK_FALSE(a.shrunk.empty());
  CHECK(without_run(a).dump() == without_run(b).dump());
}

TEST_CASE("campaign: shards are the whole, merged", "[fuzz]") {
  const Folder folder;
  const FuzzReport whole = run_fuzz(request("fault:*.zero_gradient", folder("whole"), 80));
  for (const int i : {0, 1, 2}) {
    FuzzRequest part = request("fault:*.zero_gradient", folder("part" + std::to_string(i)), 80);
    part.shard = i;
    part.shards = 3;
    run_fuzz(part);
  }
  const FuzzReport merged =
      merge_campaigns({folder("part0"), folder("part1"), folder("part2")}, folder("merged"));
  REQUIRE(whole.tally.findings > 10);
  CHECK(tally_json(merged.tally) == tally_json(whole.tally));
  REQUIRE(merged.found.size() == whole.found.size());
  for (const auto& [index, record] : whole.found) {
    REQUIRE(merged.found.count(index) == 1);
    CHECK(merged.found.at(index).hash == record.hash);
  }
  CHECK_THROWS_AS(merge_campaigns({folder("part0"), folder("part0")}, folder("again")), InputError);
  CHECK_THROWS_AS(merge_campaigns({folder("nothing")}, folder("again")), InputError);
}

TEST_CASE("campaign: going on with one gives what one run gives", "[fuzz]") {
  const Folder folder;
  const FuzzReport whole = run_fuzz(request("fault:*.read_before_update", folder("whole"), 90));
  run_fuzz(request("fault:*.read_before_update", folder("part"), 35));
  FuzzRequest rest = request("fault:*.read_before_update", folder("part"), 90);
  CHECK_THROWS_AS(run_fuzz(rest), InputError);  // without --resume
  rest.resume = true;
  FuzzRequest other = rest;
  other.seed = 2;
  CHECK_THROWS_WITH(run_fuzz(other), EndsWith("other settings: seed was 1 and is 2"));
  other.keep = 3;
  other.candidate.model = "bf16";
  CHECK_THROWS_WITH(run_fuzz(other),
                    EndsWith("other settings: model was \"fp32\" and is \"bf16\", seed was "
                             "1 and is 2, keep was 1 and is 3"));
  other = rest;
  other.candidate.model = folder("model.json");
  std::ofstream(other.candidate.model) << R"({"preset": "fp32", "operand": "bf16", "chunk": 32})";
  CHECK_THROWS_WITH(run_fuzz(other), Contains("model"));
  // A line that was being written when the process died.
  std::ofstream(folder("part") + "/journal.jsonl", std::ios::app) << "{\"found\": {\"ind";
  const FuzzReport resumed = run_fuzz(rest);
  CHECK(tally_json(resumed.tally) == tally_json(whole.tally));
  CHECK(resumed.found.size() == whole.found.size());
  CHECK(resumed.shrunk.size() == whole.shrunk.size());
  CHECK_NOTHROW(CampaignFolder::read(folder("part")));
}

TEST_CASE("campaign: one folder, one campaign at a time", "[fuzz]") {
  const Folder folder;
  const Json settings = {{"seed", 1}};
  const CampaignFolder first(folder("it"), settings, false);
  CHECK_THROWS_AS(CampaignFolder(folder("it"), settings, true), InputError);
}

TEST_CASE("campaign: correct kernels pass, of every operation", "[fuzz]") {
  const Folder folder;
  FuzzRequest r = request("emulated:fp32", folder("correct"), 0);
  r.operations.clear();
  r.cases = 24 * 6;
  r.phases = {Phase::random, Phase::target};
  const FuzzReport report = run_fuzz(r);
  CHECK(report.tally.by_op.size() == operations().size());
  CHECK(report.tally.unbuilt == 0);
  for (const auto& [index, record] : report.found) {
    FAIL_CHECK(record.line << ": " << record.outcome.sentence);
  }
}

// The whole dictionary takes a minute; the README has that table. Here one of each sort.
TEST_CASE("campaign: faults are found and shrunk to what is asked for", "[fuzz]") {
  const Folder folder;
  FaultTableRequest table;
  table.out = folder("faults");
  table.fuzz.threads = 2;
  table.faults = {"*.state_transposed",         "*.packed_leak",
                  "mdn.carry_momentum_dropped", "m2rnn.final_cotangent_ignored",
                  "mom.unselected_decays",      "*.final_state_reduced_precision"};
  for (const FaultRow& row : fault_table(table)) {
    INFO(row.fault << " " << row.shrunk.line);
    REQUIRE(row.found);
    CHECK(row.found_seconds < 60);
    CHECK(larger_than_asked(row, 64) == "");
    // The minimal case still shows this fault.
    CHECK(find_fault(row.fault).applies(row.minimal.valid));
  }
}

TEST_CASE("campaign: a case in which a tensor overflows everywhere has not passed", "[fuzz]") {
  register_emulated_candidates();
  CaseRecipe recipe = parse_recipe("gdn B=1,T=5,H=2,K=4,V=3 fp32 seed=31");
  CheckCase given{build_case(recipe), "case line", false};
  CandidateRequest candidate;
  candidate.spec = "emulated:fp32";
  Examiner examiner(candidate);
  CHECK(examiner.examine(given, Depth::quick).signature.kind == VerdictKind::pass);
  given.valid.data.options["scale"] = 1e300;
  for (const Depth depth : {Depth::quick, Depth::thorough}) {
    const Outcome o = examiner.examine(given, depth);
    CAPTURE(o.sentence);
    CHECK(o.signature.kind == VerdictKind::weak_test);
  }
}

TEST_CASE("screen: rejects every fault that a pinned case shows", "[fuzz]") {
  register_emulated_candidates();
  const PrecisionModel model = preset_model("fp32");
  std::set<std::string> caught;
  for (const PinnedCase& c : load_corpus(std::string(ASSAY_SOURCE_DIR) + "/fuzz/corpus")) {
    for (const std::string& id : c.catches) {
      const auto candidate = make_fault_candidate(id, model);
      const RunResult result = candidate->run(c.given.valid, true);
      INFO(c.name << " " << id);
      REQUIRE(result.status == RunStatus::ran);
      const bool suspicious =
          screen(c.given.valid, *candidate->info().model, result, true, 1).suspicious;
      CHECK(suspicious);
      if (suspicious) caught.insert(id);
    }
  }
  for (const Fault* fault : faults()) {
    INFO("no pinned case shows " << fault->info().id);
    CHECK(caught.count(fault->info().id) == 1);
  }
}
