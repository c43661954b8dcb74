// The decay parametrisation g = -a softplus(x + b) of the gate parts.
#pragma once

#include "reference/scalars/scalars.hpp"

namespace assay {

template <class Real>
Real decay_exponent(const Real& x, const Real& a, const Real& b) {
  return -(a * fn::softplus(x + b));
}

/// g = -a softplus(x + b): d_x = d_b = -a σ(x+b) d_g, d_a = -softplus(x+b) d_g; all added.
template <class Real>
void decay_exponent_adjoint(const Real& x, const Real& a, const Real& b, const Real& d_g, Real& d_x,
                            Real& d_a, Real& d_b) {
  const Real z = x + b;
  fn::mul_sub(d_a, fn::softplus(z), d_g);
  const Real d_z = a * fn::sigmoid(z) * d_g;
  d_x -= d_z;
  d_b -= d_z;
}

/// SiLU: y = x σ(x), y' = σ + x σ (1 - σ).
template <class Real>
Real silu(const Real& x) {
  return x * fn::sigmoid(x);
}
template <class Real>
Real silu_slope(const Real& x) {
  const Real s = fn::sigmoid(x);
  return s + x * s * (Real(1) - s);
}

}  // namespace assay
