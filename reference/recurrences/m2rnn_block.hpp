// The M²RNN block: projections, convolutions, recurrence, output gate, norm.
//                                                             [M2RNN v2, Eqs. 14-23]
//
//   q, k, v = SiLU(conv(x W_q)), SiLU(conv(x W_k)), SiLU(conv(x W_v))
//   f       = exp(-a softplus(x W_f + b))       g = SiLU(x W_g)        (neither is convolved)
//   y       = m2rnn(q, k, v, w, f, w_residual)
//   o       = RMSNorm(y ∘ g) W_o                (gate first, norm second, over all N V channels)
//
// State: H of all heads [N,K,V]; hidden behind it the windows of the three convolutions.
#pragma once

#include <numeric>

#include "reference/recurrences/causal_conv1d.hpp"
#include "reference/recurrences/m2rnn.hpp"
#include "reference/recurrences/rmsnorm.hpp"

namespace assay {

struct M2rnnBlock : StepOperation<M2rnnBlock> {
  enum Input {
    x,
    w_q,
    w_k,
    w_v,
    w_f,
    w_g,
    conv_q,
    conv_k,
    conv_v,
    a,
    b,
    w,
    w_residual,
    norm_weight,
    w_o
  };

  static Schema schema(const Case*) {
    const auto param = [](const char* name, const char* axes, const char* doc) {
      return InputSpec{name, axes, Role::param, doc, {}};
    };
    Schema s;
    s.op = "m2rnn_block";
    s.title = "whole M2RNN block: projections, convolutions, recurrence, gate, norm";
    s.source = "[M2RNN v2, Eqs. 14-23]";
    s.head_axis = 'N';
    s.heads_are_independent = false;
    s.inputs = {{"x", "BTE", Role::token, "input", {}},
                param("w_q", "ENK", "query projection"),
                param("w_k", "ENK", "key projection"),
                param("w_v", "ENV", "value projection"),
                param("w_f", "EN", "forget-gate projection"),
                param("w_g", "ENV", "output-gate projection"),
                param("conv_q", "NKW", "taps on the queries"),
                param("conv_k", "NKW", "taps on the keys"),
                param("conv_v", "NVW", "taps on the values"),
                {"a", "N", Role::param, "decay scale of the forget gate", {0, kInf}},
                param("b", "N", "offset of the forget gate"),
                param("w", "NVV", "state transition matrix"),
                {"w_residual", "NV", Role::param, "direct path from v to y", {}, true},
                {"norm_weight", "NV", Role::param, "scale of the norm (default 1)", {}, true, 1},
                param("w_o", "NVE", "output projection"),
                {"h0", "BNKV", Role::state, "initial state", {}, true}};
    s.outputs = {{"o", "BTE", "output"}, {"h_final", "BNKV", "state after the last step", true}};
    s.options = {rms_eps_option()};
    return s;
  }

  static constexpr Input kProjection[3] = {w_q, w_k, w_v}, kTaps[3] = {conv_q, conv_k, conv_v};

  /// One of the three convolved streams q, k, v. A projection and its taps may be shared by
  /// different numbers of heads; `heads` is the least number that both divide.
  struct Stream {
    std::int64_t width, projected, tapped, heads;
    std::int64_t channels() const { return heads * width; }
  };

  /// Head counts of the shared tensors, and where everything lies.
  struct Plan {
    std::int64_t E, N, K, V, W, Nf, Ng, Na, Nb, Nw, Nr, Nn, No;
    Stream stream[3];
    std::int64_t all_channels() const {
      return stream[0].channels() + stream[1].channels() + stream[2].channels();
    }
    std::int64_t all_projected() const {
      std::int64_t n = 0;
      for (const Stream& s : stream) n += s.projected * s.width;
      return n;
    }
  };

