// Faults of M²RNN: its update, its adjoint, and the sums over shared heads and batches.
#include "checks/faults/entry.hpp"
#include "checks/faults/facts.hpp"
#include "checks/faults/rearrange.hpp"
#include "reference/recurrences/m2rnn.hpp"

namespace assay {
namespace {

constexpr std::int64_t kKeyBlock = 64;

template <class Real>
Real* copy_of(Context<Real>& c, std::int64_t n, const Real* from) {
  Real* to = c.arena->zeros(n);
  for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
  return to;
}

template <class Real>
Real* transpose_of(Context<Real>& c, const Real* w) {
  Real* t = c.arena->zeros(c.V * c.V);
  for (std::int64_t i = 0; i < c.V; ++i) {
    for (std::int64_t j = 0; j < c.V; ++j) t[j * c.V + i] = w[i * c.V + j];
  }
  return t;
}

/// The step with some of its inputs changed: F has `change(c, cell)`.
template <class F>
struct ChangedStep : M2rnn {
  template <class Real>
  static void step(Context<Real>& c, const Block<Real>& x, Real* H, const Block<Real>& out,
                   Real* Z) {
    M2rnnCell<Real> in{x(q), x(k), x(v), x(w), x(f), x(w_residual)};
    F::change(c, in);
    m2rnn_cell(c, in, H, c.readout ? out(y) : nullptr, Z);
  }
};

struct GateSwapped : ChangedStep<GateSwapped> {
  template <class Real>
  static void change(Context<Real>& c, M2rnnCell<Real>& in) {
    const Real swapped = Real(1) - *in.f;
    in.f = copy_of(c, 1, &swapped);
  }
};

struct WTransposedForward : ChangedStep<WTransposedForward> {
  template <class Real>
  static void change(Context<Real>& c, M2rnnCell<Real>& in) {
    in.w = transpose_of(c, in.w);
  }
};

struct KeyTailDropped : ChangedStep<KeyTailDropped> {
  template <class Real>
  static void change(Context<Real>& c, M2rnnCell<Real>& in) {
    in.k = copy_of(c, c.K, in.k);
    for (std::int64_t i = kKeyBlock; i < c.K; ++i) in.k[i] = 0;
  }
};

/// The adjoint with another rule for one of its steps.
template <class Rule>
struct WithRule : M2rnn {
  template <class... Args>
  static void adjoint_step(Args&&... args) {
    M2rnn::adjoint_step<Rule>(std::forward<Args>(args)...);
  }
};

struct RetainOverwritten : M2rnnRule {
  template <class Real>
  static void carry(const Context<Real>& c, const Real&, const Real* D, const Real* w, Real* R) {
    M2rnnRule::carry(c, Real(0), D, w, R);
  }
};

struct CandidateUngated : M2rnnRule {
  template <class Real>
  static void through_tanh(std::int64_t KV, const Real&, const Real* R, const Real* Z,
                           const Real* H, Real* D) {
    M2rnnRule::through_tanh(KV, Real(0), R, Z, H, D);
  }
};

struct TanhSlopeOfState : M2rnnRule {
  template <class Real>
  static void through_tanh(std::int64_t KV, const Real& f, const Real* R, const Real*,
                           const Real* H, Real* D) {
    M2rnnRule::through_tanh(KV, f, R, H, H, D);
  }
};

/// The arguments of one adjoint step, of which F changes some: `change(c, arguments)`.
template <class Real>
struct AdjointArguments {
  M2rnnCell<Real> in, d;
  const Real *H_prev, *H, *Z, *u;
  Real* C;  // the clamped cotangent of the state
};

template <class F>
struct ChangedAdjoint : M2rnn {
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Block<Real>& x, const Real* H_prev,
                           const Real* H, const Real* Z, const Block<Real>& d_out, Real* d_H,
                           const Block<Real>& d_x) {
    if (!F::kClipsItself) clip(c, d_H);
    AdjointArguments<Real> a{{x(q), x(k), x(v), x(w), x(f), x(w_residual)},
                             {d_x(q), d_x(k), d_x(v), d_x(w), d_x(f), d_x(w_residual)},
                             H_prev,
                             H,
                             Z,
                             d_out(y),
                             d_H};
    F::change(c, a);
    m2rnn_cell_adjoint(c, a.in, a.H_prev, a.H, a.Z, a.u, a.C, a.d);
  }
  template <class Real>
  static void clip(const Context<Real>& c, Real* C) {
    const auto limit = option_real(*c.problem, "state_grad_clip");
    if (!limit) return;
    const Real hi = fn::from_double<Real>(*limit), lo = -hi;
    for (std::int64_t i = 0; i < c.K * c.V; ++i) C[i] = fn::clamp(C[i], lo, hi);
  }
  static constexpr bool kClipsItself = false;
};

struct FutureDropped : ChangedAdjoint<FutureDropped> {
  template <class Real>
  static void change(Context<Real>& c, AdjointArguments<Real>& a) {
    for (std::int64_t i = 0; i < c.K * c.V; ++i) a.C[i] = 0;
  }
};

struct WTransposedAdjoint : ChangedAdjoint<WTransposedAdjoint> {
  template <class Real>
  static void change(Context<Real>& c, AdjointArguments<Real>& a) {
    a.in.w = transpose_of(c, a.in.w);
  }
};

struct DqUsesOldState : ChangedAdjoint<DqUsesOldState> {
  template <class Real>
  static void change(Context<Real>&, AdjointArguments<Real>& a) {
    a.H = a.H_prev;
  }
};

struct DvResidualMissing : ChangedAdjoint<DvResidualMissing> {
  template <class Real>
  static void change(Context<Real>& c, AdjointArguments<Real>& a) {
    a.in.w_residual = c.arena->zeros(c.V);
  }
};

// d_f = <R, H_t - Z_t>: what the step adds goes nowhere, the wrong product into d_f.
struct DfUsesNewState : ChangedAdjoint<DfUsesNewState> {
  template <class Real>
  static void change(Context<Real>& c, AdjointArguments<Real>& a) {
    const std::int64_t KV = c.K * c.V;
    Real* R = copy_of(c, KV, a.C);
    la::ger_add(c.K, c.V, a.in.q, a.u, R);
    la::dot_add(*a.d.f, KV, R, 1, a.H, 1);
    la::dot_sub(*a.d.f, KV, R, 1, a.Z, 1);
    a.d.f = c.arena->zeros(1);
  }
};

// R_t is formed and clipped here; a zero query then adds nothing to it.
struct ClipOutputNotState : ChangedAdjoint<ClipOutputNotState> {
  static constexpr bool kClipsItself = true;
  template <class Real>
  static void change(Context<Real>& c, AdjointArguments<Real>& a) {
    la::ger_add(c.K, c.V, a.in.q, a.u, a.C);
    clip(c, a.C);
    a.in.q = c.arena->zeros(c.K);
  }
};

/// Every step of the recomputation starts from the initial state, which is kept as hidden state.
struct RecomputeStale : M2rnn {
  template <class Real>
  static std::int64_t hidden_state_size(const Context<Real>& c) {
    return c.K * c.V;
  }
  template <class Real>
  static void step(Context<Real>& c, const Block<Real>& x, Real* H, const Block<Real>& out,
                   Real* Z) {
    const std::int64_t KV = c.K * c.V;
    if (x.start() == 0) std::copy_n(H, KV, H + KV);
    M2rnn::step(c, x, H, out, Z);
  }
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Block<Real>& x, const Real* H_prev, const Real*,
                           const Real*, const Block<Real>& d_out, Real* d_H,
                           const Block<Real>& d_x) {
    const std::int64_t KV = c.K * c.V;
    const Real* H_0 = x.start() == 0 ? H_prev : H_prev + KV;
    Real *H = copy_of(c, KV, H_0), *Z = c.arena->zeros(KV);
    const M2rnnCell<Real> in{x(q), x(k), x(v), x(w), x(f), x(w_residual)};
    m2rnn_cell<Real>(c, in, H, nullptr, Z);
    M2rnn::adjoint_step(c, x, H_0, H, Z, d_out, d_H, d_x);
  }
};

