// One sequence of one head (and one column block), cut out of a Problem: contiguous inputs in the
// order of the schema, linear gates, initial state. The driver, the stepwise gradient check and the
// reports all walk through these.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/oracle/evaluate.hpp"
#include "reference/oracle/recurrence.hpp"

namespace assay {

/// Which piece of the batch a local problem is.
struct Unit {
  std::int64_t sequence = 0;  // batch index, or packed segment
  std::int64_t head = 0;
  std::int64_t first_column = 0, columns = 0;  // of the axis V; columns = -1: there is no V
  std::int64_t start = 0, steps = 0;           // time range in the tensors
  std::int64_t batch = 0;                      // index on axis B
};

/// The units of a case, in the order in which their gradients are summed. `split` allows column
/// blocks; how many depends on the shapes only.
std::vector<Unit> make_units(const ValidCase& c, bool split);

/// Where the local elements of a tensor lie: offset = base(unit) + t * time_stride + local[j].
struct LocalLayout {
  std::int64_t time_stride = 0;
  std::int64_t base = 0;
  std::vector<std::int64_t> local;
  LocalLayout(const ValidCase& c, const Shape& shape, const std::string& axes, Role role,
              const Unit& unit);
};

template <class Real>
class LocalProblem {
 public:
  LocalProblem(const Problem<Real>& problem, const Recurrence<Real>& recurrence, const Unit& unit,
               Form form);

  Context<Real>& context() { return context_; }
  const Unit& unit() const { return unit_; }
  Block<Real> inputs(std::int64_t t0) const { return Block<Real>(&fields_, t0); }
  Block<Real> gradients(std::int64_t t0) const { return Block<Real>(&d_fields_, t0); }
  Block<Real> outputs(std::int64_t t0) const { return Block<Real>(&out_, t0); }
  Block<Real> cotangents(std::int64_t t0) const { return Block<Real>(&d_out_, t0); }
  const std::vector<Real>& initial_state() const { return state0_; }
  /// Cotangent of the final state; zeros when the case has none.
  const std::vector<Real>& final_cotangent() const { return d_final_; }
  std::int64_t state_size() const { return static_cast<std::int64_t>(state0_.size()); }

  /// Allocates zeros for d_x.
  void start_gradients();
  /// Turns d_x of prepared linear inputs into d_x of what the case holds.
  void finish_gradients(const Recurrence<Real>& recurrence);

  /// Copies the per-step outputs and the final state into the tensors of `result`. Units write
  /// disjoint elements.
  void store_outputs(const std::vector<Real>& final_state, Result<Real>& result) const;
  /// Adds d_x and the cotangent of the initial state into `result.gradients`; call in unit order.
  void add_gradients(const std::vector<Real>& d_state0, Result<Real>& result) const;
  /// Frees everything but d_x.
  void drop_inputs();

 private:
  struct Slot {
    const InputSpec* spec;
    const Tensor<Real>* tensor;  // null: absent
    bool is_log;
  };
  void gather_inputs();
  void gather_outputs();

  const Problem<Real>& problem_;
  Unit unit_;
  Context<Real> context_;
  Arena<Real> arena_;
  std::vector<Slot> slots_, state_slots_;
  std::vector<std::vector<Real>> storage_, d_storage_, out_storage_, d_out_storage_;
  std::vector<LocalInput<Real>> fields_, d_fields_, out_, d_out_;
  std::vector<Real> state0_, d_final_, tape_;
};

}  // namespace assay
