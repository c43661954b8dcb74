// Programs about M²RNN.
#pragma once

#include "proofs/programs/program.hpp"
#include "reference/recurrences/m2rnn.hpp"

namespace assay::proofs {

/// f = 0, q = k = e1, H_0 = 0: row 1 is the vector tanh RNN, the other rows stay 0. T, K, V.
/// Variant "f": f stays free.   [M2RNN v2, Thm. 1]
template <class Real>
Equations<Real> m2rnn_is_rnn(const Parameters& p, const Source<Real>& source) {
  const long T = size_of(p, "T"), K = size_of(p, "K"), V = size_of(p, "V");
  std::vector<Real> w = draw(source, "w", V * V), v = draw(source, "v", T * V), e1(K), zeros(V),
                    H(K * V), Z(K * V), y(V), h(V);
  e1[0] = 1;
  Real f = variant_of(p) == "f" ? source("f") : Real(0);
  Arena<Real> arena;
  Context<Real> c;
  c.K = K;
  c.V = V;
  c.arena = &arena;
  Equations<Real> equations;
  for (long t = 0; t < T; ++t) {
    const M2rnnCell<Real> x{e1.data(), e1.data(), v.data() + t * V, w.data(), &f, zeros.data()};
    m2rnn_cell(c, x, H.data(), y.data(), Z.data());
    std::vector<Real> a(v.begin() + t * V, v.begin() + (t + 1) * V), next(K * V);
    la::gemv_t_add(V, V, w.data(), h.data(), a.data());
    for (long j = 0; j < V; ++j) h[j] = fn::tanh(a[j]);
    for (long j = 0; j < V; ++j) next[j] = h[j];
    const std::string at = "t=" + std::to_string(t) + " ";
    compare(equations, at + "H", K * V, H.data(), next.data());
    compare(equations, at + "y", V, y.data(), h.data());
  }
  return equations;
}

struct RetainOverwritten : M2rnnRule {
  template <class Real>
  static void carry(const Context<Real>& c, const Real&, const Real* D, const Real* w, Real* R) {
    M2rnnRule::carry(c, Real(0), D, w, R);
  }
};

/// The three errors of Algorithm 2, each against the adjoint by the chain rule; T, K, V, variants
/// "future_dropped", "retain_overwritten", "recompute_stale".   [M2RNN v2, Algorithm 2]
template <class Real>
Equations<Real> m2rnn_algorithm2(const Parameters& p, const Source<Real>& source) {
  const long T = size_of(p, "T"), K = size_of(p, "K"), V = size_of(p, "V"), KV = K * V;
  std::vector<Real> q = draw(source, "q", T * K), k = draw(source, "k", T * K),
                    v = draw(source, "v", T * V), w = draw(source, "w", V * V),
                    f = draw(source, "f", T), h0 = draw(source, "h0", KV),
                    u = draw(source, "d_y", T * V), none(V);
  Arena<Real> arena;
  Context<Real> c;
  c.K = K;
  c.V = V;
  c.arena = &arena;
  const std::string variant = variant_of(p);
  const auto backward = [&](bool printed) {
    const auto cell = [&](std::vector<Real>& q_, std::vector<Real>& k_, std::vector<Real>& v_,
                          std::vector<Real>& w_, std::vector<Real>& f_, std::vector<Real>& r_,
                          long t) {
      return M2rnnCell<Real>{
          q_.data() + t * K, k_.data() + t * K, v_.data() + t * V, w_.data(), &f_[t], r_.data()};
    };
    std::vector<std::vector<Real>> before(T), after(T), Z(T);
    std::vector<Real> H = h0;
    for (long t = 0; t < T; ++t) {
      before[t] = printed && variant == "recompute_stale" ? h0 : H;
      H = before[t];
      Z[t].resize(KV);
      m2rnn_cell<Real>(c, cell(q, k, v, w, f, none, t), H.data(), nullptr, Z[t].data());
      after[t] = H;
      arena.release();
    }
    std::vector<Real> d_q(T * K), d_k(T * K), d_v(T * V), d_w(V * V), d_f(T), d_r(V), d_H(KV);
    for (long t = T; t-- > 0;) {
      if (printed && variant == "future_dropped") d_H.assign(KV, Real(0));
      const auto x = cell(q, k, v, w, f, none, t), d = cell(d_q, d_k, d_v, d_w, d_f, d_r, t);
      if (printed && variant == "retain_overwritten") {
        m2rnn_cell_adjoint<RetainOverwritten>(c, x, before[t].data(), after[t].data(), Z[t].data(),
                                              u.data() + t * V, d_H.data(), d);
      } else {
        m2rnn_cell_adjoint(c, x, before[t].data(), after[t].data(), Z[t].data(), u.data() + t * V,
                           d_H.data(), d);
      }
      arena.release();
    }
    std::vector<Real> all;
    for (const auto* part : {&d_q, &d_k, &d_v, &d_w, &d_f, &d_H}) {
      all.insert(all.end(), part->begin(), part->end());
    }
    return all;
  };
  const std::vector<Real> printed = backward(true), right = backward(false);
  Equations<Real> equations;
  compare(equations, "d_q d_k d_v d_w d_f d_h0 ", static_cast<long>(right.size()), printed.data(),
          right.data());
  return equations;
}

/// Row-wise Jacobian of a step at H = 0 with zero input: f I + (1 - f) W^T. V.
template <class Real>
Equations<Real> m2rnn_jacobian_at_zero(const Parameters& p, const Source<Real>& source) {
  const long V = size_of(p, "V");
  std::vector<Real> w = draw(source, "w", V * V), zero(V), d_h = draw(source, "d_h", V), none(V),
                    H(V), Z(V), d_w(V * V), d_v(V), d_r(V);
  Real f = source("f"), q = 0, k = 0, d_q = 0, d_k = 0, d_f = 0;
  Arena<Real> arena;
  Context<Real> c;
  c.K = 1;
  c.V = V;
  c.arena = &arena;
  const M2rnnCell<Real> x{&q, &k, zero.data(), w.data(), &f, none.data()};
  const M2rnnCell<Real> d{&d_q, &d_k, d_v.data(), d_w.data(), &d_f, d_r.data()};
  std::vector<Real> given = d_h, expected(V);
  m2rnn_cell<Real>(c, x, H.data(), nullptr, Z.data());
  m2rnn_cell_adjoint(c, x, zero.data(), H.data(), Z.data(), zero.data(), d_h.data(), d);
  for (long i = 0; i < V; ++i) {
    expected[i] = f * given[i];
    for (long j = 0; j < V; ++j) expected[i] += (Real(1) - f) * w[i * V + j] * given[j];
  }
  Equations<Real> equations;
  compare(equations, "H stays 0: H", V, H.data(), zero.data());
  compare(equations, "C", V, d_h.data(), expected.data());
  return equations;
}

/// d_v of one step: D^T k + w_residual u against the adjoint. V. Variant "no_residual": without the
/// direct path, as Algorithm 2 has it.
template <class Real>
Equations<Real> m2rnn_value_gradient(const Parameters& p, const Source<Real>& source) {
  const long V = size_of(p, "V");
  std::vector<Real> w = draw(source, "w", V * V), v = draw(source, "v", V),
                    H = draw(source, "h0", V), w_residual = draw(source, "w_residual", V),
                    u = draw(source, "d_y", V), Z(V), d_w(V * V), d_v(V), d_r(V), d_H(V);
  const std::vector<Real> H_prev = H;
  Real f = source("f"), q = source("q"), k = source("k"), d_q = 0, d_k = 0, d_f = 0;
  Arena<Real> arena;
  Context<Real> c;
  c.K = 1;
  c.V = V;
  c.arena = &arena;
  const M2rnnCell<Real> x{&q, &k, v.data(), w.data(), &f, w_residual.data()};
  const M2rnnCell<Real> d{&d_q, &d_k, d_v.data(), d_w.data(), &d_f, d_r.data()};
  m2rnn_cell<Real>(c, x, H.data(), nullptr, Z.data());
  m2rnn_cell_adjoint(c, x, H_prev.data(), H.data(), Z.data(), u.data(), d_H.data(), d);
  std::vector<Real> printed(V);
  for (long j = 0; j < V; ++j) {
    printed[j] = (Real(1) - f) * (q * u[j]) * (Real(1) - Z[j] * Z[j]) * k;
    if (variant_of(p) != "no_residual") printed[j] += w_residual[j] * u[j];
  }
  Equations<Real> equations;
  compare(equations, "d_v", V, printed.data(), d_v.data());
  return equations;
}

}  // namespace assay::proofs
