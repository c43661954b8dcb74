// What a claim is. A file of this folder defines one family:
//
//   ASSAY_CLAIMS(NAME) { list.claim("op/name", ...)... }     where NAME is the name of the file
//
// and nothing else has to be told of it. README.md says how to write one.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace assay::proofs {

using Json = nlohmann::json;

/// One formal statement, and whether it is to be proved or refuted.
struct Part {
  Json statement;
  bool holds = true;
  Json hint;  // for the finder only: points, certificates, degrees
};

using Text = std::string;
using Strings = std::vector<std::string>;
/// Name and formula, "e" and "eta >= 0".
using Pairs = std::vector<std::pair<std::string, std::string>>;

struct Claim {
  std::string id;
  std::string source;           // "[MDN v1, Eq. 8]", or "own" for what the papers do not have
  std::string says;             // the statement in words
  std::string domain;           // where it holds
  bool erratum = false;         // a printed formula is refuted, and the right one is proved
  bool counterexample = false;  // the statement is one of existence, proved by exact witnesses
  std::vector<Part> parts;
  std::vector<Part> siblings;  // look like it and are false; must be refused
  std::string sibling_says;

  Claim& over(Text text);  // the domain
  Claim& is_erratum();
  Claim& is_counterexample();
  /// What follows is a false sibling, in these words.
  Claim& sibling(Text words);

  Claim& identity(Strings variables, Pairs definitions, Text left, Text right);
  Claim& not_identity(Strings variables, Pairs definitions, Text left, Text right);
  /// For all reals that meet the named constraints. `combination` in the names of constraints and
  /// squares, with `multiplier` times the claim on the other side; searched for when empty.
  Claim& forall(Strings variables, Pairs constraints, Text show, Text combination = "",
                Text multiplier = "1", Pairs squares = {});
  Claim& not_forall(Strings variables, Pairs constraints, Text show, Json point = nullptr);
  /// Equations of a program, as identities of polynomials or modulo a prime.
  Claim& program(Text name, Json parameters, Text ring = "polynomials");
  Claim& not_program(Text name, Json parameters, Json point = nullptr);
  /// left > right (or >=) over a box of name, lowest, highest, with exp, log, tanh, sigmoid and
  /// softplus.
  Claim& enclosure(std::vector<Strings> variables, Pairs definitions, Text show);
  /// Any other kind.
  Claim& part(Json statement, bool holds = true, Json hint = nullptr);

 private:
  Claim& add(Json statement, bool holds, Json hint);
  bool in_sibling_ = false;
};

class ClaimList {
 public:
  Claim& claim(Text id, Text source, Text says);
  std::vector<Claim> take() { return std::move(claims_); }

 private:
  std::vector<Claim> claims_;
};

/// All claims: those of this folder, then one or two for every operation; ordered by their ids.
const std::vector<Claim>& all_claims();

}  // namespace assay::proofs

#define ASSAY_CLAIMS(name)             \
  namespace assay::proofs {            \
  void claims_##name(ClaimList& list); \
  }                                    \
  void assay::proofs::claims_##name(ClaimList& list)
