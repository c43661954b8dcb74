#include "proofs/checker/interval.hpp"

#include <algorithm>

namespace assay::checker {
namespace {

constexpr unsigned kBits = 192;

mpq_class rounded(const mpq_class& x, bool up) {
  mpz_class n = x.get_num(), scaled;
  mpz_mul_2exp(n.get_mpz_t(), n.get_mpz_t(), kBits);
  if (up) {
    mpz_cdiv_q(scaled.get_mpz_t(), n.get_mpz_t(), x.get_den().get_mpz_t());
  } else {
    mpz_fdiv_q(scaled.get_mpz_t(), n.get_mpz_t(), x.get_den().get_mpz_t());
  }
  mpq_class result(scaled);
  mpq_div_2exp(result.get_mpq_t(), result.get_mpq_t(), kBits);
  return result;
}

/// exp of a number: Taylor at x / 2^k with |x / 2^k| <= 1/2, then k squarings.
Interval exp_of(const mpq_class& x) {
  if (abs(x) > 100000) throw Rejected("exp of a number beyond 1e5");
  unsigned k = 0;
  mpq_class y = x;
  while (abs(y) > mpq_class(1, 2)) {
    y /= 2;
    ++k;
  }
  const Interval at(y, y);
  Interval sum(1), term(1);
  for (int n = 1; n <= 40; ++n) {
    term = term * at * Interval(mpq_class(1, n), mpq_class(1, n));
    sum = sum + term;
  }
  // the rest is at most |y|^41 / 41! * 1.1 < 2^-205
  mpq_class rest(1);
  mpq_div_2exp(rest.get_mpq_t(), rest.get_mpq_t(), 200);
  sum = sum + Interval(-rest, rest);
  for (; k > 0; --k) sum = sum * sum;
  return {std::max(sum.lo, mpq_class(0)), sum.hi};
}

/// 2 atanh(z) = 2 (z + z³/3 + z⁵/5 + ...) for |z| <= 1/3
Interval two_atanh(const mpq_class& z) {
  const Interval at(z, z), square = at * at;
  Interval power = at, sum = at;
  for (int n = 1; n <= 70; ++n) {
    power = power * square;
    sum = sum + power * Interval(mpq_class(1, 2 * n + 1), mpq_class(1, 2 * n + 1));
  }
  // the rest is at most |z|^143 / 143 / (1 - 1/9) < 2^-230
  mpq_class rest(1);
  mpq_div_2exp(rest.get_mpq_t(), rest.get_mpq_t(), 225);
  sum = sum + Interval(-rest, rest);
  return sum + sum;
}

Interval log_of(const mpq_class& x) {
  if (x <= 0) throw Rejected("log of a number that may not be positive");
  long e = 0;
  mpq_class m = x;
  while (m > 2) {
    m /= 2;
    ++e;
  }
  while (m < 1) {
    m *= 2;
    --e;
  }
  return two_atanh((m - 1) / (m + 1)) + Interval(e) * two_atanh(mpq_class(1, 3));
}

Interval value(const std::string& function, const mpq_class& x) {
  if (function == "exp") return exp_of(x);
  if (function == "log") return log_of(x);
  if (function == "sigmoid") return Interval(1) / (Interval(1) + exp_of(-x));
  if (function == "tanh") return Interval(1) - Interval(2) / (exp_of(2 * x) + Interval(1));
  if (function == "softplus") {
    const Interval inner = Interval(1) + exp_of(x);
    return {log_of(inner.lo).lo, log_of(inner.hi).hi};
  }
  throw Rejected("there is no function '" + function + "'");
}

}  // namespace

Interval::Interval(mpq_class l, mpq_class h) : lo(rounded(l, false)), hi(rounded(h, true)) {}

Interval operator*(const Interval& a, const Interval& b) {
  const mpq_class p[] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
  return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
}

Interval operator/(const Interval& a, const Interval& b) {
  if (b.lo <= 0 && b.hi >= 0) throw Rejected("a division by an interval around 0");
  return a * Interval(1 / b.hi, 1 / b.lo);
}

Interval Interval::apply(const std::string& function) const {
  return {value(function, lo).lo, value(function, hi).hi};
}

}  // namespace assay::checker
