#include "proofs/engine/solver.hpp"

#include <z3++.h>

#include <sstream>

namespace assay::proofs {
namespace {

z3::expr number(z3::context& c, const Rational& q) { return c.real_val(q.to_string().c_str()); }

z3::expr polynomial(z3::context& c, const std::vector<z3::expr>& x, const Symbol& p) {
  z3::expr sum = c.real_val(0);
  bool first = true;
  for (const auto& [exponents, coefficient] : p.coefficients()) {
    z3::expr term = number(c, coefficient);
    std::istringstream in(exponents);
    long e = 0;
    for (std::size_t i = 0; in >> e; ++i) {
      for (long k = 0; k < e; ++k) term = term * x[i];
    }
    sum = first ? term : sum + term;
    first = false;
  }
  return sum;
}

Rational value_of(const z3::expr& value) {
  const std::string text = value.is_numeral() ? value.to_string() : value.get_decimal_string(12);
  if (value.is_numeral()) {
    std::string numerator, denominator;
    numerator = value.numerator().get_decimal_string(0);
    denominator = value.denominator().get_decimal_string(0);
    return Rational(Rational::Number(numerator + "/" + denominator));
  }
  std::string digits = text.substr(0, text.find('?'));
  const std::size_t point = digits.find('.');
  if (point == std::string::npos) return Rational(Rational::Number(digits));
  const std::size_t places = digits.size() - point - 1;
  digits.erase(point, 1);
  std::string sign;
  if (digits[0] == '-') {
    sign = "-";
    digits.erase(0, 1);
  }
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return Rational(Rational::Number(sign + digits + "/1" + std::string(places, '0')));
}

}  // namespace

Satisfied solve_reals(const std::vector<std::string>& variables,
                      const std::vector<RealConstraint>& constraints, unsigned milliseconds) {
  z3::context c;
  std::vector<z3::expr> x;
  for (const std::string& name : variables) x.push_back(c.real_const(name.c_str()));
  z3::solver solver = z3::tactic(c, "qfnra-nlsat").mk_solver();
  z3::params parameters(c);
  parameters.set("timeout", milliseconds);
  solver.set(parameters);
  for (const RealConstraint& g : constraints) {
    const z3::expr p = polynomial(c, x, g.polynomial);
    solver.add(g.strict ? p > 0 : p >= 0);
  }
  Satisfied result;
  result.smt = "(set-logic QF_NRA)\n" + solver.to_smt2();
  try {
    const z3::check_result answer = solver.check();
    if (answer == z3::unsat) result.kind = Satisfied::Kind::no;
    if (answer != z3::sat) return result;
    result.kind = Satisfied::Kind::yes;
    const z3::model model = solver.get_model();
    for (std::size_t i = 0; i < x.size(); ++i) {
      result.point[variables[i]] = value_of(model.eval(x[i], true));
    }
  } catch (const z3::exception&) {
    result.kind = Satisfied::Kind::unknown;
  }
  return result;
}

std::optional<std::vector<Rational>> solve_combination(const std::vector<Symbol>& columns,
                                                       const Symbol& target,
                                                       unsigned milliseconds) {
  z3::context c;
  z3::solver solver = z3::solver(c, "QF_LRA");
  z3::params parameters(c);
  parameters.set("timeout", milliseconds);
  solver.set(parameters);
  std::vector<z3::expr> unknowns;
  std::map<std::string, z3::expr_vector> rows;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    unknowns.push_back(c.real_const(("c" + std::to_string(i)).c_str()));
    solver.add(unknowns.back() >= 0);
    for (const auto& [exponents, coefficient] : columns[i].coefficients()) {
      rows.try_emplace(exponents, c)
          .first->second.push_back(number(c, coefficient) * unknowns.back());
    }
  }
  const auto wanted = target.coefficients();
  for (const auto& [exponents, coefficient] : wanted) {
    if (!rows.count(exponents)) return std::nullopt;
  }
  for (auto& [exponents, terms] : rows) {
    const auto found = wanted.find(exponents);
    const z3::expr right = found == wanted.end() ? c.real_val(0) : number(c, found->second);
    solver.add(z3::sum(terms) == right);
  }
  try {
    if (solver.check() != z3::sat) return std::nullopt;
    const z3::model model = solver.get_model();
    std::vector<Rational> solution;
    for (const z3::expr& u : unknowns) solution.push_back(value_of(model.eval(u, true)));
    return solution;
  } catch (const z3::exception&) {
    return std::nullopt;
  }
}

}  // namespace assay::proofs
