// Identities, and statements for all reals that meet constraints.
//
// A statement "for all x with g_1 >= 0, ..., g_n > 0: q >= 0" is proved by two polynomials with
// coefficients >= 0 in the names of the constraints (and of squares): multiplier M and combination
// R with M(g) q = R(g) identically and M > 0 wherever the constraints hold, because one of its
// terms is a positive number times strict constraints. Then q = R / M >= 0.
#include "proofs/checker/check.hpp"
#include "proofs/checker/expression.hpp"
#include "proofs/common/sha256.hpp"

namespace assay::checker {
namespace {

template <class Number>
std::map<std::string, Number> variables(const Value& statement) {
  std::map<std::string, Number> names;
  std::size_t index = 0;
  for (const Value& name : statement.array("variables")) {
    if (!names.emplace(name.string(), Number(Poly::variable(index++))).second) {
      throw Rejected("variable '" + name.string() + "' is given twice");
    }
  }
  return names;
}

std::map<std::string, Exact> point(const Value& statement, const Value& proof) {
  std::map<std::string, Exact> names;
  for (const auto& [name, value] : proof.at("point").object()) {
    names[name] = Exact(parse_rational(value.string()));
  }
  if (names.size() != statement.array("variables").size()) {
    throw Rejected("the point does not give every variable once");
  }
  for (const Value& name : statement.array("variables")) {
    if (!names.count(name.string())) throw Rejected("the point lacks " + name.string());
  }
  return names;
}

template <class Number>
void define(const Value& statement, std::map<std::string, Number>& names) {
  if (!statement.has("let")) return;
  for (const Value& pair : statement.array("let")) {
    const auto& items = pair.array();
    if (items.size() != 2 || names.count(items[0].string())) throw Rejected("a bad definition");
    names.emplace(items[0].string(), evaluate<Number>(items[1].string(), names));
  }
}

void expect_value(const Value& proof, const char* key, const Exact& value) {
  if (parse_rational(proof.string(key)) != value.value) {
    throw Rejected(std::string(key) + " is " + value.value.get_str() + ", not " +
                   proof.string(key));
  }
}

/// A polynomial with coefficients >= 0 in the names given.
Poly positive_combination(const std::string& text, const std::map<std::string, Poly>& names) {
  const Poly p = evaluate<Poly>(text, names);
  for (const auto& [monomial, c] : p.terms()) {
    if (c < 0) throw Rejected("a negative coefficient in '" + text + "'");
  }
  return p;
}

/// Is one of the terms positive wherever the constraints hold?
bool certainly_positive(const Poly& p, const std::vector<bool>& strict) {
  for (const auto& [monomial, c] : p.terms()) {
    bool positive = c > 0;
    for (std::size_t i = 0; i < monomial.size(); ++i) {
      if (monomial[i] != 0 && !strict[i]) positive = false;
    }
    if (positive) return true;
  }
  return false;
}

}  // namespace

std::string check_identity(const Value& statement, bool holds, const Value& proof) {
  if (!holds) {
    auto names = point(statement, proof);
    define(statement, names);
    if (proof.has("undefined")) {
      if (!statement.has("everywhere")) throw Rejected("the sides need not be defined everywhere");
      try {
        evaluate<Exact>(statement.string("left"), names);
      } catch (const Rejected&) {
        return "the left side is not defined at a rational point";
      }
      throw Rejected("the left side is defined at the point");
    }
    const Exact left = evaluate<Exact>(statement.string("left"), names);
    const Exact right = evaluate<Exact>(statement.string("right"), names);
    expect_value(proof, "left", left);
    expect_value(proof, "right", right);
    if (left == right) throw Rejected("both sides agree at the point");
    return "the sides differ at a rational point";
  }
  auto names = variables<Fraction>(statement);
  define(statement, names);
  const Fraction left = evaluate<Fraction>(statement.string("left"), names);
  const Fraction right = evaluate<Fraction>(statement.string("right"), names);
  const Poly cross = left.num * right.den;
  if (!(cross == right.num * left.den)) throw Rejected("the sides are not the same");
  if (static_cast<long>(cross.terms().size()) != proof.at("terms").integer()) {
    throw Rejected("the number of terms is wrong");
  }
  if (proofs::sha256(cross.normal_form()) != proof.string("normal_form")) {
    throw Rejected("the normal form is another");
  }
  return "normal form of " + std::to_string(cross.terms().size()) + " terms";
}

std::string check_forall(const Value& statement, bool holds, const Value& proof) {
  const Relation show = parse_relation(statement.string("show"));
  if (!holds) {
    auto names = point(statement, proof);
    define(statement, names);
    for (const Value& constraint : statement.array("where")) {
      const Relation g = parse_relation(constraint.array().at(1).string());
      const mpq_class value =
          evaluate<Exact>(g.left, names).value - evaluate<Exact>(g.right, names).value;
      if (value < 0 || (g.strict && value == 0)) {
        throw Rejected("the point does not meet " + constraint.dump());
      }
    }
    const Exact left = evaluate<Exact>(show.left, names),
                right = evaluate<Exact>(show.right, names);
    expect_value(proof, "left", left);
    expect_value(proof, "right", right);
    if (left.value > right.value || (!show.strict && left == right)) {
      throw Rejected("the point is no counterexample");
    }
    return "a rational point that meets the constraints and fails the claim";
  }
  auto names = variables<Poly>(statement);
  define(statement, names);
  std::map<std::string, Poly> letters, meaning;
  std::vector<bool> strict;
  const auto add_letter = [&](const std::string& name, Poly value, bool is_strict) {
    if (!letters.emplace(name, Poly::variable(strict.size())).second) {
      throw Rejected("constraint '" + name + "' is given twice");
    }
    meaning.emplace(name, std::move(value));
    strict.push_back(is_strict);
  };
  for (const Value& constraint : statement.array("where")) {
    const Relation g = parse_relation(constraint.array().at(1).string());
    add_letter(constraint.array().at(0).string(),
               evaluate<Poly>(g.left, names) - evaluate<Poly>(g.right, names), g.strict);
  }
  if (proof.has("squares")) {
    for (const Value& square : proof.array("squares")) {
      const Poly root = evaluate<Poly>(square.array().at(1).string(), names);
      add_letter(square.array().at(0).string(), root * root, false);
    }
  }
  const Poly multiplier = positive_combination(proof.string("multiplier"), letters);
  const Poly combination = positive_combination(proof.string("combination"), letters);
  if (!certainly_positive(multiplier, strict)) throw Rejected("the multiplier may vanish");
  if (show.strict && !certainly_positive(combination, strict)) {
    throw Rejected("the combination may vanish, but the claim is strict");
  }
  const Poly q = evaluate<Poly>(show.left, names) - evaluate<Poly>(show.right, names);
  if (!(evaluate<Poly>(proof.string("multiplier"), meaning) * q ==
        evaluate<Poly>(proof.string("combination"), meaning))) {
    throw Rejected("multiplier times claim is not the combination");
  }
  return "a positive combination of " + std::to_string(combination.terms().size()) +
         " products of constraints";
}

}  // namespace assay::checker