/// Shared q and k: the gradient of the last head of each group instead of their sum.
struct GroupGradLastHead {
  template <class Real>
  Result<Real> operator()(const Problem<Real>& problem, const RunOptions& options) const {
    const ValidCase& c = *problem.valid;
    if (!options.gradients) return evaluate(problem, options);
    const std::int64_t N = facts::heads(c);
    ValidCase expanded = c;
    for (const char* name : {"q", "k"}) {
      const std::int64_t shared = facts::heads(c, name), group = N / shared;
      expand_heads(expanded, name, [&](std::int64_t h) { return h / group; });
    }
    Result<Real> result = evaluate(lift<Real>(expanded), options);
    for (const char* name : {"q", "k"}) {
      const std::int64_t shared = facts::heads(c, name), group = N / shared;
      Tensor<Real>& d = result.gradients.at(name);
      d = contract_heads(d, 2, shared, [&](std::int64_t h) {
        return h % group == group - 1 ? h / group : std::int64_t{-1};
      });
    }
    return result;
  }
};

/// d_w of the last sequence alone: the same adjoint with all other cotangents at zero.
struct DwLastBatch {
  template <class Real>
  Result<Real> operator()(Problem<Real> problem, const RunOptions& options) const {
    Result<Real> result = evaluate(problem, options);
    if (!options.gradients) return result;
    const ValidCase& c = *problem.valid;
    const facts::Sequence last = facts::sequences(c).back();
    for (auto& [name, tensor] : problem.cotangents) {
      const bool state = c.schema.find_output(name)->final_state;
      const std::int64_t rows = state ? c.sequences() : tensor.shape[0] * tensor.shape[1];
      const std::int64_t kept =
          state ? c.sequences() - 1 : last.batch * tensor.shape[1] + last.start;
      const std::int64_t n = rows == 0 ? 0 : tensor.size() / rows * kept;
      std::fill_n(tensor.data.begin(), n, Real(0));
    }
    result.gradients.at("w") = evaluate(problem, options).gradients.at("w");
    return result;
  }
};

