// Expressions of statements: names, integers, + - * / ^ and parentheses.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "proofs/checker/numbers.hpp"

namespace assay::checker {

/// The value of `text` with every name looked up; Number is Fraction, Poly or Exact. Throws
/// Rejected for syntax, an unknown name or a division by 0.
template <class Number>
Number evaluate(const std::string& text, const std::map<std::string, Number>& names);

extern template Fraction evaluate(const std::string&, const std::map<std::string, Fraction>&);
extern template Poly evaluate(const std::string&, const std::map<std::string, Poly>&);
extern template Exact evaluate(const std::string&, const std::map<std::string, Exact>&);

/// "left >= right" and "left > right", taken apart; throws Rejected.
struct Relation {
  std::string left, right;
  bool strict;
};
Relation parse_relation(const std::string& text);

}  // namespace assay::checker
