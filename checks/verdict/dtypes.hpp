// Is what a candidate handed over stored as its precision model says?
#pragma once

#include <vector>

#include "checks/candidate/candidate.hpp"

namespace assay {

/// The format of the input x that a gradient d_x belongs to; that of the model's outputs where the
/// case has no such tensor.
NumberFormat input_format(const ValidCase& c, const PrecisionModel& model, const std::string& d_x);

/// "wrong dtype" for every result whose dtype
/// - is one of whole numbers where reals are due, or the other way round (which of the two of whole
///   numbers does not matter);
/// - cannot hold the format in which the model hands it over. A final state may come in that of the
///   other outputs, a gradient in that of its input;
/// - is F64 where neither the model nor an input of the case has that: nobody asked for it, and who
///   uses the result next gets it too. Anything else that is finer is allowed (gradients or states
///   in the accumulator's format), and so is F64 in results computed elsewhere: whoever saved them
///   chose it.
/// Results whose dtype is not known are left out.
std::vector<HygieneFinding> wrong_dtypes(const ValidCase& c, const PrecisionModel& model,
                                         const RunResult& result);

}  // namespace assay
