// Inequalities with elementary functions: branch and bound on Arb balls. And the count of roundings
// of the chunk coefficients.
#include "proofs/common/sha256.hpp"
#include "proofs/engine/expression.hpp"
#include "proofs/engine/find.hpp"
#include "reference/recurrences/mdn_chunk.hpp"

namespace assay::proofs {

/// A number >= 0 and how many roundings it took.
struct Traced {
  long depth = 0;
  Traced() = default;
  template <std::integral Integer>
  Traced(Integer) {}  // NOLINT: exact
};
inline Traced traced(long depth) {
  Traced t;
  t.depth = depth;
  return t;
}
inline Traced operator*(Traced a, Traced b) { return traced(a.depth + b.depth + 1); }
inline Traced operator+(Traced a, Traced b) {
  return traced((a.depth > b.depth ? a.depth : b.depth) + 1);
}

}  // namespace assay::proofs

namespace assay {
template <>
struct Functions<proofs::Traced> {
  static constexpr const char* kName = "Traced";
  static void mul_add(proofs::Traced& acc, proofs::Traced a, proofs::Traced b) {
    acc = acc + a * b;
  }
};
}  // namespace assay

namespace assay::proofs {
namespace {

constexpr long kBits = 160;
constexpr long kMostBoxes = 200'000;

struct Problem {
  std::vector<std::string> names;
  const Json* statement;
  Inequality show;

  Ball difference(const std::vector<std::pair<Rational, Rational>>& box) const {
    Names<Ball> values;
    for (std::size_t i = 0; i < names.size(); ++i) {
      Ball& x = values[names[i]];
      const Ball lo = ball_of(box[i].first), hi = ball_of(box[i].second);
      arb_union(x.raw(), lo.raw(), hi.raw(), working_precision());
    }
    if (statement->contains("let")) {
      for (const Json& pair : statement->at("let")) {
        values[pair.at(0).get<std::string>()] = parse_ball(pair.at(1), values);
      }
    }
    return parse_ball(show.left, values) - parse_ball(show.right, values);
  }
};

using Box = std::vector<std::pair<Rational, Rational>>;

/// Appends the tree; false when it got too large or too deep.
bool grow(const Problem& problem, const Box& box, int depth, std::string& tree, long& leaves) {
  const Ball d = problem.difference(box);
  const bool good = problem.show.strict ? arb_is_positive(d.raw()) : arb_is_nonnegative(d.raw());
  if (good) {
    tree += '.';
    return ++leaves < kMostBoxes;
  }
  if (arb_is_negative(d.raw()) || depth > 60 || box.empty()) return false;
  std::size_t widest = 0;
  for (std::size_t i = 1; i < box.size(); ++i) {
    if (box[widest].second - box[widest].first < box[i].second - box[i].first) widest = i;
  }
  tree += static_cast<char>('0' + widest);
  const Rational middle = (box[widest].first + box[widest].second) / Rational(2);
  Box half = box;
  half[widest].second = middle;
  if (!grow(problem, half, depth + 1, tree, leaves)) return false;
  half[widest] = {middle, box[widest].second};
  return grow(problem, half, depth + 1, tree, leaves);
}

}  // namespace

Found find_enclosure(const Json& s, bool holds, const Json& hint) {
  const PrecisionScope scope(kBits);
  Problem problem{{}, &s, split_inequality(s.at("show"))};
  Box box;
  const auto rational = [](const Json& text) {
    return Rational(Rational::Number(text.get<std::string>()));
  };
  for (const Json& v : s.at("variables")) {
    problem.names.push_back(v.at(0));
    box.emplace_back(rational(v.at(1)), rational(v.at(2)));
  }
  Found found;
  found.method = "balls";
  if (!holds) {
    // Corners and the middle, or the point that the claim gives.
    const long n = static_cast<long>(box.size());
    for (long corner = 0; corner <= 1L << n; ++corner) {
      Box point = box;
      Json json = Json::object();
      for (long i = 0; i < n; ++i) {
        Rational x = corner >> i & 1 ? box[i].second : box[i].first;
        if (corner == 1L << n) x = (box[i].first + box[i].second) / Rational(2);
        if (hint.is_object()) x = rational(hint.at("point").at(problem.names[i]));
        point[i] = {x, x};
        json[problem.names[i]] = x.to_string();
      }
      const Ball d = problem.difference(point);
      if (problem.show.strict ? arb_is_nonpositive(d.raw()) : arb_is_negative(d.raw())) {
        found.answer = Answer::refuted;
        found.proof = {{"point", json}};
        found.detail = "left - right = " + d.to_string(8);
        return found;
      }
    }
    found.detail = "no counterexample among corners and middle";
    return found;
  }
  std::string tree;
  long leaves = 0;
  if (!grow(problem, box, 0, tree, leaves)) {
    found.detail = "undecided on a box of depth 60, or false there, after " +
                   std::to_string(leaves) + " boxes";
    return found;
  }
  found.answer = Answer::proved;
  found.detail = std::to_string(leaves) + (leaves == 1 ? " box" : " boxes");
  found.proof = {{"tree", tree}, {"boxes", leaves}};
  return found;
}

Found find_roundings(const Json& s, bool holds, const Json&) {
  const long n = s.at("C"), bound = s.at("bound");
  const std::vector<Traced> exact(n);
  const MdnCoefficients<Traced> c = mdn_coefficients(n, exact.data(), exact.data(), exact.data());
  long largest = 0;
  std::string counts;
  for (const auto* values : {&c.gamma, &c.m, &c.b, &c.alpha_bar, &c.mu_bar}) {
    for (const Traced& x : *values) {
      largest = std::max(largest, x.depth);
      counts += std::to_string(x.depth) + " ";
    }
  }
  Found found;
  found.method = "count of roundings";
  found.detail = "at most " + std::to_string(largest) + ", bound " + std::to_string(bound);
  if ((largest <= bound) != holds) return found;
  found.answer = holds ? Answer::proved : Answer::refuted;
  found.proof = {{"largest", largest}, {"counts", sha256(counts)}};
  return found;
}

}  // namespace assay::proofs
