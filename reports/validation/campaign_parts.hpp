// The parts of the campaign of campaign.hpp, one file each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "reports/validation/campaign.hpp"

namespace assay {

/// Counts finished units of a part.
class UnitCounter {
 public:
  UnitCounter(const CampaignRequest& request, std::string part, std::int64_t total)
      : request_(request), part_(std::move(part)), total_(std::max<std::int64_t>(total, 1)) {}
  void done(const std::string& what);

 private:
  const CampaignRequest& request_;
  const std::string part_;
  const std::int64_t total_;
  std::int64_t done_ = 0;
  std::mutex mutex_;
};

inline bool contains_name(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Every fault of the dictionary on every operation that has it.
std::vector<KillRow> planted_faults(const CampaignRequest& request);
/// Correct kernels of one model.
AlarmRow false_alarms(const std::string& model, const CampaignRequest& request);
/// Gates that are scaled, on every model.
std::vector<SensitivityRow> scaled_gates(const CampaignRequest& request);

}  // namespace assay
