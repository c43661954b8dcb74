// Elementary functions on rows, written without branches so that compilers vectorise them; and the
// scalar ones the gates use. NaN goes through all of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/common/variant.hpp"

ASSAY_CPU_BEGIN

// exp for 0 <= x <= 20: 2^n e^r with |r| <= ln(2)/2 and the minimax polynomial of Cephes' expf.
inline float exp_moderate(float x) {
  const float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float shifted = x * 1.44269504088896341f + kMagic;
  const float n = shifted - kMagic;
  float r = x - n * 0.693359375f;  // ln 2 in two parts, the first exact in few bits
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float e = (p * r) * r + r + 1.0f;
  std::int32_t bits;
  std::memcpy(&bits, &shifted, 4);
  bits = static_cast<std::int32_t>(static_cast<std::uint32_t>(bits - 0x4b400000 + 127) << 23);
  float power;
  std::memcpy(&power, &bits, 4);
  return e * power;
}

/// tanh in place. Relative error below 2^-22 (measured over all floats: kernels/tests).
/// Small arguments by the odd polynomial of Cephes' tanhf, others as 1 - 2 / (exp(2 |x|) + 1).
inline void tanh_rows(std::int64_t n, float* x) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float v = x[i], a = std::fabs(v), z = v * v;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const float small = (p * z) * v + v;
    const float clamped = a > 10.0f ? 10.0f : a;  // false for NaN, which stays
    const float large = 1.0f - 2.0f / (exp_moderate(clamped + clamped) + 1.0f);
    const float sign = std::copysign(large, v);
    x[i] = a < 0.625f ? small : sign;
  }
}
inline void tanh_rows(std::int64_t n, double* x) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = std::tanh(x[i]);
}

template <class Real>
Real sigmoid(Real x) {  // no overflow on either side
  const Real e = std::exp(-std::fabs(x)), s = Real(1) / (Real(1) + e);
  return x < Real(0) ? e * s : s;
}
template <class Real>
Real softplus(Real x) {
  const Real tail = std::log1p(std::exp(-std::fabs(x)));
  return x > Real(0) ? x + tail : tail + (x == x ? Real(0) : x);
}
template <class Real>
Real silu(Real x) {
  return x * sigmoid(x);
}
/// y' of y = x σ(x).
template <class Real>
Real silu_slope(Real x) {
  const Real s = sigmoid(x);
  return s + x * s * sigmoid(-x);
}

/// g = -a softplus(x + b) and its adjoint, the decay exponent of the gate parts.
template <class Real>
Real decay_exponent(Real x, Real a, Real b) {
  return -(a * softplus(x + b));
}
template <class Real>
void decay_exponent_adjoint(Real x, Real a, Real b, Real d_g, Real& d_x, Real& d_a, Real& d_b) {
  d_a -= softplus(x + b) * d_g;
  const Real d_z = a * sigmoid(x + b) * d_g;
  d_x -= d_z;
  d_b -= d_z;
}

ASSAY_CPU_END
