// The vector tanh RNN.   [M2RNN v2, Eq. 25]
//
//   h_t = tanh(h_{t-1} W + x_t)          y_t = h_t          (row vectors)
#pragma once

#include "reference/recurrences/step_recurrence.hpp"

namespace assay {

struct Rnn : StepOperation<Rnn> {
  enum Input { x, w };

  static Schema schema(const Case*) {
    Schema s;
    s.op = "rnn";
    s.title = "vector tanh RNN, h = tanh(h' W + x)";
    s.source = "[M2RNN v2, Eq. 25]";
    s.inputs = {{"x", "BTHD", Role::token, "input", {}},
                {"w", "HDD", Role::param, "state transition matrix", {}},
                {"h0", "BHD", Role::state, "initial state", {}, true}};
    s.outputs = {{"y", "BTHD", "state at every step"},
                 {"h_final", "BHD", "state after the last step", true}};
    return s;
  }

  template <class Real>
  static std::int64_t saved_size(const Context<Real>&) {
    return 0;
  }

  template <class Real>
  static void step(Context<Real>& c, const Block<Real>& in, Real* h, const Block<Real>& out,
                   Real*) {
    const std::int64_t D = c.size('D');
    Real* a = c.arena->zeros(D);
    for (std::int64_t j = 0; j < D; ++j) a[j] = in(x)[j];
    la::gemv_t_add(D, D, in(w), h, a);
    for (std::int64_t j = 0; j < D; ++j) h[j] = fn::tanh(a[j]);
    if (!c.readout) return;
    for (std::int64_t j = 0; j < D; ++j) out(0)[j] = h[j];
  }

  // g = (d_h + d_y) ∘ (1 - h_t²)     d_x = g     d_w = h_{t-1}^T g     d_h' = g W^T
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Block<Real>& in, const Real* h_prev,
                           const Real* h, const Real*, const Block<Real>& d_out, Real* d_h,
                           const Block<Real>& d_in) {
    const std::int64_t D = c.size('D');
    Real* g = c.arena->zeros(D);
    for (std::int64_t j = 0; j < D; ++j) {
      g[j] = (d_h[j] + d_out(0)[j]) * (Real(1) - h[j] * h[j]);
      d_in(x)[j] += g[j];
      d_h[j] = 0;
    }
    la::ger_add(D, D, h_prev, g, d_in(w));
    la::gemv_add(D, D, in(w), g, d_h);
  }

  // A = diag(1 - h_t²) W^T
  template <class Real>
  static std::int64_t transition(Context<Real>& c, const Block<Real>& in, const Real* h_prev,
                                 std::vector<Real>& A) {
    const std::int64_t D = c.size('D');
    std::vector<Real> a(in(x), in(x) + D);
    la::gemv_t_add(D, D, in(w), h_prev, a.data());
    A.assign(D * D, Real(0));
    for (std::int64_t i = 0; i < D; ++i) {
      const Real h = fn::tanh(a[i]);
      for (std::int64_t j = 0; j < D; ++j) A[i * D + j] = (Real(1) - h * h) * in(w)[j * D + i];
    }
    return D;
  }
};

}  // namespace assay

ASSAY_OPERATION(Rnn, rnn)
