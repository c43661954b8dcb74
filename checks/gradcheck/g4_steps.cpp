// G4: the dot-product test step by step, exact in the prime field. Along the trajectory of the case
// (random residues, see field_problem.hpp), at every step alone and with random tangents (dot) and
// random cotangents (d_) of everything that goes in and out,
//
//   <d_S_t, S_dot_t> + <d_out, out_dot> = <d_S_{t-1}, S_dot_{t-1}> + Σ <d_x, x_dot>
//
// where the forward step is differentiated with dual numbers and the adjoint step gives d_S_{t-1}
// and d_x. Each step stands for itself, so the first bad step is named, whatever the steps after it
// make of it; activating one input at a time names the input. What a step sees are prepared inputs
// (linear gates, normalised keys); the preparation is left to G1.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "checks/gradcheck/field_problem.hpp"
#include "reference/oracle/local_problem.hpp"

namespace assay {
namespace {

using DualField = Dual<Field>;

struct Bad {
  std::int64_t t = 0;  // first step of the block, counted in the sequence
  Unit unit;
  std::string tensor, index, line;
};

std::vector<Field> random_vector(Stream& random, std::size_t n) {
  std::vector<Field> v(n);
  for (Field& value : v) value = random_residue(random);
  return v;
}

/// One sequence of one head.
class UnitWalk {
 public:
  UnitWalk(const CheckTask& task, const Problem<Field>& problem, const Problem<DualField>& dual,
           const Recurrence<Field>& recurrence, const Recurrence<DualField>& dual_recurrence,
           const Unit& unit, Stream random)
      : task_(task),
        unit_(unit),
        random_(random),
        recurrence_(recurrence),
        dual_recurrence_(dual_recurrence),
        local_(problem, recurrence, unit, task.form),
        dual_local_(dual, dual_recurrence, unit, task.form),
        stride_(task.form == Form::recurrent ? 1 : option_int(task.c, "chunk")),
        saved_(recurrence.saved_size(local_.context(), stride_)),
        dual_saved_(dual_recurrence.saved_size(dual_local_.context(), stride_)) {
    for (const InputSpec& spec : task.c.schema.inputs) {
      (spec.role == Role::state ? states_ : inputs_).push_back(&spec);
    }
    for (const OutputSpec& spec : task.c.schema.outputs) outputs_ += spec.final_state ? 0 : 1;
    after_ = local_.initial_state();
    local_.start_gradients();
  }

  std::int64_t blocks() const { return (unit_.steps + stride_ - 1) / stride_; }

  /// Advances one block of steps; the first input that fails there, if any.
  std::optional<Bad> step(std::int64_t n) {
    t0_ = n * stride_;
    count_ = std::min(stride_, unit_.steps - t0_);
    before_ = after_;
    local_.context().readout = true;
    local_.context().arena->release();
    recurrence_.forward(local_.context(), local_.inputs(t0_), count_, after_.data(),
                        local_.outputs(t0_), saved_.data());
    draw();
    run_adjoint();
    activate_all();
    const bool agrees = forward() == backward_all();
    deactivate_all();
    if (agrees) return std::nullopt;
    return find_bad();
  }

 private:
  std::int64_t length(int i) const {  // values of input i in this block
    return local_.inputs(0).width(i) * (inputs_[i]->role == Role::token ? count_ : 1);
  }

  void draw() {
    state_dot_ = random_vector(random_, before_.size());
    d_after_ = random_vector(random_, before_.size());
    x_dot_.clear();
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const bool moves = inputs_[i]->differentiable && !inputs_[i]->integer;
      x_dot_.push_back(moves ? random_vector(random_, length(static_cast<int>(i)))
                             : std::vector<Field>(length(static_cast<int>(i))));
    }
    for (int i = 0; i < outputs_; ++i) {
      const std::int64_t n = count_ * local_.outputs(0).width(i);
      for (std::int64_t j = 0; j < n; ++j) local_.cotangents(t0_)(i)[j] = random_residue(random_);
    }
  }

  void run_adjoint() {
    d_before_ = d_after_;
    for (int i = 0; i < static_cast<int>(inputs_.size()); ++i) {
      std::fill_n(local_.gradients(t0_)(i), length(i), Field(0));
    }
    local_.context().readout = false;
    local_.context().arena->release();
    recurrence_.adjoint(local_.context(), local_.inputs(t0_), count_, before_.data(), after_.data(),
                        saved_.data(), local_.cotangents(t0_), d_before_.data(),
                        local_.gradients(t0_));
  }