struct FinalCotangentIgnored {
  template <class Real>
  Result<Real> operator()(Problem<Real> problem, const RunOptions& options) const {
    problem.cotangents.erase("h_final");
    return evaluate(problem, options);
  }
};

bool inside(double f) { return f != 0 && f != 1; }

/// A case of m2rnn with a step that is not skipped (f = 1), and more.
Applies m2rnn_when(Applies more) {
  return [more](const ValidCase& c) {
    return facts::is_op(c, {"m2rnn"}) && facts::longest(c) > 0 && more(c);
  };
}

bool moves(const ValidCase& c) { return facts::differs_from(c, "f", 1); }
bool has_d_h0(const ValidCase& c) { return facts::longest(c) >= 2 || facts::is_given(c, "h0"); }

bool w_is_asymmetric(const ValidCase& c) {
  const CaseTensor& w = c.data.tensors.at("w");
  const std::int64_t V = c.sizes['V'], n = V * V;
  for (std::size_t at = 0; at < w.values.size(); ++at) {
    const std::int64_t head = at / n, i = at % n / V, j = at % V;
    if (w.values[at] != w.values[head * n + j * V + i]) return true;
  }
  return false;
}

bool earlier_batch_counts(const ValidCase& c) {
  const std::vector<facts::Sequence> all = facts::sequences(c);
  for (std::size_t s = 0; s + 1 < all.size(); ++s) {
    if (all[s].steps >= (facts::has_value(c, "h0") ? 1 : 2)) return true;
  }
  return false;
}

/// Whether the order of clamping matters depends on all of the backward pass: look.
bool clipping_differs(const ValidCase& c) {
  if (!option_real(c, "state_grad_clip") || !facts::any_cotangent(c)) return false;
  const RunOptions run{Form::recurrent, true, 1, {}};
  const Problem<double> problem = lift<double>(c);
  const auto right = evaluate(problem, run).gradients;
  const auto wrong = WithEngine<StepOperation<ClipOutputNotState>>{}(problem, run).gradients;
  for (const auto& [name, tensor] : right) {
    if (tensor.data != wrong.at(name).data) return true;
  }
  return false;
}

template <class F>
void add_step(FaultList& list, const char* id, const char* title, const char* source,
              Applies applies) {
  add_fault(list, {id, title, source}, m2rnn_when(std::move(applies)),
            WithEngine<StepOperation<F>>{Form::recurrent});
}

void add_update_faults(FaultList& list) {
  add_step<GateSwapped>(list, "m2rnn.gate_swapped", "H = (1-f) H' + f Z", "note 001",
                        [](const ValidCase& c) { return facts::differs_from(c, "f", 0.5); });
  add_step<WTransposedForward>(
      list, "m2rnn.w_transposed_forward", "Z = tanh(H' W^T + k v^T)", "class",
      [](const ValidCase& c) { return facts::remembers(c) && moves(c) && w_is_asymmetric(c); });
  add_step<KeyTailDropped>(list, "m2rnn.key_tail_dropped",
                           "rows of K beyond the first block of 64 get no k v^T", "public kernel",
                           [](const ValidCase& c) {
                             return c.sizes['K'] > kKeyBlock && moves(c) &&
                                    facts::has_value(c, "k") && facts::has_value(c, "v");
                           });
}

