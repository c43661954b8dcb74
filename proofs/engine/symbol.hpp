// Symbol: a polynomial with rational coefficients in FLINT's sparse representation, as a scalar of
// the recurrences. The variables are those of the SymbolScope that is alive in the thread.
#pragma once

#include <gmp.h>
// gmp.h first, so that FLINT declares its conversions
#include <flint/fmpq_mpoly.h>

#include <concepts>
#include <map>
#include <string>

#include "reference/scalars/functions.hpp"
#include "reference/scalars/rational.hpp"

namespace assay::proofs {

class Symbol;

/// The ring of the thread while it lives: `variables` variables, and room for the fresh ones of
/// functions behind them. Symbols must not outlive it.
class SymbolScope {
 public:
  static constexpr long kFresh = 40;
  explicit SymbolScope(long variables);
  ~SymbolScope();
  SymbolScope(const SymbolScope&) = delete;
  SymbolScope& operator=(const SymbolScope&) = delete;

  static const fmpq_mpoly_ctx_struct* ring();
  static Symbol tanh(const Symbol& x);

 private:
  fmpq_mpoly_ctx_t ring_;
  long variables_;
  std::map<std::string, long> known_;
};

class Symbol {
 public:
  Symbol() { fmpq_mpoly_init(p_, SymbolScope::ring()); }
  template <std::integral Integer>
  Symbol(Integer n) : Symbol() {  // NOLINT: implicit by contract
    fmpq_mpoly_set_si(p_, static_cast<slong>(n), SymbolScope::ring());
  }
  explicit Symbol(const Rational& q);
  Symbol(const Symbol& o) : Symbol() { fmpq_mpoly_set(p_, o.p_, SymbolScope::ring()); }
  Symbol(Symbol&& o) noexcept : Symbol() { fmpq_mpoly_swap(p_, o.p_, SymbolScope::ring()); }
  ~Symbol() { fmpq_mpoly_clear(p_, SymbolScope::ring()); }
  Symbol& operator=(const Symbol& o) {
    fmpq_mpoly_set(p_, o.p_, SymbolScope::ring());
    return *this;
  }
  Symbol& operator=(Symbol&& o) noexcept {
    fmpq_mpoly_swap(p_, o.p_, SymbolScope::ring());
    return *this;
  }
  static Symbol variable(long index);

  friend Symbol operator+(const Symbol& a, const Symbol& b);
  friend Symbol operator-(const Symbol& a, const Symbol& b);
  friend Symbol operator*(const Symbol& a, const Symbol& b);
  /// By a constant; std::domain_error otherwise.
  friend Symbol operator/(const Symbol& a, const Symbol& b);
  Symbol operator-() const;
  Symbol& operator+=(const Symbol& o) { return *this = *this + o; }
  Symbol& operator-=(const Symbol& o) { return *this = *this - o; }
  Symbol& operator*=(const Symbol& o) { return *this = *this * o; }
  Symbol& operator/=(const Symbol& o) { return *this = *this / o; }
  friend bool operator==(const Symbol& a, const Symbol& b) {
    return fmpq_mpoly_equal(a.p_, b.p_, SymbolScope::ring()) != 0;
  }

  bool is_zero() const { return fmpq_mpoly_is_zero(p_, SymbolScope::ring()) != 0; }
  long terms() const { return fmpq_mpoly_length(p_, SymbolScope::ring()); }
  /// Coefficients by exponents ("2 0 1", no trailing zeros).
  std::map<std::string, Rational> coefficients() const;
  /// One line a term, "coefficient exponents", exponents ascending.
  std::string normal_form() const;

 private:
  fmpq_mpoly_t p_;
};

/// A bound of the degrees of numerator and denominator.
struct DegreeBound {
  long num = 0, den = 0;
  DegreeBound() = default;
  template <std::integral Integer>
  DegreeBound(Integer) {}  // NOLINT: implicit by contract
  static DegreeBound make(long n, long d) {
    DegreeBound b;
    b.num = n;
    b.den = d;
    return b;
  }
  friend DegreeBound operator+(DegreeBound a, DegreeBound b) {
    return make(std::max(a.num + b.den, b.num + a.den), a.den + b.den);
  }
  friend DegreeBound operator-(DegreeBound a, DegreeBound b) { return a + b; }
  friend DegreeBound operator*(DegreeBound a, DegreeBound b) {
    return make(a.num + b.num, a.den + b.den);
  }
  friend DegreeBound operator/(DegreeBound a, DegreeBound b) {
    return make(a.num + b.den, a.den + b.num);
  }
  DegreeBound operator-() const { return *this; }
  DegreeBound& operator+=(DegreeBound o) { return *this = *this + o; }
  DegreeBound& operator-=(DegreeBound o) { return *this = *this - o; }
  DegreeBound& operator*=(DegreeBound o) { return *this = *this * o; }
  DegreeBound& operator/=(DegreeBound o) { return *this = *this / o; }
};

}  // namespace assay::proofs

namespace assay {

template <>
struct Functions<proofs::Symbol> {
  static constexpr const char* kName = "Symbol";
  static proofs::Symbol tanh(const proofs::Symbol& x) { return proofs::SymbolScope::tanh(x); }
  static void mul_add(proofs::Symbol& acc, const proofs::Symbol& a, const proofs::Symbol& b) {
    acc += a * b;
  }
  static void mul_sub(proofs::Symbol& acc, const proofs::Symbol& a, const proofs::Symbol& b) {
    acc -= a * b;
  }
};

template <>
struct Functions<proofs::DegreeBound> {
  static constexpr const char* kName = "DegreeBound";
  static proofs::DegreeBound tanh(proofs::DegreeBound) { return proofs::DegreeBound::make(1, 0); }
  static void mul_add(proofs::DegreeBound& acc, proofs::DegreeBound a, proofs::DegreeBound b) {
    acc += a * b;
  }
  static void mul_sub(proofs::DegreeBound& acc, proofs::DegreeBound a, proofs::DegreeBound b) {
    acc -= a * b;
  }
};

}  // namespace assay
