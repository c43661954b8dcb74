// The fast-weight family: a matrix state S_t in R^{K x V}, an update that differs from member to
// member, and one read-out for all.
//
//   q_t <- q_t - d_h k_t                  (q_correction; Comba, MDN; with the k that was given)
//   q_t <- q_t / |q_t|, k_t <- k_t / |k_t|  (qk_l2norm)
//   S_t  = update(S_{t-1}, x_t)
//   o_t  = scale S_t^T q_t [+ skip_h v_t]
//
// and backward, with u_t = scale d_o_t:
//
//   d_q += S_t u_t     d_S_t += q_t u_t^T     d_skip += v_t · d_o_t     d_v += skip d_o_t
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reference/oracle/operation.hpp"
#include "reference/recurrences/l2norm.hpp"

namespace assay {

/// What a member of the family says about itself.
struct UpdateSpec {
  std::string op, title, source;
  std::vector<InputSpec> inputs;  // in the order of the update's enumerators, without q
  int states = 1;                 // 2: S and M
  bool has_skip = false, has_q_correction = false;
  std::vector<Form> forms = {Form::recurrent};
};

// The inputs most members share.
inline InputSpec key_input() { return {"k", "BTHK", Role::token, "key", {}}; }
inline InputSpec value_input() { return {"v", "BTHV", Role::token, "value", {}}; }
inline InputSpec decay_input(const std::string& axes) {
  return {"alpha", axes, Role::token, "decay of the state", {0, 1}, false, 0, "log_alpha"};
}
inline InputSpec write_input() { return {"beta", "BTH", Role::token, "write strength", {0, 2}}; }

inline Schema fast_weight_schema(const UpdateSpec& spec) {
  Schema s;
  s.op = spec.op;
  s.title = spec.title;
  s.source = spec.source;
  s.inputs.push_back({"q", "BTHK", Role::token, "query", {}});
  s.inputs.insert(s.inputs.end(), spec.inputs.begin(), spec.inputs.end());
  if (spec.has_skip) {
    s.inputs.push_back({"skip", "H", Role::param, "direct path from v to o", {}, true});
  }
  if (spec.has_q_correction) {
    s.inputs.push_back(
        {"q_correction", "H", Role::param, "q_t - q_correction k_t replaces q_t", {}, true});
  }
  s.inputs.push_back({"s0", "BHKV", Role::state, "initial state S_0", {}, true});
  s.outputs.push_back({"o", "BTHV", "read-out"});
  s.outputs.push_back({"s_final", "BHKV", "state after the last step", true});
  if (spec.states == 2) {
    s.inputs.push_back({"m0", "BHKV", Role::state, "initial momentum M_0", {}, true});
    s.outputs.push_back({"m_final", "BHKV", "momentum after the last step", true});
  }
  s.options = {
      {"scale", OptionType::real, std::nullopt, "multiplies the read-out (default K^-1/2)"},
      {"qk_l2norm", OptionType::boolean, OptionValue(false), "L2-normalise q and k"},
      {"l2norm_eps", OptionType::real, OptionValue(0.0), "added to the sum of squares", 0.0, kInf},
  };
  s.forms = spec.forms;
  if (s.forms.size() > 1) {
    s.options.push_back({"chunk", OptionType::integer, OptionValue(std::int64_t{64}),
                         "chunk length C of the chunk form", 1, 65536});
  }
  return s;
}

/// scale as given, or exactly 1/sqrt(K).
template <class Real>
Real readout_scale(const ValidCase& c) {
  if (const auto given = option_real(c, "scale")) return fn::from_double<Real>(*given);
  return Real(1) / fn::sqrt(Real(static_cast<int>(c.sizes['K'])));
}

/// Binds the static functions of a member U to the run-time interface.
template <class U, class Real>
class UpdateOf final : public Update<Real> {
 public:
  int input_count() const override { return static_cast<int>(U::spec().inputs.size()); }
  int state_count() const override { return U::spec().states; }
  std::int64_t saved_size(const Context<Real>& c) const override { return U::saved_size(c); }
  void step(Context<Real>& c, const Fields<Real>& x, Real* S, Real* saved) const override {
    U::step(c, x, S, saved);
  }
  void adjoint_step(Context<Real>& c, const Fields<Real>& x, const Real* S_prev, const Real* S,
                    const Real* saved, Real* d_S, const Fields<Real>& d_x) const override {
    U::adjoint_step(c, x, S_prev, S, saved, d_S, d_x);
  }
  void transition(Context<Real>& c, const Fields<Real>& x, Real* A) const override {
    U::transition(c, x, A);
  }
  std::int64_t chunk_saved_size(const Context<Real>& c, std::int64_t count) const override {
    if constexpr (requires { &U::template chunk<Real>; }) {
      return U::chunk_saved_size(c, count);
    }
    return 0;
  }
  void chunk(Context<Real>& c, const Block<Real>& x, std::int64_t count, Real* state, Real* o,
             Real* saved) const override {
    if constexpr (requires { &U::template chunk<Real>; }) U::chunk(c, x, count, state, o, saved);
  }
  void chunk_adjoint(Context<Real>& c, const Block<Real>& x, std::int64_t count,
                     const Real* state_prev, const Real* saved, const Real* d_o, Real* d_state,
                     const Block<Real>& d_x) const override {
    if constexpr (requires { &U::template chunk<Real>; }) {
      U::chunk_adjoint(c, x, count, state_prev, saved, d_o, d_state, d_x);
    }
  }
};

template <class Real>
class FastWeight final : public Recurrence<Real> {
 public:
  FastWeight(std::unique_ptr<Update<Real>> update, const UpdateSpec& spec, const ValidCase& c)
      : update_(std::move(update)), scale_(readout_scale<Real>(c)) {
    int next = 1 + static_cast<int>(spec.inputs.size());
    if (spec.has_skip) skip_ = next++;
    if (spec.has_q_correction) q_correction_ = next++;
    for (int i = 0; i < static_cast<int>(spec.inputs.size()); ++i) {
      if (spec.inputs[i].name == "k") k_ = 1 + i;
      if (spec.inputs[i].name == "v") v_ = 1 + i;
    }
    normalise_ = option_bool(c, "qk_l2norm");
    eps_ = fn::from_double<Real>(*option_real(c, "l2norm_eps"));
  }

