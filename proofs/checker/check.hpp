// Re-checks certificates. Nothing of proofs/engine is used: a certificate is read with the
// checker's own JSON, every number is a GMP integer or rational, and what a statement says is
// derived here once more. Shared with the finder are only the recurrences of reference/, which are
// the object of the statements, and the programs that state equations between them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "proofs/checker/json.hpp"

namespace assay::checker {

/// What one part of a certificate was found to establish.
struct Established {
  std::string statement;  // canonical text
  bool holds = false;     // false: it was refuted
  std::string how;        // one line
};

struct Checked {
  std::string claim;
  std::string answer;
  std::vector<Established> parts;
};

/// Throws Rejected with the reason when anything at all is wrong: the digest, the format, a
/// witness, a single coefficient.
Checked check_certificate(const std::string& text);

/// One statement with its proof (or refutation, when `holds` is false); returns how it was checked.
std::string check_part(const Value& statement, bool holds, const Value& proof);

// The kinds of statements, one function each, in files of their own.
std::string check_identity(const Value& statement, bool holds, const Value& proof);
std::string check_forall(const Value& statement, bool holds, const Value& proof);
std::string check_program(const Value& statement, bool holds, const Value& proof);
std::string check_cycle(const Value& statement, bool holds, const Value& proof);
std::string check_nonexpansion(const Value& statement, bool holds, const Value& proof);
std::string check_polygon(const Value& statement, bool holds, const Value& proof);
std::string check_operation(const Value& statement, bool holds, const Value& proof);
std::string check_roundings(const Value& statement, bool holds, const Value& proof);
std::string check_enclosure(const Value& statement, bool holds, const Value& proof);

}  // namespace assay::checker
