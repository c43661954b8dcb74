// The driver: forward through time with checkpoints, then backward segment by segment.
#include "reference/oracle/evaluate.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <vector>

#include "reference/oracle/local_problem.hpp"
#include "reference/oracle/parallel.hpp"
#include "reference/oracle/registry.hpp"
#include "reference/scalars/bounded.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay {
namespace {

/// Steps that the recurrence is given at once.
template <class Real>
std::int64_t block_length(const Recurrence<Real>& recurrence, const ValidCase& c,
                          const std::vector<Unit>& units, Form form) {
  if (form == Form::recurrent) return 1;
  if (!recurrence.chunks_itself()) return option_int(c, "chunk");
  std::int64_t longest = 1;
  for (const Unit& u : units) longest = std::max(longest, u.steps);
  return longest;
}

/// Walks one unit. States are kept at every ~sqrt(n)-th block of steps, so memory is O(sqrt(T))
/// states instead of O(T), for the price of a second forward pass.
template <class Real>
class Walker {
 public:
  Walker(LocalProblem<Real>& local, const Recurrence<Real>& recurrence, std::int64_t stride)
      : local_(local), recurrence_(recurrence), stride_(stride) {
    blocks_ = (local.unit().steps + stride - 1) / stride;
    segment_ = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(blocks_)))));
  }

  std::vector<Real> forward(bool keep_checkpoints, const std::function<void()>& tick) {
    std::vector<Real> state = local_.initial_state();
    std::vector<Real> saved(recurrence_.saved_size(local_.context(), stride_));
    for (std::int64_t n = 0; n < blocks_; ++n) {
      if (keep_checkpoints && n % segment_ == 0) checkpoints_.push_back(state);
      advance(n, state, saved);
      tick();
    }
    return state;
  }

  /// Cotangent of the initial state; fills the gradients of `local`.
  std::vector<Real> backward(const std::function<void()>& tick) {
    std::vector<Real> d_state = local_.final_cotangent();
    const std::int64_t size = recurrence_.saved_size(local_.context(), stride_);
    std::vector<std::vector<Real>> states(segment_ + 1), saved(segment_);
    for (auto& s : saved) s.resize(size);
    local_.context().readout = false;
    for (std::int64_t c = static_cast<std::int64_t>(checkpoints_.size()); c-- > 0;) {
      const std::int64_t first = c * segment_, last = std::min(blocks_, first + segment_);
      states[0] = std::move(checkpoints_[c]);
      for (std::int64_t n = first; n < last; ++n) {
        states[n - first + 1] = states[n - first];
        advance(n, states[n - first + 1], saved[n - first]);
        tick();
      }
      for (std::int64_t n = last; n-- > first;) {
        const std::int64_t t0 = n * stride_;
        local_.context().arena->release();
        recurrence_.adjoint(local_.context(), local_.inputs(t0), count(n), states[n - first].data(),
                            states[n - first + 1].data(), saved[n - first].data(),
                            local_.cotangents(t0), d_state.data(), local_.gradients(t0));
        tick();
      }
    }
    local_.context().readout = true;
    return d_state;
  }

  std::int64_t blocks() const { return blocks_; }

 private:
  std::int64_t count(std::int64_t n) const {
    return std::min(stride_, local_.unit().steps - n * stride_);
  }
  void advance(std::int64_t n, std::vector<Real>& state, std::vector<Real>& saved) {
    const std::int64_t t0 = n * stride_;
    local_.context().arena->release();
    recurrence_.forward(local_.context(), local_.inputs(t0), count(n), state.data(),
                        local_.outputs(t0), saved.data());
  }

  LocalProblem<Real>& local_;
  const Recurrence<Real>& recurrence_;
  std::int64_t stride_, blocks_ = 0, segment_ = 1;
  std::vector<std::vector<Real>> checkpoints_;
};

