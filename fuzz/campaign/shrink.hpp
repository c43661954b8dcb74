// From a case that shows a finding to the smallest that still does.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checks/verdict/check_cases.hpp"

namespace assay {

struct ShrinkRequest {
  std::int64_t steps = 1500;  // calls of `shows` at most
  double seconds = 0;         // 0: no limit of time, so that the result is the same everywhere
  std::function<bool()> stop = {};
  std::function<void(double, const std::string&)> progress = {};
};

struct ShrinkResult {
  CheckCase minimal;
  std::int64_t steps = 0, accepted = 0;
  bool capped = false;  // it ended at the cap, and could be smaller still
};

/// In turns until nothing helps: fewer sequences, batches, heads, tokens (by bisection), widths;
/// optional inputs, cotangents and options left out; gates to 0 and 1, vectors to unit vectors,
/// numbers to a short list. Exact cases keep their numbers. `shows` says whether a case still has
/// the finding; it must hold for `c`.
ShrinkResult shrink(const CheckCase& c, const std::function<bool(const CheckCase&)>& shows,
                    const ShrinkRequest& request);

/// Every case that is one such step smaller, the largest steps first: what RapidCheck is given.
std::vector<ValidCase> smaller_cases(const ValidCase& c);

/// Where the minimum sits, as far as tiles can be the reason: "T = 65 = C + 1, one past a chunk".
/// Empty when it sits nowhere special.
std::string tile_edges(const ValidCase& c, std::int64_t chunk);

}  // namespace assay
