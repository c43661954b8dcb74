#include "reports/validation/campaign.hpp"

#include <catch2/catch.hpp>

#include "checks/faults/candidate.hpp"

using namespace assay;

TEST_CASE("validation: visible faults of delta are rejected and named", "[validation]") {
  CampaignRequest request;
  request.models = {"fp32"};
  request.parts = {"kills"};
  request.operations = {"delta"};
  request.threads = 2;
  const CampaignReport report = run_campaign(request);
  REQUIRE(report.kills.size() >= 8);
  int killed = 0, named = 0;
  for (const KillRow& row : report.kills) {
    INFO(row.fault);
    CHECK((row.killed > 0 || row.effect <= 1));
    killed += row.killed;
    named += row.named;
  }
  CHECK(named >= 0.95 * killed);
  CHECK(campaign_report(report).outcome == render::Outcome::well);
}

TEST_CASE("validation: correct kernels raise no alarm, a missed fault is a finding",
          "[validation]") {
  register_emulated_candidates();
  CampaignRequest request;
  request.models = {"bf16"};
  request.parts = {"alarms"};
  request.alarm_cases = 40;
  request.threads = 2;
  CampaignReport report = run_campaign(request);
  REQUIRE(report.alarms.size() == 1);
  CHECK(report.alarms[0].cases > 25);
  CHECK(report.alarms[0].findings.empty());
  CHECK(campaign_report(report).outcome == render::Outcome::well);
  report.kills = {{"planted", "mdn", "bf16", 3, 0, 0, 0, 0, 50}};
  CHECK(campaign_report(report).outcome == render::Outcome::finding);
  CHECK(campaign_markdown(report).find("| bf16 | 1 | 0 | 0 | 1 |") != std::string::npos);
}
