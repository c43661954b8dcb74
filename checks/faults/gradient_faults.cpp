// Faults of gradients alone: missing factors, zeros, NaNs.
#include <cmath>
#include <limits>

#include "checks/faults/entry.hpp"
#include "checks/faults/facts.hpp"
#include "checks/faults/rearrange.hpp"
#include "reference/recurrences/fast_weight.hpp"

namespace assay {
namespace {

template <class Real>
bool all_zero(const Tensor<Real>& t) {
  return std::all_of(t.data.begin(), t.data.end(), [](const Real& x) { return fn::is_zero(x); });
}

template <class Real>
void set_zero(Tensor<Real>& t) {
  std::fill(t.data.begin(), t.data.end(), Real(0));
}

/// The gradient of one input, by default the first in the order of the schema that is not zero.
struct ZeroGradient {
  std::string input;

  template <class Real>
  Result<Real> operator()(const Problem<Real>& problem, const RunOptions& options) const {
    const ValidCase& c = *problem.valid;
    Result<Real> result = evaluate(problem, options);
    for (const InputSpec& in : c.schema.inputs) {
      const auto found = result.gradients.find(given_name(c.data, in));
      if (found == result.gradients.end()) continue;
      if (input.empty() ? all_zero(found->second) : input != in.name && input != in.log_name) {
        continue;
      }
      set_zero(found->second);
      break;
    }
    return result;
  }
};

/// d_q divided by the scale, or multiplied by it once more.
template <bool kTwice>
struct ScaleInDq {
  template <class Real>
  Result<Real> operator()(const Problem<Real>& problem, const RunOptions& options) const {
    Result<Real> result = evaluate(problem, options);
    if (!options.gradients) return result;
    const Real scale = readout_scale<Real>(*problem.valid);
    for (Real& d : result.gradients.at("q").data) d = kTwice ? d * scale : d / scale;
    return result;
  }
};

bool scale_shows(const ValidCase& c) {
  if (!c.schema.find_option("scale") || !c.schema.find_input("q")) return false;
  const double scale = readout_scale<double>(c);
  return scale != 1 && scale != 0 && facts::longest(c) > 0 && facts::has_value(c, "d_o");
}

struct InitialGradientNeedsFinal {
  template <class Real>
  Result<Real> operator()(const Problem<Real>& problem, const RunOptions& options) const {
    const ValidCase& c = *problem.valid;
    Result<Real> result = evaluate(problem, options);
    for (auto& [name, d] : result.gradients) {
      const std::string final = kind_of(c, name) == Kind::state ? final_of(c, name) : "";
      if (!final.empty() && problem.cotangents.count(final) == 0) set_zero(d);
    }
    return result;
  }
};

bool initial_without_final(const ValidCase& c) {
  if (!facts::any_cotangent(c) || facts::longest(c) == 0) return false;
  for (const InputSpec& in : c.schema.inputs) {
    if (in.role == Role::state && c.data.tensors.count(in.name) != 0 &&
        c.data.tensors.count("d_" + final_of(c, in.name)) == 0) {
      return true;
    }
  }
  return false;
}

// exp(88.73) overflows fp32.
constexpr double kExpLimit = 88.7228391;

/// Where the gradient of alpha is not a number when exp(A_i - A_j) is taken for j > i too and
/// masked afterwards: 0 · inf in the chain of the mask reaches every step up to the last overflow
/// of the chunk, through the cumulative sum. Empty when nothing overflows, or alpha is not all
/// positive (then the forward pass is not finite either).
std::vector<bool> overflowing(const ValidCase& c) {
  const std::vector<double> alpha = facts::values(c, "alpha");
  const std::int64_t rows = c.sizes['B'] * c.sizes['T'];
  if (rows == 0 || !facts::all_positive(c, {"alpha"})) return {};
  const std::int64_t width = static_cast<std::int64_t>(alpha.size()) / rows;
  std::vector<bool> bad(alpha.size(), false);
  bool some = false;
  for (const facts::Sequence& s : facts::sequences(c)) {
    for (std::int64_t first = 0; first < s.steps; first += facts::chunk(c)) {
      const std::int64_t last = std::min(s.steps, first + facts::chunk(c));
      const std::int64_t row = s.batch * c.sizes['T'] + s.start;
      for (std::int64_t i = 0; i < width; ++i) {
        double A = 0, highest = -kInf;
        std::int64_t end = first;
        for (std::int64_t t = first; t < last; ++t) {
          A += std::log(alpha[(row + t) * width + i]);
          if (highest - A > kExpLimit) end = t + 1;
          highest = std::max(highest, A);
        }
        for (std::int64_t t = first; t < end; ++t) bad[(row + t) * width + i] = some = true;
      }
    }
  }
  return some ? bad : std::vector<bool>{};
}

Rounded not_a_number(Rounded) { return Rounded::from(std::numeric_limits<double>::quiet_NaN()); }
double not_a_number(double) { return std::numeric_limits<double>::quiet_NaN(); }

struct ExpBeforeMask {
  template <class Real>
  Result<Real> operator()(const Problem<Real>& problem, const RunOptions& options) const {
    const ValidCase& c = *problem.valid;
    Result<Real> result = evaluate(problem, options);
    if (!options.gradients) return result;
    const std::vector<bool> bad = overflowing(c);
    Tensor<Real>& d = result.gradients.at(given_name(c.data, *c.schema.find_input("alpha")));
    for (std::size_t i = 0; i < bad.size(); ++i) {
      if (bad[i]) d.data[i] = not_a_number(d.data[i]);
    }
    return result;
  }
};

}  // namespace

std::unique_ptr<Fault> zero_gradient_of(const std::string& input) {
  const auto applies = [input](const ValidCase& c) {
    const InputSpec* in = c.schema.find_input(input);
    return facts::any_cotangent(c) && in != nullptr && in->differentiable &&
           facts::is_given(c, input) && facts::longest(c) > 0;
  };
  FaultInfo info{"*.zero_gradient:" + input, "the gradient of " + input + " is all zeros",
                 "public suites let it pass"};
  return std::make_unique<FaultOf<ZeroGradient>>(std::move(info), applies, ZeroGradient{input});
}

void add_gradient_faults(FaultList& list) {
  add_fault(
      list,
      {"*.zero_gradient", "the first gradient is all zeros (*.zero_gradient:INPUT: that one)",
       "public suites let it pass"},
      [](const ValidCase& c) {
        const auto differentiable = [&](const InputSpec& in) {
          return in.differentiable && !given_name(c.data, in).empty();
        };
        return facts::any_cotangent(c) && (!c.sizes.has('T') || facts::longest(c) > 0) &&
               std::any_of(c.schema.inputs.begin(), c.schema.inputs.end(), differentiable);
      },
      ZeroGradient{});
  add_fault(list, {"*.scale_missing_in_dq", "d_q without the scale", "class"}, scale_shows,
            ScaleInDq<false>{});
  add_fault(list, {"*.scale_missing_in_dq:twice", "d_q with the scale twice", "class"}, scale_shows,
            ScaleInDq<true>{});
  add_fault(list,
            {"*.initial_state_grad_needs_final",
             "the gradient of an initial state is written only with a cotangent of the final one",
             "public kernel"},
            initial_without_final, InitialGradientNeedsFinal{});
  add_fault(
      list,
      {"*.exp_before_mask", "exp taken before the causal mask: NaN gradients of alpha",
       "public kernel"},
      [](const ValidCase& c) {
        return c.data.op != "mom" && facts::is_matrix_memory(c) && facts::is_given(c, "alpha") &&
               facts::any_cotangent(c) && !overflowing(c).empty();
      },
      ExpBeforeMask{});
}

}  // namespace assay
