// Truth and expected error of a case under a precision model.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "checks/verdict/precision_model.hpp"
#include "reference/oracle/evaluate.hpp"

namespace assay {

/// One output or gradient tensor (gradients are named "d_<input>") as the verdict sees it.
struct ExpectedTensor {
  Shape shape;
  std::string axes;           // of the schema, for structure tests; S in place of B when packed
  std::vector<double> truth;  // the true value rounded to double
  std::vector<double> truth_error;  // bound of |truth - true value|
  std::vector<double> sigma;        // standard deviation of a correct candidate's error
  /// Simulated errors of correct candidates, [lanes][elements]. Any statistic of the candidate's
  /// error is compared with the spread of the same statistic over the lanes, which carries all
  /// correlations between elements.
  std::vector<std::vector<float>> lanes;
};

using Expectation = std::map<std::string, ExpectedTensor>;

struct ExpectationRequest {
  bool gradients = true;
  int lanes = 64;  // a multiple of 8; each 8 cost about eight evaluations in double
  std::uint64_t seed = 1;
  int threads = 1;
};

/// Truth by double-double with its error bound (balls where that is too wide), error scale by
/// forward tangents of random rounding noise at every rounding site (reference/scalars/noisy.hpp).
Expectation expect(const ValidCase& c, const PrecisionModel& model,
                   const ExpectationRequest& request);

}  // namespace assay
