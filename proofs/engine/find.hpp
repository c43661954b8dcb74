// The finder: looks for a proof of a statement, or for a refutation, and writes it down as the
// certificate that proofs/checker/ reads.
#pragma once

#include <string>

#include "proofs/claims/claim.hpp"

namespace assay::proofs {

enum class Answer { proved, probable, refuted, undecided };

struct Found {
  Answer answer = Answer::undecided;
  Json proof;          // the certificate's part, null when undecided
  std::string method;  // "polynomial identity"
  std::string detail;  // one line; for `undecided` what was tried
  std::string smt;     // the negated statement for any SMT solver, when there is one
};

/// Looks for a proof of `statement` (holds) or for a refutation. Never answers `proved` for a
/// number that was not enclosed or computed exactly. Throws std::invalid_argument for a statement
/// that makes no sense.
Found find(const Json& statement, bool holds, const Json& hint);

Found find_identity(const Json& statement, bool holds, const Json& hint);
Found find_forall(const Json& statement, bool holds, const Json& hint);
Found find_program(const Json& statement, bool holds, const Json& hint);
Found find_cycle(const Json& statement, bool holds, const Json& hint);
Found find_nonexpansion(const Json& statement, bool holds, const Json& hint);
Found find_polygon(const Json& statement, bool holds, const Json& hint);
Found find_operation(const Json& statement, bool holds, const Json& hint);
Found find_roundings(const Json& statement, bool holds, const Json& hint);
Found find_enclosure(const Json& statement, bool holds, const Json& hint);

}  // namespace assay::proofs
