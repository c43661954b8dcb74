// The first look at a result: one evaluation in double that carries eight lanes of rounding noise,
// in place of 64 lanes, a truth in double-double or balls, filters and properties. It accuses
// nobody; what looks suspicious is judged in full.
//
// Double is enough for a first look at formats of 24 bits and fewer: whatever the condition of the
// case, its error is 2^-29 of theirs. Models that compute in fp64 are judged in full at once.
#pragma once

#include <cstdint>

#include "checks/candidate/candidate.hpp"
#include "checks/verdict/noise.hpp"

namespace assay {

struct Screen {
  bool suspicious = false;
  bool hopeless = false;  // so far off that no further look would help
  std::int64_t elements = 0;
  double max_z = 0;      // with a σ of eight lanes, which spreads by a quarter
  double rms_z = 0;      // of the noisiest tensor of at least 16 elements
  double growth = 0;     // largest |truth| of all outputs and gradients
  std::string unjudged;  // a tensor that overflows everywhere; empty: none does
};

/// Suspicious: a tensor that is missing or misshapen, a value that is not finite where the truth
/// is, an element beyond 5.5 σ, a tensor whose rms is above 1.15 σ, or one whose mean error is
/// beyond six times what the lanes have. The noise is that of the step-by-step form, which costs
/// least and is smallest; a kernel that declares chunks gets a second look with theirs, and who is
/// still suspicious a third one with 24 lanes, whose σ spreads less.
Screen screen(const ValidCase& c, const PrecisionModel& model, const RunResult& result,
              bool gradients, std::uint64_t seed);

}  // namespace assay
