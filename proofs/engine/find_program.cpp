// Statements about recurrences, on the templates of reference/ themselves.
#include <random>
#include <set>

#include "proofs/common/sha256.hpp"
#include "proofs/engine/find.hpp"
#include "proofs/engine/symbol.hpp"
#include "proofs/programs/program.hpp"
#include "reference/scalars/field.hpp"

namespace assay::proofs {
namespace {

constexpr const char* kPointSeed = "2026";

Parameters parameters_of(const Json& s) {
  Parameters parameters;
  for (const auto& [name, value] : s.at("parameters").items()) parameters[name] = value;
  return parameters;
}

std::vector<std::string> drawn_by(const std::string& program, const Parameters& parameters) {
  std::vector<std::string> names;
  run_program<DegreeBound>(program, parameters, [&](const std::string& name) {
    names.push_back(name);
    return DegreeBound::make(1, 0);
  });
  return names;
}

Found prove_polynomials(const std::string& program, const Parameters& parameters) {
  SymbolScope scope(static_cast<long>(drawn_by(program, parameters).size()));
  long next = 0;
  const auto equations = run_program<Symbol>(
      program, parameters, [&](const std::string&) { return Symbol::variable(next++); });
  Found found;
  found.method = "polynomial identity";
  std::string forms;
  long terms = 0;
  for (const auto& e : equations) {
    if (!(e.left == e.right)) {
      found.detail = "the sides of " + e.what + " are different polynomials";
      return found;
    }
    forms += e.what + "\n" + e.left.normal_form();
    terms += e.left.terms();
  }
  if (equations.empty()) {
    found.detail = "there is no equation";
    return found;
  }
  found.answer = Answer::proved;
  found.detail = std::to_string(equations.size()) + " equations, normal forms of " +
                 std::to_string(terms) + " terms";
  found.proof = {
      {"equations", equations.size()}, {"terms", terms}, {"normal_forms", sha256(forms)}};
  return found;
}

Field at_point(int n, const std::string& name) {
  const std::string digest =
      sha256(std::string("assay point ") + kPointSeed + " " + std::to_string(n) + " " + name);
  return Field::from_parts(std::stoull(digest.substr(0, 16), nullptr, 16), 1);
}

Found prove_residues(const std::string& program, const Parameters& parameters) {
  const auto degrees = run_program<DegreeBound>(
      program, parameters, [](const std::string&) { return DegreeBound::make(1, 0); });
  long degree = 0;
  for (const auto& e : degrees) degree = std::max(degree, (e.left - e.right).num);
  int bits = 61;
  while (bits > 0 && (1L << (61 - bits)) < degree) --bits;
  Found found;
  found.method = "random points of F_p";
  if (bits < 20 || degrees.empty()) {
    found.detail = "the degree may be " + std::to_string(degree) + ", too high";
    return found;
  }
  const int points = (100 + bits - 1) / bits;
  Json values = Json::array();
  for (int n = 0; n < points; ++n) {
    const auto equations = run_program<Field>(
        program, parameters, [n](const std::string& name) { return at_point(n, name); });
    std::string text;
    for (const auto& e : equations) {
      if (!(e.left == e.right)) {
        found.detail = "the sides of " + e.what + " differ modulo p";
        return found;
      }
      text += std::to_string(e.left.residue()) + "\n";
    }
    values.push_back(sha256(text));
  }
  found.answer = Answer::probable;
  found.detail = std::to_string(degrees.size()) +
                 " equations of degree <= " + std::to_string(degree) + " at " +
                 std::to_string(points) + " points, error < 2^-" + std::to_string(points * bits);
  found.proof = {{"prime", std::to_string(Field::kPrime)},
                 {"seed", kPointSeed},
                 {"points", points},
                 {"degree", degree},
                 {"values", values}};
  return found;
}

using NamedPoint = std::map<std::string, Rational>;

/// The first equation that fails at the point, or -1.
long fails_at(const std::string& program, const Parameters& parameters, const NamedPoint& point,
              Equations<Rational>& equations) {
  try {
    equations = run_program<Rational>(program, parameters, [&](const std::string& name) {
      const auto found = point.find(name);
      return found == point.end() ? Rational(0) : found->second;
    });
  } catch (const std::domain_error&) {
    return -1;  // a division by 0, or tanh of something else than 0
  }
  for (std::size_t i = 0; i < equations.size(); ++i) {
    if (!(equations[i].left == equations[i].right)) return static_cast<long>(i);
  }
  return -1;
}

Found refute(const std::string& program, const Parameters& parameters, const Json& hint) {
  const std::vector<std::string> names = drawn_by(program, parameters);
  Equations<Rational> equations;
  NamedPoint point;
  long at = -1;
  if (hint.is_object()) {
    for (const auto& [name, value] : hint.at("point").items()) {
      point[name] = Rational(Rational::Number(value.get<std::string>()));
    }
    at = fails_at(program, parameters, point, equations);
  }
  std::mt19937_64 random(1);
  for (int round = 0; at < 0 && round < 3000; ++round) {
    // Mostly zeros after a while: tanh of anything else is not rational.
    for (const std::string& name : names) {
      const auto r = random() % 8;
      point[name] = r == 0   ? Rational::ratio(1, 2)
                    : r == 1 ? Rational(1)
                    : r == 2 ? Rational(2)
                    : r == 3 ? Rational(-1)
                    : r == 4 ? Rational::ratio(1, 4)
                             : Rational(round < 10 ? 1 : 0);
    }
    at = fails_at(program, parameters, point, equations);
  }
  Found found;
  if (at < 0) {
    found.detail = "no counterexample among 3000 small points";
    return found;
  }
  // Smaller: what can be 0 is 0, what can be 1 or 1/2 is that.
  for (const Rational& simple : {Rational(0), Rational(1), Rational::ratio(1, 2)}) {
    for (const std::string& name : names) {
      if (point[name] == Rational(0) || point[name] == Rational(1)) {
        if (!(simple == Rational(0))) continue;
      }
      const Rational kept = point[name];
      point[name] = simple;
      const long still = fails_at(program, parameters, point, equations);
      if (still < 0) {
        point[name] = kept;
      } else {
        at = still;
      }
    }
  }
  at = fails_at(program, parameters, point, equations);
  Json json = Json::object();
  for (const auto& [name, value] : point) {
    if (!(value == Rational(0))) json[name] = value.to_string();
  }
  const auto& e = equations.at(at);
  found.answer = Answer::refuted;
  found.method = "rational point";
  found.detail = e.what + " is " + e.left.to_string() + ", must be " + e.right.to_string();
  found.proof = {{"point", json},
                 {"equation", e.what},
                 {"left", e.left.to_string()},
                 {"right", e.right.to_string()}};
  return found;
}

}  // namespace

Found find_program(const Json& s, bool holds, const Json& hint) {
  const std::string program = s.at("program");
  const Parameters parameters = parameters_of(s);
  if (!holds) return refute(program, parameters, hint);
  const std::string ring = s.at("ring");
  if (ring == "polynomials") return prove_polynomials(program, parameters);
  if (ring == "residues") return prove_residues(program, parameters);
  throw std::invalid_argument("proofs: unknown ring " + ring);
}

}  // namespace assay::proofs
