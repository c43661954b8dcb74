// An evaluation as a person reads it: one screen, a few values of every tensor.
#pragma once

#include <string>

#include "reference/oracle/certify.hpp"

namespace assay {

/// Every tensor with its shape, largest magnitude and first values; all values are in the JSON and
/// in the file of --out.
std::string evaluation_text(const Evaluation& evaluation);

}  // namespace assay
