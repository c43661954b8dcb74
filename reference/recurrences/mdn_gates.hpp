// The gates of Momentum DeltaNet from their pre-activations.   [MDN v1, Sec. 3.3]
//
//   η = tanh(x_η / τ) + 1          θ = atan(s η),  X = s² η²
//   log α = -a_α softplus(x_α + b_α) + 2 log cos θ = -a_α softplus(x_α + b_α) - log(1 + X)
//   β     = σ(x_β) sin² θ                          = σ(x_β) X / (1 + X)
//   log μ = max(-a_μ softplus(x_μ + b_μ), log_mu_min)
//
// cos² θ = 1/(1+X) and sin² θ = X/(1+X) hold exactly, so no trigonometric function is needed.
#pragma once

#include "reference/recurrences/decay_gate.hpp"
#include "reference/recurrences/step_recurrence.hpp"

namespace assay {

struct MdnGates : StepOperation<MdnGates> {
  enum Input { x_alpha, x_beta, x_mu, x_eta, a_alpha, b_alpha, a_mu, b_mu };
  enum Output { log_alpha, beta, log_mu, eta };

  static Schema schema(const Case*) {
    Schema sc;
    sc.op = "mdn_gates";
    sc.title = "gates of Momentum DeltaNet from their pre-activations";
    sc.source = "[MDN v1, Sec. 3.3]";
    sc.inputs = {{"x_alpha", "BTH", Role::token, "pre-activation of alpha", {}},
                 {"x_beta", "BTH", Role::token, "pre-activation of beta", {}},
                 {"x_mu", "BTH", Role::token, "pre-activation of mu", {}},
                 {"x_eta", "BTH", Role::token, "pre-activation of eta", {}},
                 {"a_alpha", "H", Role::param, "decay scale of alpha", {0, kInf}},
                 {"b_alpha", "H", Role::param, "offset of alpha", {}},
                 {"a_mu", "H", Role::param, "decay scale of mu", {0, kInf}},
                 {"b_mu", "H", Role::param, "offset of mu", {}}};
    sc.outputs = {{"log_alpha", "BTH", "log decay of the state"},
                  {"beta", "BTH", "write strength"},
                  {"log_mu", "BTH", "log decay of the momentum"},
                  {"eta", "BTH", "scale of the residual"}};
    sc.options = {
        {"s", OptionType::real, OptionValue(1.0), "range of the angle theta = atan(s eta)", 0.0,
         kInf},
        {"tau", OptionType::real, OptionValue(1.0), "temperature of eta, > 0", 1e-300, kInf},
        {"log_mu_min", OptionType::real, OptionValue(-2.0), "floor of log mu", -kInf, 0.0}};
    return sc;
  }

  template <class Real>
  static Real option(const Context<Real>& c, const char* name) {
    return fn::from_double<Real>(*option_real(*c.problem, name));
  }

  /// tanh(x_η/τ), X.
  template <class Real>
  static std::int64_t saved_size(const Context<Real>&) {
    return 2;
  }

  template <class Real>
  static void step(Context<Real>& c, const Block<Real>& in, Real*, const Block<Real>& out,
                   Real* saved) {
    const Real s = option(c, "s"), tau = option(c, "tau");
    const Real t = fn::tanh(*in(x_eta) / tau);
    const Real eta_t = t + Real(1), s_eta = s * eta_t, X = s_eta * s_eta;
    saved[0] = t;
    saved[1] = X;
    *out(eta) = eta_t;
    *out(beta) = fn::sigmoid(*in(x_beta)) * X / (Real(1) + X);
    *out(log_alpha) = decay_exponent(*in(x_alpha), *in(a_alpha), *in(b_alpha)) - fn::log1p(X);
    *out(log_mu) =
        fn::max(decay_exponent(*in(x_mu), *in(a_mu), *in(b_mu)), option(c, "log_mu_min"));
  }

  // d_X = -d_logα / (1+X) + d_β σ(x_β) / (1+X)²     d_η <- d_η + 2 s² η d_X
  // d_x_η = d_η (1 - tanh²) / τ                     d_x_β = d_β X/(1+X) σ (1-σ)
  // the floor of log μ passes nothing where it acts
  template <class Real>
  static void adjoint_step(Context<Real>& c, const Block<Real>& in, const Real*, const Real*,
                           const Real* saved, const Block<Real>& d_out, Real*,
                           const Block<Real>& d_in) {
    const Real s = option(c, "s"), tau = option(c, "tau");
    const Real &t = saved[0], &X = saved[1];
    const Real rest = Real(1) / (Real(1) + X), sigma = fn::sigmoid(*in(x_beta));
    decay_exponent_adjoint(*in(x_alpha), *in(a_alpha), *in(b_alpha), *d_out(log_alpha),
                           *d_in(x_alpha), *d_in(a_alpha), *d_in(b_alpha));
    fn::mul_add(*d_in(x_beta), *d_out(beta) * X * rest, sigma * (Real(1) - sigma));
    const Real d_X = rest * (*d_out(beta) * sigma * rest - *d_out(log_alpha));
    const Real d_eta = *d_out(eta) + (s + s) * s * (t + Real(1)) * d_X;
    fn::mul_add(*d_in(x_eta), d_eta, (Real(1) - t * t) / tau);

    const Real exponent = decay_exponent(*in(x_mu), *in(a_mu), *in(b_mu));
    const Real passes = fn::heaviside(exponent - option(c, "log_mu_min"));
    decay_exponent_adjoint(*in(x_mu), *in(a_mu), *in(b_mu), Real(passes * *d_out(log_mu)),
                           *d_in(x_mu), *d_in(a_mu), *d_in(b_mu));
  }
};

}  // namespace assay

ASSAY_OPERATION(MdnGates, mdn_gates)
