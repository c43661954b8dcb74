// Comparison of printed decimals, in exact integer arithmetic.
#pragma once

#include <optional>
#include <string>

#include "reference/oracle/certify.hpp"

namespace assay {

/// Two decimals, each within one unit of its own last digit of the truth: can it be the same truth?
/// That is, |a - b| <= unit(a) + unit(b). The text "0" is exact. Throws InputError for text that is
/// no decimal.
bool decimals_agree(const std::string& a, const std::string& b);

/// First disagreement of two evaluations of the same case, as one line; none when they agree.
/// Tensors and shapes must be the same too.
std::optional<std::string> first_disagreement(const Evaluation& a, const Evaluation& b);

}  // namespace assay
