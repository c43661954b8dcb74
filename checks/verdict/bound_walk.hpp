// The hard bound of one sequence of one head: the walk forward and backward through time.
#pragma once

#include <vector>

#include "checks/verdict/ellipsoid.hpp"
#include "reference/oracle/bounded_engine.hpp"
#include "reference/oracle/local_problem.hpp"

namespace assay {

/// Covers the rounding of the nonnegative sums and products of one step, fewer than 2^26 deep.
constexpr double kOutward = 1 + 0x1p-26;

/// State or cotangent at a step boundary: v in double, the kernel's within p of the true one.
struct Carried {
  std::vector<double> v, p;
};

class BoundWalk {
 public:
  /// `declared` and `exact` are the same unit, lifted under the model of the candidate and under
  /// that of double. `stored` is the unit roundoff of the carried state, `largest` its range.
  BoundWalk(const BoundedEngine& engine, LocalProblem<Bounded>& declared,
            LocalProblem<Bounded>& exact, double stored, double largest);

  /// Fills the outputs of `declared`; returns the final state.
  std::vector<Bounded> forward();
  /// After `forward`: fills the gradients; returns the cotangent of the initial state. `clipped`:
  /// the carried cotangent is clamped on its way, so that no matrix describes it.
  std::vector<Bounded> backward(bool clipped);

 private:
  /// A_t with the radii of its entries, for every block.
  void transition(std::int64_t t, bool transposed);
  /// From the carried p and the bound of what the step itself adds, to that of the new p.
  void refine(const std::vector<double>& p_prev, const std::vector<double>& local,
              std::vector<double>& p);
  /// What the ellipsoid knows of the read-out of step t beyond its single entries.
  void refine_output(std::int64_t t);
  std::vector<Bounded> incoming(const Carried& c) const;
  /// Settles a step's result into local errors and entrywise p; returns the carried state.
  Carried settle(const std::vector<Bounded>& result, std::vector<double>& local) const;

  const BoundedEngine& engine_;
  LocalProblem<Bounded>&declared_, &exact_;
  double stored_, largest_;
  std::int64_t order_ = 0;
  std::vector<std::vector<double>> A_, radius_;  // one matrix, or one for each row
  std::vector<Ellipsoid> ellipsoids_;
  std::vector<Carried> states_;  // T + 1
};

}  // namespace assay
