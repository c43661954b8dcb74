// Faults of the recurrent form of Momentum DeltaNet and of its gates.
#include "checks/faults/entry.hpp"
#include "checks/faults/facts.hpp"
#include "reference/recurrences/mdn.hpp"
#include "reference/recurrences/mdn_fused_gates.hpp"

namespace assay {
namespace {

/// The step with another key in the residual: F has `residual_key`.
template <class F>
struct OtherResidualKey : Mdn {
  template <class Real>
  static void step(Context<Real>& c, const Fields<Real>& x, Real* S, Real* r) {
    Mdn::step<F>(c, x, S, r);
  }
};

struct ResidualUndecayed : OtherResidualKey<ResidualUndecayed> {
  template <class Real>
  static void residual_key(const Context<Real>& c, const Fields<Real>& x, Real* p) {
    la::axpy(c.K, Real(1), x[k], p);
  }
};

struct EtaInResidualKey : OtherResidualKey<EtaInResidualKey> {
  template <class Real>
  static void residual_key(const Context<Real>& c, const Fields<Real>& x, Real* p) {
    la::axpy(c.K, *x[alpha] * *x[eta], x[k], p);
  }
};

struct MomentumSign : Mdn {
  template <class Real>
  static void step(Context<Real>& c, const Fields<Real>& x, Real* S, Real* r) {
    Real minus_beta = -*x[beta];
    Fields<Real> changed = x;
    changed[beta] = &minus_beta;
    Mdn::step(c, changed, S, r);
  }
};

struct MomentumDampened : Mdn {
  template <class Real>
  static void step(Context<Real>& c, const Fields<Real>& x, Real* S, Real* r) {
    Real dampened = (Real(1) - *x[mu]) * *x[eta];
    Fields<Real> changed = x;
    changed[eta] = &dampened;
    Mdn::step(c, changed, S, r);
  }
};

/// Cotangents that lead nowhere, for a second run of the adjoint that is wanted for one input only.
template <class Real>
Fields<Real> scratch_fields(Context<Real>& c) {
  Fields<Real> d{};
  for (int i = 0; i < 6; ++i) d[i] = c.arena->zeros(std::max(c.K, c.V));
  return d;
}

// d_α = <d_S, S'>, without - k · y.
struct DalphaWithoutResidualPath : Mdn {
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Fields<Real>& x, const Real* S_prev,
                           const Real* S, const Real* r, Real* d_S, const Fields<Real>& d_x) {
    la::dot_add(*d_x[alpha], c.K * c.V, d_S, 1, S_prev, 1);
    Fields<Real> changed = d_x;
    changed[alpha] = c.arena->zeros(1);
    Mdn::adjoint_step(c, x, S_prev, S, r, d_S, changed);
  }
};

/// d_k by one path only. With S' = 0 the adjoint has no residual path, with r = 0 no write path;
/// the run that supplies d_k works on a copy of the cotangent, for nothing else.
template <bool kWritePath>
struct DkSinglePath : Mdn {
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Fields<Real>& x, const Real* S_prev,
                           const Real* S, const Real* r, Real* d_S, const Fields<Real>& d_x) {
    const std::int64_t n = 2 * c.K * c.V;
    Real* d_copy = c.arena->zeros(n);
    std::copy_n(d_S, n, d_copy);
    Fields<Real> d = scratch_fields(c);
    d[k] = d_x[k];
    Mdn::adjoint_step(c, x, kWritePath ? c.arena->zeros(n) : S_prev, S,
                      kWritePath ? r : c.arena->zeros(c.V), d_copy, d);
    d = d_x;
    d[k] = c.arena->zeros(c.K);
    Mdn::adjoint_step(c, x, S_prev, S, r, d_S, d);
  }
};

