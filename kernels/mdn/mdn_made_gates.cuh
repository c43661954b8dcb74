// Where mdn makes its gates itself: from gradients of the gates to those of the pre-activations.
#pragma once

#include "kernels/mdn/mdn_unit.cuh"

namespace assay::cuda {

/// The gradient of a pre-activation and, of alpha's and mu's, that of the scale; that of the offset
/// is the former.
struct MdnMadeGradient {
  float d_x = 0, d_a = 0;
};
enum MdnMade { kMadeAlpha, kMadeBeta, kMadeMu, kMadeEta };

/// Of one pre-activation of a step whose gates are `gates` and have the gradients `d`.
__device__ __forceinline__ MdnMadeGradient made_gradient(const MdnParams& p, int which,
                                                         std::int64_t batch, std::int64_t t,
                                                         int head, const MdnGates& gates,
                                                         const MdnGates& d) {
  const float d_log_alpha = gate_gradient(true, gates.alpha, d.alpha);
  if (which == kMadeAlpha || which == kMadeMu) {
    const bool mu = which == kMadeMu;
    const DecayExponent e =
        mu ? exponent_of_mu(p.made, token_element(p.mu, batch, t, head), head)
           : exponent_of_alpha(p.made, token_element(p.alpha, batch, t, head), head);
    float d_log = mu ? gate_gradient(true, gates.mu, d.mu) : d_log_alpha;
    const bool passes = ASSAY_MDN_IS_FAULT(p, gate_floor_passes);
    if (mu && e.value() < p.made.log_mu_min && !passes) d_log = 0;
    return {e.d_z() * d_log, e.d_a() * d_log};
  }
  const float x_eta = token_element(p.eta, batch, t, head);
  const float x_beta = token_element(p.beta, batch, t, head);
  const GateAngle angle(x_eta, p.made.s, p.made.tau);
  if (which == kMadeBeta) return {angle.d_x_beta(x_beta, d.beta), 0};
  return {angle.d_x_eta(x_eta, p.made.tau, x_beta, d_log_alpha, d.beta, d.eta), 0};
}

}  // namespace assay::cuda
