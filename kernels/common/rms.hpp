// RMSNorm of a row, whole or split over P shards of D channels, d = P D: each shard adds one number
// to a sum forward and one backward, in the order of the shards.
//
//   s = (Σ x² / d + eps)^{-1/2}      y = s x w
//   p = w d_y,  r = Σ p x            d_x = s p - r s³ x / d      d_w = s x d_y
#pragma once

#include <cmath>

#include "kernels/common/kernels.hpp"
#include "kernels/common/linalg.hpp"
#include "kernels/common/sequence.hpp"

ASSAY_CPU_BEGIN

template <class Real>
Real rms_scale(Real sum_of_squares, std::int64_t d, Real eps) {
  return Real(1) / std::sqrt(sum_of_squares / static_cast<Real>(d) + eps);
}

/// Fields x, weight; output y.
template <class Real>
class RmsNorm {
 public:
  using Scalar = Real;
  explicit RmsNorm(const Binding& b)
      : P_(b.axis('P') > 0 ? b.axis('P') : 1),
        D_(b.axis('D')),
        eps_(static_cast<Real>(b.options.eps)) {}
  static Outcome check(const Binding&) { return {}; }
  std::int64_t state_part(int) const { return 0; }
  std::int64_t state_size() const { return 0; }
  std::int64_t block_steps(std::int64_t) const { return 64; }

  void forward(std::int64_t n, const Fields<Real>& in, Real*, Real* const* out, Arena&) const {
    const std::int64_t width = P_ * D_;
    for (std::int64_t t = 0; out[0] && t < n; ++t) {
      const Real *x = in.at(0, t), *w = in.data[1], s = scale(x);
      Real* y = out[0] + t * width;
      for (std::int64_t i = 0; i < width; ++i) y[i] = s * x[i] * w[i];
    }
  }
  void backward(std::int64_t n, const Fields<Real>& in, const Real*, Real* const* d_out, Real*,
                const Fields<Real>& d, Arena& arena) const {
    const std::int64_t width = P_ * D_;
    Real* p = arena.take<Real>(width);
    for (std::int64_t t = 0; t < n; ++t) {
      const Real *x = in.at(0, t), *w = in.data[1], *d_y = d_out[0] + t * width, s = scale(x);
      Real *d_x = d.at(0, t), *d_w = d.data[1], r = 0;
      for (std::int64_t i = 0; i < width; ++i) {
        p[i] = w[i] * d_y[i];
        d_w[i] += s * x[i] * d_y[i];
      }
      for (std::int64_t shard = 0; shard < P_; ++shard) {
        r += dot(D_, p + shard * D_, x + shard * D_);
      }
      const Real cubic = r * s * s * s / static_cast<Real>(width);
      for (std::int64_t i = 0; i < width; ++i) d_x[i] += s * p[i] - cubic * x[i];
    }
  }

 private:
  Real scale(const Real* x) const {
    Real sum = 0;
    for (std::int64_t shard = 0; shard < P_; ++shard) {
      sum += dot(D_, x + shard * D_, x + shard * D_);
    }
    return rms_scale(sum, P_ * D_, eps_);
  }
  std::int64_t P_, D_;
  Real eps_;
};

ASSAY_CPU_END
