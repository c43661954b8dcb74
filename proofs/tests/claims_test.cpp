// Every claim: proved or refuted as stated, false siblings refused, certificates accepted, and
// certificates with a changed digit rejected.
#include <catch2/catch.hpp>
#include <cctype>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "proofs/checker/check.hpp"
#include "proofs/common/sha256.hpp"
#include "proofs/engine/gate_box.hpp"
#include "proofs/engine/prove.hpp"
#include "reference/case/safetensors.hpp"
#include "reference/oracle/registry.hpp"

namespace assay::proofs {
namespace {

/// Proved once for all test cases of this program run.
const std::vector<Outcome>& outcomes() {
  static const std::vector<Outcome> all =
      prove_all(select_claims({}),
                std::max(1, static_cast<int>(std::thread::hardware_concurrency())), false, nullptr);
  return all;
}

std::string rejection(const std::string& text) {
  try {
    checker::check_certificate(text);
  } catch (const checker::Rejected& error) {
    return error.what();
  }
  return "";
}

/// The text with its digest computed anew, so that only the mathematics can object.
std::string with_new_digest(const Json& changed) {
  Json parts = changed.at("parts");
  return make_certificate(changed.at("claim"), changed.at("answer"), parts).dump();
}

}  // namespace

static void check_as_stated() {
  for (const Outcome& outcome : outcomes()) {
    INFO(outcome.claim->id << ": " << outcome.answer << " " << outcome.detail);
    CHECK(outcome.as_stated);
    CHECK(!outcome.siblings.empty());
    for (const SiblingOutcome& sibling : outcome.siblings) {
      INFO(sibling.how);
      CHECK(sibling.refused);
    }
  }
}

TEST_CASE("claims: each says what, where and from which source", "[proofs]") {
  for (const Claim& claim : all_claims()) {
    INFO(claim.id);
    CHECK(claim.id.find('/') != std::string::npos);
    CHECK(!claim.source.empty());
    CHECK(!claim.says.empty());
    CHECK(!claim.domain.empty());
    CHECK(!claim.sibling_says.empty());
  }
}

static void check_errata() {
  for (const Outcome& outcome : outcomes()) {
    if (!outcome.claim->erratum) continue;
    INFO(outcome.claim->id);
    bool refuted = false, proved = false;
    for (const Part& part : outcome.claim->parts) {
      refuted = refuted || !part.holds;
      proved = proved || part.holds;
    }
    CHECK(refuted);
    CHECK(proved);
    CHECK(outcome.answer == "REFUTED");
  }
}

static void check_certificates() {
  for (const Outcome& outcome : outcomes()) {
    INFO(outcome.claim->id);
    CHECK(rejection(outcome.certificate.dump()) == "");
    CHECK(rejection(outcome.certificate.dump(1)) == "");
  }
}

static void check_changed_digits() {
  std::mt19937_64 random(20261129);
  for (const Outcome& outcome : outcomes()) {
    const std::string text = outcome.certificate.dump(1);
    std::vector<std::size_t> digits;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (std::isdigit(static_cast<unsigned char>(text[i]))) digits.push_back(i);
    }
    REQUIRE(!digits.empty());
    // All of a short certificate, a sample of a long one.
    std::shuffle(digits.begin(), digits.end(), random);
    if (digits.size() > 100) digits.resize(100);
    for (const std::size_t at : digits) {
      std::string changed = text;
      changed[at] = static_cast<char>('0' + (changed[at] - '0' + 1 + random() % 9) % 10);
      INFO(outcome.claim->id << ", byte " << at << ": " << text.substr(at < 20 ? 0 : at - 20, 40));
      CHECK(rejection(changed) != "");
    }
  }
}