  bool splits_columns() const override { return true; }

  std::int64_t saved_size(const Context<Real>& c, std::int64_t count) const override {
    return c.form == Form::recurrent ? update_->saved_size(c) : update_->chunk_saved_size(c, count);
  }

  void forward(Context<Real>& c, const Block<Real>& x, std::int64_t count, Real* state,
               const Block<Real>& out, Real* saved) const override {
    Real* o = out(0);
    if (c.form == Form::recurrent) {
      update_->step(c, fields(x), state, saved);
      if (!c.readout) return;
      for (std::int64_t j = 0; j < c.V; ++j) o[j] = 0;
      la::gemv_t_add(c.K, c.V, state, x(0), o);
    } else {
      update_->chunk(c, x, count, state, c.readout ? o : nullptr, saved);
      if (!c.readout) return;
    }
    la::scale(count * c.V, scale_, o);
    if (skip_ < 0) return;
    for (std::int64_t s = 0; s < count; ++s) la::axpy(c.V, *x(skip_), x(v_, s), o + s * c.V);
  }

  void adjoint(Context<Real>& c, const Block<Real>& x, std::int64_t count, const Real* state_prev,
               const Real* state, const Real* saved, const Block<Real>& d_out, Real* d_state,
               const Block<Real>& d_x) const override {
    const Real* d_o = d_out(0);
    Real* u = c.arena->zeros(count * c.V);
    la::axpy(count * c.V, scale_, d_o, u);
    if (skip_ >= 0) {
      for (std::int64_t s = 0; s < count; ++s) {
        la::dot_add(*d_x(skip_), c.V, x(v_, s), 1, d_o + s * c.V, 1);
        la::axpy(c.V, *x(skip_), d_o + s * c.V, d_x(v_, s));
      }
    }
    if (c.form != Form::recurrent) {
      update_->chunk_adjoint(c, x, count, state_prev, saved, u, d_state, d_x);
      return;
    }
    la::gemv_add(c.K, c.V, state, u, d_x(0));
    la::ger_add(c.K, c.V, x(0), u, d_state);
    update_->adjoint_step(c, fields(x), state_prev, state, saved, d_state, fields(d_x));
  }