  template <class Real>
  static Plan plan(const Context<Real>& c) {
    const ValidCase& v = *c.problem;
    const std::int64_t N = v.sizes['N'], K = v.sizes['K'], V = v.sizes['V'];
    const auto heads = [&](const char* name, std::size_t axis) {
      const auto found = v.data.tensors.find(name);
      return found == v.data.tensors.end() ? N : found->second.shape[axis];
    };
    const auto stream = [&](std::int64_t width, const char* weight, const char* taps) {
      const std::int64_t projected = heads(weight, 1), tapped = heads(taps, 0);
      return Stream{width, projected, tapped, std::lcm(projected, tapped)};
    };
    return {v.sizes['E'],
            N,
            K,
            V,
            v.sizes['W'],
            heads("w_f", 1),
            heads("w_g", 1),
            heads("a", 0),
            heads("b", 0),
            heads("w", 0),
            heads("w_residual", 0),
            heads("norm_weight", 0),
            heads("w_o", 0),
            {stream(K, "w_q", "conv_q"), stream(K, "w_k", "conv_k"), stream(V, "w_v", "conv_v")}};
  }

  template <class Real>
  static std::int64_t hidden_state_size(const Context<Real>& c) {
    const Plan p = plan(c);
    return (p.W - 1) * p.all_channels();
  }

  /// Convolved pre-activations and their SiLU, projected inputs of the convolutions, the
  /// pre-activation of g, g, f, Z, y, y ∘ g, s.
  template <class Real>
  struct Saved {
    Real *u[3], *pre[3], *act[3], *f_pre, *f, *g_pre, *g, *Z, *y, *gated, *s;
    Saved(const Plan& p, Real* base) {
      const auto take = [&](std::int64_t n) {
        Real* at = base;
        base += n;
        return at;
      };
      for (int i = 0; i < 3; ++i) {
        u[i] = take(p.stream[i].projected * p.stream[i].width);
        pre[i] = take(p.stream[i].channels());
        act[i] = take(p.stream[i].channels());
      }
      f_pre = take(p.N);
      f = take(p.N);
      g_pre = take(p.Ng * p.V);
      g = take(p.N * p.V);
      Z = take(p.N * p.K * p.V);
      y = take(p.N * p.V);
      gated = take(p.N * p.V);
      s = take(1);
    }
  };

  template <class Real>
  static std::int64_t saved_size(const Context<Real>& c) {
    const Plan p = plan(c);
    return p.all_projected() + 2 * p.all_channels() + 2 * p.N + p.Ng * p.V + 3 * p.N * p.V +
           p.N * p.K * p.V + 1;
  }

  template <class Real>
  static const Real* share(const Real* data, std::int64_t n, std::int64_t N, std::int64_t heads,
                           std::int64_t width) {
    return data + n / (N / heads) * width;
  }
  template <class Real>
  static Real* share(Real* data, std::int64_t n, std::int64_t N, std::int64_t heads,
                     std::int64_t width) {
    return data + n / (N / heads) * width;
  }

  // The inputs of head n's cell from activations and parameters (or the cotangents of these).
  template <class Real>
  static M2rnnCell<Real> cell(const Plan& p, std::int64_t n, Real* const* act, Real* f,
                              const Block<Real>& in) {
    return {share(act[0], n, p.N, p.stream[0].heads, p.K),
            share(act[1], n, p.N, p.stream[1].heads, p.K),
            share(act[2], n, p.N, p.stream[2].heads, p.V),
            share(in(w), n, p.N, p.Nw, p.V * p.V),
            f + n,
            share(in(w_residual), n, p.N, p.Nr, p.V)};
  }

  /// What enters the norm: y ∘ g. What leaves it goes to W_o as it is.
  template <class Real>
  static Real before_norm(const Real& y, const Real& g) {
    return y * g;
  }
  template <class Real>
  static void after_norm(std::int64_t, const Real* /*g*/, Real* /*normed*/) {}

