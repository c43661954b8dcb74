// GRU, PyTorch's equations.   [PyTorch GRU]
//
//   r = σ(W_ir x + b_ir + W_hr h' + b_hr)
//   z = σ(W_iz x + b_iz + W_hz h' + b_hz)
//   n = tanh(W_in x + b_in + r ∘ (W_hn h' + b_hn))
//   h = (1 - z) ∘ n + z ∘ h'                              y = h
#pragma once

#include "reference/recurrences/cell_gates.hpp"

namespace assay {

struct Gru : StepOperation<Gru> {
  enum Input { x, w_ih, w_hh, b_ih, b_hh };

  static Schema schema(const Case*) {
    Schema s;
    s.op = "gru";
    s.title = "GRU (PyTorch's equations, gates in the order r, z, n)";
    s.source = "[PyTorch GRU]";
    s.inputs = {{"x", "BTHE", Role::token, "input", {}},
                cell_weight("w_ih", "HGDE", "input weights"),
                cell_weight("w_hh", "HGDD", "recurrent weights"),
                cell_bias("b_ih", "input biases"),
                cell_bias("b_hh", "recurrent biases"),
                {"h0", "BHD", Role::state, "initial state", {}, true}};
    s.outputs = {{"y", "BTHD", "state at every step"},
                 {"h_final", "BHD", "state after the last step", true}};
    s.fixed_axes = {{'G', 3}};
    return s;
  }

  /// r, z, n, and the recurrent part of n before r, [4,D].
  template <class Real>
  static std::int64_t saved_size(const Context<Real>& c) {
    return 4 * c.size('D');
  }

  template <class Real>
  static void step(Context<Real>& c, const Block<Real>& in, Real* h, const Block<Real>& out,
                   Real* saved) {
    const std::int64_t D = c.size('D'), E = c.size('E');
    Real *a = c.arena->zeros(3 * D), *u = c.arena->zeros(3 * D);
    cell_affine(3, D, E, in(w_ih), in(b_ih), in(x), a);
    cell_affine(3, D, D, in(w_hh), in(b_hh), h, u);
    Real *r = saved, *z = saved + D, *n = saved + 2 * D, *u_n = saved + 3 * D;
    for (std::int64_t j = 0; j < D; ++j) {
      r[j] = fn::sigmoid(a[j] + u[j]);
      z[j] = fn::sigmoid(a[D + j] + u[D + j]);
      u_n[j] = u[2 * D + j];
      n[j] = fn::tanh(a[2 * D + j] + r[j] * u_n[j]);
      h[j] = (Real(1) - z[j]) * n[j] + z[j] * h[j];
      if (c.readout) out(0)[j] = h[j];
    }
  }

  // g = d_h + d_y     d_n = g (1-z)(1-n²)     d_z = g (h'-n) z(1-z)     d_r = d_n u_n r(1-r)
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Block<Real>& in, const Real* h_prev, const Real*,
                           const Real* saved, const Block<Real>& d_out, Real* d_h,
                           const Block<Real>& d_in) {
    const std::int64_t D = c.size('D'), E = c.size('E');
    const Real *r = saved, *z = saved + D, *n = saved + 2 * D, *u_n = saved + 3 * D;
    Real *d_a = c.arena->zeros(3 * D), *d_u = c.arena->zeros(3 * D);
    for (std::int64_t j = 0; j < D; ++j) {
      const Real g = d_h[j] + d_out(0)[j];
      const Real d_n = g * (Real(1) - z[j]) * (Real(1) - n[j] * n[j]);
      d_a[j] = d_u[j] = d_n * u_n[j] * r[j] * (Real(1) - r[j]);
      d_a[D + j] = d_u[D + j] = g * (h_prev[j] - n[j]) * z[j] * (Real(1) - z[j]);
      d_a[2 * D + j] = d_n;
      d_u[2 * D + j] = d_n * r[j];
      d_h[j] = g * z[j];
    }
    cell_affine_adjoint(3, D, E, in(w_ih), in(x), d_a, d_in(w_ih), d_in(b_ih), d_in(x));
    cell_affine_adjoint(3, D, D, in(w_hh), h_prev, d_u, d_in(w_hh), d_in(b_hh), d_h);
  }

  // A = diag(z) + diag(slopes) W_h.: the adjoint above, read as a map of d_h'.
  template <class Real>
  static std::int64_t transition(Context<Real>& c, const Block<Real>& in, const Real* h_prev,
                                 std::vector<Real>& A) {
    const std::int64_t D = c.size('D');
    std::vector<Real> h(h_prev, h_prev + D), saved(4 * D);
    const bool readout = c.readout;
    c.readout = false;
    step(c, in, h.data(), in, saved.data());
    c.readout = readout;
    const Real *r = saved.data(), *z = r + D, *n = z + D, *u_n = n + D;
    A.assign(D * D, Real(0));
    for (std::int64_t i = 0; i < D; ++i) {
      const Real d_n = (Real(1) - z[i]) * (Real(1) - n[i] * n[i]);
      const Real by_r = d_n * u_n[i] * r[i] * (Real(1) - r[i]);
      const Real by_z = (h_prev[i] - n[i]) * z[i] * (Real(1) - z[i]);
      for (std::int64_t j = 0; j < D; ++j) {
        A[i * D + j] = by_r * in(w_hh)[i * D + j] + by_z * in(w_hh)[(D + i) * D + j] +
                       d_n * r[i] * in(w_hh)[(2 * D + i) * D + j];
      }
      A[i * D + i] += z[i];
    }
    return D;
  }
};

}  // namespace assay

ASSAY_OPERATION(Gru, gru)
