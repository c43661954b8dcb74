// G3: every element of the gradient against differences of L in balls. With the central formula of
// order 4,
//
//   D(h) = [8 (L(x+h) - L(x-h)) - (L(x+2h) - L(x-2h))] / 12 h,   R = D(h/2) + (D(h/2) - D(h)) / 15
//
// R has an error of order h^6, far below the correction |R - D(h/2)|, which is taken as the bound;
// rounding is enclosed by the balls. The comparison is relative and has no absolute floor. An
// element passes when its difference is known to 2^-50 of its size and agrees; a smaller step and
// twice the precision are tried before it fails (a step that was too large does not survive that, a
// wrong adjoint does) and while it is not known well enough. Zero agrees with zero only: an
// adjoint that is exactly 0 fails against a difference that excludes 0, and the resolution that
// the zeros were checked to is reported.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <numeric>

#include "checks/gradcheck/loss.hpp"
#include "reference/oracle/parallel.hpp"

namespace assay {
namespace {

struct Attempt {
  long bits, exponent;  // precision, and h = 2^-exponent
};
constexpr std::array<Attempt, 5> kAttempts = {
    {{256, 30}, {512, 75}, {1024, 160}, {2048, 330}, {4096, 670}}};
constexpr double kResolution = -50;          // log2, relative
constexpr std::int64_t kEvaluations = 4000;  // of L, in the first attempt
constexpr double kWork = 4e8;                // multiply-adds, roughly
constexpr std::int64_t kFewest = 16;         // elements, however large the case
constexpr std::int64_t kPerElement = 6;
constexpr std::size_t kWorstShown = 5;

enum class State { open, agrees, zero, contradicted, wrong, kink, pinned };

struct Element {
  const std::string* tensor;
  std::int64_t index;
  State state = State::open;
  double deviation = -kInf;   // log2 |R - g| / max(|R|, |g|)
  double resolution = -kInf;  // log2 of the bound: relative, or absolute for zeros
  std::string adjoint = {}, difference = {};
};

/// One element of every tensor after the other, a few times round, then at random.
std::vector<Element> draw_elements(const CheckTask& task, const std::vector<std::string>& names,
                                   std::int64_t wanted) {
  Stream random = task.stream("G3 sample");
  const auto shuffle = [&](auto& list) {
    for (std::size_t i = list.size(); i > 1; --i) {
      std::swap(list[i - 1], list[random.below(static_cast<std::int64_t>(i))]);
    }
  };
  const std::size_t rounds = wanted / (2 * names.size()) + 1;
  std::vector<std::vector<Element>> by_round(rounds);
  std::vector<Element> rest;
  for (const std::string& name : names) {
    std::vector<std::int64_t> order(task.c.data.tensors.at(name).values.size());
    std::iota(order.begin(), order.end(), 0);
    shuffle(order);
    for (std::size_t i = 0; i < order.size(); ++i) {
      (i < rounds ? by_round[i] : rest).push_back({&name, order[i]});
    }
  }
  shuffle(rest);
  std::vector<Element> sample;
  for (const auto& round : by_round) sample.insert(sample.end(), round.begin(), round.end());
  sample.insert(sample.end(), rest.begin(), rest.end());
  if (static_cast<std::int64_t>(sample.size()) > wanted) sample.resize(wanted);
  return sample;
}

/// One worker's copy of the point, in which single elements move.
class Probe {
 public:
  Probe(const UnitLoss& loss, const Problem<Ball>& point) : loss_(loss), problem_(point) {}

  Ball at(const Element& e, double step, long exponent) {
    Ball& x = problem_.inputs.at(*e.tensor).data[e.index];
    const Ball kept = x;
    x = moved(x, step, exponent);
    Ball value = loss_.value(problem_, loss_.readers(*e.tensor, e.index));
    problem_.inputs.at(*e.tensor).data[e.index] = kept;
    return value;
  }