  /// Rule supplies `gates`, `before_norm` and `after_norm`.
  template <class Rule = M2rnnBlock, class Real>
  static void step(Context<Real>& c, const Block<Real>& in, Real* H, const Block<Real>& out,
                   Real* saved) {
    const Plan p = plan(c);
    const Saved<Real> z(p, saved);
    Real* window = H + p.N * p.K * p.V;
    for (int i = 0; i < 3; ++i) {
      const Stream& stream = p.stream[i];
      const std::int64_t d = stream.width, projected = stream.projected * d;
      for (std::int64_t j = 0; j < projected; ++j) z.u[i][j] = 0;
      for (std::int64_t j = 0; j < stream.channels(); ++j) z.pre[i][j] = 0;
      la::gemv_t_add(p.E, projected, in(kProjection[i]), in(x), z.u[i]);
      for (std::int64_t h = 0; h < stream.heads; ++h) {
        conv_step(d, p.W, share(in(kTaps[i]), h, stream.heads, stream.tapped, d * p.W),
                  share(z.u[i], h, stream.heads, stream.projected, d), window, z.pre[i] + h * d);
        window += (p.W - 1) * d;
      }
      for (std::int64_t j = 0; j < stream.channels(); ++j) z.act[i][j] = silu(z.pre[i][j]);
    }
    Rule::gates(c, p, in, z);
    Real sum = 0;
    for (std::int64_t n = 0; n < p.N; ++n) {
      Real* y = z.y + n * p.V;
      m2rnn_cell(c, cell(p, n, z.act, z.f, in), H + n * p.K * p.V, y, z.Z + n * p.K * p.V);
      for (std::int64_t j = 0; j < p.V; ++j) {
        Real& gated = z.gated[n * p.V + j];
        gated = Rule::before_norm(y[j], z.g[n * p.V + j]);
        fn::mul_add(sum, gated, gated);
      }
    }
    *z.s = rms_scale(c, sum, p.N * p.V);
    if (!c.readout) return;
    for (std::int64_t e = 0; e < p.E; ++e) out(0)[e] = 0;
    Real* normed = c.arena->zeros(p.V);
    for (std::int64_t n = 0; n < p.N; ++n) {
      rms_forward(p.V, z.gated + n * p.V, share(in(norm_weight), n, p.N, p.Nn, p.V), *z.s, normed);
      Rule::after_norm(p.V, z.g + n * p.V, normed);
      la::gemv_t_add(p.V, p.E, share(in(w_o), n, p.N, p.No, p.V * p.E), normed, out(0));
    }
  }

  // f_n = exp(-a softplus(x W_f + b)),  g = SiLU(x W_g)
  template <class Real>
  static void gates(Context<Real>& c, const Plan& p, const Block<Real>& in, const Saved<Real>& z) {
    Real* x_f = c.arena->zeros(p.Nf);
    la::gemv_t_add(p.E, p.Nf, in(w_f), in(x), x_f);
    for (std::int64_t j = 0; j < p.Ng * p.V; ++j) z.g_pre[j] = 0;
    la::gemv_t_add(p.E, p.Ng * p.V, in(w_g), in(x), z.g_pre);
    for (std::int64_t n = 0; n < p.N; ++n) {
      z.f_pre[n] = *share(x_f, n, p.N, p.Nf, 1);
      z.f[n] = fn::exp(decay_exponent(z.f_pre[n], *share(in(a), n, p.N, p.Na, 1),
                                      *share(in(b), n, p.N, p.Nb, 1)));
      const Real* pre = share(z.g_pre, n, p.N, p.Ng, p.V);
      for (std::int64_t j = 0; j < p.V; ++j) z.g[n * p.V + j] = silu(pre[j]);
    }
  }

