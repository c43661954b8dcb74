// A fuzzing campaign: many cases, many threads, many machines, one result.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fuzz/campaign/cluster.hpp"
#include "fuzz/campaign/record.hpp"
#include "fuzz/campaign/search.hpp"

namespace assay {

struct FuzzRequest {
  CandidateRequest candidate;
  std::vector<std::string> operations;  // empty: all that the candidate declares
  std::uint64_t seed = 1;
  CaseLimits limits = {};
  std::vector<Phase> phases = {Phase::corpus, Phase::past, Phase::grid, Phase::random,
                               Phase::target};
  Target target = Target::z;
  std::int64_t shard = 0, shards = 1;  // numbers that are `shard` modulo `shards`
  std::int64_t cases = 0;              // numbers below this one; 0: all
  /// For new cases; 0: no limit. Calls that are not back a second later are given up and their
  /// cases not counted. Shrinking comes on top.
  double budget_seconds = 60;
  std::int64_t stop_after = 0;  // findings; 0: never
  int keep = 1;                 // folders for each signature
  std::int64_t shrink_steps = 1500;
  /// Of one shrink: for kernels that hang or are slow. Whoever reaches it may end elsewhere on
  /// another machine.
  double shrink_seconds = 300;
  int threads = 1;
  std::string out = "assay-fuzz";
  bool resume = false;
  std::string corpus;             // folder; empty: none
  std::vector<std::string> past;  // folders of earlier campaigns
  std::function<void(double, const std::string&)> progress = {};
  std::function<void(const std::string&)> say = {};  // a finding, a few lines
};

struct FuzzReport {
  Json settings;
  Tally tally;
  std::map<std::int64_t, CaseRecord> found;  // the first 100 of each signature
  std::map<std::int64_t, Shrunk> shrunk;
  /// How it went, which is not the same twice.
  double seconds = 0, first_finding = -1;  // since the start
  std::int64_t lost_children = 0;
  std::int64_t given_up = 0;  // cases for which the budget was over; not counted
  int threads = 0, processes = 1, signal = 0;
  bool resumed = false;
};

/// Runs or goes on with a campaign. With a cluster, rank 0 alone writes, and the other ranks return
/// an empty report. Throws InputError for what cannot start, std::runtime_error when the disk
/// fails.
FuzzReport run_fuzz(const FuzzRequest& request, Cluster* cluster = nullptr);

/// What several shards (or several campaigns of other seeds) found, as one. Throws InputError for
/// folders that do not belong together.
FuzzReport merge_campaigns(const std::vector<std::string>& folders, const std::string& out);

/// The document, its lines for a terminal.
Json fuzz_json(const FuzzReport& report);
std::string fuzz_text(const FuzzReport& report);

}  // namespace assay
