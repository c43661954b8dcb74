// Statements about recurrences: identities of polynomials, identities modulo a prime up to a
// probability, and counterexamples.
#include "proofs/programs/program.hpp"

#include <set>

#include "proofs/checker/check.hpp"
#include "proofs/checker/numbers.hpp"
#include "proofs/common/sha256.hpp"

namespace assay::checker {
namespace {

using proofs::Parameters;
using proofs::run_program;
using proofs::Source;

Parameters parameters_of(const Value& statement) {
  Parameters parameters;
  for (const auto& [name, value] : statement.at("parameters").object()) {
    parameters[name] = value.string();
  }
  return parameters;
}

/// The value of a variable at a point of the field, as written down in proofs/README.md.
Residue at_point(const std::string& seed, int n, const std::string& name) {
  const std::string digest =
      proofs::sha256("assay point " + seed + " " + std::to_string(n) + " " + name);
  std::uint64_t bits = 0;
  for (int i = 0; i < 16; ++i) {
    const char c = digest[i];
    bits = bits << 4 | static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  return Residue::from(bits);
}

std::string check_polynomials(const std::string& program, const Parameters& parameters,
                              const Value& proof) {
  // The fresh variables of functions come behind those that the program draws, which are counted
  // by a first run: numbers of its own kind would do, degrees are the cheapest.
  std::size_t drawn = 0;
  run_program<Degree>(program, parameters, [&](const std::string&) {
    ++drawn;
    return Degree(1, 0);
  });
  FreshVariables fresh(drawn);
  std::size_t next = 0;
  const auto equations = run_program<Poly>(
      program, parameters, [&](const std::string&) { return Poly::variable(next++); });
  std::string forms;
  long terms = 0;
  for (const auto& e : equations) {
    if (!(e.left == e.right)) throw Rejected("the sides of " + e.what + " are not the same");
    forms += e.what + "\n" + e.left.normal_form();
    terms += static_cast<long>(e.left.terms().size());
  }
  if (static_cast<long>(equations.size()) != proof.at("equations").integer() ||
      terms != proof.at("terms").integer() || equations.empty()) {
    throw Rejected("the number of equations or terms is wrong");
  }
  if (proofs::sha256(forms) != proof.string("normal_forms")) {
    throw Rejected("the normal forms are others");
  }
  return std::to_string(equations.size()) + " polynomial identities, " + std::to_string(terms) +
         " terms";
}

std::string check_residues(const std::string& program, const Parameters& parameters,
                           const Value& proof) {
  if (proof.string("prime") != std::to_string(Residue::kPrime)) throw Rejected("another prime");
  const auto degrees =
      run_program<Degree>(program, parameters, [](const std::string&) { return Degree(1, 0); });
  long degree = 0;
  for (const auto& e : degrees) {
    const Degree difference = e.left - e.right;
    degree = std::max(degree, difference.num);
  }
  if (degree != proof.at("degree").integer()) throw Rejected("the degree is another");
  const long points = proof.at("points").integer();
  int bits = 61;
  while (bits > 0 && (1L << (61 - bits)) < degree) --bits;
  if (points < 1 || points > 16 || points * bits < 100) throw Rejected("too few points");
  const auto& values = proof.array("values");
  if (static_cast<long>(values.size()) != points) throw Rejected("a point lacks its values");
  for (int n = 0; n < points; ++n) {
    const auto equations = run_program<Residue>(program, parameters, [&](const std::string& name) {
      return at_point(proof.string("seed"), n, name);
    });
    std::string text;
    for (const auto& e : equations) {
      if (!(e.left == e.right)) throw Rejected("the sides of " + e.what + " differ modulo p");
      text += std::to_string(e.left.value) + "\n";
    }
    if (proofs::sha256(text) != values[n].string()) throw Rejected("the values are others");
  }
  return std::to_string(degrees.size()) + " equations at " + std::to_string(points) +
         " points modulo 2^61 - 1, degree <= " + std::to_string(degree);
}

std::string check_counterexample(const std::string& program, const Parameters& parameters,
                                 const Value& proof) {
  std::map<std::string, Exact> given;
  for (const auto& [name, value] : proof.at("point").object()) {
    given[name] = Exact(parse_rational(value.string()));
  }
  std::set<std::string> drawn;
  const auto equations = run_program<Exact>(program, parameters, [&](const std::string& name) {
    drawn.insert(name);
    const auto found = given.find(name);
    return found == given.end() ? Exact(0) : found->second;
  });
  for (const auto& [name, value] : given) {
    if (!drawn.count(name)) throw Rejected("there is no variable " + name);
  }
  for (const auto& e : equations) {
    if (e.what != proof.string("equation")) continue;
    if (e.left.value != parse_rational(proof.string("left")) ||
        e.right.value != parse_rational(proof.string("right"))) {
      throw Rejected("the sides of " + e.what + " are " + e.left.value.get_str() + " and " +
                     e.right.value.get_str());
    }
    if (e.left == e.right) throw Rejected("the sides of " + e.what + " agree");
    return e.what + " is " + e.left.value.get_str() + ", must be " + e.right.value.get_str();
  }
  throw Rejected("there is no equation " + proof.string("equation"));
}

}  // namespace

std::string check_program(const Value& statement, bool holds, const Value& proof) {
  const std::string& program = statement.string("program");
  const Parameters parameters = parameters_of(statement);
  if (!holds) return check_counterexample(program, parameters, proof);
  const std::string& ring = statement.string("ring");
  if (ring == "polynomials") return check_polynomials(program, parameters, proof);
  if (ring == "residues") return check_residues(program, parameters, proof);
  throw Rejected("unknown ring '" + ring + "'");
}

}  // namespace assay::checker
