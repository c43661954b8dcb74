// Momentum DeltaNet with its gates made inside, from their pre-activations.
//                                                             [MDN v1, Sec. 3.3, Eqs. 3-5]
//
//   log α, β, log μ, η = mdn_gates(x_α, x_β, x_μ, x_η; a_α, b_α, a_μ, b_μ)
//   o, S, M            = mdn(q, k, v, α, μ, β, η)
//
// Before the first step the gates take the places of their pre-activations; after the last one
// backward their cotangents go through the adjoint of mdn_gates: d_log α = α d_α, d_log μ = μ d_μ.
//
// State: S then M.
#pragma once

#include "reference/recurrences/mdn.hpp"
#include "reference/recurrences/mdn_gates.hpp"

namespace assay {

/// mdn with the gates that Gates (MdnGates, or what a fault makes of it) gives.
template <class Gates, class Real>
class MdnOfGates final : public Recurrence<Real> {
 public:
  /// Where mdn has its gates, and the parameters behind its inputs; the order is the schema's.
  enum Input {
    alpha = 1 + Mdn::alpha,
    mu = 1 + Mdn::mu,
    beta = 1 + Mdn::beta,
    eta = 1 + Mdn::eta,
    first_parameter = eta + 2  // q_correction between
  };

  explicit MdnOfGates(const ValidCase& c)
      : mdn_(std::make_unique<UpdateOf<Mdn, Real>>(), Mdn::spec(), c) {}

  bool splits_columns() const override { return mdn_.splits_columns(); }
  std::int64_t saved_size(const Context<Real>& c, std::int64_t count) const override {
    return mdn_.saved_size(c, count);
  }
  void forward(Context<Real>& c, const Block<Real>& x, std::int64_t count, Real* state,
               const Block<Real>& out, Real* saved) const override {
    mdn_.forward(c, x, count, state, out, saved);
  }
  void adjoint(Context<Real>& c, const Block<Real>& x, std::int64_t count, const Real* state_prev,
               const Real* state, const Real* saved, const Block<Real>& d_out, Real* d_state,
               const Block<Real>& d_x) const override {
    mdn_.adjoint(c, x, count, state_prev, state, saved, d_out, d_state, d_x);
  }
  std::int64_t transition(Context<Real>& c, const Block<Real>& x, const Real* state_prev,
                          std::vector<Real>& A) const override {
    return mdn_.transition(c, x, state_prev, A);
  }

  /// Tape: mdn's, then the four pre-activations [4, steps] and what the gates saved.
  void prepare(Context<Real>& c, const Block<Real>& x, std::int64_t steps,
               std::vector<Real>& tape) const override {
    mdn_.prepare(c, x, steps, tape);
    const std::size_t own = tape.size();
    tape.resize(own + steps * (4 + Gates::saved_size(c)));
    Real* given = tape.data() + own;
    for (int i = 0; i < 4; ++i) {
      for (std::int64_t t = 0; t < steps; ++t) given[i * steps + t] = *x(kPlace[i], t);
    }
    const Inputs in = inputs(given, steps, x), out = gates(x);
    for (std::int64_t t = 0; t < steps; ++t) {
      Gates::template step<Real>(c, {&in, t}, nullptr, {&out, t},
                                 given + 4 * steps + t * Gates::saved_size(c));
      for (const Input log : {alpha, mu}) *x(log, t) = fn::exp(*x(log, t));
    }
  }

  void unprepare(Context<Real>& c, const Block<Real>& x, std::int64_t steps,
                 const std::vector<Real>& tape, const Block<Real>& d_x) const override {
    mdn_.unprepare(c, x, steps, tape, d_x);
    Real* given = const_cast<Real*>(tape.data() + tape.size()) - steps * (4 + Gates::saved_size(c));
    std::vector<Real> d_gates(4 * steps);
    for (int i = 0; i < 4; ++i) {
      for (std::int64_t t = 0; t < steps; ++t) {
        const Input place = kPlace[i];
        Real& d = d_gates[i * steps + t];
        std::swap(d, *d_x(place, t));
        if (place != alpha && place != mu) continue;
        // Not a product where the gate is 0: its cotangent may be anything there.
        const Real& gate = *x(place, t);
        d = fn::is_zero(gate) ? Real(0) : Real(gate * d);
      }
    }
    const Inputs in = inputs(given, steps, x), d_out = rows(d_gates.data(), steps);
    Inputs d_in = gates(d_x);
    add_parameters(d_x, d_in);
    for (std::int64_t t = 0; t < steps; ++t) {
      const Real* saved = given + 4 * steps + t * Gates::saved_size(c);
      Gates::template adjoint_step<Real>(c, {&in, t}, nullptr, nullptr, saved, {&d_out, t}, nullptr,
                                         {&d_in, t});
    }
  }

 private:
  using Inputs = std::vector<LocalInput<Real>>;

  /// Pre-activations and outputs of mdn_gates, both in this order.
  static constexpr Input kPlace[4] = {alpha, beta, mu, eta};
  static_assert(MdnGates::x_alpha == 0 && MdnGates::x_beta == 1 && MdnGates::x_mu == 2 &&
                MdnGates::x_eta == 3 && MdnGates::log_alpha == 0 && MdnGates::beta == 1 &&
                MdnGates::log_mu == 2 && MdnGates::eta == 3 && MdnGates::a_alpha == 4);

  static Inputs rows(Real* data, std::int64_t steps) {
    Inputs list;
    for (int i = 0; i < 4; ++i) list.push_back({data + i * steps, 1, true});
    return list;
  }
  static Inputs gates(const Block<Real>& x) {
    Inputs list;
    for (const Input place : kPlace) list.push_back({x(place), 1, true});
    return list;
  }
  static void add_parameters(const Block<Real>& x, Inputs& list) {
    for (int i = 0; i < 4; ++i) list.push_back({x(first_parameter + i), 1, false});
  }
  static Inputs inputs(Real* given, std::int64_t steps, const Block<Real>& x) {
    Inputs list = rows(given, steps);
    add_parameters(x, list);
    return list;
  }

  FastWeight<Real> mdn_;
};

template <class Gates>
struct MdnOf {
  template <class Real>
  static Engine<Real> make(const ValidCase& c) {
    Engine<Real> engine;
    engine.recurrence = std::make_unique<MdnOfGates<Gates, Real>>(c);
    return engine;
  }
};

struct MdnFusedGates : MdnOf<MdnGates> {
  /// mdn's inputs with pre-activations in place of gates, the parameters before the states.
  static Schema schema(const Case*) {
    Schema s = fast_weight_schema(Mdn::spec());
    const Schema gates = MdnGates::schema(nullptr);
    s.op = "mdn_fused_gates";
    s.title = "Momentum DeltaNet whose gates are made inside, from pre-activations";
    s.source = "[MDN v1, Sec. 3.3, Eqs. 3-5]";
    std::vector<InputSpec> inputs;
    for (const InputSpec& in : s.inputs) {
      if (in.name == "s0") {
        for (const InputSpec& own : gates.inputs) {
          if (own.role == Role::param) inputs.push_back(own);
        }
      }
      const InputSpec* before = gates.find_input("x_" + in.name);
      inputs.push_back(before ? *before : in);
    }
    s.inputs = std::move(inputs);
    s.options.insert(s.options.end(), gates.options.begin(), gates.options.end());
    return s;
  }
};

}  // namespace assay

ASSAY_OPERATION(MdnFusedGates, mdn_fused_gates)