 private:
  const UnitLoss& loss_;
  Problem<Ball> problem_;
};

struct Difference {
  Ball value;        // R
  double truncated;  // log2 of the bound of its error
};

Difference difference(Probe& probe, const Element& e, long exponent) {
  Ball odd[3];  // L(x+s) - L(x-s) for s = 2h, h, h/2
  for (long i = 0; i < 3; ++i) {
    odd[i] = probe.at(e, 1, exponent - 1 + i) - probe.at(e, -1, exponent - 1 + i);
  }
  const auto central = [&](long i) {  // D(h / 2^i)
    Ball d = (Ball(8) * odd[i + 1] - odd[i]) / Ball(12);
    arb_mul_2exp_si(d.raw(), d.raw(), exponent + i);
    return d;
  };
  const Ball finer = central(1);
  const Ball correction = (finer - central(0)) / Ball(15);
  return {finer + correction, log2_upper(correction)};
}

/// log2(2^a + 2^b), not below it.
double log2_sum(double a, double b) {
  const double high = std::max(a, b);
  return high == -kInf ? high : high + std::log2(1 + std::exp2(std::min(a, b) - high));
}

void compare(Element& e, const Ball& g, const Difference& d, double size, std::size_t attempt) {
  const Ball deviation = d.value - g;
  const double low = log2_lower(deviation), high = log2_upper(deviation);
  const double larger = std::max(log2_lower(g), log2_lower(d.value));
  e.adjoint = ball_text(g);
  e.difference = ball_text(d.value);
  if (!fn::is_finite(deviation)) {
    e.state = State::open;
  } else if (low > d.truncated) {
    e.state = e.state == State::contradicted ? State::wrong : State::contradicted;
    e.deviation = larger == -kInf ? 0 : std::min(0.0, high - larger);
  } else if (g.contains_zero() && d.value.contains_zero()) {
    // Two zeros, as far as can be seen. One that is computed with rounding needs a second look.
    e.resolution = log2_sum(log2_upper(d.value), d.truncated);
    const bool enough = e.resolution < size - 100 && (fn::is_zero(g) || attempt > 0);
    e.state = enough ? State::zero : State::open;
  } else {
    e.resolution = log2_sum(high, d.truncated) - larger;
    e.deviation = high - larger;
    e.state = e.resolution <= kResolution ? State::agrees : State::open;
  }
}

/// S(h) = L(x+h) + L(x-h) - 2 L(x) has order 2 where L has a derivative, less at kinks and jumps.
bool is_kink(Probe& probe, const Element& e) {
  const Ball middle = probe.at(e, 0, 0);
  const auto even = [&](long exponent) {
    Ball s = probe.at(e, 1, exponent) + probe.at(e, -1, exponent) - middle - middle;
    arb_abs(s.raw(), s.raw());
    return s;
  };
  const Ball order = fn::log(even(40) / even(60)) / (Ball(20) * fn::log(Ball(2)));
  return fn::less(order, fn::from_double<Ball>(1.5));
}

class Differences {
 public:
  explicit Differences(const CheckTask& task)
      : task_(task), loss_(task), names_(differentiable_inputs(task.c)) {
    const PrecisionScope precision(kAttempts[0].bits);
    const double work = UnitLoss(task, loss_.point()).work();
    for (const std::string& name : names_) total_ += loss_.point().inputs.at(name).size();
    const auto affordable = static_cast<std::int64_t>(kWork / work);
    const std::int64_t wanted = std::max(kFewest, std::min(kEvaluations, affordable) / kPerElement);
    elements_ = draw_elements(task, names_, std::min(total_, wanted));
  }

  CheckOutcome run() {
    bool first = true;
    for (std::size_t attempt = 0; attempt < kAttempts.size(); ++attempt) {
      std::vector<Element*> open;
      for (Element& e : elements_) {
        if (e.state == State::open || e.state == State::contradicted) open.push_back(&e);
      }
      if (open.empty()) break;
      const PrecisionScope precision(kAttempts[attempt].bits);
      const Ball value = loss_.value(loss_.point());
      if (attempt + 1 < kAttempts.size() && is_too_wide(value, kAttempts[attempt])) continue;
      work_through(open, attempt, log2_upper(value));
      if (first) drop_unvisited();
      first = false;
    }
    return finish();
  }

 private:
  /// Is the ball of L so wide that it hides differences of the size of L, seen with h?
  static bool is_too_wide(const Ball& value, const Attempt& attempt) {
    return log2_radius(value) >
           log2_upper(value) - static_cast<double>(attempt.exponent) + kResolution;
  }

  /// `size` is log2 of the scale for zeros: the larger of L and its derivatives.
  void work_through(const std::vector<Element*>& open, std::size_t attempt, double size) {
    const Tensors g = loss_.gradients();
    const UnitLoss units(task_, loss_.point());
    for (const auto& [name, tensor] : g) {
      for (const Ball& value : tensor.data) size = std::max(size, log2_upper(value));
    }
    const int workers = std::max(1, task_.threads);
    std::atomic<std::size_t> next{0};
    parallel_for(workers, workers, [&](std::int64_t worker) {
      Probe probe(units, loss_.point());
      for (std::size_t i = next++; i < open.size(); i = next++) {
        if (i >= names_.size() && task_.out_of_time()) break;
        Element& e = *open[i];
        const Ball& adjoint = g.at(*e.tensor).data[e.index];
        visit(probe, e, adjoint, size, attempt);
        if (worker == 0) {
          task_.progress(static_cast<double>(i + 1) / static_cast<double>(open.size()));
        }
      }
    });
  }

