// G2: Taylor test in balls. Along a direction u, with g the adjoint's gradient,
//
//   R_2(h) = L(x + h u) - L(x) - h g·u = O(h²)      R_3(h) = L(x + h u) - L(x - h u) - 2 h g·u =
//   O(h³)
//
// for h = 2^-20 … 2^-60, and only for the right g: an error of g along u leaves order 1. Remainders
// are enclosed, so an order is either proved to be high enough, proved to be too low, or undecided;
// then the precision is doubled. A remainder that stays indistinguishable from 0 (directions along
// which L is linear) passes only under a bound far below h^order, at a precision above the first.
//
// Whether L has a derivative along u at all is asked of L alone:
// S(h) = L(x + h u) + L(x - h u) - 2 L(x) has order 1 at a kink, 0 at a jump and 2 elsewhere.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "checks/gradcheck/loss.hpp"

namespace assay {
namespace {

constexpr std::array<long, 5> kExponents = {20, 30, 40, 50, 60};
constexpr std::array<long, 4> kBits = {256, 512, 1024, 2048};
constexpr int kGaussian = 2, kSparse = 3;
constexpr double kSlack = 0.01;

using Direction = std::map<std::string, std::vector<double>>;
using Sequence = std::array<Ball, kExponents.size()>;

enum class Decision { holds, too_low, undecided };

struct Order {
  Decision decision = Decision::undecided;
  double order = kInf;   // smallest seen between neighbouring steps; inf: vanishes
  double below = -kInf;  // log2 of the bound of a remainder that vanishes
  std::size_t from = 0;  // index of the first step from which on the order holds
};

/// The order between steps i and i + 1, enclosed; not finite where a remainder may be zero.
Ball order_between(const Sequence& R, std::size_t i) {
  Ball ratio = R[i] / R[i + 1];
  arb_abs(ratio.raw(), ratio.raw());
  const Ball steps = kExponents[i + 1] - kExponents[i];
  return fn::log(ratio) / (steps * fn::log(Ball(2)));
}

/// Does |R(h)| fall like h^p? `size` is log2 of the magnitude of L and of its slope.
Order judge(const Sequence& R, int p, double size, long bits) {
  Order result;
  bool vanishes = bits > kBits.front();
  for (std::size_t i = 0; i < R.size(); ++i) {
    const double bound = log2_upper(R[i]);
    const double limit = size - static_cast<double>(p * kExponents[i]) - 0.25 * bits;
    vanishes = vanishes && R[i].contains_zero() && bound <= limit;
    result.below = std::max(result.below, bound);
  }
  if (vanishes) {
    result.decision = Decision::holds;
    return result;
  }
  // Coarse steps may lie before the range where the leading term rules: the finest two pairs
  // decide.
  constexpr std::size_t kPairs = kExponents.size() - 1, kFinest = 2;
  const Ball least = fn::from_double<Ball>(p - kSlack);
  for (std::size_t i = kPairs; i-- > 0;) {
    const Ball order = order_between(R, i);
    const bool holds = fn::less(least, order), low = fn::less(order, least);
    if (i + kFinest >= kPairs && !holds) {
      result.decision = low ? Decision::too_low : Decision::undecided;
      result.order = fn::to_double(order);
      return result;
    }
    if (!holds) {
      result.from = i + 1;
      break;
    }
    result.order = std::min(result.order, fn::to_double(order));
  }
  result.decision = Decision::holds;
  return result;
}

struct Verdict {
  Decision decision = Decision::undecided;
  bool kink = false;
  Order second, third;
  long bits = 0;
  Ball slope, measured;  // g·u, and the symmetric difference quotient at the smallest step
};

class TaylorTest {
 public:
  explicit TaylorTest(const CheckTask& task) : task_(task), loss_(task) {}

  /// Share of the directions that were done before this one.
  void set_progress(double done, double each) {
    done_ = done;
    each_ = each;
  }

  /// Raises the precision until the direction is decided, from the one that sufficed before.
  Verdict decide(const Direction& u) {
    Verdict verdict;
    for (std::size_t i = sufficed_; i < kBits.size(); ++i) {
      const PrecisionScope precision(kBits[i]);
      if (i + 1 < kBits.size() && is_too_wide(value(kBits[i]))) continue;
      verdict = at_precision(u, kBits[i]);
      if (!verdict.kink && verdict.decision == Decision::undecided) continue;
      sufficed_ = i;  // and most likely does for the next direction
      break;
    }
    return verdict;
  }

 private:
  const Ball& value(long bits) {
    const auto [found, fresh] = values_.try_emplace(bits);
    if (fresh) found->second = loss_.value(loss_.point());
    return found->second;
  }
  const Tensors& gradients(long bits) {
    const auto [found, fresh] = gradients_.try_emplace(bits);
    if (fresh) found->second = loss_.gradients();
    return found->second;
  }

