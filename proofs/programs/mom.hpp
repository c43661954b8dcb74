// Programs about mixtures of memories, over the gated delta rule as update. The route of a token is
// a parameter: "01,12,02" selects memories 0 and 1 for the first token, and so on.
#pragma once

#include "proofs/programs/program.hpp"
#include "reference/recurrences/gdn.hpp"

namespace assay::proofs {

template <class Real>
struct MomRun {
  std::vector<std::vector<long>> route;
  long T, M, K, V;
  std::vector<Real> q, k, v, alpha, beta, g, S;

  MomRun(const Parameters& p, const Source<Real>& source)
      : M(size_of(p, "M")), K(size_of(p, "K")), V(size_of(p, "V")) {
    route.emplace_back();
    for (const char c : p.at("route")) {
      if (c == ',') {
        route.emplace_back();
      } else if (c >= '0' && c - '0' < M) {
        route.back().push_back(c - '0');
      } else {
        throw std::invalid_argument("program: route " + p.at("route"));
      }
    }
    T = static_cast<long>(route.size());
    S = draw(source, "s0", M * K * V);
    q = draw(source, "q", T * K);
    k = draw(source, "k", T * M * K);
    v = draw(source, "v", T * M * V);
    alpha = draw(source, "alpha", T * M);
    beta = draw(source, "beta", T * M);
    g = draw(source, "g", T * M);
  }
  void update(long t, long m, const Real& weight = Real(1)) {
    Arena<Real> arena;
    Context<Real> c;
    c.K = K;
    c.V = V;
    c.arena = &arena;
    std::vector<Real> written(v.begin() + (t * M + m) * V, v.begin() + (t * M + m + 1) * V), r(V);
    for (Real& x : written) x *= weight;
    Fields<Real> x{k.data() + (t * M + m) * K, written.data(), &alpha[t * M + m], &beta[t * M + m]};
    Gdn::step(c, x, S.data() + m * K * V, r.data());
  }
  /// S_m^T q_t [V]
  std::vector<Real> read(long t, long m) const {
    std::vector<Real> o(V);
    la::gemv_t_add(K, V, S.data() + m * K * V, q.data() + t * K, o.data());
    return o;
  }
  /// The definition, token by token: o [T,V].
  std::vector<Real> by_token() {
    std::vector<Real> o(T * V);
    for (long t = 0; t < T; ++t) {
      for (const long m : route[t]) {
        update(t, m);
        const std::vector<Real> y = read(t, m);
        for (long j = 0; j < V; ++j) fn::mul_add(o[t * V + j], g[t * M + m], y[j]);
      }
    }
    return o;
  }
};

/// Dispatch into one segment a memory, the recurrence over each segment, gather back. Variant
/// "reversed": the tokens of a segment in reverse order.
template <class Real>
Equations<Real> mom_packing(const Parameters& p, const Source<Real>& source) {
  MomRun<Real> run(p, source), packed = run;
  const std::vector<Real> o = run.by_token();
  std::vector<Real> gathered(o.size());
  for (long m = 0; m < packed.M; ++m) {
    std::vector<long> tokens;
    for (long t = 0; t < packed.T; ++t) {
      for (const long chosen : packed.route[t]) {
        if (chosen == m) tokens.push_back(t);
      }
    }
    if (variant_of(p) == "reversed") tokens = {tokens.rbegin(), tokens.rend()};
    for (const long t : tokens) {
      packed.update(t, m);
      const std::vector<Real> y = packed.read(t, m);
      for (long j = 0; j < packed.V; ++j) {
        fn::mul_add(gathered[t * packed.V + j], packed.g[t * packed.M + m], y[j]);
      }
    }
  }
  Equations<Real> equations;
  compare(equations, "o", run.T * run.V, gathered.data(), o.data());
  compare(equations, "s_final", run.M * run.K * run.V, packed.S.data(), run.S.data());
  return equations;
}

/// Reading the mixture of states against mixing the reads. Variant "square": the read is squared
/// elementwise, a non-linear one.
template <class Real>
Equations<Real> mom_mix(const Parameters& p, const Source<Real>& source) {
  MomRun<Real> run(p, source);
  const bool square = variant_of(p) == "square";
  Equations<Real> equations;
  for (long t = 0; t < run.T; ++t) {
    std::vector<Real> mixture(run.K * run.V), of_mixture(run.V), mixed(run.V);
    for (const long m : run.route[t]) {
      const Real& g = run.g[t * run.M + m];
      run.update(t, m);
      la::axpy(run.K * run.V, g, run.S.data() + m * run.K * run.V, mixture.data());
      const std::vector<Real> y = run.read(t, m);
      for (long j = 0; j < run.V; ++j) mixed[j] += g * (square ? y[j] * y[j] : y[j]);
    }
    la::gemv_t_add(run.K, run.V, mixture.data(), run.q.data() + t * run.K, of_mixture.data());
    for (Real& y : of_mixture) y = square ? y * y : y;
    compare(equations, "t=" + std::to_string(t) + " o", run.V, of_mixture.data(), mixed.data());
  }
  return equations;
}

/// Wrong mixtures against the definition: "weight_on_write" (g multiplies what is written, reads
/// are summed), "unselected_decays" (α acts on every memory), "states_merged" (the mixture of
/// states replaces the states that were mixed); "" is the definition itself, whose unselected
/// memories keep their state.
template <class Real>
Equations<Real> mom_variant(const Parameters& p, const Source<Real>& source) {
  MomRun<Real> run(p, source), wrong = run;
  const std::string variant = variant_of(p);
  const std::vector<Real> o = run.by_token();
  Equations<Real> equations;
  if (variant.empty()) {
    for (long m = 0; m < run.M; ++m) {
      bool touched = false;
      for (const auto& chosen : run.route) {
        for (const long c : chosen) touched = touched || c == m;
      }
      if (touched) continue;
      compare(equations, "memory " + std::to_string(m) + " s", run.K * run.V,
              run.S.data() + m * run.K * run.V, wrong.S.data() + m * run.K * run.V);
    }
    return equations;
  }
  std::vector<Real> other(o.size());
  for (long t = 0; t < wrong.T; ++t) {
    for (long m = 0; m < wrong.M; ++m) {
      bool chosen = false;
      for (const long c : wrong.route[t]) chosen = chosen || c == m;
      if (chosen) {
        const bool on_write = variant == "weight_on_write";
        const Real g = wrong.g[t * wrong.M + m];
        wrong.update(t, m, on_write ? g : Real(1));
        const std::vector<Real> y = wrong.read(t, m);
        for (long j = 0; j < wrong.V; ++j) {
          other[t * wrong.V + j] += on_write ? y[j] : g * y[j];
        }
      } else if (variant == "unselected_decays") {
        la::scale(wrong.K * wrong.V, wrong.alpha[t * wrong.M + m],
                  wrong.S.data() + m * wrong.K * wrong.V);
      }
    }
    if (variant != "states_merged") continue;
    const long KV = wrong.K * wrong.V;
    std::vector<Real> mixture(KV);
    for (const long m : wrong.route[t]) {
      la::axpy(KV, wrong.g[t * wrong.M + m], wrong.S.data() + m * KV, mixture.data());
    }
    for (const long m : wrong.route[t]) {
      for (long i = 0; i < KV; ++i) wrong.S[m * KV + i] = mixture[i];
    }
  }
  compare(equations, "o", run.T * run.V, other.data(), o.data());
  compare(equations, "s_final", run.M * run.K * run.V, wrong.S.data(), run.S.data());
  return equations;
}

}  // namespace assay::proofs
