// Correct results made by the reference in emulated arithmetic, with every freedom that the hard
// bound grants a kernel: order of sums, fused products, truncation, the direction of each rounding.
#pragma once

#include <cmath>
#include <string>

#include "checks/verdict/hard_bound.hpp"
#include "reference/oracle/evaluate.hpp"
#include "reference/scalars/directed.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay::testing {

struct Hostility {
  SumOrder order = SumOrder::forward;
  bool fma = false;
  RoundingDirection direction = RoundingDirection::nearest;
  std::uint64_t seed = 1;
};

using Values = std::map<std::string, std::vector<double>>;

template <class Real, class Convert>
Values flat(const Result<Real>& result, Convert convert) {
  Values values;
  const auto add = [&](const std::string& name, const Tensor<Real>& t) {
    for (const Real& x : t.data) values[name].push_back(convert(x));
    values[name].resize(t.data.size());
  };
  for (const auto& [name, t] : result.outputs) add(name, t);
  for (const auto& [name, t] : result.gradients) add("d_" + name, t);
  return values;
}

/// What a correct kernel of the model may return. All of its arithmetic is in the accumulator's
/// format, so `state` and `gate` must not be finer than that.
inline Values hostile_results(const ValidCase& c, const PrecisionModel& model,
                              const Hostility& how) {
  const FormatScope format(emulated_format(model.accumulator));
  const Problem<Rounded> problem = lift<Rounded>(c);
  Emulation emulation;
  emulation.casts = unit_roundoff(model.operand) > unit_roundoff(model.accumulator);
  emulation.operand = emulated_format(model.operand);
  emulation.truncates = model.truncating_accumulator;
  emulation.order = how.order;
  emulation.fma = how.fma;
  Result<Rounded> result;
  {
    const EmulationScope emulated(emulation);
    const DirectionScope directed(how.direction, how.seed);
    result = evaluate(problem, {Form::recurrent, true, 1, {}});
  }
  return flat(result, [&](Rounded x) { return round_to(model.output, x.value()); });
}

/// Largest |value - truth| / bound over all tensors that have a bound, and where.
struct Closest {
  double ratio = 0;
  std::string where;
};

struct Truth {
  Values value, error;
};

inline Truth truth_of(const ValidCase& c) {
  const auto dd = evaluate(lift<DoubleDouble>(c), {Form::recurrent, true, 1, {}});
  return {flat(dd, [](const DoubleDouble& x) { return x.hi(); }),
          flat(dd, [](const DoubleDouble& x) { return x.err() + std::fabs(x.lo()); })};
}

inline Closest compare(const HardBounds& bounds, const Truth& truth, const Values& values) {
  Closest closest;
  for (const auto& [name, b] : bounds) {
    for (std::size_t i = 0; i < b.bound.size(); ++i) {
      const double error = std::fabs(values.at(name)[i] - truth.value.at(name)[i]);
      const double known = error - truth.error.at(name)[i];
      if (known <= 0) continue;
      const double ratio = known / b.bound[i];
      if (ratio <= closest.ratio) continue;
      closest.ratio = ratio;
      closest.where = name + "[" + std::to_string(i) + "]";
    }
  }
  return closest;
}

}  // namespace assay::testing