// Without the digest a change may leave another valid proof of the same statement (a larger
// denominator in a quadratic form), or another true statement. It must never leave a false one, and
// the numbers that carry a proof must not be free.
static void check_new_digests() {
  const auto rejects = [](const char* id, const std::function<void(Json&)>& change) {
    for (const Outcome& outcome : outcomes()) {
      if (outcome.claim->id != id) continue;
      Json changed = outcome.certificate;
      change(changed);
      INFO(id << ": " << changed.dump().substr(0, 600));
      CHECK(changed != outcome.certificate);
      CHECK(rejection(with_new_digest(changed)) != "");
      return;
    }
    FAIL("no claim " << id);
  };
  rejects("mdn/frozen-stable",
          [](Json& c) { c["parts"][0]["proof"]["combination"] = "A + m + a*m + 2*a*B + 2*a*b*E"; });
  rejects("mdn/frozen-stable", [](Json& c) {  // a negative coefficient
    c["parts"][0]["proof"]["combination"] =
        "A + m + a*m + 2*a*B + a*b*E + a*A - A*a*1 - 0*m - a + a";
    c["parts"][0]["statement"]["show"] = "(1 + alpha)*(1 + mu) - 2*alpha*beta*eta > 0";
  });
  rejects("mdn/frozen-stable", [](Json& c) { c["parts"][0]["proof"]["multiplier"] = "0"; });
  rejects("mdn/frozen-stable", [](Json& c) {  // the same combination for a stronger claim
    c["parts"][0]["statement"]["show"] = "(1 + alpha)*(1 + mu) - alpha*beta*eta - 1/10 > 0";
  });
  rejects("mdn/charpoly", [](Json& c) { c["parts"][0]["proof"]["terms"] = 7; });
  rejects("mdn/charpoly", [](Json& c) { c["parts"][0]["statement"]["parameters"]["K"] = "4"; });
  rejects("mdn/charpoly", [](Json& c) { c["parts"][3]["proof"]["degree"] = 5; });
  rejects("mdn/charpoly", [](Json& c) { c["parts"][3]["proof"]["seed"] = "7"; });
  rejects("mdn/gamma-shift", [](Json& c) { c["parts"][0]["holds"] = true; });
  rejects("mdn/gamma-shift", [](Json& c) { c["parts"][0]["proof"]["left"] = "17"; });
  rejects("mdn/product-unstable", [](Json& c) { c["parts"][0]["proof"]["steps"][0][2] = "1/2"; });
  rejects("mdn/product-unstable", [](Json& c) { c["parts"][0]["proof"]["trace"] = "-3/2"; });
  rejects("mdn/product-unstable", [](Json& c) { c["parts"][0]["statement"]["radius"] = "3/2"; });
  rejects("mdn/product-unstable", [](Json& c) {  // outside the box
    c["parts"][5]["statement"]["box"]["s"] = "1/3";
  });
  rejects("mdn/universal",
          [](Json& c) { c["parts"][2]["proof"]["pieces"][3]["forms"][4][1] = "1/2"; });
  rejects("mdn/universal", [](Json& c) { c["parts"][2]["proof"]["pieces"].erase(7); });
  rejects("mdn/universal", [](Json& c) { c["parts"][2]["statement"]["mu_max"] = "3/4"; });
  rejects("mdn/theorem-c-any-keys", [](Json& c) { c["parts"][1]["statement"]["mu_max"] = "3/4"; });
  rejects("mdn/theorem-c-one-basis",
          [](Json& c) { c["parts"][3]["proof"]["vertices"][2][1] = "1"; });
  rejects("mdn/theorem-c-one-basis", [](Json& c) { c["parts"][0]["statement"]["keys"] = "basis"; });
  rejects("mdn/log-domain-loses-digits", [](Json& c) {
    c["parts"][0]["statement"]["show"] = "log(c16)*4194304 + 15872043 > 0 - 1/2 + 2";
  });
  rejects("mdn/gate-box", [](Json& c) { c["parts"][2]["proof"]["tree"] = "."; });
  rejects("mdn/gamma-recursion", [](Json& c) { c["parts"][1]["statement"]["bound"] = 20; });
  rejects("gdn/adjoint", [](Json& c) { c["parts"][0]["proof"]["values"][0]["alpha"] = "12345"; });
  rejects("gdn/adjoint", [](Json& c) { c["parts"][0]["statement"]["factor"] = 2; });
  rejects("rmsnorm_tp/gradient", [](Json& c) { c["parts"][1]["proof"]["points"] = 2; });
}

