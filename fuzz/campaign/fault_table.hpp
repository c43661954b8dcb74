// Every fault of the dictionary as a candidate of a campaign with default settings: is it found,
// how soon, and how small does it get?
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fuzz/campaign/campaign.hpp"

namespace assay {

struct FaultRow {
  std::string fault, title;
  bool found = false;
  double found_seconds = 0, seconds = 0;  // to the first finding; with shrinking
  std::int64_t tried = 0;                 // numbers of the plan until then that apply
  CaseRecord record;
  Shrunk shrunk;
  CheckCase minimal;
};

struct FaultTableRequest {
  FuzzRequest fuzz;                 // candidate and out are set for every fault
  std::vector<std::string> faults;  // empty: all
  std::string out;
  std::function<void(double, const std::string&)> progress = {};
};

/// Campaigns in OUT/<fault>, each until the first finding, without pinned cases.
std::vector<FaultRow> fault_table(const FaultTableRequest& request);

/// The smallest that is asked for: T <= C + 2, B = H = 1, K, V <= 4. Empty, or what is larger.
std::string larger_than_asked(const FaultRow& row, std::int64_t chunk);

std::string fault_table_markdown(const std::vector<FaultRow>& rows);
Json fault_table_json(const std::vector<FaultRow>& rows);

}  // namespace assay
