// Field and Rational.
#include <gmp.h>
#include <rapidcheck.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "reference/scalars/dual.hpp"
#include "reference/scalars/field.hpp"
#include "reference/scalars/rational.hpp"

using namespace assay;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Field element(std::uint64_t bits) { return Field::from_parts(bits, 1); }

// The rational modulo p, by GMP.
std::uint64_t modulo_p(const Rational& x) {
  mpz_t p, inverse, result;
  mpz_inits(p, inverse, result, static_cast<mpz_ptr>(nullptr));
  mpz_set_ui(p, Field::kPrime);
  mpq_srcptr q = x.value().backend().data();
  mpz_invert(inverse, mpq_denref(q), p);
  mpz_mul(result, mpq_numref(q), inverse);
  mpz_mod(result, result, p);
  std::uint64_t residue = mpz_get_ui(result);
  mpz_clears(p, inverse, result, static_cast<mpz_ptr>(nullptr));
  return residue;
}

}  // namespace

TEST_CASE("scalars/field: ring axioms and inverse", "[scalars][field]") {
  CHECK(rc::check("axioms", [](std::uint64_t i, std::uint64_t j, std::uint64_t k) {
    Field a = element(i), b = element(j), c = element(k);
    RC_ASSERT((a + b) + c == a + (b + c));
    RC_ASSERT((a * b) * c == a * (b * c));
    RC_ASSERT(a + b == b + a);
    RC_ASSERT(a * b == b * a);
    RC_ASSERT(a * (b + c) == a * b + a * c);
    RC_ASSERT(a - b == a + -b);
    RC_ASSERT(a + -a == Field(0));
    RC_ASSERT(a * 1 == a);
    if (!(a == Field(0))) RC_ASSERT(a * a.inverse() == Field(1));
    RC_ASSERT((a * b).residue() < Field::kPrime);
  }));
  for (std::uint64_t i : {Field::kPrime - 1, Field::kPrime, Field::kPrime + 1, ~std::uint64_t{0}}) {
    CHECK(element(i).residue() == i % Field::kPrime);
    CHECK((element(i) * element(i)).residue() ==
          static_cast<std::uint64_t>(static_cast<unsigned __int128>(i % Field::kPrime) *
                                     (i % Field::kPrime) % Field::kPrime));
  }
  CHECK(Field(-3) + 3 == Field(0));
  CHECK_THROWS_AS(Field(1) / Field(0), std::domain_error);
  CHECK_THROWS_AS(Field(1) / (Field(5) - 5), std::domain_error);
}

TEST_CASE("scalars/field: doubles map to the residue of their exact value", "[scalars][field]") {
  CHECK(rc::check("dyadic", [](std::uint64_t bits) {
    auto x = std::bit_cast<double>(bits);
    RC_PRE(std::isfinite(x));
    Field f = fn::from_double<Field>(x);
    RC_ASSERT(f.residue() == modulo_p(fn::from_double<Rational>(x)));
    RC_ASSERT(f.shadow() == x);
  }));
  CHECK(fn::from_double<Field>(0.75) * 4 == Field(3));
  CHECK(fn::from_double<Field>(5e-324) * fn::from_double<Field>(0x1p1023) *
            fn::from_double<Field>(0x1p51) ==
        Field(1));
  CHECK_THROWS_AS(fn::from_double<Field>(std::nan("")), std::invalid_argument);
  CHECK_THROWS_AS(fn::from_double<Field>(kInfinity), std::domain_error);
}

TEST_CASE("scalars/field: symbols are functions of argument and seed, with fixed points",
          "[scalars][field]") {
  Field minus_infinity = fn::from_double<Field>(-kInfinity);
  CHECK(fn::exp(Field(0)) == Field(1));
  CHECK(fn::exp(minus_infinity) == Field(0));
  CHECK(fn::exp(minus_infinity).shadow() == 0);
  CHECK(fn::tanh(Field(0)) == Field(0));
  CHECK(fn::log(Field(1)) == Field(0));
  CHECK(fn::log1p(Field(0)) == Field(0));
  CHECK(fn::sqrt(Field(0)) == Field(0));
  CHECK(fn::sqrt(Field(1)) == Field(1));
  CHECK(fn::exp(fn::log(Field(0))) == Field(0));

  std::uint64_t seed = FieldSymbols::seed();
  Field x = fn::from_double<Field>(0.625);
  Field y = fn::exp(x);
  CHECK(fn::exp(fn::from_double<Field>(0.625)) == y);
  CHECK(fn::exp(Field::from_parts(x.residue(), 99)) == y);
  CHECK_FALSE(fn::tanh(x) == y);
  CHECK_FALSE(fn::sigmoid(x) == fn::tanh(x));
  CHECK_FALSE(fn::exp(-x) == y);
  CHECK(fn::tanh(x).shadow() == Approx(std::tanh(0.625)));
  CHECK(fn::softplus(x).shadow() == Approx(std::log1p(std::exp(0.625))));
  FieldSymbols::seed(seed + 1);
  CHECK_FALSE(fn::exp(x) == y);
  CHECK(fn::exp(Field(0)) == Field(1));
  FieldSymbols::seed(seed);
  CHECK(fn::exp(x) == y);
}

