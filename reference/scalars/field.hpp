// Field: the prime field of p = 2^61 - 1. Two rational functions that agree at random points of it
// are the same up to a probability of about degree / p per point (Schwartz-Zippel), at the price
// of an integer multiplication.
//
// A residue has no order, so each value carries a `shadow`, a double that follows the real
// computation approximately. Only the shadow decides branches (less, max, clamp, heaviside); only
// the residue is a result. Division by residue 0 throws std::domain_error.
//
// exp, log, log1p, tanh, sigmoid, softplus and sqrt are fresh random symbols: a keyed hash of
// function and argument. Equal arguments give equal values, and nothing else is known about them:
// exp(a + b) is NOT exp(a) exp(b) and sqrt(x)^2 is NOT x. Together with the derivative rules of
// Dual<Field>, which are polynomial in the symbol (exp' = y, tanh' = 1 - y^2, ...), this checks a
// derivative without step or tolerance. Fixed points: exp(0) = 1, exp(-inf) = 0, tanh(0) = 0,
// log(1) = 0, log(0) = -inf, log1p(0) = 0, sqrt(0) = 0, sqrt(1) = 1, sigmoid(-inf) = 0,
// softplus(-inf) = 0, tanh(-inf) = -1.
#pragma once

#include <concepts>
#include <cstdint>

#include "reference/scalars/functions.hpp"

namespace assay {

class Field {
 public:
  static constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;

  Field() = default;
  template <std::integral Integer>
  Field(Integer n)  // NOLINT: implicit by contract
      : residue_(reduce(magnitude(n))), shadow_(static_cast<double>(n)) {
    if (n < 0 && residue_ != 0) residue_ = kPrime - residue_;
  }

  // Any residue (reduced mod p) with any shadow.
  static Field from_parts(std::uint64_t residue, double shadow) {
    return Field(reduce(residue), shadow);
  }

  // Uniform residue from the generator (its result must fill 32 or 64 bits).
  template <class Generator>
  static Field random(Generator& generator, double shadow) {
    std::uint64_t bits = generator();
    if constexpr (Generator::max() == UINT32_MAX) bits = bits << 32 | generator();
    return from_parts(bits, shadow);
  }

  std::uint64_t residue() const { return residue_; }
  double shadow() const { return shadow_; }

  Field inverse() const;  // throws std::domain_error for residue 0

  friend Field operator+(Field a, Field b) {
    std::uint64_t r = a.residue_ + b.residue_;
    return Field(r >= kPrime ? r - kPrime : r, a.shadow_ + b.shadow_);
  }
  friend Field operator-(Field a, Field b) {
    std::uint64_t r = a.residue_ + kPrime - b.residue_;
    return Field(r >= kPrime ? r - kPrime : r, a.shadow_ - b.shadow_);
  }
  friend Field operator*(Field a, Field b) {
    return Field(multiply(a.residue_, b.residue_), a.shadow_ * b.shadow_);
  }
  friend Field operator/(Field a, Field b) {
    return Field(multiply(a.residue_, b.inverse().residue_), a.shadow_ / b.shadow_);
  }
  Field operator-() const { return Field(residue_ == 0 ? 0 : kPrime - residue_, -shadow_); }
  Field& operator+=(Field o) { return *this = *this + o; }
  Field& operator-=(Field o) { return *this = *this - o; }
  Field& operator*=(Field o) { return *this = *this * o; }
  Field& operator/=(Field o) { return *this = *this / o; }

  // Equality in the field; shadows are rounded differently on different ways to the same value.
  friend bool operator==(Field a, Field b) { return a.residue_ == b.residue_; }

 private:
  Field(std::uint64_t residue, double shadow) : residue_(residue), shadow_(shadow) {}

  template <class Integer>
  static std::uint64_t magnitude(Integer n) {
    auto bits = static_cast<std::uint64_t>(n);
    return n < 0 ? 0 - bits : bits;
  }
  // 2^61 = 1 (mod p): fold the high bits onto the low ones.
  static std::uint64_t reduce(std::uint64_t x) {
    std::uint64_t r = (x & kPrime) + (x >> 61);
    return r >= kPrime ? r - kPrime : r;
  }
  static std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
    unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
    std::uint64_t r =
        (static_cast<std::uint64_t>(product) & kPrime) + static_cast<std::uint64_t>(product >> 61);
    return r >= kPrime ? r - kPrime : r;
  }

  std::uint64_t residue_ = 0;  // < kPrime
  double shadow_ = 0;
};

// Key of the random symbols, one for the whole process (threads of one evaluation must agree), so
// do not change it while an evaluation runs. Another seed gives another, independent, check.
class FieldSymbols {
 public:
  static void seed(std::uint64_t seed);
  static std::uint64_t seed();
};

template <>
struct Functions<Field> {
  static constexpr const char* kName = "Field";

  static Field exp(Field x);
  static Field log(Field x);
  static Field log1p(Field x);
  static Field sqrt(Field x);
  static Field tanh(Field x);
  static Field sigmoid(Field x);
  static Field softplus(Field x);
  static bool less(Field a, Field b) { return a.shadow() < b.shadow(); }
  static bool is_zero(Field x) { return x.residue() == 0 && !std::isinf(x.shadow()); }
  static Field max(Field a, Field b) { return a.shadow() > b.shadow() ? a : b; }
  static Field clamp(Field x, Field lo, Field hi) {
    return less(x, lo) ? lo : less(hi, x) ? hi : x;
  }
  static Field heaviside(Field x) { return x.shadow() > 0 ? 1 : 0; }
  // The dyadic rational x as an element of F_p. -inf: residue 0, shadow -inf. +inf throws
  // std::domain_error.
  static Field from_double(double x);
  static double to_double(Field x) { return x.shadow(); }
  static bool is_finite(Field x) { return std::isfinite(x.shadow()); }
  static void mul_add(Field& acc, Field a, Field b) { acc += a * b; }
  static void mul_sub(Field& acc, Field a, Field b) { acc -= a * b; }
};

}  // namespace assay
