// The first look at a result: the double-double truth and eight lanes of rounding noise in place of
// 64, no filters, no properties. It accuses nobody; what looks suspicious is judged in full.
#pragma once

#include <cstdint>

#include "checks/candidate/candidate.hpp"
#include "checks/verdict/noise.hpp"

namespace assay {

struct Screen {
  bool suspicious = false;
  std::int64_t elements = 0;
  double max_z = 0;   // with a σ of eight lanes, which spreads by a quarter
  double rms_z = 0;   // of the noisiest tensor of at least 16 elements
  double growth = 0;  // largest |truth| of all outputs and gradients
};

/// Suspicious: a tensor that is missing or misshapen, a value that is not finite where the truth
/// is, an element beyond 5.5 σ, a tensor whose rms is above 1.15 σ, or one whose mean error is
/// beyond six times what the lanes have. Correct kernels are suspicious once in some tens of cases.
Screen screen(const ValidCase& c, const PrecisionModel& model, const RunResult& result,
              bool gradients, std::uint64_t seed);

}  // namespace assay
