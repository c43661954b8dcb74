// Expressions of statements as the finder reads them: by precedence, over quotients of Symbols or
// over rationals.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "proofs/engine/symbol.hpp"
#include "reference/scalars/ball.hpp"

namespace assay::proofs {

/// Not reduced: the certificate holds the normal form of the cross product.
struct Quotient {
  Symbol num, den = 1;
};
Quotient operator+(const Quotient& a, const Quotient& b);
Quotient operator-(const Quotient& a, const Quotient& b);
Quotient operator*(const Quotient& a, const Quotient& b);
Quotient operator/(const Quotient& a, const Quotient& b);

template <class Number>
using Names = std::map<std::string, Number>;

/// Throws std::invalid_argument naming the expression.
Quotient parse_quotient(const std::string& text, const Names<Quotient>& names);
Symbol parse_polynomial(const std::string& text, const Names<Symbol>& names);
Rational parse_value(const std::string& text, const Names<Rational>& names);

Ball parse_ball(const std::string& text, const Names<Ball>& names);  // exp, log, tanh, ... too

/// The ball around a rational.
Ball ball_of(const Rational& q);

struct Inequality {
  std::string left, right;
  bool strict;
};
Inequality split_inequality(const std::string& text);

}  // namespace assay::proofs
