// Rational: exact arithmetic in Q (GMP through Boost). Identities between forms of a recurrence are
// tested with it at tolerance zero.
//
// Functions that leave Q throw InexactOperation unless the value is rational: exp(0), exp(-inf),
// log(1), log1p(0), tanh(0), sigmoid(0), sqrt of squares. -inf exists only as a log gate that is
// switched off: it may be copied, compared and given to exp; arithmetic on it throws.
#pragma once

#include <boost/multiprecision/gmp.hpp>
#include <concepts>
#include <string>
#include <utility>

#include "reference/scalars/functions.hpp"

namespace assay {

class Rational {
 public:
  using Number = boost::multiprecision::number<boost::multiprecision::gmp_rational,
                                               boost::multiprecision::et_off>;

  Rational() = default;
  template <std::integral Integer>
  Rational(Integer n) : value_(n) {}  // NOLINT: implicit by contract
  explicit Rational(Number value) : value_(std::move(value)) {}

  // numerator / denominator; a zero denominator throws std::domain_error.
  static Rational ratio(long numerator, long denominator);
  static Rational minus_infinity();

  bool is_minus_infinity() const { return minus_infinity_; }
  const Number& value() const { return value_; }
  std::string to_string() const;  // "3/4" or "-inf"

  Rational& operator+=(const Rational& o);
  Rational& operator-=(const Rational& o);
  Rational& operator*=(const Rational& o);
  Rational& operator/=(const Rational& o);  // division by zero throws std::domain_error
  Rational operator-() const;
  friend Rational operator+(Rational a, const Rational& b) { return std::move(a += b); }
  friend Rational operator-(Rational a, const Rational& b) { return std::move(a -= b); }
  friend Rational operator*(Rational a, const Rational& b) { return std::move(a *= b); }
  friend Rational operator/(Rational a, const Rational& b) { return std::move(a /= b); }
  friend bool operator==(const Rational& a, const Rational& b) {
    return a.minus_infinity_ == b.minus_infinity_ && a.value_ == b.value_;
  }
  friend bool operator<(const Rational& a, const Rational& b) {
    if (b.minus_infinity_) return false;
    return a.minus_infinity_ || a.value_ < b.value_;
  }

 private:
  void require_finite(const Rational& o, const char* operation) const;

  Number value_;
  bool minus_infinity_ = false;  // value_ is then 0
};

template <>
struct Functions<Rational> {
  static constexpr const char* kName = "Rational";

  static Rational exp(const Rational& x);
  static Rational log(const Rational& x);
  static Rational log1p(const Rational& x);
  static Rational sqrt(const Rational& x);
  static Rational tanh(const Rational& x);
  static Rational sigmoid(const Rational& x);
  static Rational softplus(const Rational& x);
  static bool less(const Rational& a, const Rational& b) { return a < b; }
  static bool is_zero(const Rational& x) { return !x.is_minus_infinity() && x.value().is_zero(); }
  static Rational max(const Rational& a, const Rational& b) { return b < a ? a : b; }
  static Rational clamp(const Rational& x, const Rational& lo, const Rational& hi) {
    return x < lo ? lo : hi < x ? hi : x;
  }
  static Rational heaviside(const Rational& x) { return Rational(0) < x ? 1 : 0; }
  static Rational from_double(double x);       // +inf throws InexactOperation
  static double to_double(const Rational& x);  // nearest double
  static bool is_finite(const Rational& x) { return !x.is_minus_infinity(); }
  static void mul_add(Rational& acc, const Rational& a, const Rational& b) { acc += a * b; }
  static void mul_sub(Rational& acc, const Rational& a, const Rational& b) { acc -= a * b; }
};

}  // namespace assay
