// Inequalities between expressions with exp, log, tanh, sigmoid, softplus, over a box of rational
// intervals. The proof is the tree of halvings: a digit names the variable that is halved, a point
// is a box on which the interval of left - right is on the right side of 0.
#include "proofs/checker/check.hpp"
#include "proofs/checker/expression.hpp"
#include "proofs/checker/interval.hpp"
#include "proofs/checker/numbers.hpp"

namespace assay::checker {
namespace {

using Box = std::vector<Interval>;

struct Inequality {
  std::vector<std::string> names;
  const Value* statement;
  Relation show;

  Interval difference(const Box& box) const {
    std::map<std::string, Interval> values;
    for (std::size_t i = 0; i < names.size(); ++i) values[names[i]] = box[i];
    if (statement->has("let")) {
      for (const Value& pair : statement->array("let")) {
        values[pair.array().at(0).string()] =
            evaluate<Interval>(pair.array().at(1).string(), values);
      }
    }
    return evaluate<Interval>(show.left, values) - evaluate<Interval>(show.right, values);
  }
};

struct Walk {
  const Inequality& inequality;
  const std::string& tree;
  std::size_t at = 0;
  long leaves = 0;

  void go(const Box& box, int depth) {
    if (at >= tree.size() || depth > 200) throw Rejected("the tree of boxes ends early");
    const char c = tree[at++];
    if (c == '.') {
      const Interval d = inequality.difference(box);
      if (d.lo < 0 || (inequality.show.strict && d.lo == 0)) {
        throw Rejected("the inequality is undecided on box " + std::to_string(leaves));
      }
      ++leaves;
      return;
    }
    const std::size_t v = static_cast<std::size_t>(c - '0');
    if (c < '0' || v >= box.size()) throw Rejected("the tree of boxes halves no variable");
    const mpq_class middle = (box[v].lo + box[v].hi) / 2;
    Box half = box;
    half[v].hi = middle;
    go(half, depth + 1);
    half[v] = box[v];
    half[v].lo = middle;
    go(half, depth + 1);
  }
};

}  // namespace

std::string check_enclosure(const Value& statement, bool holds, const Value& proof) {
  Inequality inequality{{}, &statement, parse_relation(statement.string("show"))};
  Box box;
  for (const Value& v : statement.array("variables")) {
    const auto& items = v.array();
    if (items.size() != 3) throw Rejected("a variable has a name and two ends");
    inequality.names.push_back(items[0].string());
    const mpq_class lo = parse_rational(items[1].string()), hi = parse_rational(items[2].string());
    if (lo > hi) throw Rejected("an empty range of " + items[0].string());
    box.push_back({lo, hi});
  }
  if (!holds) {
    for (std::size_t i = 0; i < box.size(); ++i) {
      const mpq_class x = parse_rational(proof.at("point").string(inequality.names[i]));
      if (x < box[i].lo || x > box[i].hi) throw Rejected("the point is outside the range");
      box[i] = {x, x};
    }
    if (proof.at("point").object().size() != box.size()) throw Rejected("a bad point");
    const Interval d = inequality.difference(box);
    if (d.hi > 0 || (!inequality.show.strict && d.hi == 0)) {
      throw Rejected("the point is no counterexample");
    }
    return "a point where the enclosure fails the claim";
  }
  Walk walk{inequality, proof.string("tree")};
  walk.go(box, 0);
  if (walk.at != walk.tree.size() || walk.leaves != proof.at("boxes").integer()) {
    throw Rejected("another number of boxes");
  }
  return std::to_string(walk.leaves) + " boxes, by rational intervals";
}

}  // namespace assay::checker
