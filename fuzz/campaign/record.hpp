// What is kept of a case that was tried, on its way between threads, processes and files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checks/output/json_output.hpp"
#include "fuzz/campaign/examine.hpp"
#include "fuzz/campaign/plan.hpp"

namespace assay {

struct CaseRecord {
  std::int64_t index = 0;
  Phase phase = Phase::random;
  std::string op, line;
  std::string hash;        // of findings
  std::string recipe;      // of a finding of a search: the line of its case
  std::int64_t tried = 1;  // cases (a search tries several)
  std::string unbuilt;     // why the case could not be made; empty
  Outcome outcome;
  CaseClasses classes;
};
Json record_json(const CaseRecord& record);
CaseRecord record_from(const Json& json);

/// A kept finding after it was made small.
struct Shrunk {
  std::string folder;      // below the campaign's folder
  std::string cause;       // what the full verdict blames, may be empty
  std::string hash, line;  // of the minimal case
  std::string kind;        // its verdict
  std::int64_t steps = 0;
  bool capped = false;
  std::int64_t first_bad_t = -1, t_mod_chunk = -1;
  std::string edge;                           // "T = 65 = 1 x 64 + 1, at the edge of a chunk"
  std::map<std::string, std::int64_t> sizes;  // of its axes
};
Json shrunk_json(const Shrunk& s);
Shrunk shrunk_from(const Json& json);

/// Sums of a campaign; everything in it is the same for every number of threads and machines.
struct Tally {
  std::int64_t cases = 0, elements = 0, full = 0, unsupported = 0, unbuilt = 0, findings = 0;
  double max_z = 0, max_rms_z = 0, max_hard_ratio = 0, max_growth = 0;
  std::map<std::string, std::int64_t> by_phase, by_op, signatures, verdicts;
  std::map<std::string, std::string> unsupported_because, unbuilt_because;  // first reason by op
  ClassMix mix;

  void add(const CaseRecord& record);
  void add(const Tally& other);
};
Json tally_json(const Tally& tally);
Tally tally_from(const Json& json);

/// "mdn WRONG, values, o".
std::string signature_text(const CaseRecord& record);

}  // namespace assay