TEST_CASE("certificates: what is no certificate is refused in one line", "[proofs]") {
  for (const char* text :
       {"", "{", "[]", "{}", "null", "{\"assay_certificate\":2}", "{\"a\":1,\"a\":2}",
        "{\"assay_certificate\":1,\"claim\":\"x\",\"answer\":\"y\",\"parts\":[],\"digest\":"
        "\"0\"}"}) {
    const std::string why = rejection(text);
    INFO(text);
    CHECK(why != "");
    CHECK(why.find('\n') == std::string::npos);
  }
  const Json empty = make_certificate("x", "PROVED", Json::array());
  CHECK(rejection(empty.dump()) == "there are no parts");
  const Json unknown = make_certificate(
      "x", "PROVED",
      Json::array({{{"statement", {{"kind", "oracle"}}}, {"holds", true}, {"proof", "so be it"}}}));
  CHECK(rejection(unknown.dump()).find("unknown kind") != std::string::npos);
}

TEST_CASE("claims: every operation has one", "[proofs]") {
  std::set<std::string> covered;
  for (const Claim& claim : all_claims()) covered.insert(claim.id.substr(0, claim.id.find('/')));
  for (const Operation* operation : operations()) {
    INFO(operation->name());
    CHECK(covered.count(operation->name()) == 1);
  }
}

TEST_CASE("claims: globs, and a name that nobody has", "[proofs]") {
  CHECK(select_claims({}).size() == all_claims().size());
  CHECK(select_claims({"mdn/eq?-*"}).size() == 1);
  CHECK(select_claims({"gdn/*", "gdn/adjoint"}).size() == select_claims({"gdn/*"}).size());
  CHECK_THROWS_AS(select_claims({"mdn/nothing"}), InputError);
}

static void check_cases() {
  std::size_t exported = 0;
  for (const Outcome& outcome : outcomes()) {
    for (const ExportedCase& one : counterexamples(outcome)) {
      INFO(one.name);
      const Case again = case_from_file(
          parse_safetensors(safetensors_bytes(file_from_case(one.data)), one.name), one.name);
      const ValidCase c = validate(again, assay::find_operation(again.op).schema(&again));
      const auto result = evaluate(lift<double>(c), {});
      CHECK(!result.outputs.empty());
      ++exported;
    }
  }
  CHECK(exported >= 26);
}

static void check_readme() {
  std::ifstream file(ASSAY_SOURCE_DIR "/proofs/README.md");
  std::stringstream text;
  text << file.rdbuf();
  INFO("write it anew with: assay prove --readme proofs/README.md");
  CHECK((text.str() == readme_text(outcomes())));
}

// One test case, because proving everything once serves them all.
TEST_CASE("claims: proved, checked, exported and listed", "[proofs]") {
  SECTION("claims: every one comes out as stated and every false sibling is refused") {
    check_as_stated();
  }
  SECTION("claims: errata have a refuted and a proved part") { check_errata(); }
  SECTION("certificates: the checker accepts every one") { check_certificates(); }
  SECTION("certificates: a changed digit is rejected, wherever it is") { check_changed_digits(); }
  SECTION("certificates: with the digest made anew, the mathematics still objects") {
    check_new_digests();
  }
  SECTION("claims: counterexamples are cases that the oracle evaluates") { check_cases(); }
  SECTION("claims: README.md is what the program writes") { check_readme(); }
}

}  // namespace assay::proofs