  /// Tape: the k that was given (with q_correction), then the norms of q and of k.
  void prepare(Context<Real>& c, const Block<Real>& x, std::int64_t steps,
               std::vector<Real>& tape) const override {
    const std::int64_t width = k_ < 0 ? 0 : x.width(k_);
    if (q_correction_ >= 0) {
      tape.assign(x(k_), x(k_) + steps * width);
      const Real minus = -*x(q_correction_);
      la::axpy(steps * c.K, minus, x(k_), x(0));
    }
    if (!normalise_) return;
    const std::size_t norms = tape.size();
    const std::int64_t k_rows = c.K == 0 ? 0 : steps * width / c.K;
    tape.resize(norms + steps + k_rows);
    l2norm_rows(steps, c.K, eps_, x(0), tape.data() + norms, "q");
    if (k_ >= 0) l2norm_rows(k_rows, c.K, eps_, x(k_), tape.data() + norms + steps, "k");
  }

  void unprepare(Context<Real>& c, const Block<Real>& x, std::int64_t steps,
                 const std::vector<Real>& tape, const Block<Real>& d_x) const override {
    const std::int64_t width = k_ < 0 ? 0 : x.width(k_);
    const std::int64_t given = q_correction_ >= 0 ? steps * width : 0;
    if (normalise_) {
      const Real* norms = tape.data() + given;
      l2norm_rows_adjoint(steps, c.K, x(0), norms, d_x(0));
      if (k_ >= 0) l2norm_rows_adjoint(steps * width / c.K, c.K, x(k_), norms + steps, d_x(k_));
    }
    if (q_correction_ < 0) return;
    const Real minus = -*x(q_correction_);
    la::axpy(steps * c.K, minus, d_x(0), d_x(k_));
    la::dot_sub(*d_x(q_correction_), steps * c.K, tape.data(), 1, d_x(0), 1);
  }

  std::int64_t transition(Context<Real>& c, const Block<Real>& x, const Real*,
                          std::vector<Real>& A) const override {
    const std::int64_t n = update_->state_count() * c.K;
    A.assign(n * n, Real(0));
    update_->transition(c, fields(x), A.data());
    return n;
  }

 private:
  Fields<Real> fields(const Block<Real>& x) const {
    Fields<Real> f{};
    for (int i = 0; i < update_->input_count(); ++i) f[i] = x(1 + i);
    return f;
  }

  std::unique_ptr<Update<Real>> update_;
  Real scale_, eps_;
  int k_ = -1, v_ = -1, skip_ = -1, q_correction_ = -1;
  bool normalise_ = false;
};

// Compiled once, in shared.cpp, instead of in every member.
#define ASSAY_EXTERN(Real) extern template class FastWeight<Real>;
ASSAY_FOR_EACH_SCALAR(ASSAY_EXTERN)
#undef ASSAY_EXTERN

/// Base of the members: gives the operation its schema and engines.
template <class U>
struct FastWeightOperation {
  static Schema schema(const Case*) { return fast_weight_schema(U::spec()); }

  template <class Real>
  static Engine<Real> make(const ValidCase& c) {
    Engine<Real> engine;
    engine.update = std::make_unique<UpdateOf<U, Real>>();
    // mom asks for the bare update with a case of its own; then there is no read-out to set up.
    if (c.schema.op == U::spec().op) {
      engine.recurrence =
          std::make_unique<FastWeight<Real>>(std::make_unique<UpdateOf<U, Real>>(), U::spec(), c);
    }
    return engine;
  }
};

}  // namespace assay
