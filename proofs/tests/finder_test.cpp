// The finder and the checker against things known otherwise.
#include <catch2/catch.hpp>

#include "proofs/checker/check.hpp"
#include "proofs/checker/expression.hpp"
#include "proofs/checker/interval.hpp"
#include "proofs/common/sha256.hpp"
#include "proofs/engine/find.hpp"
#include "proofs/engine/gate_box.hpp"

namespace assay::proofs {
namespace {

Found forall(const Strings& variables, const Pairs& where, const std::string& show) {
  Claim claim;
  claim.forall(variables, where, show);
  return find(claim.parts[0].statement, true, claim.parts[0].hint);
}

bool accepts(const Json& statement, bool holds, const Json& proof) {
  try {
    checker::check_part(checker::parse_json(statement.dump()), holds,
                        checker::parse_json(proof.dump()));
    return true;
  } catch (const checker::Rejected&) {
    return false;
  }
}

}  // namespace

TEST_CASE("sha256: published vectors", "[proofs]") {
  // FIPS 180-4 examples
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_CASE("forall: a combination is found when there is one", "[proofs]") {
  const Pairs unit = {{"x", "x >= 0"}, {"X", "1 - x >= 0"}, {"y", "y >= 0"}, {"Y", "1 - y >= 0"}};
  CHECK(forall({"x", "y"}, unit, "1 - x*y >= 0").answer == Answer::proved);
  CHECK(forall({"x", "y"}, unit, "x + y - x*y >= 0").answer == Answer::proved);
  CHECK(forall({"x", "y"}, unit, "x + y - 2*x*y >= 0").answer == Answer::proved);
}

TEST_CASE("forall: what is false is never proved", "[proofs]") {
  const Pairs unit = {{"x", "x >= 0"}, {"X", "1 - x >= 0"}, {"y", "y >= 0"}, {"Y", "1 - y >= 0"}};
  for (const char* show : {"1/2 - x*y >= 0", "x - y >= 0", "x*y > 0", "1 - x > 0",
                           "0 - 1/1000000 + x >= 0", "x^2 - x >= 0"}) {
    INFO(show);
    CHECK(forall({"x", "y"}, unit, show).answer == Answer::undecided);
    Claim claim;
    claim.not_forall({"x", "y"}, unit, show);
    const Found against = find(claim.parts[0].statement, false, nullptr);
    CHECK(against.answer == Answer::refuted);
    CHECK(accepts(claim.parts[0].statement, false, against.proof));
  }
}

TEST_CASE("identity: equal and unequal expressions", "[proofs]") {
  Claim claim;
  claim.identity({"x", "y"}, {{"d", "x - y"}}, "(x^2 - y^2)/d", "x + y");
  claim.identity({"x", "y"}, {}, "(x + y)^2", "x^2 + y^2");
  const Found right = find(claim.parts[0].statement, true, nullptr);
  CHECK(right.answer == Answer::proved);
  CHECK(accepts(claim.parts[0].statement, true, right.proof));
  CHECK(find(claim.parts[1].statement, true, nullptr).answer == Answer::undecided);
  CHECK(!accepts(claim.parts[1].statement, true, right.proof));
  CHECK(find(claim.parts[1].statement, false, nullptr).answer == Answer::refuted);
}

TEST_CASE("checker: intervals hold published values", "[proofs]") {
  using checker::Interval;
  const auto holds = [](const char* expression, const char* lo, const char* hi) {
    const Interval x = checker::evaluate<Interval>(expression, {});
    const mpq_class width = x.hi - x.lo;
    INFO(expression << " " << x.lo.get_d());
    CHECK(mpq_class(lo) < x.lo);
    CHECK(x.hi < mpq_class(hi));
    CHECK(width < mpq_class("1/1000000000000000000000000000000"));
  };
  // e, log 2, tanh 1, sigmoid 1, log(1 + e) to 14 digits (Abramowitz & Stegun; OEIS A001113, ...)
  holds("exp(1)", "271828182845904/100000000000000", "271828182845905/100000000000000");
  holds("log(2)", "69314718055994/100000000000000", "69314718055995/100000000000000");
  holds("tanh(1)", "76159415595576/100000000000000", "76159415595577/100000000000000");
  holds("sigmoid(1)", "73105857863000/100000000000000", "73105857863001/100000000000000");
  holds("softplus(1)", "131326168751822/100000000000000", "131326168751823/100000000000000");
  holds("exp(0 - 40)", "424835425529158/100000000000000000000000000000000",
        "424835425529159/100000000000000000000000000000000");
  CHECK_THROWS_AS(checker::evaluate<Interval>("log(0)", {}), checker::Rejected);
  CHECK_THROWS_AS(checker::evaluate<Interval>("1/(exp(0) - 1)", {}), checker::Rejected);
}

TEST_CASE("checker: rationals are written one way", "[proofs]") {
  CHECK(checker::parse_rational("-7/5") == mpq_class(-7, 5));
  for (const char* text : {"", "2/4", "1/0", "+1", "1/-2", "0x1", "1.5", "01", "-0", " 1", "1/1"}) {
    INFO(text);
    CHECK_THROWS_AS(checker::parse_rational(text), checker::Rejected);
  }
}

TEST_CASE("gate box: the examples with a known answer", "[proofs]") {
  using Answer = GateBoxVerdict::Answer;
  const auto ask = [](GateBox::Coupling coupling, GateBox::Keys keys, Rational s, Rational mu_max,
                      Rational alpha_max = 1) {
    GateBoxRequest request;
    request.box.coupling = coupling;
    request.box.keys = keys;
    request.box.s = s;
    request.box.mu_max = mu_max;
    request.box.alpha_max = alpha_max;
    request.budget_seconds = 120;  // ends as soon as there is an answer; busy machines are slow
    GateBoxVerdict verdict = decide(request);
    if (verdict.answer != Answer::undecided) {
      CHECK_NOTHROW(checker::check_certificate(verdict.certificate.dump()));
    }
    if (verdict.answer == Answer::unstable) {
      CHECK(!verdict.cycle.empty());
      CHECK(verdict.radius_lower > 1);
      CHECK(verdict.radius_lower <= verdict.radius_upper);
    }
    return verdict.answer;
  };
  const auto q = [](long n, long d) { return Rational::ratio(n, d); };
  const auto kappa = GateBox::Coupling::kappa, angle = GateBox::Coupling::angle;
  const auto any = GateBox::Keys::any, basis = GateBox::Keys::basis, fixed = GateBox::Keys::fixed;
  // β <= 1 - α, η <= 2: exactly 1/3
  CHECK(ask(kappa, any, 1, q(1, 3)) == Answer::contractive);
  CHECK(ask(kappa, fixed, 1, q(9, 25)) == Answer::unstable);
  // α <= 9/10: Theorem A ends at 5/14
  CHECK(ask(kappa, fixed, 1, q(9, 25), q(9, 10)) == Answer::contractive);
  // coupled box, s = 1/2 and 2
  CHECK(ask(angle, any, q(1, 2), q(66, 100)) == Answer::contractive);    // Theorem B
  CHECK(ask(angle, any, q(1, 2), q(70, 100)) == Answer::contractive);    // forms
  CHECK(ask(angle, fixed, q(1, 2), q(82, 100)) == Answer::contractive);  // polygon
  CHECK(ask(angle, any, 2, q(87, 100)) == Answer::contractive);
  CHECK(ask(angle, basis, q(1, 2), q(95, 100)) == Answer::unstable);  // O1
  CHECK(ask(angle, fixed, q(1, 2), q(99, 100)) == Answer::unstable);  // C4
}

TEST_CASE("gate box: numbers need not be in lowest terms", "[proofs]") {
  GateBoxRequest request;
  request.box.coupling = GateBox::Coupling::angle;
  request.box.s = Rational(Rational::Number("5/10"));
  request.box.mu_max = Rational(Rational::Number("70/100"));
  request.budget_seconds = 120;
  const GateBoxVerdict verdict = decide(request);
  CHECK(verdict.answer == GateBoxVerdict::Answer::contractive);
  CHECK_NOTHROW(checker::check_certificate(verdict.certificate.dump()));
}

TEST_CASE("gate box: an empty or impossible box is refused", "[proofs]") {
  GateBoxRequest request;
  request.box.mu_max = Rational::ratio(-1, 2);
  CHECK_THROWS_AS(decide(request), std::invalid_argument);
  request.box.mu_max = 1;
  request.box.alpha_min = Rational::ratio(3, 4);
  request.box.alpha_max = Rational::ratio(1, 2);
  CHECK_THROWS_AS(decide(request), std::invalid_argument);
}

TEST_CASE("gate box: the suggested bound is certified, and 1/3 where that is exact", "[proofs]") {
  GateBox box;
  Json certificate;
  const auto mu = suggest_mu(box, 120, &certificate);
  REQUIRE(mu);
  CHECK(*mu == Rational::ratio(333, 1000));
  CHECK_NOTHROW(checker::check_certificate(certificate.dump()));
}

}  // namespace assay::proofs
