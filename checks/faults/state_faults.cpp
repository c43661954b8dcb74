// Faults of how the state is kept and read, for every operation that has one.
#include "checks/faults/entry.hpp"
#include "checks/faults/facts.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay {
namespace {

double to_bf16(double x) { return round_to(Format::bf16, x); }
Rounded to_bf16(Rounded x) { return Rounded::from(round_to(Format::bf16, x.value())); }

/// Elements of the local state that belong to state tensors (not to hidden windows).
template <class Real>
std::int64_t state_size(const Context<Real>& c) {
  const ValidCase& v = *c.problem;
  std::int64_t size = 0;
  for (const InputSpec& in : v.schema.inputs) {
    if (in.role != Role::state) continue;
    std::int64_t n = 1;
    for (char axis : in.axes) {
      const bool outside =
          axis == 'B' || (axis == v.schema.head_axis && v.schema.heads_are_independent);
      if (!outside) n *= c.size(axis);
    }
    size += n;
  }
  return size;
}

/// Stores the state in bf16 after every block of steps, or where a chunk ends.
template <class Real, bool kAtChunkEnds>
class RoundedState : public RecurrenceWrapper<Real> {
 public:
  using RecurrenceWrapper<Real>::RecurrenceWrapper;
  void forward(Context<Real>& c, const Block<Real>& x, std::int64_t count, Real* state,
               const Block<Real>& out, Real* saved) const override {
    this->inner_->forward(c, x, count, state, out, saved);
    if (kAtChunkEnds && (x.start() + count) % facts::chunk(*c.problem) != 0) return;
    const std::int64_t n = state_size(c);
    for (std::int64_t i = 0; i < n; ++i) state[i] = to_bf16(state[i]);
  }
};
template <class Real>
using ReducedPrecision = RoundedState<Real, false>;
template <class Real>
using ReducedBetweenChunks = RoundedState<Real, true>;

/// The read-out of step t from S_{t-1}. An additional step with decays 1 and nothing to write
/// leaves a matrix memory as it is and reads it with the right query; a vector state is its own
/// read-out.
template <class Real>
class ReadBeforeUpdate : public RecurrenceWrapper<Real> {
 public:
  using RecurrenceWrapper<Real>::RecurrenceWrapper;
  void forward(Context<Real>& c, const Block<Real>& x, std::int64_t count, Real* state,
               const Block<Real>& out, Real* saved) const override {
    std::vector<Real> before(state, state + state_size(c));
    this->inner_->forward(c, x, count, state, out, saved);
    if (!c.readout) return;
    if (facts::is_op(*c.problem, {"rnn", "gru", "lstm"})) {
      for (std::int64_t j = 0; j < out.width(0); ++j) out(0)[j] = before[j];
      return;
    }
    std::vector<std::vector<Real>> constants;
    const std::vector<LocalInput<Real>> fields = idle_inputs(*c.problem, x, constants);
    std::vector<Real> nowhere(this->inner_->saved_size(c, count));
    this->inner_->forward(c, Block<Real>(&fields, 0), count, before.data(), out, nowhere.data());
  }

 private:
  static std::vector<LocalInput<Real>> idle_inputs(const ValidCase& v, const Block<Real>& x,
                                                   std::vector<std::vector<Real>>& constants) {
    std::vector<LocalInput<Real>> fields;
    int index = 0;
    for (const InputSpec& in : v.schema.inputs) {
      if (in.role == Role::state) continue;
      const std::string base = facts::base_name(in.name);
      const std::int64_t width = x.width(index);
      LocalInput<Real> field{x(index++), width, false};
      const bool writes = base == "beta" || base == "k";
      if (facts::is_decay(in) || writes) {
        constants.emplace_back(width, writes ? Real(0) : Real(1));
        field.data = constants.back().data();
      }
      fields.push_back(field);
    }
    return fields;
  }
};

bool reads_late(const ValidCase& c) {
  return facts::longest(c) > 0 &&
         (facts::is_matrix_memory(c) || facts::is_op(c, {"m2rnn", "rnn", "gru", "lstm"}));
}

}  // namespace

void add_state_faults(FaultList& list) {
  add_fault(list, {"*.read_before_update", "o_t reads S_{t-1}", "class"}, reads_late,
            WithEngine<Wrapped<ReadBeforeUpdate>>{Form::recurrent});
  add_fault(
      list,
      {"*.state_reduced_precision", "the state is carried in bf16 from step to step",
       "public kernel", true},
      [](const ValidCase& c) { return facts::has_state(c) && facts::longest(c) > 0; },
      WithEngine<Wrapped<ReducedPrecision>>{Form::recurrent});
  add_fault(
      list,
      {"*.final_state_reduced_precision", "the state is rounded to bf16 between chunks", "class",
       true},
      [](const ValidCase& c) {
        return facts::has_state(c) && facts::longest(c) >= facts::chunk(c);
      },
      WithEngine<Wrapped<ReducedBetweenChunks>>{});
}

}  // namespace assay
