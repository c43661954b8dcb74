#include "reports/stability/nonlinear.hpp"

#include <algorithm>
#include <cmath>

#include "reference/case/text.hpp"
#include "reports/stability/qr_product.hpp"

namespace assay::reports {
namespace {

constexpr std::int64_t kFewDirections = 8;
constexpr double kExactJacobians = 5e9;

using Blocks = std::vector<RowMatrix>;

/// The Jacobian of one step as independent blocks (m2rnn: one per row of H).
Blocks jacobian(Step& step, std::vector<double>& A) {
  const std::int64_t n = step.recurrence->transition(*step.context, step.x, step.state_prev, A);
  if (n == 0) {
    throw InputError(step.problem->schema.op + " has no transition: no products to follow");
  }
  Blocks blocks;
  for (std::size_t at = 0; at < A.size(); at += static_cast<std::size_t>(n * n)) {
    blocks.push_back(Eigen::Map<const RowMatrix>(A.data() + at, n, n));
  }
  return blocks;
}

/// Products of all blocks.
class BlockProducts {
 public:
  void multiply(const Blocks& blocks, bool transposed, std::int64_t directions, int every,
                BlockProducts* start = nullptr) {
    if (products_.empty()) {
      for (const RowMatrix& A : blocks) {
        products_.emplace_back(A.rows(), directions, every);
        if (start == nullptr) continue;
        products_.back().start_from(start->products_[products_.size() - 1].basis());
      }
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      RowMatrix& X = products_[i].columns();
      if (transposed) {
        X = blocks[i].transpose() * X;
      } else {
        X = blocks[i] * X;
      }
      products_[i].stepped();
    }
  }
  double log_norm() {
    double most = -kInf;
    for (QrProduct& product : products_) most = std::max(most, product.log_norm());
    return most;
  }
  void exponents(UnitStability& unit) {
    double sum = 0;
    for (QrProduct& product : products_) {
      Exponents e = product.exponents();
      sum += e.value.front();
      if (unit.exponents.value.empty() || e.value.front() > unit.exponents.value.front()) {
        unit.exponents = std::move(e);
      }
    }
    unit.mean_leading = sum / static_cast<double>(products_.size());
  }

 private:
  std::vector<QrProduct> products_;
};

/// m2rnn's bound, when this is m2rnn.
class BoundFollower {
 public:
  BoundFollower(const Trace& trace, UnitStability& unit) : unit_(unit) {
    const Schema& schema = trace.unit_schema();
    if (schema.op != "m2rnn") return;
    w_ = input_index(schema, "w");
    f_ = input_index(schema, "f");
    unit_.jacobian.emplace();
  }
  /// `Z` as the step saved it.
  void see(const Step& step, const std::vector<double>& Z, bool keep) {
    if (w_ < 0) return;
    JacobianBound& bound = *unit_.jacobian;
    if (bound.norm_w == 0) {
      const std::int64_t V = step.context->V;
      Eigen::MatrixXd W = Eigen::Map<const RowMatrix>(step.x(w_), V, V);
      bound.norm_w = Eigen::JacobiSVD<Eigen::MatrixXd>(W).singularValues()(0);
    }
    double slope = 0;
    for (const double z : Z) slope = std::max(slope, 1 - z * z);
    const double f = *step.x(f_), value = f + (1 - f) * bound.norm_w * slope;
    log_ += std::log(value);
    bound.largest = std::max(bound.largest, value);
    bound.above_one += value > 1;
    bound.mean_log = log_ / static_cast<double>(step.index + 1);
    if (keep) bound.bound.record(static_cast<double>(step.index + 1), log_);
  }

