// Identities by FLINT's normal form, and statements for all reals by positive combinations of the
// constraints: given with the claim, or found as a linear programme over the products of up to
// four constraints.
#include <functional>
#include <random>

#include "proofs/common/sha256.hpp"
#include "proofs/engine/expression.hpp"
#include "proofs/engine/find.hpp"
#include "proofs/engine/solver.hpp"

namespace assay::proofs {
namespace {

std::vector<std::string> variables_of(const Json& s) { return s.at("variables"); }

Rational rational(const std::string& text) { return Rational(Rational::Number(text)); }

template <class Number, class Parse>
void define(const Json& s, Names<Number>& names, Parse parse) {
  if (!s.contains("let")) return;
  for (const Json& pair : s.at("let")) {
    names[pair.at(0).get<std::string>()] = parse(pair.at(1).get<std::string>(), names);
  }
}

Json point_json(const std::vector<std::string>& variables, const Names<Rational>& point) {
  Json json = Json::object();
  for (const std::string& name : variables) json[name] = point.at(name).to_string();
  return json;
}

/// Points worth trying: small numbers first.
bool search_points(const std::vector<std::string>& variables,
                   const std::function<bool(const Names<Rational>&)>& wanted,
                   Names<Rational>& found) {
  static const char* kSmall[] = {"1/2", "1",   "0",    "2",    "1/4",   "3/4", "1/3",  "3/2",
                                 "1/8", "7/8", "9/10", "1/10", "19/10", "-1",  "-1/2", "3"};
  std::mt19937_64 random(1);
  for (int round = 0; round < 20000; ++round) {
    Names<Rational> point;
    const std::size_t width = round < 50 ? 2 : round < 1000 ? 5 : std::size(kSmall);
    for (const std::string& name : variables) point[name] = rational(kSmall[random() % width]);
    try {
      if (!wanted(point)) continue;
    } catch (const std::exception&) {
      continue;  // a division by 0
    }
    found = point;
    return true;
  }
  return false;
}

Found refuted_at(const Json& s, const Names<Rational>& point, const Rational& left,
                 const Rational& right) {
  Found found;
  found.answer = Answer::refuted;
  found.method = "rational point";
  found.proof = {{"point", point_json(variables_of(s), point)},
                 {"left", left.to_string()},
                 {"right", right.to_string()}};
  for (const std::string& name : variables_of(s)) {
    found.detail += name + " = " + point.at(name).to_string() + ", ";
  }
  found.detail += "left " + left.to_string() + ", right " + right.to_string();
  return found;
}

Found refute_identity(const Json& s) {
  Rational left, right;
  const auto differs = [&](Names<Rational> names) {
    define(s, names, parse_value);
    left = parse_value(s.at("left"), names);
    right = parse_value(s.at("right"), names);
    return !(left == right);
  };
  Names<Rational> point;
  if (s.contains("everywhere")) {
    const auto undefined = [&](const Names<Rational>& names) {
      try {
        parse_value(s.at("left"), names);
      } catch (const std::domain_error&) {
        return true;
      }
      return false;
    };
    if (search_points(variables_of(s), undefined, point)) {
      Found found = refuted_at(s, point, 0, 0);
      found.proof = {{"point", point_json(variables_of(s), point)}, {"undefined", true}};
      found.detail = found.detail.substr(0, found.detail.rfind(", left")) + ": a division by 0";
      return found;
    }
  }
  if (search_points(variables_of(s), differs, point)) return refuted_at(s, point, left, right);
  Found found;
  found.detail = "no counterexample among 20000 small points";
  return found;
}

struct Letter {
  std::string name;
  Symbol meaning;
  bool strict;
};

/// Coefficients >= 0, in the letters alone.
bool is_positive_combination(const std::string& text, const std::vector<Letter>& letters,
                             bool must_be_strict) {
  Names<Symbol> names;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    names[letters[i].name] = Symbol::variable(static_cast<long>(i));
  }
  bool strict = false;
  for (const auto& [exponents, c] : parse_polynomial(text, names).coefficients()) {
    if (c < Rational(0)) return false;
    bool term = true;
    std::istringstream in(exponents);
    long e = 0;
    for (std::size_t i = 0; in >> e; ++i) term = term && (e == 0 || letters[i].strict);
    strict = strict || term;
  }
  return strict || !must_be_strict;
}

Symbol meaning_of(const std::string& text, const std::vector<Letter>& letters) {
  Names<Symbol> names;
  for (const Letter& letter : letters) names[letter.name] = letter.meaning;
  return parse_polynomial(text, names);
}

/// Monomials of the letters up to a total degree, as text and as polynomial.
void products(const std::vector<Letter>& letters, std::size_t first, int degree,
              const std::string& text, const Symbol& value, bool strict,
              std::vector<std::string>& texts, std::vector<Symbol>& values,
              std::vector<bool>& stricts) {
  texts.push_back(text.empty() ? "1" : text);
  values.push_back(value);
  stricts.push_back(strict);
  if (degree == 0) return;
  for (std::size_t i = first; i < letters.size(); ++i) {
    products(letters, i, degree - 1, text.empty() ? letters[i].name : text + "*" + letters[i].name,
             value * letters[i].meaning, strict && letters[i].strict, texts, values, stricts);
  }
}

/// M q = R with R found by the simplex method; for a strict claim with a strict product as large
/// as possible among 1, 1/10, 1/1000.
std::string search_combination(const std::vector<Letter>& letters, const Symbol& target,
                               bool strict) {
  for (const int degree : {1, 2, 3, 4}) {
    std::vector<std::string> texts;
    std::vector<Symbol> values;
    std::vector<bool> stricts;
    products(letters, 0, degree, "", Symbol(1), true, texts, values, stricts);
    if (texts.size() > 800) break;
    if (!strict) {
      // Without the constant the empty combination cannot serve; with it, it may.
      if (const auto c = solve_combination(values, target, 4000)) {
        std::string text;
        for (std::size_t i = 0; i < c->size(); ++i) {
          if ((*c)[i] == Rational(0)) continue;
          text += (text.empty() ? "" : " + ") + (*c)[i].to_string() + "*" + texts[i];
        }
        return text.empty() ? "0" : text;
      }
      continue;
    }
    // Σ strict products * t moved to the left side, for a fixed t > 0.
    for (const char* t : {"1", "1/16", "1/1024"}) {
      for (std::size_t fixed = 0; fixed < texts.size(); ++fixed) {
        if (!stricts[fixed] || fixed > 40) continue;
        const Symbol rest = target - Symbol(rational(t)) * values[fixed];
        const auto c = solve_combination(values, rest, 2000);
        if (!c) continue;
        std::string text = std::string(t) + "*" + texts[fixed];
        for (std::size_t i = 0; i < c->size(); ++i) {
          if (!((*c)[i] == Rational(0))) text += " + " + (*c)[i].to_string() + "*" + texts[i];
        }
        return text;
      }
    }
  }
  return "";
}

Found refute_forall(const Json& s, const Json& hint) {
  const Inequality show = split_inequality(s.at("show"));
  Rational left, right;
  const auto fails = [&](Names<Rational> names) {
    define(s, names, parse_value);
    for (const Json& g : s.at("where")) {
      const Inequality e = split_inequality(g.at(1));
      const Rational d = parse_value(e.left, names) - parse_value(e.right, names);
      if (d < Rational(0) || (e.strict && d == Rational(0))) return false;
    }
    left = parse_value(show.left, names);
    right = parse_value(show.right, names);
    return left < right || (show.strict && left == right);
  };
  Names<Rational> point;
  if (hint.is_object() && hint.contains("point")) {
    for (const auto& [name, value] : hint.at("point").items()) {
      point[name] = rational(value.get<std::string>());
    }
    if (fails(point)) return refuted_at(s, point, left, right);
  }
  const auto variables = variables_of(s);
  if (search_points(variables, fails, point)) return refuted_at(s, point, left, right);
  SymbolScope scope(static_cast<long>(variables.size()));
  Names<Symbol> names;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    names[variables[i]] = Symbol::variable(static_cast<long>(i));
  }
  define(s, names, parse_polynomial);
  std::vector<RealConstraint> constraints;
  for (const Json& g : s.at("where")) {
    const Inequality e = split_inequality(g.at(1));
    constraints.push_back(
        {parse_polynomial(e.left, names) - parse_polynomial(e.right, names), e.strict});
  }
  constraints.push_back(
      {parse_polynomial(show.right, names) - parse_polynomial(show.left, names), !show.strict});
  const Satisfied answer = solve_reals(variables, constraints, 5000);
  Found found;
  if (answer.kind == Satisfied::Kind::yes && fails(answer.point)) {
    found = refuted_at(s, answer.point, left, right);
    found.detail += " (Z3)";
  } else {
    found.detail = "no counterexample among 20000 small points, Z3 has none either";
  }
  found.smt = answer.smt;
  return found;
}

}  // namespace

