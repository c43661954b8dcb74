// A search: small changes of a case that push one number up.
#pragma once

#include "fuzz/campaign/examine.hpp"
#include "fuzz/campaign/record.hpp"

namespace assay {

enum class Target { z, hard, growth, time };
/// Throws InputError.
Target parse_target(const std::string& name);
std::string target_name(Target target);

/// Twelve changes of the planned case, each kept when the target went up: the largest |z|, the
/// largest share of the proved bound, the largest number of the result, or the candidate's time per
/// element (which alone depends on the machine). Ends at the first finding.
CaseRecord search(Examiner& examiner, const Plan& plan, const PlannedCase& start, Target target);

}  // namespace assay
