#include "proofs/claims/claim.hpp"

namespace assay::proofs {
namespace {

Json pairs(const Pairs& list) {
  Json all = Json::array();
  for (const auto& [name, formula] : list) all.push_back({name, formula});
  return all;
}

Json identity_statement(const Strings& variables, const Pairs& definitions, const Text& left,
                        const Text& right) {
  Json s = {{"kind", "identity"}, {"variables", variables}, {"left", left}, {"right", right}};
  if (!definitions.empty()) s["let"] = pairs(definitions);
  return s;
}

Json forall_statement(const Strings& variables, const Pairs& constraints, const Text& show) {
  return {
      {"kind", "forall"}, {"variables", variables}, {"where", pairs(constraints)}, {"show", show}};
}

}  // namespace

Claim& Claim::over(Text text) {
  domain = std::move(text);
  return *this;
}
Claim& Claim::is_erratum() {
  erratum = true;
  return *this;
}
Claim& Claim::is_counterexample() {
  counterexample = true;
  return *this;
}
Claim& Claim::sibling(Text words) {
  in_sibling_ = true;
  sibling_says += (sibling_says.empty() ? "" : "; ") + words;
  return *this;
}
Claim& Claim::add(Json statement, bool holds, Json hint) {
  (in_sibling_ ? siblings : parts).push_back({std::move(statement), holds, std::move(hint)});
  return *this;
}

Claim& Claim::identity(Strings variables, Pairs definitions, Text left, Text right) {
  return add(identity_statement(variables, definitions, left, right), true, nullptr);
}
Claim& Claim::not_identity(Strings variables, Pairs definitions, Text left, Text right) {
  return add(identity_statement(variables, definitions, left, right), false, nullptr);
}
Claim& Claim::forall(Strings variables, Pairs constraints, Text show, Text combination,
                     Text multiplier, Pairs squares) {
  Json hint = {{"multiplier", multiplier}, {"squares", pairs(squares)}};
  if (!combination.empty()) hint["combination"] = combination;
  return add(forall_statement(variables, constraints, show), true, hint);
}
Claim& Claim::not_forall(Strings variables, Pairs constraints, Text show, Json point) {
  return add(forall_statement(variables, constraints, show), false,
             point.is_null() ? Json(nullptr) : Json{{"point", point}});
}
Claim& Claim::program(Text name, Json parameters, Text ring) {
  return add({{"kind", "program"}, {"program", name}, {"parameters", parameters}, {"ring", ring}},
             true, nullptr);
}
Claim& Claim::not_program(Text name, Json parameters, Json point) {
  return add({{"kind", "program"}, {"program", name}, {"parameters", parameters}}, false,
             point.is_null() ? Json(nullptr) : Json{{"point", point}});
}
Claim& Claim::enclosure(std::vector<Strings> variables, Pairs definitions, Text show) {
  Json s = {{"kind", "enclosure"}, {"show", show}};
  s["variables"] = Json::array();
  for (const Strings& variable : variables) s["variables"].push_back(variable);
  if (!definitions.empty()) s["let"] = pairs(definitions);
  return add(std::move(s), true, nullptr);
}
Claim& Claim::part(Json statement, bool holds, Json hint) {
  return add(std::move(statement), holds, std::move(hint));
}

Claim& ClaimList::claim(Text id, Text source, Text says) {
  Claim c;
  c.id = std::move(id);
  c.source = std::move(source);
  c.says = std::move(says);
  claims_.push_back(std::move(c));
  return claims_.back();
}

}  // namespace assay::proofs
