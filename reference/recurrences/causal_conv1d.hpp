// Causal depthwise convolution over time, with optional SiLU.   [M2RNN v2, Eqs. 14-16]
//
//   a_t[d] = Σ_{j<W} weight[d,j] x_{t-(W-1)+j}[d] + bias[d]          y = a, or a σ(a)
//
// State: the window of the last W-1 inputs, oldest first, [W-1,D].
#pragma once

#include "reference/recurrences/decay_gate.hpp"
#include "reference/recurrences/step_recurrence.hpp"

namespace assay {

/// a [D] = window and x against weight [D,W], then the window moves on by x.
template <class Real>
void conv_step(std::int64_t D, std::int64_t W, const Real* weight, const Real* x, Real* window,
               Real* a) {
  for (std::int64_t d = 0; d < D; ++d) {
    for (std::int64_t j = 0; j + 1 < W; ++j) {
      fn::mul_add(a[d], weight[d * W + j], window[j * D + d]);
    }
    fn::mul_add(a[d], weight[d * W + W - 1], x[d]);
    for (std::int64_t j = 0; j + 2 < W; ++j) window[j * D + d] = window[(j + 1) * D + d];
    if (W > 1) window[(W - 2) * D + d] = x[d];
  }
}

/// d_a [D] in; d_window: cotangent of the new window in, of the old one out; d_weight, d_x added
/// to.
template <class Real>
void conv_adjoint(std::int64_t D, std::int64_t W, const Real* weight, const Real* x,
                  const Real* window_prev, const Real* d_a, Real* d_window, Real* d_weight,
                  Real* d_x) {
  for (std::int64_t d = 0; d < D; ++d) {
    if (W > 1) d_x[d] += d_window[(W - 2) * D + d];
    fn::mul_add(d_x[d], weight[d * W + W - 1], d_a[d]);
    fn::mul_add(d_weight[d * W + W - 1], x[d], d_a[d]);
    for (std::int64_t j = W - 1; j-- > 0;) {
      Real& d_old = d_window[j * D + d];
      d_old = j > 0 ? d_window[(j - 1) * D + d] : Real(0);
      fn::mul_add(d_old, weight[d * W + j], d_a[d]);
      fn::mul_add(d_weight[d * W + j], window_prev[j * D + d], d_a[d]);
    }
  }
}

struct CausalConv1d : StepOperation<CausalConv1d> {
  enum Input { x, weight, bias };

  static Schema schema(const Case*) {
    Schema s;
    s.op = "causal_conv1d";
    s.title = "causal depthwise convolution, optional SiLU";
    s.source = "[M2RNN v2, Eqs. 14-16]";
    s.inputs = {
        {"x", "BTD", Role::token, "input", {}},
        {"weight", "DW", Role::param, "taps, the current input last", {}},
        {"bias", "D", Role::param, "offset", {}, true},
        {"x0", "BwD", Role::state, "the W-1 inputs before the first, oldest first", {}, true}};
    s.outputs = {{"y", "BTD", "filtered input"},
                 {"x_final", "BwD", "the last W-1 inputs, oldest first", true}};
    s.options = {{"silu", OptionType::boolean, OptionValue(false), "apply SiLU"}};
    s.derived = {{'w', 'W', -1}};
    return s;
  }

  /// a_t.
  template <class Real>
  static std::int64_t saved_size(const Context<Real>& c) {
    return c.size('D');
  }

  template <class Real>
  static void step(Context<Real>& c, const Block<Real>& in, Real* window, const Block<Real>& out,
                   Real* a) {
    const std::int64_t D = c.size('D');
    for (std::int64_t d = 0; d < D; ++d) a[d] = in(bias)[d];
    conv_step(D, c.size('W'), in(weight), in(x), window, a);
    const bool with_silu = option_bool(*c.problem, "silu");
    for (std::int64_t d = 0; c.readout && d < D; ++d) out(0)[d] = with_silu ? silu(a[d]) : a[d];
  }

  template <class Real>
  static void adjoint_step(Context<Real>& c, const Block<Real>& in, const Real* window_prev,
                           const Real*, const Real* a, const Block<Real>& d_out, Real* d_window,
                           const Block<Real>& d_in) {
    const std::int64_t D = c.size('D');
    const bool with_silu = option_bool(*c.problem, "silu");
    Real* d_a = c.arena->zeros(D);
    for (std::int64_t d = 0; d < D; ++d) {
      d_a[d] = with_silu ? d_out(0)[d] * silu_slope(a[d]) : d_out(0)[d];
      d_in(bias)[d] += d_a[d];
    }
    conv_adjoint(D, c.size('W'), in(weight), in(x), window_prev, d_a, d_window, d_in(weight),
                 d_in(x));
  }
};

}  // namespace assay

ASSAY_OPERATION(CausalConv1d, causal_conv1d)