 private:
  UnitStability& unit_;
  int w_ = -1, f_ = -1;
  double log_ = 0;
};

/// Backward with the file's own cotangents.
class ClipFollower {
 public:
  void start(const Trace& trace, const ValidCase& problem, UnitStability& unit) {
    bool any = false;
    for (const OutputSpec& output : trace.unit_schema().outputs) {
      any = any || problem.data.tensors.count("d_" + output.name) != 0;
    }
    if (!any) return;
    unit_ = &unit;
    unit.clip.emplace();
    unit.clip->threshold = {1e-4, 1e-3, 1e-2, 0.1, 1, 10};
    const auto option = trace.options().find("state_grad_clip");
    if (option != trace.options().end()) unit.clip->option = std::get<double>(option->second);
    if (unit.clip->option) unit.clip->threshold.push_back(*unit.clip->option);
    std::sort(unit.clip->threshold.begin(), unit.clip->threshold.end());
    unit.clip->elements.assign(unit.clip->threshold.size(), 0);
    unit.clip->steps.assign(unit.clip->threshold.size(), 0);
  }
  bool active() const { return unit_ != nullptr; }
  void see(const std::vector<double>& C, double t, bool keep) {
    ClipStatistics& clip = *unit_->clip;
    double largest = 0;
    for (const double c : C) largest = std::max(largest, std::abs(c));
    for (std::size_t i = 0; i < clip.threshold.size(); ++i) {
      const auto beyond = std::count_if(
          C.begin(), C.end(), [&](double c) { return !(std::abs(c) <= clip.threshold[i]); });
      clip.elements[i] += static_cast<double>(beyond) / static_cast<double>(C.size());
      clip.steps[i] += beyond > 0;
    }
    clip.largest = std::max(clip.largest, largest);
    if (keep) clip.largest_element.record(t, std::log(std::max(largest, 1e-300)));
  }
  void finish(std::int64_t steps) {
    if (!active()) return;
    for (double& share : unit_->clip->elements) share /= static_cast<double>(steps);
    for (double& share : unit_->clip->steps) share /= static_cast<double>(steps);
  }

 private:
  UnitStability* unit_ = nullptr;
};

/// The windows in which one followed direction of one block grew most: a lower bound of the norm.
void windows_from_growth(const std::vector<std::vector<double>>& sums, UnitStability& unit) {
  const std::int64_t T = unit.steps;
  for (const std::int64_t length : {1, 4, 16, 64, 256}) {
    if (length > T) break;
    WorstWindow worst{length, 0, T - length + 1, -kInf};
    for (const std::vector<double>& sum : sums) {
      for (std::int64_t start = 0; start + length <= T; ++start) {
        const double value = (sum[start + length] - sum[start]) / kLog10;
        if (value > worst.log10_norm) worst.log10_norm = value, worst.start = start;
      }
    }
    unit.windows.push_back(worst);
  }
}

}  // namespace

namespace {

/// Everything about one unit while the passes go over it.
class Passes {
 public:
  Passes(const Trace& trace, const TraceUnit& where, UnitStability& unit)
      : trace_(trace), where_(where), unit_(unit), bound_(trace, unit) {
    every_ = std::max<std::int64_t>(1, where.steps / 512);
    qr_ = where.steps <= 1024 ? 1 : 4;
  }
  void run() {
    states();
    for (std::size_t piece = checkpoints_.size(); piece-- > 0;) backward(piece);
    clip_.finish(where_.steps);
    for (std::size_t piece = 0; piece < checkpoints_.size(); ++piece) forward(piece);
    forward_.exponents(unit_);
    windows_from_growth(growth_, unit_);
  }

 private:
  std::int64_t first(std::size_t piece) const {
    return static_cast<std::int64_t>(piece) * kSliceSteps;
  }
  std::int64_t count(std::size_t piece) const {
    return std::min(kSliceSteps, where_.steps - first(piece));
  }

  /// The state at the start of every slice.
  void states() {
    std::vector<double> state;
    for (std::int64_t s0 = 0; s0 < where_.steps; s0 += kSliceSteps) {
      const std::int64_t n = std::min(kSliceSteps, where_.steps - s0);
      SliceInMemory slice(trace_, where_, s0, n, 0);
      if (s0 == 0) {
        state = slice.initial_state();
        Step step = slice.step(0);
        step.state_prev = state.data();
        measure(jacobian(step, A_));
        clip_.start(trace_, *step.problem, unit_);
      }
      checkpoints_.push_back(state);
      for (std::int64_t s = 0; s < n; ++s) slice.apply(s, state.data());
    }
  }

