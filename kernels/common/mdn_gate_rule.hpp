// The gates of Momentum DeltaNet from their pre-activations:
//
//   η = tanh(x_η / τ) + 1      X = s² η²
//   log α = -a_α softplus(x_α + b_α) - log(1 + X)          β = σ(x_β) X / (1 + X)
//   log μ = max(-a_μ softplus(x_μ + b_μ), log_mu_min)
//
// (θ = atan(s η): cos² θ = 1/(1+X), sin² θ = X/(1+X).) tanh(z) + 1 = 2 σ(2z) keeps all digits of a
// small η, which 1 + tanh would lose; 1 - tanh² = η (2 - η).
//
// Backward: d_X = (d_β σ(x_β) / (1+X) - d_logα) / (1+X), d_η += 2 s² η d_X; the floor of log μ
// passes nothing where it acts.
#pragma once

#include "kernels/common/binding.hpp"
#include "kernels/common/elementary.hpp"

ASSAY_CPU_BEGIN

template <class Real>
class MdnGateRule {
 public:
  enum Input { x_alpha, x_beta, x_mu, x_eta, a_alpha, b_alpha, a_mu, b_mu, kInputs };
  enum Output { log_alpha, beta, log_mu, eta, kOutputs };

  explicit MdnGateRule(const Options& options)
      : s_(static_cast<Real>(options.s)),
        tau_(static_cast<Real>(options.tau)),
        floor_(static_cast<Real>(options.log_mu_min)) {}

  static Outcome check(const Options& options) {
    if (options.tau > 0) return {};
    return refuse(Status::bad_argument, "tau must be positive");
  }

  /// Of n steps: in [n] and, of parameters, [1]; out [n], null where it is not wanted.
  void forward(std::int64_t n, const Real* const* in, Real* const* out) const {
    for (std::int64_t t = 0; t < n; ++t) {
      const Real e = Real(2) * sigmoid(Real(2) * in[x_eta][t] / tau_), X = s_ * e * (s_ * e);
      const Real mu = decay_exponent(in[x_mu][t], *in[a_mu], *in[b_mu]);
      if (out[eta]) out[eta][t] = e;
      if (out[beta]) out[beta][t] = sigmoid(in[x_beta][t]) * (X / (Real(1) + X));
      if (out[log_alpha]) {
        out[log_alpha][t] =
            decay_exponent(in[x_alpha][t], *in[a_alpha], *in[b_alpha]) - std::log1p(X);
      }
      if (out[log_mu]) out[log_mu][t] = mu < floor_ ? floor_ : mu;
    }
  }

  /// d_out [n] in; d, of the shapes of `in`, is added to.
  void backward(std::int64_t n, const Real* const* in, const Real* const* d_out,
                Real* const* d) const {
    for (std::int64_t t = 0; t < n; ++t) {
      const Real e = Real(2) * sigmoid(Real(2) * in[x_eta][t] / tau_), X = s_ * e * (s_ * e);
      const Real rest = Real(1) / (Real(1) + X), x = in[x_beta][t], sigma = sigmoid(x);
      const Real d_beta = d_out[beta][t], d_log_alpha = d_out[log_alpha][t];
      decay_exponent_adjoint(in[x_alpha][t], *in[a_alpha], *in[b_alpha], d_log_alpha, d[x_alpha][t],
                             *d[a_alpha], *d[b_alpha]);
      d[x_beta][t] += d_beta * X * rest * sigma * sigmoid(-x);
      const Real d_X = rest * (d_beta * sigma * rest - d_log_alpha);
      const Real d_eta = d_out[eta][t] + Real(2) * s_ * s_ * e * d_X;
      // 2 - η by the mirrored sigmoid, for the same reason as η.
      const Real mirrored = Real(2) * sigmoid(-Real(2) * in[x_eta][t] / tau_);
      d[x_eta][t] += d_eta * e * mirrored / tau_;
      const Real mu = decay_exponent(in[x_mu][t], *in[a_mu], *in[b_mu]);
      if (mu < floor_) continue;
      decay_exponent_adjoint(in[x_mu][t], *in[a_mu], *in[b_mu], d_out[log_mu][t], d[x_mu][t],
                             *d[a_mu], *d[b_mu]);
    }
  }

 private:
  Real s_, tau_, floor_;
};

ASSAY_CPU_END
