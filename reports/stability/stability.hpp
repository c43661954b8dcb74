// `assay report stability`: products of the steps along a trace.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/spectrum/spectrum.hpp"
#include "reports/stability/exponents.hpp"

namespace assay::reports {

constexpr double kLog10 = 2.302585092994046;  // the natural logarithm of 10

/// log10 of a norm over time.
struct NormSeries {
  std::vector<double> t, log10_norm;

  /// From the natural logarithm of the norm.
  void record(double time, double log_norm) {
    t.push_back(time);
    log10_norm.push_back(log_norm / kLog10);
  }
};

/// The window of that length with the largest |A_{t+L-1} ... A_t|_2 among those tried.
struct WorstWindow {
  std::int64_t length = 0, start = 0, tried = 0;
  double log10_norm = 0;  // a lower bound: power iteration
};

/// m2rnn: |dH'|_F <= (f + (1-f) |W|_2 max(1 - Z²)) |dH|_F, step by step.
struct JacobianBound {
  double norm_w = 0;
  double mean_log = 0;  // of the bound: an upper bound of the leading exponent over the trace
  double largest = 0;
  std::int64_t above_one = 0;
  NormSeries bound;  // log10 of the running product
};

/// What a clamp of the state's cotangent would do, from the file's own cotangents, unclipped.
struct ClipStatistics {
  std::vector<double> threshold, elements, steps;  // shares of elements, of steps with any, beyond
  double largest = 0;
  std::optional<double> option;  // the file's state_grad_clip
  NormSeries largest_element;
};

struct UnitStability {
  std::string name;
  std::int64_t steps = 0, order = 0, blocks = 1, directions = 0;
  bool exact = false;       // all directions: norms, not lower bounds
  Exponents exponents;      // of the block (row of H) with the largest leading one
  double mean_leading = 0;  // over the blocks
  NormSeries forward;       // |A_t ... A_1|
  NormSeries backward;      // |A_t^T ... A_T^T|, what a cotangent at the end becomes at t
  double largest_log10 = 0;
  std::int64_t largest_at = 0;
  std::vector<WorstWindow> windows;
  std::optional<JacobianBound> jacobian;
  std::optional<ClipStatistics> clip;
};

struct StabilityOptions {
  int threads = 1;
  ProgressFunction progress = {};
};

std::vector<UnitStability> trace_stability(const Trace& trace, const StabilityOptions& options);

render::Report stability_report(const Trace& trace, const std::vector<UnitStability>& units);

}  // namespace assay::reports