Found find_identity(const Json& s, bool holds, const Json&) {
  if (!holds) return refute_identity(s);
  const auto variables = variables_of(s);
  SymbolScope scope(static_cast<long>(variables.size()));
  Names<Quotient> names;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    names[variables[i]] = {Symbol::variable(static_cast<long>(i)), 1};
  }
  define(s, names, parse_quotient);
  const Quotient left = parse_quotient(s.at("left"), names);
  const Quotient right = parse_quotient(s.at("right"), names);
  const Symbol cross = left.num * right.den;
  Found found;
  found.method = "polynomial identity";
  if (!(cross - right.num * left.den).is_zero()) {
    found.detail = "the difference is not the zero polynomial";
    return found;
  }
  found.answer = Answer::proved;
  found.detail = "normal form of " + std::to_string(cross.terms()) + " terms";
  found.proof = {{"terms", cross.terms()}, {"normal_form", sha256(cross.normal_form())}};
  return found;
}

Found find_forall(const Json& s, bool holds, const Json& hint) {
  if (!holds) return refute_forall(s, hint);
  const auto variables = variables_of(s);
  const std::size_t room = variables.size() + s.at("where").size() + 16;
  SymbolScope scope(static_cast<long>(room));
  Names<Symbol> names;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    names[variables[i]] = Symbol::variable(static_cast<long>(i));
  }
  define(s, names, parse_polynomial);
  std::vector<Letter> letters;
  std::vector<RealConstraint> constraints;
  for (const Json& g : s.at("where")) {
    const Inequality e = split_inequality(g.at(1));
    const Symbol d = parse_polynomial(e.left, names) - parse_polynomial(e.right, names);
    letters.push_back({g.at(0), d, e.strict});
    constraints.push_back({d, e.strict});
  }
  Json squares = Json::array();
  if (hint.is_object() && hint.contains("squares")) squares = hint.at("squares");
  for (const Json& square : squares) {
    const Symbol root = parse_polynomial(square.at(1), names);
    letters.push_back({square.at(0), root * root, false});
  }
  const Inequality show = split_inequality(s.at("show"));
  const Symbol q = parse_polynomial(show.left, names) - parse_polynomial(show.right, names);
  std::string multiplier = "1", combination;
  if (hint.is_object()) {
    multiplier = hint.value("multiplier", "1");
    combination = hint.value("combination", "");
  }
  Found found;
  found.method = "positive combination";
  // A second opinion from a solver that knows nothing of combinations.
  constraints.push_back({-q, !show.strict});
  const Satisfied second = solve_reals(variables, constraints, 500);
  found.smt = second.smt;
  const Symbol target = meaning_of(multiplier, letters) * q;
  if (combination.empty() && second.kind != Satisfied::Kind::yes) {
    combination = search_combination(letters, target, show.strict);
  }
  const bool right = !combination.empty() && is_positive_combination(multiplier, letters, true) &&
                     is_positive_combination(combination, letters, show.strict) &&
                     (target - meaning_of(combination, letters)).is_zero();
  if (!right) {
    found.detail = "no combination of products of up to 4 constraints";
    found.detail = second.kind == Satisfied::Kind::no
                       ? found.detail + "; Z3 finds no counterexample either"
                   : second.kind == Satisfied::Kind::yes ? "Z3 has a counterexample"
                                                         : found.detail + "; Z3 does not know";
    return found;
  }
  if (second.kind == Satisfied::Kind::yes) {
    throw std::logic_error("proofs: a certificate and Z3 contradict each other: " + s.dump());
  }
  found.answer = Answer::proved;
  found.detail = combination.size() < 100 ? combination : combination.substr(0, 97) + "...";
  if (second.kind == Satisfied::Kind::no) found.detail += " (Z3 agrees)";
  found.proof = {{"multiplier", multiplier}, {"combination", combination}};
  if (!squares.empty()) found.proof["squares"] = squares;
  return found;
}

}  // namespace assay::proofs
