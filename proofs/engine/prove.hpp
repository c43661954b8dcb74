// Runs claims: finds, lets the checker accept, writes certificates, counterexamples and the list.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "proofs/claims/claim.hpp"
#include "proofs/engine/find.hpp"
#include "reference/case/tensor.hpp"

namespace assay::proofs {

struct SiblingOutcome {
  bool refused = false;
  std::string how;  // "refuted: alpha = 1/2, ..." or what was tried in vain
};

struct Outcome {
  const Claim* claim = nullptr;
  bool as_stated = false;  // every part came out as the claim says, every sibling was refused
  bool undecided = false;  // a part was not decided
  std::string answer;      // "PROVED", "REFUTED", "PROVED up to 2^-100", "UNDECIDED", "FAILED"
  std::string method;      // of its parts, joined
  std::string detail;      // one line
  double seconds = 0;
  std::vector<Found> parts;
  std::vector<SiblingOutcome> siblings;
  Json certificate;  // null unless as_stated
};

/// Proves one claim. A proof counts only once the checker has accepted it. `search`: certificates
/// that are recorded with a claim because finding them takes minutes are found anew.
Outcome prove(const Claim& claim, bool search = false);

/// Claims that match any of the ids or globs (* and ?), in their order; all for an empty list.
/// Throws InputError for a pattern without a match, naming the nearest id.
std::vector<const Claim*> select_claims(const std::vector<std::string>& patterns);

/// Proves all, `threads` at a time; `done` is called after each, from any thread, one at a time.
std::vector<Outcome> prove_all(const std::vector<const Claim*>& claims, int threads, bool search,
                               const std::function<void(const Outcome&, std::size_t)>& done);

/// The counterexample of a part as a case that `assay eval` accepts; nothing for statements that
/// are not about an operation.
struct ExportedCase {
  std::string name;
  Case data;
};
std::vector<ExportedCase> counterexamples(const Outcome& outcome);

/// Name of a claim's certificate without an extension: "mdn_unit-circle".
std::string file_stem(const std::string& id);

/// proofs/README.md from the outcomes of all claims.
std::string readme_text(const std::vector<Outcome>& outcomes);

}  // namespace assay::proofs
