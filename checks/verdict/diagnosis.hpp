// Why does a candidate's error look as it does? Matched filters against known faults and against
// the sensitivity to every gate and constant; structure of the error over time, heads and rows.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "checks/candidate/candidate.hpp"
#include "checks/verdict/noise.hpp"

namespace assay {

/// The candidate's error, laid out like the expectation it is compared with.
using ErrorTensors = std::map<std::string, std::vector<double>>;

/// A direction in which an error may point: d = y_wrong - y_true per unit of `unit`.
struct Direction {
  std::string id;  // fault id, "gate alpha", "option scale", "input k"
  bool is_fault = false;
  /// It has a size of its own, 1: it is there or it is not. All faults, and what is mixed up.
  bool sized = false;
  std::string says = {};  // what such a kernel does, where the id does not say it
  double allowed = 0;     // |coefficient| that the model itself allows (error of exp, …)
  /// False: a correct candidate may have some of it, so that it explains but does not accuse.
  bool accuses = true;
  bool rounding = false;  // a fault of rounding: which way it goes depends on the last bits
  ErrorTensors d;
};

/// Least-squares coefficient of an error on one direction, weighted by 1/σ².
struct FilterResult {
  std::string id;
  bool is_fault = false, sized = false;
  std::string says = {};
  double coefficient = 0;
  double standard_error = 0;  // from the same statistic over the lanes
  /// What may be wrong with the coefficient beyond that: as much of it as the remainder of the
  /// error, where that is more than noise, could contribute or hide.
  double misfit = 0;
  double uncertainty() const { return std::hypot(standard_error, misfit); }
  double explained = 0;  // share of the error's weighted energy
  double allowed = 0;
  bool accuses = true, rounding = false;
  /// Energies in units of σ²: of the error, of correct noise, and of what the direction leaves of
  /// the error; a fault at its own size, anything else at the best coefficient.
  double energy = 0, noise_energy = 0, left = 0;
  double significance() const;  // (|coefficient| - allowed) / standard_error, at least 0
};

/// What an error is blamed on. Several faults where they are one and the same function of the case.
struct Blame {
  std::vector<FilterResult> on;  // empty: nothing known fits
};

/// How far a direction that has a size may be from it, and how much of the error may be left to
/// noise for a direction to be its cause. A tenth: the nearest other thing that is one is a half or
/// twice of it (a gradient off by a factor), and roundings of bf16 change it by a hundredth; with
/// half or twice as much neither is mistaken. Five standard errors: of some 10^2 directions one is
/// further off once in 10^4 cases, with half of it once in a case, and with ten a half that is
/// known to a twentieth would do. 1.5 times noise: energies of correct kernels are at most
/// kMaxRmsZ² = 1.7 times it and on average kUsualRmsZ² = 0.56; twice as much would leave as much
/// again as noise unexplained.
inline constexpr double kOwnSize = 0.1, kSizeErrors = 5, kLeftToNoise = 1.5;

/// Is the result significant, of its own size, and is what it leaves noise or at most that share of
/// the error?
bool fits(const FilterResult& r, double share);

/// The known direction that leaves least of the error, if what it leaves is noise or a small share.
/// A fault must have its own size: half of it is something else.
Blame blame(const std::vector<FilterResult>& filters);

/// One group of elements with a mean (or mean square) that stands out.
struct StructureFinding {
  std::string tensor;
  std::string axis;  // "t", "t mod 64", "head", "row", "column", "batch", "memory", …
  std::int64_t index = 0;
  std::string statistic;  // "mean" or "rms"
  double significance = 0;
};

/// Thresholds: with 64 lanes the statistics follow a t distribution of 64 degrees of freedom; 8
/// (structure, up to some 10^4 groups) and 7 (filters, up to some 10^2 directions) are exceeded
/// with probability below 10^-6 by a correct candidate of the declared precision.
inline constexpr double kStructureThreshold = 8, kFilterThreshold = 7;

/// Inputs whose scale a kernel may get wrong by a constant factor: every gate.
bool is_gate(const InputSpec& in);

/// Directions of every applicable fault (but those in `without`), gate and constant of the case.
std::vector<Direction> directions(const ValidCase& c, const PrecisionModel& model, bool gradients,
                                  int threads, const std::vector<std::string>& without = {});

/// An error against one direction after the other.
class Filters {
 public:
  Filters(const Expectation& expectation, const ErrorTensors& error);
  FilterResult operator()(const Direction& direction) const;
  /// Is there more of `a` in the error than there is because of `b`, in standard errors: does the
  /// case tell the two apart, once b has been taken out?
  double told_apart(const Direction& a, const Direction& b) const;
  double energy() const { return energy_; }  // of the error, in units of σ²
  double energy(const std::string& tensor) const;
  /// Elements with a σ: about the energy of correct noise.
  double noise() const { return noise_; }
  double noise(const std::string& tensor) const;
  const std::vector<double>& weight(const std::string& tensor) const { return weight_.at(tensor); }
  const Expectation& expectation() const { return expectation_; }
  const ErrorTensors& error() const { return error_; }

 private:
  const Expectation& expectation_;
  const ErrorTensors& error_;
  ErrorTensors weight_;  // 1/σ²
  double energy_ = 0, noise_ = 0;
};

/// Of all directions but those in `without`, sorted by explained share among the significant ones,
/// then by significance.
std::vector<FilterResult> matched_filters(const Expectation& expectation, const ErrorTensors& error,
                                          const std::vector<Direction>& directions,
                                          const std::vector<std::string>& without, int threads);

/// Elements that are not finite where they should be, by tensor.
using NonFinite = std::map<std::string, std::vector<std::size_t>>;

/// Faults that, run in the model's arithmetic, overflow in the places `seen`, best agreement first:
/// at least nine tenths of all places where either does.
struct OverflowCause {
  std::string id;
  double agreement = 0;  // places of both / places of either
};
std::vector<OverflowCause> overflow_causes(const ValidCase& c, const PrecisionModel& model,
                                           const Expectation& expectation, const NonFinite& seen,
                                           bool gradients,
                                           const std::vector<std::string>& without = {});
/// The elements of a result that are not finite where a correct candidate's are.
NonFinite non_finite(const Expectation& expectation, const RunResult& result);

/// All groups beyond the threshold, strongest first.
std::vector<StructureFinding> structure(const Expectation& expectation, const ErrorTensors& error,
                                        std::int64_t chunk);

}  // namespace assay
