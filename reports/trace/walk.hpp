// Along a unit of a trace, step by step, in the arithmetic of doubles.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reference/oracle/recurrence.hpp"
#include "reports/trace/trace.hpp"

namespace assay::reports {

/// One step as it is visited.
struct Step {
  std::int64_t index = 0;  // in the unit
  Context<double>* context = nullptr;
  assay::Block<double> x{nullptr, 0};  // inputs, gates linear
  const Recurrence<double>* recurrence = nullptr;
  const double* state_prev =
      nullptr;  // null for linear operations: their steps do not depend on it
  const ValidCase* problem = nullptr;
};

struct WalkOptions {
  std::int64_t columns = 1;            // of the value axis, linear operations only
  std::int64_t first = 0, count = -1;  // steps to visit; -1: to the end. Not for others than linear
};

/// Steps read at once.
inline constexpr std::int64_t kSliceSteps = 512;

/// Visits the steps of a unit in order. Where the step depends on the state, the recurrence runs
/// along and the state before the step is the true one.
void walk(const Trace& trace, const TraceUnit& unit, const WalkOptions& options,
          const std::function<void(Step&)>& visit);

/// A slice of steps that stays in memory, for going back and forth.
class SliceInMemory {
 public:
  SliceInMemory(const Trace& trace, const TraceUnit& unit, std::int64_t first, std::int64_t count,
                std::int64_t columns);
  ~SliceInMemory();
  Step step(std::int64_t s);
  /// Linear operations: X becomes A_s X, or A_s^T X, where the columns of X [order, columns],
  /// row-major, are states. Others: `apply` advances the state by the true step.
  void apply(std::int64_t s, double* X);
  void apply_transposed(std::int64_t s, double* X);
  /// Of one column of the state.
  std::int64_t order() const;
  /// What the last `apply` saved for an adjoint (m2rnn: Z_t).
  const std::vector<double>& saved() const;
  /// The true adjoint of step s with the file's cotangents: d_state, after the step, becomes the
  /// cotangent before it. `saved` must be of this step.
  void adjoint(std::int64_t s, const double* state_prev, const double* state, double* d_state);
  /// Cotangent of the state after the last step of the slice; zeros unless the file has one.
  const std::vector<double>& final_cotangent() const;
  /// The whole state before the first step as the file has it; zeros for linear operations.
  const std::vector<double>& initial_state() const;

 private:
  struct Inside;
  std::unique_ptr<Inside> in_;
};

/// Position of an input among those of a Block, -1 when the operation has none of that name.
int input_index(const Schema& schema, const std::string& name);

}  // namespace assay::reports
