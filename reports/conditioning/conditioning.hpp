// `assay report conditioning`: what a chunk form loses, along a trace or over a gate box.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "reports/conditioning/chunk.hpp"
#include "reports/spectrum/spectrum.hpp"

namespace assay::reports {

/// The worst over the chunks of one length; by form and format as in chunk.hpp.
struct LengthConditioning {
  std::int64_t C = 0, chunks = 0;
  ChunkRange worst;
  std::int64_t condition_at = 0;  // first step of the chunk with the largest condition number
  std::array<std::array<CoefficientError, 3>, 3> error;  // [form][format]
};

struct UnitConditioning {
  std::string name;
  std::vector<LengthConditioning> lengths;
  // C = 64, chunk by chunk
  std::vector<double> at, condition, log_error, recursion_error;  // errors in fp32, scaled
};

inline const std::vector<std::int64_t> kChunkLengths = {16, 32, 64, 128};

struct ConditioningOptions {
  int threads = 1;
  std::int64_t most_chunks = 64;  // per unit and length, evenly spread
  ProgressFunction progress = {};
};

/// Throws InputError for operations whose chunk form is not that of mdn, gdn or delta.
std::vector<UnitConditioning> trace_conditioning(const Trace& trace,
                                                 const ConditioningOptions& options);
/// Chunks whose gates are drawn from the box step by step; one key throughout, the worst case.
UnitConditioning box_conditioning(const GateBox& box, int chunks);

/// log10 of the fp32 error of the coefficients for constant gates, β = 1 - α, C = 64.
render::Grid error_map(CoefficientForm form, int points);

render::Report conditioning_report(const std::string& title, const std::string& subtitle,
                                   const std::vector<UnitConditioning>& units,
                                   std::vector<std::string> notes, bool delta);

}  // namespace assay::reports