void add_adjoint_faults(FaultList& list) {
  const auto adjoint = [](Applies more) -> Applies {
    return [more](const ValidCase& c) { return facts::any_cotangent(c) && more(c); };
  };
  add_step<FutureDropped>(list, "m2rnn.future_dropped",
                          "R_t = q_t u_t^T only: nothing flows back from later steps",
                          "M2RNN v2, Algorithm 2", adjoint([](const ValidCase& c) {
                            return facts::has_value(c, "d_h_final") || facts::longest(c) >= 2;
                          }));
  add_step<WithRule<RetainOverwritten>>(
      list, "m2rnn.retain_overwritten", "C_{t-1} = D W^T: the branch f R is overwritten",
      "M2RNN v2, Algorithm 2",
      adjoint([](const ValidCase& c) { return has_d_h0(c) && facts::has_value(c, "f"); }));
  add_step<RecomputeStale>(
      list, "m2rnn.recompute_stale", "the recomputation never updates H", "M2RNN v2, Algorithm 2",
      adjoint([](const ValidCase& c) { return facts::longest(c) >= 2 && moves(c); }));
  add_step<WithRule<CandidateUngated>>(
      list, "m2rnn.candidate_ungated", "D without the factor 1 - f", "class",
      adjoint([](const ValidCase& c) { return facts::has_value(c, "f"); }));
  add_step<WithRule<TanhSlopeOfState>>(
      list, "m2rnn.tanh_slope_of_state", "1 - H² in place of 1 - Z²", "class",
      adjoint([](const ValidCase& c) { return facts::any(c, "f", inside); }));
  add_step<WTransposedAdjoint>(
      list, "m2rnn.w_transposed_adjoint", "C_{t-1} = f R + D W", "class",
      adjoint([](const ValidCase& c) { return has_d_h0(c) && moves(c) && w_is_asymmetric(c); }));
  add_step<DfUsesNewState>(list, "m2rnn.df_uses_new_state", "d_f = <R, H_t - Z_t>", "class",
                           adjoint(moves));
  add_step<DqUsesOldState>(
      list, "m2rnn.dq_uses_old_state", "d_q = H_{t-1} u", "class",
      [](const ValidCase& c) { return facts::has_value(c, "d_y") && moves(c); });
  add_step<DvResidualMissing>(list, "m2rnn.dv_residual_missing", "d_v without w_residual ∘ u",
                              "M2RNN v2, Algorithm 2", [](const ValidCase& c) {
                                return facts::has_value(c, "d_y") &&
                                       facts::has_value(c, "w_residual");
                              });
  add_step<ClipOutputNotState>(list, "m2rnn.clip_output_not_state",
                               "state_grad_clip clamps R_t instead of C_t", "class",
                               clipping_differs);
}

}  // namespace

void add_m2rnn_faults(FaultList& list) {
  add_update_faults(list);
  add_adjoint_faults(list);
  add_fault(
      list,
      {"m2rnn.group_grad_last_head",
       "gradient of shared q or k keeps the last head of a group instead of the sum", "class"},
      m2rnn_when([](const ValidCase& c) {
        const std::int64_t N = facts::heads(c);
        return (facts::heads(c, "q") < N && facts::has_value(c, "d_y")) ||
               (facts::heads(c, "k") < N && facts::any_cotangent(c) && moves(c));
      }),
      GroupGradLastHead{});
  add_fault(list, {"m2rnn.dw_last_batch", "d_w keeps the last sequence only", "class"},
            m2rnn_when([](const ValidCase& c) {
              return facts::any_cotangent(c) && moves(c) && earlier_batch_counts(c);
            }),
            DwLastBatch{});
  add_fault(
      list,
      {"m2rnn.final_cotangent_ignored", "the cotangent of h_final never enters", "public kernel"},
      m2rnn_when([](const ValidCase& c) { return facts::has_value(c, "d_h_final"); }),
      FinalCotangentIgnored{});
}

}  // namespace assay
