#include "reports/validation/campaign.hpp"

#include <fmt/format.h>

#include <chrono>

#include "checks/candidate/stop_signal.hpp"
#include "reports/validation/campaign_parts.hpp"

namespace assay {

void UnitCounter::done(const std::string& what) {
  const std::lock_guard lock(mutex_);
  ++done_;
  if (!request_.progress) return;
  request_.progress(static_cast<double>(done_) / static_cast<double>(total_),
                    fmt::format("{}: {} of {}, {}", part_, done_, total_, what));
}

CampaignReport run_campaign(const CampaignRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  CampaignReport report;
  if (contains_name(request.parts, "kills")) report.kills = planted_faults(request);
  if (contains_name(request.parts, "alarms")) {
    for (const std::string& model : request.models) {
      report.alarms.push_back(false_alarms(model, request));
    }
  }
  if (contains_name(request.parts, "sensitivity")) report.sensitivity = scaled_gates(request);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  report.seconds = spent.count();
  report.signal = StopSignal::received();
  return report;
}

}  // namespace assay
