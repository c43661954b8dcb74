// L(x) = Σ <v, out(x)> in ball arithmetic, with fixed random cotangents v: the scalar function
// whose derivatives G2 and G3 compare with the adjoint. Everything runs under the caller's
// precision.
#pragma once

#include <memory>

#include "checks/gradcheck/task.hpp"
#include "reference/oracle/local_problem.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay {

using Tensors = std::map<std::string, Tensor<Ball>>;

class Loss {
 public:
  explicit Loss(const CheckTask& task);

  /// The inputs of the case, exactly, and v as cotangents.
  const Problem<Ball>& point() const { return point_; }
  Ball value(const Problem<Ball>& problem) const;
  Tensors gradients() const;

 private:
  const CheckTask& task_;
  Problem<Ball> point_;
};

/// The same L as a sum over independent units (one sequence of one head), so that a change of one
/// element needs the few units that read it. Keeps constants of the precision it was made under.
class UnitLoss {
 public:
  UnitLoss(const CheckTask& task, const Problem<Ball>& point);

  /// Units that read element i of a tensor.
  const std::vector<int>& readers(const std::string& name, std::int64_t i) const {
    return readers_.at(name)[i];
  }
  Ball value(const Problem<Ball>& problem, const std::vector<int>& units) const;

  /// Roughly the multiply-adds of one evaluation of the largest unit.
  double work() const;

 private:
  Ball unit_value(const Problem<Ball>& problem, const Unit& unit) const;

  const CheckTask& task_;
  Engine<Ball> engine_;
  std::vector<Unit> units_;
  std::map<std::string, std::vector<std::vector<int>>> readers_;
};

/// Bounds of log2 |x| as doubles, rounded outward: -inf for a ball that may be or is zero.
double log2_lower(const Ball& x);
double log2_upper(const Ball& x);
/// The same of the radius, from above.
double log2_radius(const Ball& x);

/// "1.2345e-7", the midpoint to 20 digits as far as they are certain.
std::string ball_text(const Ball& x);

/// x + u / 2^exponent, for a double u.
Ball moved(const Ball& x, double u, long exponent);

}  // namespace assay