  /// Is the ball of L so wide that it hides a remainder of order 3 at the smallest step?
  static bool is_too_wide(const Ball& value) {
    return log2_radius(value) > log2_upper(value) - 3 * static_cast<double>(kExponents.back());
  }

  Ball slope(const Direction& u, const Tensors& g) const {
    Ball sum = 0;
    for (const auto& [name, step] : u) {
      const std::vector<Ball>& d = g.at(name).data;
      for (std::size_t i = 0; i < d.size(); ++i) {
        if (step[i] != 0) fn::mul_add(sum, d[i], fn::from_double<Ball>(step[i]));
      }
    }
    return sum;
  }

  Ball value_at(const Direction& u, double sign, long exponent) const {
    Problem<Ball> problem = loss_.point();
    for (const auto& [name, step] : u) {
      std::vector<Ball>& x = problem.inputs.at(name).data;
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = moved(x[i], sign * step[i], exponent);
    }
    return loss_.value(problem);
  }

  Verdict at_precision(const Direction& u, long bits) {
    const Ball& middle = value(bits);
    Verdict v;
    v.bits = bits;
    v.slope = slope(u, gradients(bits));
    Sequence second, third, even;
    for (std::size_t i = 0; i < kExponents.size(); ++i) {
      const long e = kExponents[i];
      const Ball plus = value_at(u, 1, e), minus = value_at(u, -1, e);
      Ball change = v.slope;
      arb_mul_2exp_si(change.raw(), change.raw(), -e);
      second[i] = plus - middle - change;
      third[i] = plus - minus - change - change;
      even[i] = plus + minus - middle - middle;
      v.measured = plus - minus;
      arb_mul_2exp_si(v.measured.raw(), v.measured.raw(), e - 1);
      const double share = static_cast<double>(i + 1) / kExponents.size();
      shown_ = std::max(shown_, done_ + each_ * share);  // a second precision shows no way back
      task_.progress(shown_);
    }
    const Ball order = order_between(even, kExponents.size() - 2);
    v.kink = fn::less(order, fn::from_double<Ball>(1.5));
    const double size = std::max(log2_upper(middle), log2_upper(v.slope));
    v.second = judge(second, 2, size, bits);
    v.third = judge(third, 3, size, bits);
    for (const Order* o : {&v.second, &v.third}) {
      if (o->decision == Decision::too_low) v.decision = Decision::too_low;
    }
    if (v.second.decision == Decision::holds && v.third.decision == Decision::holds) {
      v.decision = Decision::holds;
    }
    return v;
  }

  const CheckTask& task_;
  Loss loss_;
  std::map<long, Ball> values_;  // of L at the point itself, by precision
  std::map<long, Tensors> gradients_;
  std::size_t sufficed_ = 0;  // index of the precision that decided last
  double done_ = 0, each_ = 1, shown_ = 0;
};

/// Gaussian in every element, or ±1 in a few; never the gradient. Scaled by a power of two to a
/// length of about 1, so that the same steps suit all sizes.
Direction draw_direction(const CheckTask& task, int round, const std::set<std::string>& excluded) {
  const bool sparse = round >= kGaussian;
  Stream random = task.stream("G2 direction", round);
  Direction u;
  double squares = 0;
  for (const std::string& name : differentiable_inputs(task.c)) {
    const CaseTensor& stored = task.c.data.tensors.at(name);
    const auto n = static_cast<std::int64_t>(stored.values.size());
    std::vector<double> step(n, 0.0);
    for (std::int64_t i = 0; i < n && !sparse; ++i) step[i] = random.normal();
    for (int k = 0; k < 2 && sparse && n > 0; ++k) {
      step[random.below(n)] = random.below(2) == 0 ? 1.0 : -1.0;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      if (is_pinned(stored, i)) step[i] = 0;
      squares += step[i] * step[i];
    }
    if (excluded.count(name) == 0) u.emplace(name, std::move(step));
  }
  const int scale = squares > 0 ? -std::ilogb(squares) / 2 : 0;
  for (auto& [name, step] : u) {
    for (double& value : step) value = std::ldexp(value, scale);
  }
  return u;
}

Direction restricted(const Direction& u, const std::string& name, std::size_t first,
                     std::size_t last) {
  std::vector<double> step = u.at(name);
  for (std::size_t i = 0; i < step.size(); ++i) {
    if (i < first || i >= last) step[i] = 0;
  }
  return {{name, std::move(step)}};
}

bool is_zero(const Direction& u) {
  for (const auto& [name, step] : u) {
    for (const double value : step) {
      if (value != 0) return false;
    }
  }
  return true;
}

class Taylor {
 public:
  explicit Taylor(const CheckTask& task) : task_(task), test_(task) {}

