// The gates of Momentum DeltaNet from their pre-activations, in fp32.   [MDN v1, Sec. 3.3]
//
//   η = tanh(x_η / τ) + 1 = 2 σ(2 x_η / τ)     X = s² η²     cos² θ = 1/(1+X), sin² θ = X/(1+X)
//   log α = -a_α softplus(x_α + b_α) + log cos² θ             β = σ(x_β) sin² θ
//   log μ = max(-a_μ softplus(x_μ + b_μ), log_mu_min)
//
// The sigmoid keeps all digits of a small η; 2 - η comes from the mirrored one for the same reason.
// Backward:
//
//   d_x_β = d_β sin² θ σ(x_β) σ(-x_β)
//   d_x_η = (η d_η + 2 sin² θ (d_β σ(x_β) cos² θ - d_logα)) (2 - η) / τ
#pragma once

#include "kernels/common/cuda/element.cuh"
#include "kernels/common/cuda/made_gates.hpp"

namespace assay::cuda {

__device__ __forceinline__ float gate_sigmoid(float x) {
  const float e = expf(-fabsf(x)), s = 1.0f / (1.0f + e);
  return x < 0 ? e * s : s;
}
__device__ __forceinline__ float gate_softplus(float x) {
  const float tail = log1pf(expf(-fabsf(x)));
  return x > 0 ? x + tail : tail + (x == x ? 0.0f : x);
}

/// A decay exponent g = -a softplus(z), z = x + b: d_x = d_b = -a σ(z) d_g, d_a = -softplus(z) d_g.
struct DecayExponent {
  float z, a;
  __device__ __forceinline__ float value() const { return -a * gate_softplus(z); }
  __device__ __forceinline__ float d_z() const { return -a * gate_sigmoid(z); }
  __device__ __forceinline__ float d_a() const { return -gate_softplus(z); }
};

/// With the parameters of a head.
__device__ __forceinline__ DecayExponent decay_exponent(float x, const Strided& a, const Strided& b,
                                                        int head) {
  const auto of_head = [&](const Strided& y) {
    return load_element(y.data + head / y.share * y.head, y.dtype);
  };
  return {x + of_head(b), of_head(a)};
}
__device__ __forceinline__ DecayExponent exponent_of_alpha(const MadeGates& m, float x, int head) {
  return decay_exponent(x, m.parameter[MadeGates::a_alpha], m.parameter[MadeGates::b_alpha], head);
}
__device__ __forceinline__ DecayExponent exponent_of_mu(const MadeGates& m, float x, int head) {
  return decay_exponent(x, m.parameter[MadeGates::a_mu], m.parameter[MadeGates::b_mu], head);
}

/// What is made of x_η. X may be infinite, or NaN as x_η is.
struct GateAngle {
  float eta, cos2, sin2;
  __device__ __forceinline__ GateAngle(float x_eta, float s, float tau) {
    eta = 2.0f * gate_sigmoid(2.0f * x_eta / tau);
    root_ = s * eta;
    const float X = root_ * root_;
    cos2 = 1.0f / (1.0f + X), sin2 = X > 1.0f ? 1.0f / (1.0f + 1.0f / X) : X * cos2;
  }
  __device__ __forceinline__ float log_cos2() const {
    return fabsf(root_) < 1e18f ? -log1pf(root_ * root_) : -2.0f * logf(fabsf(root_));
  }
  /// The gradients of x_β and x_η.
  __device__ __forceinline__ float d_x_beta(float x_beta, float d_beta) const {
    return d_beta * sin2 * gate_sigmoid(x_beta) * gate_sigmoid(-x_beta);
  }
  __device__ __forceinline__ float d_x_eta(float x_eta, float tau, float x_beta, float d_log_alpha,
                                           float d_beta, float d_eta) const {
    const float through_angle = sin2 * (d_beta * gate_sigmoid(x_beta) * cos2 - d_log_alpha);
    const float other = 2.0f * gate_sigmoid(-2.0f * x_eta / tau);  // 2 - η
    return (eta * d_eta + 2.0f * through_angle) * other / tau;
  }

 private:
  float root_;  // s η
};

/// The gates of a step, none of them a logarithm; as they stand, they change nothing.
struct MdnGates {
  float alpha = 1, mu = 1, beta = 0, eta = 1;
};

__device__ __forceinline__ MdnGates made_gates(const MadeGates& m, float x_alpha, float x_beta,
                                               float x_mu, float x_eta, int head) {
  const GateAngle angle(x_eta, m.s, m.tau);
  const float log_mu = exponent_of_mu(m, x_mu, head).value();
  MdnGates g;
  g.alpha = expf(exponent_of_alpha(m, x_alpha, head).value()) * angle.cos2;
  g.mu = expf(log_mu < m.log_mu_min ? m.log_mu_min : log_mu);
  g.beta = gate_sigmoid(x_beta) * angle.sin2;
  g.eta = angle.eta;
  return g;
}

}  // namespace assay::cuda
