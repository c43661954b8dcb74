// `assay report spectrum`: where the frozen eigenvalues lie, along a trace or over gate boxes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reports/render/report.hpp"
#include "reports/spectrum/frozen.hpp"
#include "reports/spectrum/nonnormal.hpp"
#include "reports/trace/box.hpp"

namespace assay::reports {

using ProgressFunction = std::function<void(double, const std::string&)>;

/// Counts of values in equal bins; what lies beyond the ends is counted in the end bins.
struct Histogram {
  double lo = 0, hi = 1;
  std::vector<std::int64_t> counts = std::vector<std::int64_t>(40);
  void add(double value);
  double centre(std::size_t bin) const;
  double bin_width() const { return (hi - lo) / static_cast<double>(counts.size()); }
};

/// A step that a report shows in full.
struct SampledStep {
  std::int64_t index = 0, token = 0;
  StepSpectrum spectrum;
  NonNormal non_normal;
  double deviation =
      0;  // of the closed form's eigenvalues from the dense solver's; NaN: no closed form
  std::string enclosure;         // of the spectral radius, when asked for
  bool enclosed_inside = false;  // certainly all |λ| < 1
};

struct UnitSpectrum {
  std::string name;
  std::int64_t steps = 0, analysed = 0;
  std::int64_t complex_steps = 0, negative_steps = 0, outside_steps = 0;
  double largest_radius = 0, largest_norm = 0, smallest_jury = 0;
  std::int64_t radius_at = 0;
  Histogram modulus{0, 1.25}, phase{0, 1};  // of the key's eigenvalues; phase in units of π
  std::vector<double> re, im;               // some of them
  std::vector<double> across;               // eigenvalues across the key, all real
  std::vector<std::int64_t> at;             // their steps
  std::vector<SampledStep> samples;         // the first one has the largest spectral radius
  FrozenStep worst;                         // of the sample with the largest transient growth
  std::int64_t worst_at = 0;
};

struct SpectrumOptions {
  int threads = 1;
  std::int64_t most_steps = 0;  // per unit; 0: all with a closed form, 2000 without
  int samples = 12;             // per unit, for what is too dear for every step
  int enclose = 0;              // per unit: samples whose eigenvalues Arb encloses
  ProgressFunction progress = {};
};

std::vector<UnitSpectrum> trace_spectrum(const Trace& trace, const SpectrumOptions& options);

/// Over the points of a box, |k|² among them.
UnitSpectrum box_spectrum(const GateBox& box, int points, int samples);

/// The reports. Provenance is the caller's.
render::Report spectrum_report(const Trace& trace, const std::vector<UnitSpectrum>& units,
                               const SpectrumOptions& options);
render::Report box_spectrum_report(const std::vector<GateBox>& boxes,
                                   const std::vector<UnitSpectrum>& results);

}  // namespace assay::reports
