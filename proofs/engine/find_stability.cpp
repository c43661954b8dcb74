// Products of Momentum DeltaNet steps: cycles that grow, and certificates that nothing grows.
#include <boost/multiprecision/gmp.hpp>

#include "proofs/checker/check.hpp"
#include "proofs/engine/find.hpp"
#include "proofs/engine/gate_box.hpp"
#include "proofs/engine/lyapunov.hpp"

namespace assay::proofs {
namespace {

Rational rational(const Json& text) { return Rational(Rational::Number(text.get<std::string>())); }

/// Does the checker accept one piece of a nonexpansion certificate? The number of inequalities is
/// the checker's to find: it is read off its complaint-free run.
bool accepts(const Json& statement, const Json& piece, long inequalities) {
  const Json proof = {{"pieces", Json::array({piece})}, {"inequalities", inequalities}};
  try {
    checker::check_nonexpansion(checker::parse_json(statement.dump()), true,
                                checker::parse_json(proof.dump()));
    return true;
  } catch (const checker::Rejected&) {
    return false;
  }
}

long inequalities_of(const Json& piece) {
  const long acc = static_cast<long>(piece.at("accumulate").size()) - 1;
  const long turn = static_cast<long>(piece.at("turn").size()) - 1;
  const long n = acc + turn + 2;
  const bool point = piece.at("s").at(0) == piece.at("s").at(1);
  // for each μ of two: accumulate 2 a corner, turn 1 + corners a corner
  const long corners = point ? 1 : 2;
  const long per_acc = 2 * corners * 2, per_turn = 2 * corners * (1 + corners);
  return n * (per_acc + per_turn + acc * per_acc + turn * per_turn) + 2 * n;
}

std::vector<Rational> scaled(std::initializer_list<const char*> grid, const Rational& eta_max) {
  std::vector<Rational> g;
  for (const char* q : grid) g.push_back(Rational(Rational::Number(q)) * eta_max);
  return g;
}

}  // namespace

std::optional<Json> certify_pieces(const Rational& s0, const Rational& s1, const Rational& mu_max,
                                   const Rational& eta_max, long& inequalities,
                                   const std::function<bool()>& give_up) {
  struct Grids {
    std::vector<Rational> acc, turn;
  };
  const Grids choices[] = {
      {scaled({"1/8", "1"}, eta_max), scaled({"1/8", "1"}, eta_max)},
      {scaled({"1/8", "1/4", "1/2", "3/4", "1"}, eta_max),
       scaled({"1/8", "1/2", "3/4", "1"}, eta_max)},
      {scaled({"1/16", "1/8", "1/4", "1/2", "1"}, eta_max),
       scaled({"1/16", "1/4", "1/2", "1"}, eta_max)},
      {scaled({"1/16", "1/8", "3/16", "1/4", "3/8", "1/2", "3/4", "1"}, eta_max),
       scaled({"1/16", "1/4", "1/2", "3/4", "1"}, eta_max)},
  };
  Json pieces = Json::array();
  inequalities = 0;
  Rational at = s0, ratio = Rational::ratio(103, 100);
  const bool single = s0 == s1;
  const Rational least = Rational::ratio(1001, 1000);
  // The coarse grid serves single values of s far below the threshold.
  std::size_t preferred = single ? 0 : 1;
  while (single ? pieces.empty() : at < s1) {
    bool done = false;
    while (!done) {
      if (give_up && give_up()) return std::nullopt;
      Rational end = at;
      if (!single) {
        // up to a multiple of 1/1000 (1/8000 for small s), so that denominators stay small
        const Rational unit = at < Rational::ratio(1, 4) ? Rational(8000) : Rational(1000);
        const Rational wanted = at * ratio * unit;
        using boost::multiprecision::denominator;
        using boost::multiprecision::mpz_int;
        using boost::multiprecision::numerator;
        const mpz_int whole = numerator(wanted.value()) / denominator(wanted.value()) + 1;
        end = Rational(Rational::Number(whole)) / unit;
        if (s1 < end) end = s1;
      }
      for (std::size_t g = preferred; g < std::size(choices) && !done; ++g) {
        const auto piece = find_forms({at, end, mu_max, eta_max, choices[g].acc, choices[g].turn});
        if (!piece) continue;
        const Json statement = {{"kind", "nonexpansion"},
                                {"s", {at.to_string(), end.to_string()}},
                                {"mu_max", mu_max.to_string()},
                                {"eta_max", eta_max.to_string()}};
        const long count = inequalities_of(*piece);
        if (!accepts(statement, *piece, count)) continue;
        inequalities += count;
        pieces.push_back(*piece);
        at = end;
        done = true;
      }
      if (done) {
        ratio = Rational(1) + (ratio - Rational(1)) * Rational::ratio(5, 4);
        if (Rational::ratio(118, 100) < ratio) ratio = Rational::ratio(118, 100);
      } else {
        ratio = Rational(1) + (ratio - Rational(1)) / Rational(2);
        if (single || ratio < least) return std::nullopt;
      }
    }
  }
  return pieces;
}

Found find_nonexpansion(const Json& s, bool holds, const Json& hint) {
  Found found;
  found.method = "path-complete quadratic forms";
  if (!holds) {
    found.detail = "refuted by cycles only";
    return found;
  }
  long count = 0;
  std::optional<Json> pieces;
  if (hint.is_object() && hint.contains("pieces")) {
    pieces = hint.at("pieces");
    for (const Json& piece : *pieces) {
      const long n = inequalities_of(piece);
      const Json part = {{"kind", "nonexpansion"},
                         {"s", piece.at("s")},
                         {"mu_max", s.at("mu_max")},
                         {"eta_max", s.at("eta_max")}};
      if (!accepts(part, piece, n)) {
        found.detail = "the recorded forms fail for s in " + piece.at("s").dump();
        return found;
      }
      count += n;
    }
  } else {
    pieces = certify_pieces(rational(s.at("s").at(0)), rational(s.at("s").at(1)),
                            rational(s.at("mu_max")), rational(s.at("eta_max")), count);
  }
  if (!pieces) {
    found.detail = "no forms with a positive margin on grids of up to 13 types";
    return found;
  }
  found.answer = Answer::proved;
  found.detail = std::to_string(count) + " matrix inequalities, " + std::to_string(pieces->size()) +
                 " pieces of s";
  found.proof = {{"pieces", *pieces}, {"inequalities", count}};
  return found;
}

Found find_cycle(const Json& s, bool holds, const Json& hint) {
  Found found;
  found.method = "exact cycle";
  if (!holds || !hint.is_object()) {
    found.detail = "that there is no cycle cannot be certified this way";
    return found;
  }
  std::vector<Step> steps;
  for (const Json& row : hint.at("steps")) {
    steps.push_back({rational(row.at(0)), rational(row.at(1)), rational(row.at(2)),
                     rational(row.at(3)), row.at(4) == "e1"});
  }
  const CycleProduct product = product_of(steps);
  Json rows = Json::array();
  for (const Step& g : steps) rows.push_back(step_json(g));
  found.proof = {{"steps", rows},
                 {"trace", product.trace().to_string()},
                 {"determinant", product.determinant().to_string()}};
  try {
    checker::check_cycle(checker::parse_json(s.dump()), true,
                         checker::parse_json(found.proof.dump()));
  } catch (const checker::Rejected& error) {
    found.detail = error.what();
    return found;
  }
  found.answer = Answer::proved;
  found.detail = "period " + std::to_string(steps.size()) + ", spectral radius > " +
                 s.at("radius").get<std::string>();
  return found;
}

}  // namespace assay::proofs
