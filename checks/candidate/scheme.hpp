// What the first word of a candidate's SPEC means.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checks/candidate/candidate.hpp"

namespace assay {

/// Makes a candidate from what follows "prefix:" in the SPEC ("" for the bare prefix). Throws
/// InputError.
using CandidateFactory = std::function<std::unique_ptr<Candidate>(
    const std::string& rest, const PrecisionModel& model, const RunLimits& limits)>;

/// From now on `open_candidate` knows `prefix:REST`. `form` is what `assay list candidates` prints
/// ("fault:ID"). Not thread-safe: called once when a program starts. A prefix that is known already
/// is replaced.
void register_candidate_scheme(const std::string& prefix, const std::string& form,
                               const std::string& doc, CandidateFactory factory);

struct CandidateScheme {
  std::string prefix, form, doc;
};
/// In the order registered, the built-in ones first.
std::vector<CandidateScheme> candidate_schemes();

}  // namespace assay
