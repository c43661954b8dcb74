// A case at a random point of the prime field, for the exact checks.
#pragma once

#include "checks/gradcheck/task.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay {

inline Field random_residue(Stream& random, double shadow = 0) {
  return Field::from_parts(random.bits(), shadow);
}

/// Every input value becomes a random residue whose shadow is the stored value, so that branches go
/// the way of the case. 0 and 1 (and the logarithms -inf and 0 of gates) stay exact: recurrences
/// may treat them on their own. Every output and final state gets a random cotangent.
Problem<Field> random_field_problem(const ValidCase& c, Stream random);

/// The same point with zero tangents and no cotangents.
Problem<Dual<Field>> with_tangents(const Problem<Field>& problem);

}  // namespace assay
