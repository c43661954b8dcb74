// What the entries of the dictionary are made of. A family's file says for each fault what is wrong
// (a callable for both scalars) and when a case can show it.
//
// A fault of the update replaces the forward step alone: the adjoint is the reference's, applied to
// the states of the wrong forward pass. A fault that changes the problem (heads, layout, packing)
// or coefficients that both directions use is wrong in both, as such a kernel would be.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "checks/faults/fault.hpp"
#include "reference/oracle/registry.hpp"

namespace assay {

using FaultList = std::vector<std::unique_ptr<Fault>>;
using Applies = std::function<bool(const ValidCase&)>;

/// Wrong: `Result<Real> operator()(Problem<Real>, const RunOptions&) const` for double and Rounded.
template <class Wrong>
class FaultOf final : public Fault {
 public:
  FaultOf(FaultInfo info, Applies applies, Wrong wrong)
      : info_(std::move(info)), applies_(std::move(applies)), wrong_(std::move(wrong)) {}
  const FaultInfo& info() const override { return info_; }
  bool applies(const ValidCase& c) const override { return applies_(c); }
  Result<double> evaluate(const ValidCase& c, const RunOptions& options) const override {
    return wrong_(lift<double>(c), options);
  }
  Result<Rounded> evaluate_rounded(const ValidCase& c, const RunOptions& options) const override {
    return wrong_(lift<Rounded>(c), options);
  }

 private:
  FaultInfo info_;
  Applies applies_;
  Wrong wrong_;
};

template <class Wrong>
void add_fault(FaultList& list, FaultInfo info, Applies applies, Wrong wrong) {
  list.push_back(
      std::make_unique<FaultOf<Wrong>>(std::move(info), std::move(applies), std::move(wrong)));
}

template <class Real>
inline constexpr bool kFaultScalar = std::is_same_v<Real, double> || std::is_same_v<Real, Rounded>;

/// An operation that is in no registry, for the two scalars of faults. Maker has
/// `template <class Real> static Engine<Real> make(const ValidCase&)`.
template <class Maker>
class FaultOperation final : public Operation {
 public:
  Schema schema(const Case* data) const override {
    if (data == nullptr) throw std::logic_error("FaultOperation::schema: a case is needed");
    return find_operation(data->op).schema(data);
  }
  std::string name() const override { return "fault"; }
  bool is_fast_weight() const override { return false; }

#define ASSAY_MAKE(Real)                                                                \
  Engine<Real> make([[maybe_unused]] const ValidCase& c, const Real*) const override {  \
    if constexpr (kFaultScalar<Real>) return Maker::template make<Real>(c);             \
    throw std::logic_error("FaultOperation::make: faults exist in double and Rounded"); \
  }
  ASSAY_FOR_EACH_SCALAR(ASSAY_MAKE)
#undef ASSAY_MAKE
};

/// The operation with the engine that Maker makes, always in `form` when that is given (a step that
/// exists in one form only).
template <class Maker>
struct WithEngine {
  std::optional<Form> form = std::nullopt;

  template <class Real>
  Result<Real> operator()(const Problem<Real>& problem, const RunOptions& options) const {
    static const FaultOperation<Maker> operation;
    RunOptions run = options;
    if (form) run.form = *form;
    return evaluate(operation, problem, run);
  }
};

/// A recurrence that hands everything on to another; derived classes change one thing.
template <class Real>
class RecurrenceWrapper : public Recurrence<Real> {
 public:
  explicit RecurrenceWrapper(std::unique_ptr<Recurrence<Real>> inner) : inner_(std::move(inner)) {}
  std::int64_t saved_size(const Context<Real>& c, std::int64_t count) const override {
    return inner_->saved_size(c, count);
  }
  std::int64_t hidden_state_size(const Context<Real>& c) const override {
    return inner_->hidden_state_size(c);
  }
  void forward(Context<Real>& c, const Block<Real>& x, std::int64_t count, Real* state,
               const Block<Real>& out, Real* saved) const override {
    inner_->forward(c, x, count, state, out, saved);
  }
  void adjoint(Context<Real>& c, const Block<Real>& x, std::int64_t count, const Real* state_prev,
               const Real* state, const Real* saved, const Block<Real>& d_out, Real* d_state,
               const Block<Real>& d_x) const override {
    inner_->adjoint(c, x, count, state_prev, state, saved, d_out, d_state, d_x);
  }
  void prepare(Context<Real>& c, const Block<Real>& x, std::int64_t steps,
               std::vector<Real>& tape) const override {
    inner_->prepare(c, x, steps, tape);
  }
  void unprepare(Context<Real>& c, const Block<Real>& x, std::int64_t steps,
                 const std::vector<Real>& tape, const Block<Real>& d_x) const override {
    inner_->unprepare(c, x, steps, tape, d_x);
  }
  bool splits_columns() const override { return inner_->splits_columns(); }

 protected:
  std::unique_ptr<Recurrence<Real>> inner_;
};

/// Maker of the registered operation inside a wrapper.
template <template <class> class Wrapper>
struct Wrapped {
  template <class Real>
  static Engine<Real> make(const ValidCase& c) {
    Engine<Real> engine = make_engine<Real>(find_operation(c.data.op), c);
    engine.recurrence = std::make_unique<Wrapper<Real>>(std::move(engine.recurrence));
    return engine;
  }
};

// The families, each in the file of its name.
void add_delta_faults(FaultList& list);
void add_gradient_faults(FaultList& list);
void add_layout_faults(FaultList& list);
void add_m2rnn_faults(FaultList& list);
void add_mdn_chunk_faults(FaultList& list);
void add_mdn_faults(FaultList& list);
void add_mom_faults(FaultList& list);
void add_part_faults(FaultList& list);
void add_state_faults(FaultList& list);
void add_time_faults(FaultList& list);
/// `*.zero_gradient:NAME`, which zeroes the gradient of one input by name.
std::unique_ptr<Fault> zero_gradient_of(const std::string& input);

}  // namespace assay