  void set_input(int i, std::int64_t first, std::int64_t last, bool active) {
    DualField* x = dual_local_.inputs(t0_)(i);
    for (std::int64_t j = first; j < last; ++j) x[j].d = active ? x_dot_[i][j] : Field(0);
  }
  void activate_all() {
    for (int i = 0; i < static_cast<int>(inputs_.size()); ++i) set_input(i, 0, length(i), true);
    state_first_ = 0;
    state_last_ = static_cast<std::int64_t>(before_.size());
  }
  void deactivate_all() {
    for (int i = 0; i < static_cast<int>(inputs_.size()); ++i) set_input(i, 0, length(i), false);
    state_first_ = state_last_ = 0;
  }

  /// <d_S_t, S_dot_t> + <d_out, out_dot> for the active tangents.
  Field forward() {
    std::vector<DualField> state(before_.size());
    for (std::size_t i = 0; i < state.size(); ++i) state[i].v = before_[i];
    for (std::int64_t i = state_first_; i < state_last_; ++i) state[i].d = state_dot_[i];
    dual_local_.context().arena->release();
    dual_recurrence_.forward(dual_local_.context(), dual_local_.inputs(t0_), count_, state.data(),
                             dual_local_.outputs(t0_), dual_saved_.data());
    Field sum = 0;
    for (std::size_t i = 0; i < state.size(); ++i) sum += d_after_[i] * state[i].d;
    for (int i = 0; i < outputs_; ++i) {
      const std::int64_t n = count_ * local_.outputs(0).width(i);
      const DualField* out = dual_local_.outputs(t0_)(i);
      for (std::int64_t j = 0; j < n; ++j) sum += local_.cotangents(t0_)(i)[j] * out[j].d;
    }
    return sum;
  }

  Field backward_input(int i, std::int64_t first, std::int64_t last) const {
    Field sum = 0;
    for (std::int64_t j = first; j < last; ++j) sum += local_.gradients(t0_)(i)[j] * x_dot_[i][j];
    return sum;
  }
  Field backward_state(std::int64_t first, std::int64_t last) const {
    Field sum = 0;
    for (std::int64_t j = first; j < last; ++j) sum += d_before_[j] * state_dot_[j];
    return sum;
  }
  Field backward_all() const {
    Field sum = backward_state(0, static_cast<std::int64_t>(before_.size()));
    for (int i = 0; i < static_cast<int>(inputs_.size()); ++i) {
      sum += backward_input(i, 0, length(i));
    }
    return sum;
  }

  bool input_agrees(int i, std::int64_t first, std::int64_t last) {
    set_input(i, first, last, true);
    const bool agrees = forward() == backward_input(i, first, last);
    set_input(i, first, last, false);
    return agrees;
  }
  bool state_agrees(std::int64_t first, std::int64_t last) {
    state_first_ = first;
    state_last_ = last;
    const bool agrees = forward() == backward_state(first, last);
    state_first_ = state_last_ = 0;
    return agrees;
  }

  /// First element of a range that does not agree; the mismatch is linear in the tangents.
  template <class Agrees>
  static std::int64_t bisect(std::int64_t first, std::int64_t last, const Agrees& agrees) {
    while (last - first > 1) {
      const std::int64_t middle = first + (last - first) / 2;
      if (agrees(first, middle)) {
        first = middle;
      } else {
        last = middle;
      }
    }
    return first;
  }

  Bad find_bad() {
    Bad bad;
    bad.t = t0_;
    bad.unit = unit_;
    std::vector<std::string> wrong;
    const auto add = [&](const std::string& name, const std::string& index) {
      wrong.push_back(name + index);
      if (wrong.size() > 1) return;
      bad.tensor = name;
      bad.index = index;
    };
    for (int i = 0; i < static_cast<int>(inputs_.size()); ++i) {
      if (input_agrees(i, 0, length(i))) continue;
      const std::int64_t j = bisect(0, length(i), [&](std::int64_t first, std::int64_t last) {
        return input_agrees(i, first, last);
      });
      add(inputs_[i]->name, input_index(*inputs_[i], j, local_.inputs(0).width(i)));
    }
    const auto size = static_cast<std::int64_t>(before_.size());
    if (!state_agrees(0, size)) {
      const std::int64_t j = bisect(0, size, [&](std::int64_t first, std::int64_t last) {
        return state_agrees(first, last);
      });
      const auto [name, index] = state_index(j);
      add(name, index);
    }
    bad.line = fmt::format("sequence {}, head {}, {}: wrong part of {}", unit_.sequence, unit_.head,
                           steps_text(), fmt::join(wrong, ", "));
    return bad;
  }

