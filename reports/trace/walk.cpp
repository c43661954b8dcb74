#include "reports/trace/walk.hpp"

#include <algorithm>

#include "reference/oracle/local_problem.hpp"
#include "reference/oracle/registry.hpp"

namespace assay::reports {
namespace {

const double* const kNone = nullptr;

}  // namespace

struct SliceInMemory::Inside {
  ValidCase valid;
  Problem<double> problem;
  Engine<double> engine;
  std::unique_ptr<LocalProblem<double>> local;
  std::vector<double> saved, zero_state;

  Inside(const Trace& trace, const TraceUnit& unit, std::int64_t first, std::int64_t count,
         std::int64_t columns)
      : valid(trace.slice(unit, first, count, columns)), problem(lift<double>(valid)) {
    problem.valid = &valid;
    engine = find_operation(valid.schema.op).make(valid, kNone);
    // One unit: B = 1, one head, no column blocks.
    const Unit whole = make_units(valid, false).front();
    local =
        std::make_unique<LocalProblem<double>>(problem, *engine.recurrence, whole, Form::recurrent);
    local->context().readout = false;
    saved.assign(engine.recurrence->saved_size(local->context(), 1), 0.0);
    zero_state.assign(local->state_size(), 0.0);
  }
  void forward(std::int64_t s, double* state) {
    Context<double>& c = local->context();
    engine.recurrence->forward(c, local->inputs(s), 1, state, local->outputs(s), saved.data());
    c.arena->release();
  }
};

SliceInMemory::SliceInMemory(const Trace& trace, const TraceUnit& unit, std::int64_t first,
                             std::int64_t count, std::int64_t columns)
    : in_(std::make_unique<Inside>(trace, unit, first, count, columns)) {
  in_->local->start_gradients();
}

SliceInMemory::~SliceInMemory() = default;

Step SliceInMemory::step(std::int64_t s) {
  Step step;
  step.index = s;
  step.context = &in_->local->context();
  step.x = in_->local->inputs(s);
  step.recurrence = in_->engine.recurrence.get();
  step.problem = &in_->valid;
  return step;
}

std::int64_t SliceInMemory::order() const {
  return static_cast<std::int64_t>(in_->zero_state.size()) / in_->local->context().V;
}

const std::vector<double>& SliceInMemory::saved() const { return in_->saved; }

const std::vector<double>& SliceInMemory::final_cotangent() const {
  return in_->local->final_cotangent();
}

void SliceInMemory::adjoint(std::int64_t s, const double* state_prev, const double* state,
                            double* d_state) {
  Context<double>& c = in_->local->context();
  in_->engine.recurrence->adjoint(c, in_->local->inputs(s), 1, state_prev, state, in_->saved.data(),
                                  in_->local->cotangents(s), d_state, in_->local->gradients(s));
  c.arena->release();
}

const std::vector<double>& SliceInMemory::initial_state() const {
  return in_->local->initial_state();
}

void SliceInMemory::apply(std::int64_t s, double* X) { in_->forward(s, X); }

void SliceInMemory::apply_transposed(std::int64_t s, double* X) {
  Context<double>& c = in_->local->context();
  in_->engine.recurrence->adjoint(c, in_->local->inputs(s), 1, in_->zero_state.data(),
                                  in_->zero_state.data(), in_->saved.data(),
                                  in_->local->cotangents(s), X, in_->local->gradients(s));
  c.arena->release();
}

void walk(const Trace& trace, const TraceUnit& unit, const WalkOptions& options,
          const std::function<void(Step&)>& visit) {
  const std::int64_t end =
      options.count < 0 ? unit.steps : std::min(unit.steps, options.first + options.count);
  std::vector<double> state;
  for (std::int64_t s0 = options.first; s0 < end; s0 += kSliceSteps) {
    const std::int64_t n = std::min(kSliceSteps, end - s0);
    SliceInMemory slice(trace, unit, s0, n, options.columns);
    for (std::int64_t s = 0; s < n; ++s) {
      Step step = slice.step(s);
      step.index = s0 + s;
      if (trace.is_linear()) {
        visit(step);
        continue;
      }
      if (state.empty()) state = slice.initial_state();
      step.state_prev = state.data();
      visit(step);
      slice.apply(s, state.data());
    }
  }
}

int input_index(const Schema& schema, const std::string& name) {
  int index = 0;
  for (const InputSpec& input : schema.inputs) {
    if (input.role == Role::state) continue;
    if (input.name == name) return index;
    ++index;
  }
  return -1;
}

}  // namespace assay::reports
