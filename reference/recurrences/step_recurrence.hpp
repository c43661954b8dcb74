// Binds an operation given by static functions `step` and `adjoint_step` to the run-time interface.
#pragma once

#include <memory>
#include <vector>

#include "reference/oracle/operation.hpp"

namespace assay {

template <class Op, class Real>
class StepRecurrence final : public Recurrence<Real> {
 public:
  std::int64_t saved_size(const Context<Real>& c, std::int64_t) const override {
    return Op::saved_size(c);
  }
  std::int64_t hidden_state_size(const Context<Real>& c) const override {
    if constexpr (requires { &Op::template hidden_state_size<Real>; }) {
      return Op::hidden_state_size(c);
    }
    return 0;
  }
  void forward(Context<Real>& c, const Block<Real>& x, std::int64_t, Real* state,
               const Block<Real>& out, Real* saved) const override {
    Op::step(c, x, state, out, saved);
  }
  void adjoint(Context<Real>& c, const Block<Real>& x, std::int64_t, const Real* state_prev,
               const Real* state, const Real* saved, const Block<Real>& d_out, Real* d_state,
               const Block<Real>& d_x) const override {
    Op::adjoint_step(c, x, state_prev, state, saved, d_out, d_state, d_x);
  }
  std::int64_t transition(Context<Real>& c, const Block<Real>& x, const Real* state_prev,
                          std::vector<Real>& A) const override {
    if constexpr (requires { &Op::template transition<Real>; }) {
      return Op::transition(c, x, state_prev, A);
    }
    return 0;
  }
};

template <class Op>
struct StepOperation {
  template <class Real>
  static Engine<Real> make(const ValidCase&) {
    Engine<Real> engine;
    engine.recurrence = std::make_unique<StepRecurrence<Op, Real>>();
    return engine;
  }
};

}  // namespace assay