  // The chain backward: W_o, norm, gate, recurrence, forget gate, SiLU, convolutions, projections.
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Block<Real>& in, const Real* H_prev,
                           const Real* H, const Real* saved, const Block<Real>& d_out, Real* d_H,
                           const Block<Real>& d_in) {
    const Plan p = plan(c);
    const Saved<Real> z(p, const_cast<Real*>(saved));
    const std::int64_t KV = p.K * p.V, NV = p.N * p.V;
    Real *d_normed = c.arena->zeros(NV), *d_gated = c.arena->zeros(NV), *d_y = c.arena->zeros(NV);
    Real *d_f = c.arena->zeros(p.N), *d_g_pre = c.arena->zeros(p.Ng * p.V);
    Real* d_act[3];
    for (int i = 0; i < 3; ++i) d_act[i] = c.arena->zeros(p.stream[i].channels());

    Real r = 0, *normed = c.arena->zeros(p.V);
    for (std::int64_t n = 0; n < p.N; ++n) {
      const std::int64_t at = n * p.V;
      const Real* weight = share(in(norm_weight), n, p.N, p.Nn, p.V);
      rms_forward(p.V, z.gated + at, weight, *z.s, normed);
      la::ger_add(p.V, p.E, normed, d_out(0), share(d_in(w_o), n, p.N, p.No, p.V * p.E));
      la::gemv_add(p.V, p.E, share(in(w_o), n, p.N, p.No, p.V * p.E), d_out(0), d_normed + at);
      r += rms_inner(p.V, z.gated + at, weight, *z.s, d_normed + at,
                     share(d_in(norm_weight), n, p.N, p.Nn, p.V));
    }
    for (std::int64_t n = 0; n < p.N; ++n) {
      const std::int64_t at = n * p.V;
      rms_backward(p.V, NV, z.gated + at, share(in(norm_weight), n, p.N, p.Nn, p.V), *z.s, r,
                   d_normed + at, d_gated + at);
      const Real* g_pre = share(z.g_pre, n, p.N, p.Ng, p.V);
      Real* d_pre = share(d_g_pre, n, p.N, p.Ng, p.V);
      for (std::int64_t j = 0; j < p.V; ++j) {
        d_y[at + j] = d_gated[at + j] * z.g[at + j];
        fn::mul_add(d_pre[j], d_gated[at + j] * z.y[at + j], silu_slope(g_pre[j]));
      }
      const std::size_t mark = c.arena->mark();
      m2rnn_cell_adjoint(c, cell(p, n, z.act, z.f, in), H_prev + n * KV, H + n * KV, z.Z + n * KV,
                         d_y + at, d_H + n * KV, cell(p, n, d_act, d_f, d_in));
      c.arena->release_to(mark);
    }
    input_adjoint(c, p, in, H_prev, z, d_act, d_f, d_g_pre, d_H, d_in);
  }

  template <class Real>
  static void input_adjoint(Context<Real>& c, const Plan& p, const Block<Real>& in,
                            const Real* state_prev, const Saved<Real>& z, Real* const* d_act,
                            const Real* d_f, const Real* d_g_pre, Real* d_state,
                            const Block<Real>& d_in) {
    Real* d_x_f = c.arena->zeros(p.Nf);
    for (std::int64_t n = 0; n < p.N; ++n) {
      const Real d_exponent = z.f[n] * d_f[n];
      decay_exponent_adjoint(z.f_pre[n], *share(in(a), n, p.N, p.Na, 1),
                             *share(in(b), n, p.N, p.Nb, 1), d_exponent,
                             *share(d_x_f, n, p.N, p.Nf, 1), *share(d_in(a), n, p.N, p.Na, 1),
                             *share(d_in(b), n, p.N, p.Nb, 1));
    }
    project_adjoint(p.E, p.Nf, in(w_f), in(x), d_x_f, d_in(w_f), d_in(x));
    project_adjoint(p.E, p.Ng * p.V, in(w_g), in(x), d_g_pre, d_in(w_g), d_in(x));
    std::int64_t window = p.N * p.K * p.V;
    for (int i = 0; i < 3; ++i) {
      const Stream& stream = p.stream[i];
      const std::int64_t d = stream.width, projected = stream.projected * d;
      Real *d_pre = c.arena->zeros(stream.channels()), *d_u = c.arena->zeros(projected);
      for (std::int64_t j = 0; j < stream.channels(); ++j) {
        d_pre[j] = d_act[i][j] * silu_slope(z.pre[i][j]);
      }
      for (std::int64_t h = 0; h < stream.heads; ++h) {
        conv_adjoint(d, p.W, share(in(kTaps[i]), h, stream.heads, stream.tapped, d * p.W),
                     share(z.u[i], h, stream.heads, stream.projected, d), state_prev + window,
                     d_pre + h * d, d_state + window,
                     share(d_in(kTaps[i]), h, stream.heads, stream.tapped, d * p.W),
                     share(d_u, h, stream.heads, stream.projected, d));
        window += (p.W - 1) * d;
      }
      project_adjoint(p.E, projected, in(kProjection[i]), in(x), d_u, d_in(kProjection[i]),
                      d_in(x));
    }
  }

  // u = x W:  d_W += x d_u^T,  d_x += W d_u
  template <class Real>
  static void project_adjoint(std::int64_t E, std::int64_t n, const Real* W, const Real* x_t,
                              const Real* d_u, Real* d_W, Real* d_x) {
    la::ger_add(E, n, x_t, d_u, d_W);
    la::gemv_add(E, n, W, d_u, d_x);
  }
};

}  // namespace assay

ASSAY_OPERATION(M2rnnBlock, m2rnn_block)
