// The checker's own arithmetic, on GMP alone: rationals, residues modulo a prime, polynomials in
// several variables with rational coefficients, and fractions of those.
#pragma once

#include <gmpxx.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "proofs/checker/json.hpp"
#include "reference/scalars/functions.hpp"

namespace assay::checker {

/// "3", "-7/5"; throws Rejected for anything else, and for a fraction that is not in lowest terms.
mpq_class parse_rational(const std::string& text);

/// mpq_class without expression templates, so that templates on a scalar can use it.
struct Exact {
  mpq_class value;
  Exact() = default;
  template <std::integral Integer>
  Exact(Integer n) : value(static_cast<long>(n)) {}  // NOLINT: implicit by contract
  explicit Exact(mpq_class v) : value(std::move(v)) {}
  friend Exact operator+(const Exact& a, const Exact& b) {
    return Exact(mpq_class(a.value + b.value));
  }
  friend Exact operator-(const Exact& a, const Exact& b) {
    return Exact(mpq_class(a.value - b.value));
  }
  friend Exact operator*(const Exact& a, const Exact& b) {
    return Exact(mpq_class(a.value * b.value));
  }
  friend Exact operator/(const Exact& a, const Exact& b) {
    if (b.value == 0) throw Rejected("a division by 0");
    return Exact(mpq_class(a.value / b.value));
  }
  Exact operator-() const { return Exact(mpq_class(-value)); }
  Exact& operator+=(const Exact& o) { return *this = *this + o; }
  Exact& operator-=(const Exact& o) { return *this = *this - o; }
  Exact& operator*=(const Exact& o) { return *this = *this * o; }
  Exact& operator/=(const Exact& o) { return *this = *this / o; }
  friend bool operator==(const Exact& a, const Exact& b) { return a.value == b.value; }
};

/// A residue modulo 2^61 - 1, by 128-bit remainders.
struct Residue {
  static constexpr std::uint64_t kPrime = 2305843009213693951u;
  std::uint64_t value = 0;
  Residue() = default;
  template <std::integral Integer>
  Residue(Integer n)  // NOLINT: implicit by contract
      : value(static_cast<std::uint64_t>((static_cast<__int128>(n) % kPrime + kPrime) % kPrime)) {}
  friend Residue operator+(Residue a, Residue b) { return from(a.value + b.value); }
  friend Residue operator-(Residue a, Residue b) { return from(a.value + kPrime - b.value); }
  friend Residue operator*(Residue a, Residue b) {
    return from(static_cast<unsigned __int128>(a.value) * b.value);
  }
  friend Residue operator/(Residue a, Residue b) { return a * b.inverse(); }
  Residue operator-() const { return from(kPrime - value); }
  Residue& operator+=(Residue o) { return *this = *this + o; }
  Residue& operator-=(Residue o) { return *this = *this - o; }
  Residue& operator*=(Residue o) { return *this = *this * o; }
  Residue& operator/=(Residue o) { return *this = *this / o; }
  friend bool operator==(Residue a, Residue b) { return a.value == b.value; }
  Residue inverse() const;

  static Residue from(unsigned __int128 x) {
    Residue r;
    r.value = static_cast<std::uint64_t>(x % kPrime);
    return r;
  }
};

/// A polynomial with rational coefficients. A monomial is the string of its exponents, variable by
/// variable, without trailing zeros.
class Poly {
 public:
  using Terms = std::unordered_map<std::string, mpq_class>;

  Poly() = default;
  template <std::integral Integer>
  Poly(Integer n) {  // NOLINT: implicit by contract
    if (n != 0) terms_[""] = static_cast<long>(n);
  }
  explicit Poly(const mpq_class& c) {
    if (c != 0) terms_[""] = c;
  }
  static Poly variable(std::size_t index);

  const Terms& terms() const { return terms_; }
  bool is_zero() const { return terms_.empty(); }
  bool is_constant() const { return terms_.empty() || (terms_.size() == 1 && terms_.count("")); }
  mpq_class constant() const;

  Poly& operator+=(const Poly& o) { return add(o, 1); }
  Poly& operator-=(const Poly& o) { return add(o, -1); }
  Poly& operator*=(const Poly& o) { return *this = *this * o; }
  /// Only by constants other than 0; Rejected otherwise.
  Poly& operator/=(const Poly& o);
  friend Poly operator+(Poly a, const Poly& b) { return std::move(a += b); }
  friend Poly operator-(Poly a, const Poly& b) { return std::move(a -= b); }
  friend Poly operator*(const Poly& a, const Poly& b);
  friend Poly operator/(Poly a, const Poly& b) { return std::move(a /= b); }
  Poly operator-() const { return Poly() - *this; }
  friend bool operator==(const Poly& a, const Poly& b) { return (a - b).is_zero(); }

