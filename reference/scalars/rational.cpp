#include "reference/scalars/rational.hpp"

#include <mpfr.h>

#include <limits>

namespace assay {
namespace {

[[noreturn]] void refuse(const char* function, const Rational& x, const char* rule) {
  throw InexactOperation(std::string("assay::fn::") + function + "<Rational>: argument " +
                         x.to_string() + " has no exact rational result; " + rule);
}

bool is_one(const Rational& x) { return x == Rational(1); }

}  // namespace

Rational Rational::ratio(long numerator, long denominator) {
  Rational result{Number(numerator)};
  return result /= Rational(Number(denominator));
}

Rational Rational::minus_infinity() {
  Rational result;
  result.minus_infinity_ = true;
  return result;
}

std::string Rational::to_string() const { return minus_infinity_ ? "-inf" : value_.str(); }

void Rational::require_finite(const Rational& o, const char* operation) const {
  if (minus_infinity_ || o.minus_infinity_) {
    throw InexactOperation(std::string("assay::Rational: ") + operation +
                           " with an operand -inf; only exp and comparisons accept -inf");
  }
}

Rational& Rational::operator+=(const Rational& o) {
  require_finite(o, "addition");
  value_ += o.value_;
  return *this;
}
Rational& Rational::operator-=(const Rational& o) {
  require_finite(o, "subtraction");
  value_ -= o.value_;
  return *this;
}
Rational& Rational::operator*=(const Rational& o) {
  require_finite(o, "multiplication");
  value_ *= o.value_;
  return *this;
}
Rational& Rational::operator/=(const Rational& o) {
  require_finite(o, "division");
  if (o.value_.is_zero()) {
    throw std::domain_error("assay::Rational: division of " + to_string() + " by zero");
  }
  value_ /= o.value_;
  return *this;
}
Rational Rational::operator-() const {
  require_finite(*this, "negation");
  return Rational(Number(-value_));
}

Rational Functions<Rational>::exp(const Rational& x) {
  if (x.is_minus_infinity()) return 0;
  if (is_zero(x)) return 1;
  refuse("exp", x, "only 0 and -inf are accepted");
}
Rational Functions<Rational>::log(const Rational& x) {
  if (is_one(x)) return 0;
  refuse("log", x, "only 1 is accepted");
}
Rational Functions<Rational>::log1p(const Rational& x) {
  if (is_zero(x)) return 0;
  refuse("log1p", x, "only 0 is accepted");
}
Rational Functions<Rational>::tanh(const Rational& x) {
  if (is_zero(x)) return 0;
  refuse("tanh", x, "only 0 is accepted");
}
Rational Functions<Rational>::sigmoid(const Rational& x) {
  if (is_zero(x)) return Rational::ratio(1, 2);
  refuse("sigmoid", x, "only 0 is accepted");
}
Rational Functions<Rational>::softplus(const Rational& x) {
  refuse("softplus", x, "no rational argument is accepted");
}

// A fraction in lowest terms is a square exactly when numerator and denominator both are.
Rational Functions<Rational>::sqrt(const Rational& x) {
  const char* rule = "only squares of rationals are accepted";
  if (x.is_minus_infinity() || x < Rational(0)) refuse("sqrt", x, rule);
  mpq_srcptr q = x.value().backend().data();
  if (!mpz_perfect_square_p(mpq_numref(q)) || !mpz_perfect_square_p(mpq_denref(q))) {
    refuse("sqrt", x, rule);
  }
  Rational::Number root;
  mpz_sqrt(mpq_numref(root.backend().data()), mpq_numref(q));
  mpz_sqrt(mpq_denref(root.backend().data()), mpq_denref(q));
  return Rational(root);
}

Rational Functions<Rational>::from_double(double x) {
  if (std::isinf(x)) {
    if (x < 0) return Rational::minus_infinity();
    throw InexactOperation(
        "assay::fn::from_double<Rational>: +inf; of infinities only -inf is legal");
  }
  return Rational(Rational::Number(x));
}

// mpq_get_d truncates; through MPFR the result is rounded to nearest (a subnormal twice).
double Functions<Rational>::to_double(const Rational& x) {
  if (x.is_minus_infinity()) return -std::numeric_limits<double>::infinity();
  mpfr_t t;
  mpfr_init2(t, std::numeric_limits<double>::digits);
  mpfr_set_q(t, x.value().backend().data(), MPFR_RNDN);
  double result = mpfr_get_d(t, MPFR_RNDN);
  mpfr_clear(t);
  return result;
}

}  // namespace assay
