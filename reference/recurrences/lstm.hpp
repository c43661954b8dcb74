// LSTM, PyTorch's equations.   [PyTorch LSTM]
//
//   i, f, o = σ(W_i. x + b_i. + W_h. h' + b_h.)          g = tanh(W_ig x + b_ig + W_hg h' + b_hg)
//   c = f ∘ c' + i ∘ g                                   h = o ∘ tanh(c)          y = h
//
// State: h then c.
#pragma once

#include "reference/recurrences/cell_gates.hpp"

namespace assay {

struct Lstm : StepOperation<Lstm> {
  enum Input { x, w_ih, w_hh, b_ih, b_hh };

  static Schema schema(const Case*) {
    Schema s;
    s.op = "lstm";
    s.title = "LSTM (PyTorch's equations, gates in the order i, f, g, o)";
    s.source = "[PyTorch LSTM]";
    s.inputs = {{"x", "BTHE", Role::token, "input", {}},
                cell_weight("w_ih", "HGDE", "input weights"),
                cell_weight("w_hh", "HGDD", "recurrent weights"),
                cell_bias("b_ih", "input biases"),
                cell_bias("b_hh", "recurrent biases"),
                {"h0", "BHD", Role::state, "initial hidden state", {}, true},
                {"c0", "BHD", Role::state, "initial cell state", {}, true}};
    s.outputs = {{"y", "BTHD", "hidden state at every step"},
                 {"h_final", "BHD", "hidden state after the last step", true},
                 {"c_final", "BHD", "cell state after the last step", true}};
    s.fixed_axes = {{'G', 4}};
    return s;
  }

  /// i, f, g, o and tanh(c), [5,D].
  template <class Real>
  static std::int64_t saved_size(const Context<Real>& c) {
    return 5 * c.size('D');
  }

  template <class Real>
  static void step(Context<Real>& ctx, const Block<Real>& in, Real* state, const Block<Real>& out,
                   Real* saved) {
    const std::int64_t D = ctx.size('D'), E = ctx.size('E');
    Real *h = state, *c = state + D;
    Real *a = ctx.arena->zeros(4 * D), *u = ctx.arena->zeros(4 * D);
    cell_affine(4, D, E, in(w_ih), in(b_ih), in(x), a);
    cell_affine(4, D, D, in(w_hh), in(b_hh), h, u);
    Real *i = saved, *f = saved + D, *g = saved + 2 * D, *o = saved + 3 * D, *t = saved + 4 * D;
    for (std::int64_t j = 0; j < D; ++j) {
      i[j] = fn::sigmoid(a[j] + u[j]);
      f[j] = fn::sigmoid(a[D + j] + u[D + j]);
      g[j] = fn::tanh(a[2 * D + j] + u[2 * D + j]);
      o[j] = fn::sigmoid(a[3 * D + j] + u[3 * D + j]);
      c[j] = f[j] * c[j] + i[j] * g[j];
      t[j] = fn::tanh(c[j]);
      h[j] = o[j] * t[j];
      if (ctx.readout) out(0)[j] = h[j];
    }
  }

  // e = d_h + d_y     d_o = e t o(1-o)     d_c <- d_c + e o (1-t²)
  // d_i = d_c g i(1-i)     d_f = d_c c' f(1-f)     d_g = d_c i (1-g²)     d_c' = d_c f
  template <class Real>
  static void adjoint_step(Context<Real>& ctx, const Block<Real>& in, const Real* state_prev,
                           const Real*, const Real* saved, const Block<Real>& d_out, Real* d_state,
                           const Block<Real>& d_in) {
    const std::int64_t D = ctx.size('D'), E = ctx.size('E');
    const Real *h_prev = state_prev, *c_prev = state_prev + D;
    Real *d_h = d_state, *d_c = d_state + D;
    const Real *i = saved, *f = i + D, *g = f + D, *o = g + D, *t = o + D;
    Real* d_a = ctx.arena->zeros(4 * D);
    for (std::int64_t j = 0; j < D; ++j) {
      const Real e = d_h[j] + d_out(0)[j];
      d_a[3 * D + j] = e * t[j] * o[j] * (Real(1) - o[j]);
      d_c[j] += e * o[j] * (Real(1) - t[j] * t[j]);
      d_a[j] = d_c[j] * g[j] * i[j] * (Real(1) - i[j]);
      d_a[D + j] = d_c[j] * c_prev[j] * f[j] * (Real(1) - f[j]);
      d_a[2 * D + j] = d_c[j] * i[j] * (Real(1) - g[j] * g[j]);
      d_c[j] *= f[j];
      d_h[j] = 0;
    }
    cell_affine_adjoint(4, D, E, in(w_ih), in(x), d_a, d_in(w_ih), d_in(b_ih), d_in(x));
    cell_affine_adjoint(4, D, D, in(w_hh), h_prev, d_a, d_in(w_hh), d_in(b_hh), d_h);
  }

  // On the stacked (h, c): the rows of c, diag(slopes) W_h. and diag(f); those of h, o (1-t²) times
  // the rows of c, and t o(1-o) W_ho.
  template <class Real>
  static std::int64_t transition(Context<Real>& ctx, const Block<Real>& in, const Real* state_prev,
                                 std::vector<Real>& A) {
    const std::int64_t D = ctx.size('D'), n = 2 * D;
    std::vector<Real> state(state_prev, state_prev + n), saved(5 * D);
    const bool readout = ctx.readout;
    ctx.readout = false;
    step(ctx, in, state.data(), in, saved.data());
    ctx.readout = readout;
    const Real *i = saved.data(), *f = i + D, *g = f + D, *o = g + D, *t = o + D;
    const Real *c_prev = state_prev + D, *W = in(w_hh);
    A.assign(n * n, Real(0));
    for (std::int64_t j = 0; j < D; ++j) {
      const Real by_i = g[j] * i[j] * (Real(1) - i[j]);
      const Real by_f = c_prev[j] * f[j] * (Real(1) - f[j]);
      const Real by_g = i[j] * (Real(1) - g[j] * g[j]);
      const Real by_o = t[j] * o[j] * (Real(1) - o[j]);
      const Real by_c = o[j] * (Real(1) - t[j] * t[j]);
      for (std::int64_t l = 0; l < D; ++l) {
        Real& d_c = A[(D + j) * n + l];
        d_c = by_i * W[j * D + l] + by_f * W[(D + j) * D + l] + by_g * W[(2 * D + j) * D + l];
        A[j * n + l] = by_c * d_c + by_o * W[(3 * D + j) * D + l];
      }
      A[(D + j) * n + D + j] = f[j];
      A[j * n + D + j] = by_c * f[j];
    }
    return n;
  }
};

}  // namespace assay

ASSAY_OPERATION(Lstm, lstm)
