// A folder that replays one finding without anything else: case, what the candidate returned, truth
// and scale, model, verdict, command.
#pragma once

#include <string>

#include "checks/verdict/check.hpp"

namespace assay {

/// The case as a file has it; `assay check --case` reads it back. An exact case says so in its
/// metadata.
std::string case_bytes(const CheckCase& c);

/// Eight hexadecimal digits of the case's bytes.
std::string case_hash(const CheckCase& c);

/// Was this case written as an exact one?
bool says_exact(const Case& data);

/// Writes DIR/<op>-<hash>/ with case.safetensors, evidence.safetensors (per tensor X: X, X.truth,
/// X.sigma in F64), model.json, finding.json (the candidate), verdict.txt, verdict.json and
/// replay.sh, and returns its path. `replay` is the command line without the case. Throws
/// InputError when it cannot write.
std::string write_failure(const std::string& folder, const Verdict& verdict,
                          const Evidence& evidence, const PrecisionModel& model,
                          const std::string& candidate);

/// A word of a shell command line, quoted where it must be.
std::string shell_word(const std::string& text);

}  // namespace assay
