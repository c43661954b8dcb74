// RMSNorm.   [M2RNN v2, App. C, Eqs. 26-33, with eps kept]
//
//   s = (Σ_i x_i² / d + eps)^{-1/2}          y_i = s x_i w_i
//   p_i = w_i d_y_i,  r = Σ_i p_i x_i        d_x_i = s p_i - r s³ x_i / d        d_w_i = s x_i
//   d_y_i
#pragma once

#include "reference/recurrences/step_recurrence.hpp"

namespace assay {

inline OptionSpec rms_eps_option() {
  return {"eps", OptionType::real, OptionValue(1e-6), "added to the mean square", 0.0, kInf};
}

/// s for the given sum of squares over d elements. Throws InputError when both it and eps are 0.
template <class Real>
Real rms_scale(const Context<Real>& c, const Real& sum_of_squares, std::int64_t d) {
  const Real eps = fn::from_double<Real>(*option_real(*c.problem, "eps"));
  const Real mean = sum_of_squares / Real(static_cast<int>(d)) + eps;
  if (fn::is_zero(mean)) throw InputError("a zero row cannot be normalised with eps 0");
  return Real(1) / fn::sqrt(mean);
}

template <class Real>
void rms_forward(std::int64_t n, const Real* x, const Real* w, const Real& s, Real* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = s * x[i] * w[i];
}

/// This part's contribution to r = Σ p x, and d_w. Adds into d_w.
template <class Real>
Real rms_inner(std::int64_t n, const Real* x, const Real* w, const Real& s, const Real* d_y,
               Real* d_w) {
  Real r = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    fn::mul_add(r, w[i] * d_y[i], x[i]);
    fn::mul_add(d_w[i], s * x[i], d_y[i]);
  }
  return r;
}

/// d_x_i += s p_i - r s³ x_i / d, with r and s those of all d elements.
template <class Real>
void rms_backward(std::int64_t n, std::int64_t d, const Real* x, const Real* w, const Real& s,
                  const Real& r, const Real* d_y, Real* d_x) {
  const Real cubic = r * s * s * s / Real(static_cast<int>(d));
  for (std::int64_t i = 0; i < n; ++i) {
    fn::mul_add(d_x[i], s, w[i] * d_y[i]);
    fn::mul_sub(d_x[i], cubic, x[i]);
  }
}

struct Rmsnorm : StepOperation<Rmsnorm> {
  enum Input { x, weight };

  static Schema schema(const Case*) {
    Schema s;
    s.op = "rmsnorm";
    s.title = "RMSNorm, y = x (mean x^2 + eps)^-1/2 weight";
    s.source = "[M2RNN v2, App. C]";
    s.inputs = {{"x", "BTD", Role::token, "input", {}},
                {"weight", "D", Role::param, "scale of each channel (default 1)", {}, true, 1}};
    s.outputs = {{"y", "BTD", "normalised input"}};
    s.options = {rms_eps_option()};
    return s;
  }

  /// s.
  template <class Real>
  static std::int64_t saved_size(const Context<Real>&) {
    return 1;
  }

  template <class Real>
  static void step(Context<Real>& c, const Block<Real>& in, Real*, const Block<Real>& out,
                   Real* s) {
    const std::int64_t D = c.size('D');
    Real sum = 0;
    la::reduce_add(sum, D, in(x), in(x));
    *s = rms_scale(c, sum, D);
    rms_forward(D, in(x), in(weight), *s, out(0));
  }

  template <class Real>
  static void adjoint_step(Context<Real>& c, const Block<Real>& in, const Real*, const Real*,
                           const Real* s, const Block<Real>& d_out, Real*,
                           const Block<Real>& d_in) {
    const std::int64_t D = c.size('D');
    const Real r = rms_inner(D, in(x), in(weight), *s, d_out(0), d_in(weight));
    rms_backward(D, D, in(x), in(weight), *s, r, d_out(0), d_in(x));
  }
};

}  // namespace assay

ASSAY_OPERATION(Rmsnorm, rmsnorm)