template <class Real>
Result<Real> allocate(const Problem<Real>& problem, bool gradients) {
  const ValidCase& c = *problem.valid;
  Result<Real> result;
  for (const OutputSpec& spec : c.schema.outputs) {
    result.outputs.emplace(spec.name, Tensor<Real>(c.output_shape(spec)));
  }
  if (!gradients) return result;
  for (const auto& [name, tensor] : problem.inputs) {
    const InputSpec* spec = c.schema.find_input(name);
    if (spec->differentiable) result.gradients.emplace(name, Tensor<Real>(tensor.shape));
  }
  return result;
}

}  // namespace

template <class Real>
Problem<Real> lift(const ValidCase& c) {
  Problem<Real> problem;
  problem.valid = &c;
  for (const auto& [name, stored] : c.data.tensors) {
    if (name == "cu_seqlens") continue;
    Tensor<Real> tensor(stored.shape);
    for (std::int64_t i = 0; i < tensor.size(); ++i) {
      tensor.data[i] = stored.integers.empty() ? fn::from_double<Real>(stored.values[i])
                                               : Real(static_cast<int>(stored.integers[i]));
    }
    if (c.schema.find_input(name)) {
      problem.inputs.emplace(name, std::move(tensor));
    } else {
      problem.cotangents.emplace(name.substr(2), std::move(tensor));
    }
  }
  return problem;
}

template <class Real>
Result<Real> evaluate(const Problem<Real>& problem, const RunOptions& options) {
  return evaluate(find_operation(problem.valid->data.op), problem, options);
}

template <class Real>
Result<Real> evaluate(const Operation& operation, const Problem<Real>& problem,
                      const RunOptions& options) {
  const ValidCase& c = *problem.valid;
  const Engine<Real> engine = make_engine<Real>(operation, c);
  Result<Real> result = allocate(problem, options.gradients);
  if (engine.whole) {
    engine.whole->forward(problem, result);
    if (options.gradients) engine.whole->adjoint(problem, result);
    return result;
  }
  const Recurrence<Real>& recurrence = *engine.recurrence;
  // A kernel may sum over all columns in one go: noise is drawn for that, the longer sum.
  constexpr bool kOneSum = std::is_same_v<Real, Noisy>;
  const bool split = !kOneSum && options.form == Form::recurrent && recurrence.splits_columns();
  const std::vector<Unit> units = make_units(c, split);
  const std::int64_t stride = block_length(recurrence, c, units, options.form);

  std::int64_t total = 1;
  for (const Unit& u : units) {
    total += ((u.steps + stride - 1) / stride) * (options.gradients ? 4 : 1);
  }
  std::atomic<std::int64_t> done{0};
  const auto tick = [&] {
    const std::int64_t n = ++done;
    if (options.progress && n % 16 == 0) options.progress(static_cast<double>(n) / total);
  };

  std::vector<std::unique_ptr<LocalProblem<Real>>> locals(units.size());
  std::vector<std::vector<Real>> d_states(units.size());
  parallel_for(static_cast<std::int64_t>(units.size()), options.threads, [&](std::int64_t u) {
    auto local = std::make_unique<LocalProblem<Real>>(problem, recurrence, units[u], options.form);
    Walker<Real> walker(*local, recurrence, stride);
    local->store_outputs(walker.forward(options.gradients, tick), result);
    if (!options.gradients) return;
    local->start_gradients();
    d_states[u] = walker.backward(tick);
    local->finish_gradients(recurrence);
    local->drop_inputs();
    locals[u] = std::move(local);
  });
  // Shared tensors (head groups, params) are summed in the order of the units.
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (locals[u]) locals[u]->add_gradients(d_states[u], result);
    locals[u].reset();
  }
  return result;
}

#define ASSAY_INSTANTIATE(Real)                                                  \
  template Problem<Real> lift<Real>(const ValidCase&);                           \
  template Result<Real> evaluate<Real>(const Problem<Real>&, const RunOptions&); \
  template Result<Real> evaluate<Real>(const Operation&, const Problem<Real>&, const RunOptions&);
ASSAY_FOR_EACH_SCALAR(ASSAY_INSTANTIATE)
#undef ASSAY_INSTANTIATE
template Problem<Bounded> lift<Bounded>(const ValidCase&);

}  // namespace assay
