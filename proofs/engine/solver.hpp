// The two questions that Z3 is asked. Its answers are never certificates: a combination is checked
// by expanding it, a point by evaluating it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proofs/engine/symbol.hpp"

namespace assay::proofs {

struct RealConstraint {
  Symbol polynomial;  // >= 0, or > 0
  bool strict;
};

struct Satisfied {
  enum class Kind { yes, no, unknown } kind = Kind::unknown;
  std::map<std::string, Rational> point;  // of `yes`; algebraic values are rounded
  std::string smt;                        // the question in SMT-LIB
};

/// Is there a point that meets all constraints? (Z3's nlsat, at most `milliseconds`)
Satisfied solve_reals(const std::vector<std::string>& variables,
                      const std::vector<RealConstraint>& constraints, unsigned milliseconds);

/// Coefficients c >= 0 with Σ c_i columns_i = target, each a polynomial. (Z3's exact simplex)
std::optional<std::vector<Rational>> solve_combination(const std::vector<Symbol>& columns,
                                                       const Symbol& target, unsigned milliseconds);

}  // namespace assay::proofs
