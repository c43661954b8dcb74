// Intervals with rational ends, rounded outward to multiples of 2^-192, and the elementary
// functions on them by series with a bounded remainder. Shares nothing with Arb.
#pragma once

#include <gmpxx.h>

#include <concepts>
#include <string>

#include "proofs/checker/json.hpp"

namespace assay::checker {

class Interval {
 public:
  mpq_class lo, hi;

  Interval() = default;
  template <std::integral Integer>
  Interval(Integer n) : lo(static_cast<long>(n)), hi(static_cast<long>(n)) {}  // NOLINT
  Interval(mpq_class l, mpq_class h);                                          // rounded outward

  friend Interval operator+(const Interval& a, const Interval& b) {
    return {mpq_class(a.lo + b.lo), mpq_class(a.hi + b.hi)};
  }
  friend Interval operator-(const Interval& a, const Interval& b) {
    return {mpq_class(a.lo - b.hi), mpq_class(a.hi - b.lo)};
  }
  friend Interval operator*(const Interval& a, const Interval& b);
  /// Throws Rejected when b contains 0.
  friend Interval operator/(const Interval& a, const Interval& b);

  /// exp, log, tanh, sigmoid, softplus, all of them ascending; Rejected for another name.
  Interval apply(const std::string& function) const;
};

}  // namespace assay::checker
