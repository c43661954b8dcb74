// IEEE double as a scalar: no error bound, for quick looks and for timing.
// Elementary functions are the C library's (errors of about one ulp).
#pragma once

#include <algorithm>
#include <cmath>

#include "reference/scalars/functions.hpp"

namespace assay {

template <>
struct Functions<double> {
  static constexpr const char* kName = "double";

  static double exp(double x) { return std::exp(x); }
  static double log(double x) { return std::log(x); }
  static double log1p(double x) { return std::log1p(x); }
  static double sqrt(double x) { return std::sqrt(x); }
  static double tanh(double x) { return std::tanh(x); }
  static double sigmoid(double x) {
    if (x >= 0) return 1 / (1 + std::exp(-x));
    double e = std::exp(x);  // the other form overflows for x < -709
    return e / (1 + e);
  }
  static double softplus(double x) {
    return (x > 0 ? x : 0.0) + std::log1p(std::exp(-std::fabs(x)));
  }
  static bool less(double a, double b) { return a < b; }
  static bool is_zero(double x) { return x == 0; }
  // NaN in either argument gives NaN, so that it is never hidden.
  static double max(double a, double b) { return a > b || std::isnan(a) ? a : b; }
  static double clamp(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }
  static double heaviside(double x) { return x > 0 ? 1 : 0; }
  static double from_double(double x) { return x; }
  static double to_double(double x) { return x; }
  static bool is_finite(double x) { return std::isfinite(x); }
  static void mul_add(double& acc, double a, double b) { acc += a * b; }
  static void mul_sub(double& acc, double a, double b) { acc -= a * b; }
};

}  // namespace assay
