// Dual<R>: a value and its tangent along one direction, v + d eps with eps^2 = 0, over any scalar.
//
// Derivatives of elementary functions are written in terms of the value y itself (exp' = y,
// tanh' = 1 - y^2, sigmoid' = y (1 - y), sqrt' = 1 / (2 y)), which keeps them meaningful for the
// random symbols of Field. A tangent that is exactly zero stays exactly zero, even where the
// derivative does not exist (sqrt at 0). At a tie, max and clamp follow heaviside(0) = 0: max(a, b)
// has the tangent of b, and an undecided Ball gets an enclosure of both tangents.
#pragma once

#include <concepts>
#include <utility>

#include "reference/scalars/functions.hpp"

namespace assay {

template <class R>
struct Dual {
  R v{};
  R d{};

  Dual() = default;
  template <std::integral Integer>
  Dual(Integer n) : v(n) {}               // NOLINT: implicit by contract
  Dual(R value) : v(std::move(value)) {}  // NOLINT: a constant
  Dual(R value, R tangent) : v(std::move(value)), d(std::move(tangent)) {}

  friend Dual operator+(const Dual& a, const Dual& b) { return {R(a.v + b.v), R(a.d + b.d)}; }
  friend Dual operator-(const Dual& a, const Dual& b) { return {R(a.v - b.v), R(a.d - b.d)}; }
  friend Dual operator*(const Dual& a, const Dual& b) {
    return {R(a.v * b.v), R(a.d * b.v + a.v * b.d)};
  }
  friend Dual operator/(const Dual& a, const Dual& b) {
    R q = a.v / b.v;
    R tangent = (a.d - q * b.d) / b.v;
    return {std::move(q), std::move(tangent)};
  }
  Dual operator-() const { return {R(-v), R(-d)}; }
  Dual& operator+=(const Dual& o) {
    v += o.v;
    d += o.d;
    return *this;
  }
  Dual& operator-=(const Dual& o) {
    v -= o.v;
    d -= o.d;
    return *this;
  }
  Dual& operator*=(const Dual& o) { return *this = *this * o; }
  Dual& operator/=(const Dual& o) { return *this = *this / o; }
};

template <class R>
struct Functions<Dual<R>> {
  using F = Functions<R>;
  using D = Dual<R>;
  static constexpr const char* kName = "Dual";

  static D exp(const D& x) {
    R y = F::exp(x.v);
    R slope = y;
    return chain(std::move(y), x, [&] { return slope; });
  }
  static D log(const D& x) {
    return chain(F::log(x.v), x, [&] { return R(R(1) / x.v); });
  }
  static D log1p(const D& x) {
    return chain(F::log1p(x.v), x, [&] { return R(R(1) / (R(1) + x.v)); });
  }
  static D sqrt(const D& x) {
    R y = F::sqrt(x.v);
    R twice = y + y;
    return chain(std::move(y), x, [&] { return R(R(1) / twice); });
  }
  static D tanh(const D& x) {
    R y = F::tanh(x.v);
    R slope = R(1) - y * y;
    return chain(std::move(y), x, [&] { return slope; });
  }
  static D sigmoid(const D& x) {
    R y = F::sigmoid(x.v);
    R slope = y * (R(1) - y);
    return chain(std::move(y), x, [&] { return slope; });
  }
  static D softplus(const D& x) {
    return chain(F::softplus(x.v), x, [&] { return F::sigmoid(x.v); });
  }
  static bool less(const D& a, const D& b) { return F::less(a.v, b.v); }
  static bool is_zero(const D& x) { return F::is_zero(x.v) && F::is_zero(x.d); }
  static D max(const D& a, const D& b) {
    if (F::less(b.v, a.v)) return a;
    if (F::less(a.v, b.v)) return b;
    return {F::max(a.v, b.v), select(F::heaviside(a.v - b.v), a.d, b.d)};
  }
  static D clamp(const D& x, const D& lo, const D& hi) { return -max(-max(x, lo), -hi); }
  static D heaviside(const D& x) { return {F::heaviside(x.v), R(0)}; }
  static D from_double(double x) { return {F::from_double(x), R(0)}; }
  static double to_double(const D& x) { return F::to_double(x.v); }
  static bool is_finite(const D& x) { return F::is_finite(x.v) && F::is_finite(x.d); }
  static void mul_add(D& acc, const D& a, const D& b) {
    F::mul_add(acc.d, a.d, b.v);
    F::mul_add(acc.d, a.v, b.d);
    F::mul_add(acc.v, a.v, b.v);
  }
  static void mul_sub(D& acc, const D& a, const D& b) {
    F::mul_sub(acc.d, a.d, b.v);
    F::mul_sub(acc.d, a.v, b.d);
    F::mul_sub(acc.v, a.v, b.v);
  }

 private:
  // The slope is evaluated only for a tangent that is not exactly zero: it may be a division by 0.
  template <class Slope>
  static D chain(R y, const D& x, Slope slope) {
    if (F::is_zero(x.d)) return {std::move(y), R(0)};
    return {std::move(y), R(slope() * x.d)};
  }
  // weight a + (1 - weight) b, for weight 0, 1 or the ball [0, 1].
  static R select(const R& weight, const R& a, const R& b) { return b + weight * (a - b); }
};

}  // namespace assay
