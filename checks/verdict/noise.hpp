// Truth and expected error of a case under a precision model.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "checks/verdict/precision_model.hpp"
#include "reference/oracle/evaluate.hpp"

namespace assay {

/// One output or gradient tensor (gradients are named "d_<input>") as the verdict sees it.
struct ExpectedTensor {
  Shape shape;
  std::string axes;  // of the schema, for structure tests; S in place of B when packed
  NumberFormat format = NumberFormat::fp32;  // in which it is handed over
  std::vector<double> truth;                 // the true value rounded to double
  std::vector<double> truth_error;           // bound of |truth - true value|
  std::vector<double> sigma;                 // standard deviation of a correct candidate's error
  /// Simulated errors of correct candidates, [lanes][elements]. Any statistic of the candidate's
  /// error is compared with the spread of the same statistic over the lanes, which carries all
  /// correlations between elements.
  std::vector<std::vector<float>> lanes;
  /// The lanes are so many groups of equal size, one per form that the candidate may have computed;
  /// σ and every spread are the largest of the groups'.
  int groups = 1;
  /// Elements of a sequence and head in which something overflows, where the form multiplies by
  /// what it masks: a value that is not finite says nothing there. Empty: none.
  std::vector<bool> spoiled;
  bool may_be_spoiled(std::size_t i) const { return !spoiled.empty() && spoiled[i]; }
  /// How many independent errors the elements' errors amount to, from the spread of the lanes' sums
  /// of z²: one rounding that reaches all elements is one.
  double independent = 0;
  /// Proved bound of a candidate's error (hard_bound.hpp), or why there is none. `expect` leaves
  /// both empty.
  std::vector<double> hard_bound;
  std::string no_hard_bound;
};

/// The largest over the groups of lanes of `statistic(first lane, one past the last)`; infinite
/// where one has none, since its form overflows.
template <class Statistic>
double largest_over_groups(const ExpectedTensor& e, Statistic statistic) {
  const std::size_t size = e.lanes.size() / static_cast<std::size_t>(e.groups);
  double largest = -std::numeric_limits<double>::infinity();
  for (std::size_t first = 0; first < e.lanes.size(); first += size) {
    const double one = statistic(first, first + size);
    if (std::isnan(one)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, one);
  }
  return largest;
}

using Expectation = std::map<std::string, ExpectedTensor>;

struct ExpectationRequest {
  bool gradients = true;
  int lanes = 64;  // a multiple of 8; each 8 cost about eight evaluations in double
  std::uint64_t seed = 1;
  int threads = 1;
  /// Dtypes of what a candidate handed over: a final state coarser than the model's is judged as
  /// stored (the storage is the caller's choice, the arithmetic is not).
  std::map<std::string, DType> stored = {};
  bool lanes_only = false;  // truth in double without a bound, no σ, no rounding of the results
};

/// Truth by double-double with its error bound (balls where that is too wide), error scale by
/// forward tangents of random rounding noise at every rounding site (reference/scalars/noisy.hpp).
Expectation expect(const ValidCase& c, const PrecisionModel& model,
                   const ExpectationRequest& request);

}  // namespace assay
