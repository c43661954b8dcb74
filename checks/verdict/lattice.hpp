// The exact lattice: inputs for which every intermediate is representable, so that a correct kernel
// has no error at all and the tolerance is zero.
#pragma once

#include <optional>

#include "checks/verdict/check_cases.hpp"

namespace assay {

/// One-hot signed keys, gates from {0, 1/2, 1, 2}, small integers, scale 1; as many steps as stay
/// exact in the coarsest format of the model (checked by evaluating in that format and in
/// rationals). None for operations with transcendentals, and where not even one step is exact.
std::optional<CheckCase> lattice_case(const Operation& operation, const PrecisionModel& model,
                                      std::uint64_t seed);

}  // namespace assay
