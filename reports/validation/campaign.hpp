// How far the verdict can be trusted, measured: planted faults, correct kernels by the thousand,
// and small scalings of one gate. The tables of the README come from here.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reports/render/report.hpp"

namespace assay {

struct CampaignRequest {
  std::vector<std::string> models = {"fp32", "tf32", "fp16", "bf16"};
  std::vector<std::string> parts = {"kills", "alarms", "sensitivity"};
  std::vector<std::string> operations = {};  // for faults and gates; empty: all
  std::int64_t alarm_cases = 10000;          // of correct kernels, per model
  std::uint64_t seed = 1;
  int threads = 1;
  std::function<void(double, const std::string&)> progress = {};
};

/// A fault against the default cases of one operation under one model.
struct KillRow {
  std::string fault, op, model;
  int cases = 0;   // that can show it, of those run
  int killed = 0;  // rejected
  int named = 0;   // rejected, and the fault is among the functions blamed
  int wrong = 0;   // rejected, and something else is blamed
  int misled = 0;  // blamed on another known fault when this one is not in the dictionary
  /// How far the fault's effect exceeds what cannot be found under the declared rounding, on the
  /// case where it does most; up to 1 it is within that. Of a formula: the significance of its
  /// direction at its own size, over kFilterThreshold. Of a coarser rounding, whose errors nobody
  /// can foresee: the rms of what it adds to the errors of a tensor in the same arithmetic, over
  /// that of the declared rounding and its spread.
  double effect = 0;
};

struct AlarmRow {
  std::string model;
  std::int64_t cases = 0, elements = 0;
  double largest_z = 0, largest_rms = 0;           // rms: of tensors with at least 256 elements
  std::vector<std::string> findings;               // one line each; what must stay empty
  std::map<std::string, std::int64_t> candidates;  // cases of each
};

struct SensitivityRow {
  std::string op, gate, model;
  std::int64_t elements = 0;
  /// The smallest relative scaling of the gate that is found, by this program and by other rules;
  /// infinite when none of those tried is.
  double found = 0, allclose = 0, rms_ratio = 0, baseline = 0;
};

struct CampaignReport {
  std::vector<KillRow> kills;
  std::vector<AlarmRow> alarms;
  std::vector<SensitivityRow> sensitivity;
  double seconds = 0;
  int signal = 0;  // that ended it early, or 0
};

/// Where a StopSignal (checks/candidate/stop_signal.hpp) comes: what there is so far.
CampaignReport run_campaign(const CampaignRequest& request);

/// Page, JSON and CSV. A finding: a false alarm, or a fault that shows and is not rejected.
render::Report campaign_report(const CampaignReport& campaign);

/// The tables in Markdown, as they stand in the README.
std::string campaign_markdown(const CampaignReport& campaign);

}  // namespace assay