  /// One line a term, "coefficient exponents...", terms in ascending order of their exponents.
  std::string normal_form() const;

 private:
  Poly& add(const Poly& o, int sign);
  Terms terms_;
};

/// A quotient of polynomials, never reduced.
struct Fraction {
  Poly num, den = 1;
  Fraction() = default;
  template <std::integral Integer>
  Fraction(Integer n) : num(n) {}  // NOLINT: implicit by contract
  explicit Fraction(Poly n, Poly d = 1) : num(std::move(n)), den(std::move(d)) {}
  friend Fraction operator+(const Fraction& a, const Fraction& b) {
    if (a.den == b.den) return Fraction(a.num + b.num, a.den);
    return Fraction(a.num * b.den + b.num * a.den, a.den * b.den);
  }
  friend Fraction operator-(const Fraction& a, const Fraction& b) { return a + Fraction(-1) * b; }
  friend Fraction operator*(const Fraction& a, const Fraction& b) {
    return Fraction(a.num * b.num, a.den * b.den);
  }
  friend Fraction operator/(const Fraction& a, const Fraction& b) {
    if (b.num.is_zero()) throw Rejected("a division by 0");
    return Fraction(a.num * b.den, a.den * b.num);
  }
};

/// tanh of polynomials: a fresh variable for each new argument, while one of these lives in the
/// thread. Nothing is known of it but tanh(0) = 0.
class FreshVariables {
 public:
  explicit FreshVariables(std::size_t first);
  ~FreshVariables();
  FreshVariables(const FreshVariables&) = delete;
  FreshVariables& operator=(const FreshVariables&) = delete;
  static Poly tanh(const Poly& x);

 private:
  std::size_t next_;
  std::map<std::string, std::size_t> known_;
};

/// A bound of the degrees of numerator and denominator of a rational function, for Schwartz-Zippel.
struct Degree {
  long num = 0, den = 0;
  Degree() = default;
  template <std::integral Integer>
  Degree(Integer) {}  // NOLINT: implicit by contract
  Degree(long n, long d) : num(n), den(d) {}
  friend Degree operator+(Degree a, Degree b) {
    return {std::max(a.num + b.den, b.num + a.den), a.den + b.den};
  }
  friend Degree operator-(Degree a, Degree b) { return a + b; }
  friend Degree operator*(Degree a, Degree b) { return {a.num + b.num, a.den + b.den}; }
  friend Degree operator/(Degree a, Degree b) { return {a.num + b.den, a.den + b.num}; }
  Degree operator-() const { return *this; }
  Degree& operator+=(Degree o) { return *this = *this + o; }
  Degree& operator-=(Degree o) { return *this = *this + o; }
  Degree& operator*=(Degree o) { return *this = *this * o; }
  Degree& operator/=(Degree o) { return *this = *this / o; }
};

}  // namespace assay::checker

namespace assay {

/// What the recurrences ask of a scalar, for the checker's own: ring operations only.
template <class Real>
struct RingFunctions {
  static void mul_add(Real& acc, const Real& a, const Real& b) { acc += a * b; }
  static void mul_sub(Real& acc, const Real& a, const Real& b) { acc -= a * b; }
  static Real tanh(const Real&) { throw checker::Rejected("tanh leaves this ring"); }
};
template <>
struct Functions<checker::Exact> : RingFunctions<checker::Exact> {
  static constexpr const char* kName = "Exact";
  static checker::Exact tanh(const checker::Exact& x) {
    if (x.value != 0) throw checker::Rejected("tanh of a rational other than 0 is not rational");
    return 0;
  }
};
template <>
struct Functions<checker::Residue> : RingFunctions<checker::Residue> {
  static constexpr const char* kName = "Residue";
};
template <>
struct Functions<checker::Poly> : RingFunctions<checker::Poly> {
  static constexpr const char* kName = "Poly";
  static checker::Poly tanh(const checker::Poly& x) { return checker::FreshVariables::tanh(x); }
};
template <>
struct Functions<checker::Degree> : RingFunctions<checker::Degree> {
  static constexpr const char* kName = "Degree";
  static checker::Degree tanh(const checker::Degree&) { return {1, 0}; }
};

}  // namespace assay