TEST_CASE("scalars/field: the shadow alone decides branches", "[scalars][field]") {
  Field small = Field::from_parts(900, 1.5), large = Field::from_parts(3, 2.5);
  CHECK(fn::less(small, large));
  CHECK(fn::max(small, large) == large);
  CHECK(fn::clamp(large, small, small) == small);
  CHECK(fn::heaviside(small) == Field(1));
  CHECK(fn::heaviside(-small) == Field(0));
  CHECK(fn::is_zero(Field::from_parts(0, 1e-17)));
  std::mt19937_64 wide(1);
  std::mt19937 narrow(1);
  CHECK(Field::random(wide, 0.5).shadow() == 0.5);
  CHECK(Field::random(narrow, 0.5).residue() >> 32 != 0);
}

TEST_CASE("scalars/rational: only rational results, everything else says so",
          "[scalars][rational]") {
  Rational minus_infinity = fn::from_double<Rational>(-kInfinity);
  Rational half = Rational::ratio(1, 2);
  CHECK(fn::exp(Rational(0)) == Rational(1));
  CHECK(fn::exp(minus_infinity) == Rational(0));
  CHECK(fn::tanh(Rational(0)) == Rational(0));
  CHECK(fn::log(Rational(1)) == Rational(0));
  CHECK(fn::log1p(Rational(0)) == Rational(0));
  CHECK(fn::sigmoid(Rational(0)) == half);
  CHECK(fn::sqrt(Rational::ratio(9, 16)) == Rational::ratio(3, 4));
  CHECK(fn::sqrt(Rational(0)) == Rational(0));
  CHECK_THROWS_AS(fn::exp(half), InexactOperation);
  CHECK_THROWS_AS(fn::log(Rational(2)), InexactOperation);
  CHECK_THROWS_AS(fn::log1p(half), InexactOperation);
  CHECK_THROWS_AS(fn::tanh(half), InexactOperation);
  CHECK_THROWS_AS(fn::sigmoid(half), InexactOperation);
  CHECK_THROWS_AS(fn::softplus(Rational(0)), InexactOperation);
  CHECK_THROWS_AS(fn::sqrt(Rational(2)), InexactOperation);
  CHECK_THROWS_AS(fn::sqrt(Rational(-1)), InexactOperation);
  CHECK_THROWS_AS(minus_infinity + 1, InexactOperation);
  CHECK_THROWS_AS(-minus_infinity, InexactOperation);
  CHECK_THROWS_AS(fn::from_double<Rational>(kInfinity), InexactOperation);
  CHECK_THROWS_AS(fn::from_double<Rational>(std::nan("")), std::invalid_argument);
  CHECK_THROWS_AS(Rational(1) / 0, std::domain_error);
  CHECK(fn::less(minus_infinity, -5));
  CHECK_FALSE(fn::is_finite(minus_infinity));
  CHECK_FALSE(fn::is_zero(minus_infinity));
  CHECK(fn::to_double(minus_infinity) == -kInfinity);
}

TEST_CASE("scalars/rational: doubles convert exactly and back to the nearest",
          "[scalars][rational]") {
  CHECK(rc::check("round trip", [](std::uint64_t bits) {
    auto x = std::bit_cast<double>(bits);
    RC_PRE(std::isfinite(x));
    RC_ASSERT(fn::to_double(fn::from_double<Rational>(x)) == x);
  }));
  CHECK(fn::to_double(Rational::ratio(2, 3)) == 2.0 / 3);  // above the truncated quotient
  CHECK(fn::clamp(Rational(5), -1, 1) == Rational(1));
  CHECK(fn::max(Rational(2), 3) == Rational(3));
  CHECK(fn::heaviside(Rational(0)) == Rational(0));
}