/// log α = -a softplus(x + b) and β = σ(x_β): nothing of θ(η) enters, so d_x_eta has no path
/// through it either.
struct GateUpperBoundsDropped : MdnGates {
  template <class Real>
  static void step(Context<Real>& c, const Block<Real>& in, Real* state, const Block<Real>& out,
                   Real* saved) {
    MdnGates::step(c, in, state, out, saved);
    *out(beta) = fn::sigmoid(*in(x_beta));
    *out(log_alpha) = decay_exponent(*in(x_alpha), *in(a_alpha), *in(b_alpha));
  }
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Block<Real>& in, const Real* state_prev,
                           const Real* state, const Real* saved, const Block<Real>& d_out,
                           Real* d_state, const Block<Real>& d_in) {
    Real none[2] = {Real(0), Real(0)};
    const std::vector<LocalInput<Real>> rest = {{&none[0], 1, false},
                                                {&none[1], 1, false},
                                                {d_out(log_mu), 1, false},
                                                {d_out(eta), 1, false}};
    MdnGates::adjoint_step(c, in, state_prev, state, saved, Block<Real>(&rest, 0), d_state, d_in);
    decay_exponent_adjoint(*in(x_alpha), *in(a_alpha), *in(b_alpha), *d_out(log_alpha),
                           *d_in(x_alpha), *d_in(a_alpha), *d_in(b_alpha));
    const Real sigma = fn::sigmoid(*in(x_beta));
    fn::mul_add(*d_in(x_beta), *d_out(beta), sigma * (Real(1) - sigma));
  }
};

/// The floor of log μ acts, and its gradient passes all the same.
struct GateFloorPasses : MdnGates {
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Block<Real>& in, const Real* state_prev,
                           const Real* state, const Real* saved, const Block<Real>& d_out,
                           Real* d_state, const Block<Real>& d_in) {
    MdnGates::adjoint_step(c, in, state_prev, state, saved, d_out, d_state, d_in);
    const Real exponent = decay_exponent(*in(x_mu), *in(a_mu), *in(b_mu));
    const Real passed = fn::heaviside(exponent - option(c, "log_mu_min"));
    decay_exponent_adjoint(*in(x_mu), *in(a_mu), *in(b_mu),
                           Real((Real(1) - passed) * *d_out(log_mu)), *d_in(x_mu), *d_in(a_mu),
                           *d_in(b_mu));
  }
};

/// Gates that are wrong, alone or under mdn.
template <class Gates>
struct WrongGates {
  template <class Real>
  static Engine<Real> make(const ValidCase& c) {
    return facts::is_op(c, {"mdn_gates"}) ? StepOperation<Gates>::template make<Real>(c)
                                          : MdnOf<Gates>::template make<Real>(c);
  }
};

/// A step whose log μ is at its floor: of mdn_gates with a cotangent, under mdn with a momentum.
bool floor_acts(const ValidCase& c) {
  const bool alone = facts::is_op(c, {"mdn_gates"});
  const std::int64_t T = c.sizes['T'], H = facts::heads(c);
  const double floor = *option_real(c, "log_mu_min");
  const auto entry = [&](const char* name, std::int64_t row, std::int64_t h) {
    const std::int64_t heads = facts::heads(c, name);
    return c.data.tensors.at(name).values[row * heads + h / (H / heads)];
  };
  const bool warm = facts::has_value(c, "m0");
  for (const facts::Sequence& s : facts::sequences(c)) {
    for (std::int64_t t = alone || warm ? 0 : 1; t < s.steps; ++t) {
      for (std::int64_t h = 0; h < H; ++h) {
        const std::int64_t row = s.batch * T + s.start + t;
        const double exponent =
            decay_exponent(entry("x_mu", row, h), entry("a_mu", 0, h), entry("b_mu", 0, h));
        if (!(exponent < floor)) continue;
        if (!alone || c.data.tensors.at("d_log_mu").values[row * H + h] != 0) return true;
      }
    }
  }
  return false;
}

bool has_made_gates(const ValidCase& c) {
  return facts::is_op(c, {"mdn_gates", "mdn_fused_gates"}) && facts::longest(c) > 0;
}

