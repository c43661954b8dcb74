// The forget gate of M²RNN.   [M2RNN v2, Eqs. 13, 17]
//
//   f = exp(-a softplus(x + b)),  a >= 0 per head
#pragma once

#include "reference/recurrences/decay_gate.hpp"
#include "reference/recurrences/step_recurrence.hpp"

namespace assay {

struct M2rnnGate : StepOperation<M2rnnGate> {
  enum Input { x, a, b };

  static Schema schema(const Case*) {
    Schema s;
    s.op = "m2rnn_gate";
    s.title = "forget gate of M2RNN, f = exp(-a softplus(x + b))";
    s.source = "[M2RNN v2, Eqs. 13, 17]";
    s.head_axis = 'N';
    s.inputs = {{"x", "BTN", Role::token, "pre-activation", {}},
                {"a", "N", Role::param, "decay scale", {0, kInf}},
                {"b", "N", Role::param, "offset", {}}};
    s.outputs = {{"f", "BTN", "forget gate"}};
    return s;
  }

  template <class Real>
  static std::int64_t saved_size(const Context<Real>&) {
    return 1;
  }

  template <class Real>
  static void step(Context<Real>&, const Block<Real>& in, Real*, const Block<Real>& out, Real* f) {
    *f = fn::exp(decay_exponent(*in(x), *in(a), *in(b)));
    *out(0) = *f;
  }

  // d_g = f d_f, then the exponent's adjoint
  template <class Real>
  static void adjoint_step(Context<Real>&, const Block<Real>& in, const Real*, const Real*,
                           const Real* f, const Block<Real>& d_out, Real*,
                           const Block<Real>& d_in) {
    const Real d_g = *f * *d_out(0);
    decay_exponent_adjoint(*in(x), *in(a), *in(b), d_g, *d_in(x), *d_in(a), *d_in(b));
  }
};

}  // namespace assay

ASSAY_OPERATION(M2rnnGate, m2rnn_gate)
