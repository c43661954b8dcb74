// From filters to the sentence that names a cause.
#pragma once

#include "checks/verdict/verdict.hpp"

namespace assay {

/// Blames the error of a rejected result: `known` are the directions that `verdict.filters` was
/// made from. What fits to the noise wins over what leaves more; where two fit alike, a fault of
/// the dictionary wins over a gate or vector that is off, and that over everything else.
void name_cause(const ValidCase& c, const Filters& filters, const std::vector<Direction>& known,
                const JudgeRequest& request, Verdict& verdict);

}  // namespace assay
