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
#include "kernels/common/elementary.hpp"
#include "kernels/common/kernels.hpp"
#include "kernels/common/sequence.hpp"

ASSAY_CPU_BEGIN

namespace {

enum Field { x_alpha, x_beta, x_mu, x_eta, a_alpha, b_alpha, a_mu, b_mu };
enum Output { log_alpha, beta, log_mu, eta };
constexpr TensorSpec kTensors[] = {
    {"x_alpha", "BTH", Role::token},
    {"x_beta", "BTH", Role::token},
    {"x_mu", "BTH", Role::token},
    {"x_eta", "BTH", Role::token},
    {"a_alpha", "H", Role::param},
    {"b_alpha", "H", Role::param},
    {"a_mu", "H", Role::param},
    {"b_mu", "H", Role::param},
    {"log_alpha", "BTH", Role::token_output},
    {"beta", "BTH", Role::token_output},
    {"log_mu", "BTH", Role::token_output},
    {"eta", "BTH", Role::token_output},
};
constexpr OpSpec kSpec{"mdn_gates", kTensors, std::size(kTensors)};

template <class Real>
class MdnGates {
 public:
  using Scalar = Real;
  explicit MdnGates(const Binding& b)
      : s_(static_cast<Real>(b.options.s)),
        tau_(static_cast<Real>(b.options.tau)),
        floor_(static_cast<Real>(b.options.log_mu_min)) {}
  static Outcome check(const Binding& b) {
    if (b.options.tau > 0) return {};
    return refuse(Status::bad_argument, "tau must be positive");
  }
  std::int64_t state_part(int) const { return 0; }
  std::int64_t state_size() const { return 0; }
  std::int64_t block_steps(std::int64_t) const { return 1024; }

  void forward(std::int64_t n, const Fields<Real>& in, Real*, Real* const* out, Arena&) const {
    for (std::int64_t t = 0; t < n; ++t) {
      const Real e = Real(2) * sigmoid(Real(2) * in.data[x_eta][t] / tau_), X = s_ * e * (s_ * e);
      const Real mu = decay_exponent(in.data[x_mu][t], *in.data[a_mu], *in.data[b_mu]);
      if (out[eta]) out[eta][t] = e;
      if (out[beta]) out[beta][t] = sigmoid(in.data[x_beta][t]) * (X / (Real(1) + X));
      if (out[log_alpha]) {
        out[log_alpha][t] =
            decay_exponent(in.data[x_alpha][t], *in.data[a_alpha], *in.data[b_alpha]) -
            std::log1p(X);
      }
      if (out[log_mu]) out[log_mu][t] = mu < floor_ ? floor_ : mu;
    }
  }

  void backward(std::int64_t n, const Fields<Real>& in, const Real*, Real* const* d_out, Real*,
                const Fields<Real>& d, Arena&) const {
    for (std::int64_t t = 0; t < n; ++t) {
      const Real e = Real(2) * sigmoid(Real(2) * in.data[x_eta][t] / tau_), X = s_ * e * (s_ * e);
      const Real rest = Real(1) / (Real(1) + X), x = in.data[x_beta][t], sigma = sigmoid(x);
      const Real d_beta = d_out[beta][t], d_log_alpha = d_out[log_alpha][t];
      decay_exponent_adjoint(in.data[x_alpha][t], *in.data[a_alpha], *in.data[b_alpha], d_log_alpha,
                             d.data[x_alpha][t], *d.data[a_alpha], *d.data[b_alpha]);
      d.data[x_beta][t] += d_beta * X * rest * sigma * sigmoid(-x);
      const Real d_X = rest * (d_beta * sigma * rest - d_log_alpha);
      const Real d_eta = d_out[eta][t] + Real(2) * s_ * s_ * e * d_X;
      // 2 - η by the mirrored sigmoid, for the same reason as η.
      const Real mirrored = Real(2) * sigmoid(-Real(2) * in.data[x_eta][t] / tau_);
      d.data[x_eta][t] += d_eta * e * mirrored / tau_;
      const Real mu = decay_exponent(in.data[x_mu][t], *in.data[a_mu], *in.data[b_mu]);
      if (mu < floor_) continue;
      decay_exponent_adjoint(in.data[x_mu][t], *in.data[a_mu], *in.data[b_mu], d_out[log_mu][t],
                             d.data[x_mu][t], *d.data[a_mu], *d.data[b_mu]);
    }
  }

 private:
  Real s_, tau_, floor_;
};

}  // namespace

const OpKernel mdn_gates_kernel = sequence_kernel<MdnGates, kSpec>();

ASSAY_CPU_END
