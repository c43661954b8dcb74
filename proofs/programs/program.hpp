// Statements about recurrences, as programs: a template that takes its variables from a source and
// returns pairs that must be equal. Finder and checker run the same statement, each on arithmetic
// of its own: polynomials (then it is an identity), residues (then it is one up to a probability),
// rationals (then a point where a pair differs is a counterexample).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "reference/oracle/recurrence.hpp"
#include "reference/scalars/linalg.hpp"

namespace assay::proofs {

template <class Real>
struct Equation {
  std::string what;  // "o[2,0]"
  Real left, right;
};
template <class Real>
using Equations = std::vector<Equation<Real>>;

/// Sizes and variants by name, all written as text.
using Parameters = std::map<std::string, std::string>;

/// Hands out the value of each variable; a name is asked for once.
template <class Real>
using Source = std::function<Real(const std::string& name)>;

inline long size_of(const Parameters& parameters, const std::string& name) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) throw std::invalid_argument("program: no parameter " + name);
  const long n = std::stol(found->second);
  if (n < 1 || n > 4096) throw std::invalid_argument("program: parameter " + name);
  return n;
}
inline std::string variant_of(const Parameters& parameters) {
  const auto found = parameters.find("variant");
  return found == parameters.end() ? "" : found->second;
}

template <class Real>
std::vector<Real> draw(const Source<Real>& source, const std::string& name, long n) {
  std::vector<Real> x;
  for (long i = 0; i < n; ++i) x.push_back(source(name + "_" + std::to_string(i)));
  return x;
}

template <class Real>
void compare(Equations<Real>& equations, const std::string& what, long n, const Real* left,
             const Real* right) {
  for (long i = 0; i < n; ++i) {
    equations.push_back({what + "[" + std::to_string(i) + "]", left[i], right[i]});
  }
}

/// The names of all programs.
const std::vector<std::string>& program_names();

/// Instantiated for the finder in engine/programs.cpp, for the checker in checker/programs.cpp.
/// Throws std::invalid_argument for an unknown name or parameter.
template <class Real>
Equations<Real> run_program(const std::string& name, const Parameters& parameters,
                            const Source<Real>& source);

}  // namespace assay::proofs
