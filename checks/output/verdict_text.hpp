// A verdict on one screen.
#pragma once

#include <string>

#include "checks/verdict/check.hpp"

namespace assay {

/// Verdict sentence, table of tensors, place, cause, what other rules would have said, replay.
std::string verdict_text(const Verdict& verdict);

/// One line per case, the worst verdict in full, the summary.
std::string check_text(const CheckReport& report);

}  // namespace assay
