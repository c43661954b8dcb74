// The finder of path-complete quadratic forms for products of Momentum DeltaNet steps.
#pragma once

#include <optional>
#include <vector>

#include "proofs/claims/claim.hpp"
#include "reference/scalars/rational.hpp"

namespace assay::proofs {

/// Forms for one interval of s: gates α <= a, β <= 1 - a with a = 1 / (1 + s² η²), 0 <= η <=
/// eta_max, 0 <= μ <= mu_max, any unit keys in any dimension. One form for each type of the next
/// step: mix (η up to the first grid point), accumulate (β = 0) and turn (β = 1 - a) by cells of η,
/// flush (α = 0).
struct FormsRequest {
  Rational s0, s1, mu_max, eta_max;
  std::vector<Rational> accumulate, turn;  // grids of η, ascending, to eta_max
};

/// By a barrier method in floating point, then rounded to rationals: a piece of a certificate,
/// which proves nothing before the checker has seen it. Nothing when the margin found is not
/// positive.
std::optional<Json> find_forms(const FormsRequest& request);

}  // namespace assay::proofs