  CheckOutcome run() {
    int done = 0;
    constexpr int kDirections = kGaussian + kSparse;
    for (int round = 0; round < kDirections; ++round) {
      if (round > 0 && task_.out_of_time()) break;
      test_.set_progress(static_cast<double>(round) / kDirections, 1.0 / kDirections);
      Direction u = draw_direction(task_, round, excluded_);
      Verdict verdict = test_.decide(u);
      if (verdict.kink) {
        exclude_kinks(u);
        u = draw_direction(task_, round, excluded_);
        verdict = test_.decide(u);
      }
      if (is_zero(u)) continue;
      ++done;
      if (verdict.kink || verdict.decision == Decision::undecided) {
        ++undecided_;
      } else if (verdict.decision == Decision::too_low) {
        localise(u, verdict);
        break;
      } else {
        note(verdict);
      }
    }
    return finish(done);
  }

 private:
  void exclude_kinks(const Direction& u) {
    for (const auto& [name, step] : u) {
      if (test_.decide(restricted(u, name, 0, step.size())).kink) excluded_.insert(name);
    }
  }

  void note(const Verdict& v) {
    bits_ = std::max(bits_, v.bits);
    from_ = std::max({from_, v.second.from, v.third.from});
    for (const auto& [order, lowest] :
         {std::pair{&v.second, &second_}, std::pair{&v.third, &third_}}) {
      if (order->order == kInf) {
        ++vanishing_;
        below_ = std::max(below_, order->below);
      } else {
        *lowest = std::min(*lowest, order->order);
      }
    }
  }

  bool wrong(const Direction& u) { return test_.decide(u).decision == Decision::too_low; }

  /// Names every tensor that fails alone, and an element of the first one.
  void localise(const Direction& u, const Verdict& all) {
    outcome_.status = CheckOutcome::Status::failed;
    outcome_.detail = fmt::format("orders {:.2f} and {:.2f} instead of 2 and 3", all.second.order,
                                  all.third.order);
    for (const std::string& name : differentiable_inputs(task_.c)) {
      const auto found = u.find(name);
      if (found == u.end() || !wrong(restricted(u, name, 0, found->second.size()))) continue;
      std::size_t first = 0, last = found->second.size();
      while (last - first > 1) {
        const std::size_t middle = first + (last - first) / 2;
        (wrong(restricted(u, name, first, middle)) ? last : first) = middle;
      }
      const Verdict v = test_.decide(restricted(u, name, first, last));
      const std::string index =
          index_text(task_.c.data.tensors.at(name).shape, static_cast<std::int64_t>(first));
      outcome_.lines.push_back(
          fmt::format("{}{}: along u = {}, the slope is {}, the adjoint has {}", name, index,
                      found->second[first], ball_text(v.measured), ball_text(v.slope)));
      if (!outcome_.worst_tensor.empty()) continue;
      outcome_.worst_tensor = name;
      outcome_.worst_index = index;
    }
  }

  CheckOutcome finish(int done) {
    for (const std::string& name : excluded_) {
      outcome_.lines.push_back(name + ": left out, the operation itself has no derivative here");
    }
    if (outcome_.status == CheckOutcome::Status::failed) return outcome_;
    const std::string left_out =
        excluded_.empty() ? "" : fmt::format("; {} left out: no derivative here", text(excluded_));
    if (done == 0) return skipped("no direction to go" + left_out);
    if (undecided_ > 0) {
      return skipped(fmt::format("undecided: {} of {} directions at {} bits{}", undecided_, done,
                                 kBits.back(), left_out));
    }
    const auto order_text = [](double order) {
      return order == kInf ? std::string("-") : fmt::format("{:.3f}", order);
    };
    outcome_.detail = fmt::format("{} directions, orders {} and {}, h = 2^-{}..2^-{}, {} bits",
                                  done, order_text(second_), order_text(third_), kExponents[from_],
                                  kExponents.back(), bits_);
    if (vanishing_ > 0) {
      outcome_.detail += fmt::format("; {} remainders below 2^{:.0f}", vanishing_, below_);
    }
    outcome_.detail += left_out;
    return outcome_;
  }

  static std::string text(const std::set<std::string>& names) {
    return fmt::format("{}", fmt::join(names, ", "));
  }

  const CheckTask& task_;
  TaylorTest test_;
  CheckOutcome outcome_;
  std::set<std::string> excluded_;
  int undecided_ = 0, vanishing_ = 0;
  double second_ = kInf, third_ = kInf, below_ = -kInf;
  std::size_t from_ = 0;
  long bits_ = 0;
};

}  // namespace

CheckOutcome check_taylor(const CheckTask& task) { return Taylor(task).run(); }

}  // namespace assay