  void measure(const Blocks& blocks) {
    unit_.order = blocks.front().rows();
    unit_.blocks = static_cast<std::int64_t>(blocks.size());
    const double n = static_cast<double>(unit_.order);
    unit_.exact = static_cast<double>(where_.steps * unit_.blocks) * n * n * n <= kExactJacobians;
    unit_.directions = unit_.exact ? unit_.order : std::min(unit_.order, kFewDirections);
  }

  void backward(std::size_t piece) {
    SliceInMemory slice(trace_, where_, first(piece), count(piece), 0);
    std::vector<std::vector<double>> states = {checkpoints_[piece]};
    for (std::int64_t s = 0; s < count(piece); ++s) {
      states.push_back(states.back());
      slice.apply(s, states.back().data());
    }
    if (C_.empty()) C_ = slice.final_cotangent();
    for (std::int64_t s = count(piece); s-- > 0;) {
      Step step = slice.step(s);
      step.state_prev = states[s].data();
      backward_.multiply(jacobian(step, A_), true, unit_.directions, qr_);
      const std::int64_t t = first(piece) + s;
      const bool keep = t % every_ == 0;
      if (keep) unit_.backward.record(static_cast<double>(t), backward_.log_norm());
      if (!clip_.active()) continue;
      std::vector<double> again = states[s];
      slice.apply(s, again.data());  // saves what the adjoint reads
      slice.adjoint(s, states[s].data(), states[s + 1].data(), C_.data());
      clip_.see(C_, static_cast<double>(t), keep);
    }
  }

  void forward(std::size_t piece) {
    SliceInMemory slice(trace_, where_, first(piece), count(piece), 0);
    std::vector<double> state = checkpoints_[piece];
    for (std::int64_t s = 0; s < count(piece); ++s) {
      Step step = slice.step(s);
      step.index = first(piece) + s;
      step.state_prev = state.data();
      const Blocks blocks = jacobian(step, A_);
      forward_.multiply(blocks, false, unit_.directions, qr_, &backward_);
      follow(blocks);
      const std::int64_t t = first(piece) + s + 1;
      const bool keep = t % every_ == 0 || t == where_.steps;
      if (keep) unit_.forward.record(static_cast<double>(t), forward_.log_norm());
      slice.apply(s, state.data());
      bound_.see(step, slice.saved(), keep);
    }
  }

  /// Sums of the logarithmic growth of one direction per block.
  void follow(const Blocks& blocks) {
    if (followed_.size() == 0) {
      followed_ = RowMatrix::Ones(unit_.blocks, unit_.order) / std::sqrt(unit_.order);
      growth_.assign(blocks.size(), {0.0});
    }
    for (std::int64_t b = 0; b < unit_.blocks; ++b) {
      const Eigen::VectorXd image = blocks[b] * followed_.row(b).transpose();
      const double size = image.norm();
      growth_[b].push_back(growth_[b].back() + std::log(size));
      if (size > 0) followed_.row(b) = image.transpose() / size;
    }
  }

  const Trace& trace_;
  const TraceUnit& where_;
  UnitStability& unit_;
  std::int64_t every_ = 1;
  int qr_ = 1;
  std::vector<double> A_, C_;
  std::vector<std::vector<double>> checkpoints_, growth_;
  BlockProducts forward_, backward_;
  BoundFollower bound_;
  ClipFollower clip_;
  RowMatrix followed_;
};

}  // namespace

UnitStability nonlinear_unit(const Trace& trace, const TraceUnit& where) {
  UnitStability unit;
  unit.name = where.name;
  unit.steps = where.steps;
  Passes(trace, where, unit).run();
  return unit;
}

}  // namespace assay::reports