  void visit(Probe& probe, Element& e, const Ball& adjoint, double size, std::size_t attempt) {
    e.adjoint = ball_text(adjoint);
    if (is_pinned(task_.c.data.tensors.at(*e.tensor), e.index)) {
      e.difference = "0 by definition at -inf";
      e.state = fn::is_zero(adjoint) ? State::pinned : State::wrong;
      e.deviation = 0;
      return;
    }
    compare(e, adjoint, difference(probe, e, kAttempts[attempt].exponent), size, attempt);
    if (e.state == State::wrong && is_kink(probe, e)) e.state = State::kink;
  }

  /// Elements that the time did not suffice for are not part of the sample.
  void drop_unvisited() {
    elements_.erase(std::remove_if(elements_.begin(), elements_.end(),
                                   [](const Element& e) { return e.adjoint.empty(); }),
                    elements_.end());
  }

  CheckOutcome finish() {
    std::sort(elements_.begin(), elements_.end(),
              [](const Element& a, const Element& b) { return a.deviation > b.deviation; });
    const auto count = [&](State state) {
      return std::count_if(elements_.begin(), elements_.end(),
                           [&](const Element& e) { return e.state == state; });
    };
    const auto sampled = static_cast<std::int64_t>(elements_.size());
    const std::string which = sampled == total_
                                  ? fmt::format("all {} elements", total_)
                                  : fmt::format("sampled {} of {} elements", sampled, total_);
    if (count(State::wrong) > 0) return failed(which, count(State::wrong));
    const auto open = count(State::open) + count(State::contradicted);
    if (open > 0) {
      return skipped(
          fmt::format("undecided: {} of {} at {} bits", open, which, kAttempts.back().bits));
    }
    if (sampled == 0) return skipped("no elements");
    return passed(which, count(State::zero) + count(State::pinned), count(State::kink));
  }

  CheckOutcome failed(const std::string& which, std::int64_t wrong) {
    CheckOutcome outcome;
    outcome.status = CheckOutcome::Status::failed;
    outcome.detail = fmt::format("{} wrong, {}", wrong, which);
    for (const Element& e : elements_) {
      if (e.state != State::wrong) continue;
      if (outcome.lines.size() == kWorstShown) break;
      const std::string index = index_text(task_.c.data.tensors.at(*e.tensor).shape, e.index);
      if (outcome.lines.empty()) {
        outcome.worst_tensor = *e.tensor;
        outcome.worst_index = index;
      }
      outcome.lines.push_back(fmt::format("{}{}: the adjoint has {}, differences give {}",
                                          *e.tensor, index, e.adjoint, e.difference));
    }
    return outcome;
  }

  CheckOutcome passed(const std::string& which, std::int64_t zeros, std::int64_t kinks) {
    CheckOutcome outcome;
    double resolution = -kInf, absolute = -kInf;
    const Element* worst = nullptr;
    for (const Element& e : elements_) {
      if (e.state == State::zero) absolute = std::max(absolute, e.resolution);
      if (e.state != State::agrees) continue;
      resolution = std::max(resolution, e.resolution);
      if (!worst || e.deviation > worst->deviation) worst = &e;
    }
    outcome.detail = which;
    if (worst) {
      outcome.detail += fmt::format(", relative difference <= 2^{:.0f}, resolved to 2^{:.0f}",
                                    worst->deviation, resolution);
      outcome.worst_tensor = *worst->tensor;
      outcome.worst_index = index_text(task_.c.data.tensors.at(*worst->tensor).shape, worst->index);
    }
    if (zeros > 0) {
      outcome.detail += fmt::format(", {} zeros", zeros);
      if (absolute > -kInf) outcome.detail += fmt::format(" to 2^{:.0f}", absolute);
    }
    if (kinks > 0) outcome.detail += fmt::format(", {} left out: no derivative here", kinks);
    return outcome;
  }

  const CheckTask& task_;
  Loss loss_;
  std::vector<std::string> names_;
  std::vector<Element> elements_;
  std::int64_t total_ = 0;
};

}  // namespace

CheckOutcome check_differences(const CheckTask& task) { return Differences(task).run(); }

}  // namespace assay