void add_gate_faults(FaultList& list) {
  add_fault(
      list,
      {"mdn.gate_upper_bounds_dropped",
       "alpha_max and beta_max not applied, derivative of theta(eta) missing", "MDN v1, Table 6"},
      has_made_gates, WithEngine<WrongGates<GateUpperBoundsDropped>>{});
  add_fault(
      list, {"mdn.gate_floor_passes", "the gradient passes through the floor of log mu", "class"},
      [](const ValidCase& c) {
        const char* cotangent = facts::is_op(c, {"mdn_gates"}) ? "d_log_mu" : "d_o";
        return has_made_gates(c) && facts::has_value(c, cotangent) && floor_acts(c);
      },
      WithEngine<WrongGates<GateFloorPasses>>{});
}

Applies mdn_when(Applies more) {
  return [more](const ValidCase& c) {
    return facts::is_op(c, {"mdn"}) && facts::longest(c) > 0 && more(c);
  };
}

template <class F>
void add_step(FaultList& list, const char* id, const char* title, const char* source,
              Applies applies) {
  add_fault(list, {id, title, source}, mdn_when(std::move(applies)),
            WithEngine<FastWeightOperation<F>>{Form::recurrent});
}

bool residual_reads_decay(const ValidCase& c) {
  return facts::remembers(c) && facts::differs_from(c, "alpha", 1) &&
         facts::differs_from(c, "eta", 0);
}

void add_update_faults(FaultList& list) {
  add_step<ResidualUndecayed>(list, "mdn.residual_undecayed",
                              "p = k: the residual reads the state before it decays",
                              "MDN v1, Table 1", residual_reads_decay);
  // M is eliminated from the two-state form: the same function as mdn.residual_undecayed, without a
  // division by β.
  add_step<ResidualUndecayed>(list, "mdn.second_order_alpha_missing",
                              "the k k^T term of the second-order form lacks alpha",
                              "MDN v1, Table 1", residual_reads_decay);
  add_step<EtaInResidualKey>(
      list, "mdn.eta_in_residual_key", "p = alpha eta k", "class", [](const ValidCase& c) {
        return facts::remembers(c) && facts::has_value(c, "k") &&
               facts::any(c, "eta", [](double x) { return x != 0 && x != 1; });
      });
  add_step<MomentumSign>(list, "mdn.momentum_sign", "S = alpha S' + beta M with M unchanged",
                         "class", [](const ValidCase& c) { return facts::has_value(c, "beta"); });
  add_step<MomentumDampened>(list, "mdn.momentum_dampened", "M = mu M' - (1 - mu) eta k r^T",
                             "class", [](const ValidCase& c) {
                               return facts::differs_from(c, "mu", 0) &&
                                      facts::differs_from(c, "eta", 0);
                             });
}

void add_adjoint_faults(FaultList& list) {
  const auto residual_path = [](const ValidCase& c) {
    return facts::any_cotangent(c) && facts::remembers(c) && facts::differs_from(c, "eta", 0);
  };
  add_step<DalphaWithoutResidualPath>(list, "mdn.dalpha_without_residual_path",
                                      "d_alpha misses the path through p = alpha k", "class",
                                      residual_path);
  add_step<DkSinglePath<true>>(list, "mdn.dk_single_path", "d_k has the write path only", "class",
                               [residual_path](const ValidCase& c) {
                                 return residual_path(c) && facts::differs_from(c, "alpha", 0);
                               });
  add_step<DkSinglePath<false>>(list, "mdn.dk_single_path:residual",
                                "d_k has the residual path only", "class", [](const ValidCase& c) {
                                  return facts::any_cotangent(c) &&
                                         facts::differs_from(c, "eta", 0);
                                });
}

}  // namespace

void add_mdn_faults(FaultList& list) {
  add_update_faults(list);
  add_adjoint_faults(list);
  add_gate_faults(list);
}

}  // namespace assay