  std::string steps_text() const {
    if (stride_ == 1) return fmt::format("step {}", t0_);
    return fmt::format("steps {} to {}", t0_, t0_ + count_ - 1);
  }

  std::string input_index(const InputSpec& spec, std::int64_t j, std::int64_t width) const {
    const std::string name = given_name(task_.c.data, spec);
    const Shape shape =
        name.empty() ? task_.c.input_shape(spec) : task_.c.data.tensors.at(name).shape;
    const LocalLayout layout(task_.c, shape, spec.axes, spec.role, unit_);
    const std::int64_t t = spec.role == Role::token ? t0_ + j / width : 0;
    return index_text(shape, layout.base + t * layout.time_stride + layout.local[j % width]);
  }

  /// The state tensor that element j of the state belongs to, and its place in it.
  std::pair<std::string, std::string> state_index(std::int64_t j) const {
    for (const InputSpec* spec : states_) {
      const Shape shape = task_.c.input_shape(*spec);
      const LocalLayout layout(task_.c, shape, spec->axes, Role::state, unit_);
      const auto n = static_cast<std::int64_t>(layout.local.size());
      if (j < n) return {spec->name, index_text(shape, layout.base + layout.local[j])};
      j -= n;
    }
    return {"hidden state", fmt::format("[{}]", j)};
  }

  const CheckTask& task_;
  Unit unit_;
  Stream random_;
  const Recurrence<Field>& recurrence_;
  const Recurrence<DualField>& dual_recurrence_;
  LocalProblem<Field> local_;
  LocalProblem<DualField> dual_local_;
  std::int64_t stride_, t0_ = 0, count_ = 0;
  int outputs_ = 0;
  std::vector<const InputSpec*> inputs_, states_;
  std::vector<Field> saved_, before_, after_, d_before_, d_after_, state_dot_;
  std::vector<DualField> dual_saved_;
  std::vector<std::vector<Field>> x_dot_;
  std::int64_t state_first_ = 0, state_last_ = 0;
};

CheckOutcome test_steps(const CheckTask& task) {
  const Engine<Field> engine = make_engine<Field>(task.operation, task.c);
  if (engine.whole) return skipped("a map of the whole batch, no recursion in time");
  const Engine<DualField> dual_engine = make_engine<DualField>(task.operation, task.c);
  const Problem<Field> problem = random_field_problem(task.c, task.stream("G4 point"));
  const Problem<DualField> dual = with_tangents(problem);
  const bool split = task.form == Form::recurrent && engine.recurrence->splits_columns();
  const std::vector<Unit> units = make_units(task.c, split);

  std::int64_t steps = 0, walked = 0;
  std::vector<Bad> bad;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (steps > 0 && task.out_of_time()) break;
    UnitWalk walk(task, problem, dual, *engine.recurrence, *dual_engine.recurrence, units[u],
                  task.stream("G4 tangents", static_cast<int>(u)));
    for (std::int64_t n = 0; n < walk.blocks(); ++n, ++steps) {
      if (auto found = walk.step(n)) bad.push_back(std::move(*found));
    }
    ++walked;
    task.progress(static_cast<double>(u + 1) / static_cast<double>(units.size()));
  }
  if (steps == 0) return skipped("no steps");
  const std::string block = task.form == Form::recurrent ? "steps" : "chunks";
  CheckOutcome outcome;
  if (bad.empty()) {
    outcome.detail = fmt::format("{} {} of {} of {} sequences and heads, exactly in F_p", steps,
                                 block, walked, units.size());
    return outcome;
  }
  std::stable_sort(bad.begin(), bad.end(), [](const Bad& a, const Bad& b) { return a.t < b.t; });
  outcome.status = CheckOutcome::Status::failed;
  outcome.worst_tensor = bad.front().tensor;
  outcome.worst_index = bad.front().index;
  outcome.detail =
      fmt::format("{} of {} {} wrong, the first: sequence {}, head {}, step {}", bad.size(), steps,
                  block, bad.front().unit.sequence, bad.front().unit.head, bad.front().t);
  constexpr std::size_t kShown = 5;
  for (std::size_t i = 0; i < std::min(kShown, bad.size()); ++i) {
    outcome.lines.push_back(bad[i].line);
  }
  return outcome;
}

}  // namespace

CheckOutcome check_steps(const CheckTask& task) {
  if (task.form == Form::chunk_log) {
    return skipped("its forward pass needs log(a b) = log a + log b, which random symbols lack");
  }
  try {
    return test_steps(task);
  } catch (const std::domain_error& error) {
    return skipped(std::string("undecided: ") + error.what());
  }
}

}  // namespace assay
