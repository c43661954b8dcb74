// Candidates that are computed here, in emulated arithmetic: known faults, and correct kernels.
#pragma once

#include <memory>
#include <string>

#include "checks/candidate/candidate.hpp"

namespace assay {

/// `fault:ID`: the fault in the arithmetic that `model` declares. A case to which the fault does
/// not apply is unsupported. Throws InputError for an unknown id.
std::unique_ptr<Candidate> make_fault_candidate(const std::string& id, const PrecisionModel& model);

/// `emulated:MODEL[,chunk=C][,order=forward|reversed|pairwise][,fma][,truncate]`: the reference in
/// the arithmetic of a precision model, with sums in another order, products that are not rounded
/// before they are added, sums rounded towards zero (and declared so), or the chunk form where
/// there is one. All of them are correct. Takes what stands behind the colon; throws InputError.
std::unique_ptr<Candidate> make_emulated_candidate(const std::string& spec);

/// The reference in the arithmetic that `model` declares: what a fault candidate is without the
/// fault.
std::unique_ptr<Candidate> make_plain_candidate(const PrecisionModel& model);

/// Makes both known to `open_candidate`; once, when a program starts.
void register_emulated_candidates();

}  // namespace assay
