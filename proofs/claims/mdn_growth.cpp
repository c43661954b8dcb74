// How large steps and products of Momentum DeltaNet can get: norms, duals, inputs, the inverse of
// the chunk system, and the simplest cycle that grows.
#include <sstream>

#include "proofs/claims/claim.hpp"
#include "reference/scalars/rational.hpp"

namespace assay::proofs {
namespace {

/// Sum of squares and determinant of A at integer gates.
Pairs vertex(int alpha, int beta, int mu, int eta) {
  const int a = alpha * (1 - beta * eta), b = -beta * mu, c = alpha * eta, d = mu;
  return {{"F", std::to_string(a * a + b * b + c * c + d * d)},
          {"d", a * d - b * c < 0 ? "0 - " + std::to_string(b * c - a * d)
                                  : std::to_string(a * d - b * c)}};
}

/// t² - F t + d² > 0 at a t > 7/2 >= F/2: both roots are below it.
Part largest_root_below(const Pairs& at, const Text& t) {
  Claim claim;
  claim.enclosure({}, at, "(" + t + ")^2 - F*" + t + " + d^2 > 0");
  return claim.parts[0];
}

Rational number(const Text& text) { return Rational(Rational::Number(text)); }
Text kick_decay(const Text& s, const Text& eta) {
  const Rational x = number(s) * number(eta);
  return (Rational(1) / (Rational(1) + x * x)).to_string();
}
Text largest_beta(const Text& s) {
  const Rational u = Rational(4) * number(s) * number(s);
  return (u / (Rational(1) + u)).to_string();
}

}  // namespace
}  // namespace assay::proofs

ASSAY_CLAIMS(mdn_growth) {
  // S = 1/(2s) for s >= 1/2 is where η / (1 + s²η²) has its maximum; for s <= 1/2 it is at η = 2.
  const Pairs s_eta = {{"e", "eta >= 0"}, {"E", "2 - eta >= 0"}, {"s", "s > 0"}};
  Pairs small_s = s_eta;
  small_s.push_back({"h", "1 - 2*s >= 0"});
  list.claim("mdn/theorem-a-coupled", "own",
             "in the coupled box Theorem A holds for μ <= 2s/(1+2s), and for s <= 1/2 for "
             "μ <= (1+4s²)/(3+4s²), any unit keys")
      .over("αη <= η/(1+s²η²) <= g with g = 1/(2s), resp. g = 2/(1+4s²); then μ = 1/(1+g), κ = 1")
      .forall({"s", "eta"}, s_eta, "(1 + s^2*eta^2) - 2*s*eta >= 0", "q", "1", {{"q", "1 - s*eta"}})
      .forall({"s", "eta"}, small_s, "2*(1 + s^2*eta^2) - eta*(1 + 4*s^2) >= 0",
              "E*(h*(h + 4*s) + 2*s^2*E)")
      .identity({"s"}, {{"g", "1/(2*s)"}}, "1/(1 + g)", "2*s/(1 + 2*s)")
      .identity({"s"}, {{"g", "2/(1 + 4*s^2)"}}, "1/(1 + g)", "(1 + 4*s^2)/(3 + 4*s^2)")
      .sibling("g = 2/(1+4s²) for every s")
      .forall({"s", "eta"}, s_eta, "2*(1 + s^2*eta^2) - eta*(1 + 4*s^2) >= 0");

  list.claim(
          "mdn/backward-bounds", "own",
          "backward, by A^T: |S̄| + L|M̄| never increases under Theorem A; with a source v the norm "
          "grows by at most max(βη, η/L)|v| a step")
      .over("α + βμL <= 1 and αη + μL <= L, the two conditions of Theorem A")
      // |S̄'| <= α|S̄| + αη|M̄ - βS̄|..., entry by entry: columns of |A| weighted by 1, L
      .forall({"alpha", "beta", "mu", "eta", "L", "x", "y"},
              {{"a", "alpha >= 0"},
               {"b", "beta >= 0"},
               {"m", "mu >= 0"},
               {"L", "L > 0"},
               {"e", "eta >= 0"},
               {"x", "x >= 0"},
               {"y", "y >= 0"},
               {"C", "1 - alpha - beta*mu*L >= 0"},
               {"H", "L - alpha*eta - mu*L >= 0"}},
              "(x + L*y) - ((alpha*x + alpha*eta*y) + L*(beta*mu*x + mu*y)) >= 0", "C*x + H*y")
      // the norm N = max(|S|, |M|/L): one source
      .forall({"N", "beta", "eta", "L", "v", "d"},
              {{"D", "d - beta*eta >= 0"}, {"F", "d*L - eta >= 0"}, {"v", "v >= 0"}},
              "d*v - beta*eta*v >= 0", "D*v")
      .forall({"N", "beta", "eta", "L", "v", "d"},
              {{"D", "d - beta*eta >= 0"}, {"F", "d*L - eta >= 0"}, {"v", "v >= 0"}},
              "d*L*v - eta*v >= 0", "F*v")
      .sibling("the first condition alone is enough")
      .forall({"alpha", "beta", "mu", "eta", "L", "x", "y"},
              {{"a", "alpha >= 0"},
               {"b", "beta >= 0"},
               {"m", "mu >= 0"},
               {"L", "L > 0"},
               {"e", "eta >= 0"},
               {"x", "x >= 0"},
               {"y", "y >= 0"},
               {"C", "1 - alpha - beta*mu*L >= 0"}},
              "(x + L*y) - ((alpha*x + alpha*eta*y) + L*(beta*mu*x + mu*y)) >= 0");

  list.claim(
          "mdn/inverse-bounded", "own",
          "under Theorem A with κ = 1 the entries of the inverse of the chunk system are at most 2 "
          "in modulus")
      .over(
          "|k| = 1; an entry is α_i k_i · S after a write (βη, -η) in the norm max(|S|, |M|/L), "
          "L = 1/μ_max; β <= 1 - α, αη <= g, η <= 2, μ_max (1 + g) <= 1")
      // the write has the norm max(βη, ημ_max) <= 2, products do not increase it, |α k·S| <= |S|
      .forall({"beta", "eta"}, {{"b", "beta >= 0"}, {"B", "1 - beta >= 0"}, {"E", "2 - eta >= 0"}},
              "2 - beta*eta >= 0", "2*B + b*E")
      .forall({"mu", "eta"}, {{"m", "mu >= 0"}, {"M", "1 - mu >= 0"}, {"E", "2 - eta >= 0"}},
              "2 - mu*eta >= 0", "2*M + m*E")
      .sibling("they are at most 3/2")
      .forall({"beta", "eta"}, {{"b", "beta >= 0"}, {"B", "1 - beta >= 0"}, {"E", "2 - eta >= 0"}},
              "3/2 - beta*eta >= 0");

  // |A|² is the larger root t of t² - (sum of squares) t + det²; it is convex in each gate, so that
  // its maximum over a box is at a vertex.
  Claim& norm =
      list.claim(
              "mdn/largest-norm", "own",
              "max |A|_2 is (3+√5)/2 with α, β free, at (α, β, μ, η) = (1, 1, 1, 2), and 1 + √2 at "
              "(1, 0, 1, 2) for β <= 1 - α at the vertices α in {0, 1}")
          .over("closed box; t = |A|² is a root of t² - F t + d², F the sum of squares, d = det")
          .identity({}, {{"a", "1 - 2"}, {"b", "0 - 1"}, {"c", "2"}, {"d", "1"}},
                    "a^2 + b^2 + c^2 + d^2", "7")
          .identity({}, {}, "(1 - 2)*1 - (0 - 1)*2", "1")
          // t = ((3+r)/2)², r² = 5: t² - 7 t + 1 = 0
          .identity({"r"}, {{"t", "(14 + 6*r)/4"}}, "t^2 - 7*t + 1 - 36/16*(r^2 - 5)", "0")
          .identity({"r"}, {{"t", "(14 + 6*r)/4"}}, "((3 + r)/2)^2 - 1/4*(r^2 - 5)", "t")
          // (1, 0, 1, 2): F = 6, d = 1, t = 3 + 2r with r² = 2
          .identity({"r"}, {{"t", "3 + 2*r"}}, "t^2 - 6*t + 1 - 4*(r^2 - 2)", "0")
          .identity({"r"}, {{"t", "3 + 2*r"}}, "(1 + r)^2 - (r^2 - 2)", "t")
          .sibling("it is at most 5/2")
          .enclosure({}, vertex(1, 1, 1, 2), "(25/4)^2 - F*25/4 + d^2 > 0");
  // every other vertex has t < 34/5 < ((3+√5)/2)² = 6.85..., with β <= 1 - α every other has t <
  // 29/5
  for (const int alpha : {0, 1}) {
    for (const int beta : {0, 1}) {
      for (const int mu : {0, 1}) {
        for (const int eta : {0, 2}) {
          if (alpha + beta + mu + eta == 5) continue;
          const Part part = largest_root_below(vertex(alpha, beta, mu, eta), "34/5");
          norm.parts.push_back(part);
          if (alpha + beta > 1 || (alpha == 1 && mu == 1 && eta == 2)) continue;
          norm.parts.push_back(largest_root_below(vertex(alpha, beta, mu, eta), "29/5"));
        }
      }
    }
  }

  // Kicks with β = 0 and η as below, then α = 0, β = B = 4s²/(1+4s²), then idle steps that let M
  // go.
  const auto flush = [&](const char* s, const char* mu, const char* etas, int idle) {
    Json steps = Json::array();
    std::istringstream in(etas);
    for (std::string eta; in >> eta;) {
      steps.push_back({kick_decay(s, eta), "0", mu, eta, "e1"});
    }
    steps.push_back({"0", largest_beta(s), mu, "2", "e1"});
    for (int i = 0; i < idle; ++i) steps.push_back({"1", "0", mu, "0", "e1"});
    return steps;
  };
  const auto grows = [](const char* s, const char* mu, const Json& steps) {
    return Json{
        {"kind", "cycle"},        {"box", {{"coupling", "angle"}, {"s", s}, {"mu_max", mu}}},
        {"keys", "fixed"},        {"strict", false},
        {"period", steps.size()}, {"radius", "1"}};
  };
  const Json slow =
      flush("1", "9/10", "1/10 1/10 1/10 1/10 3/20 3/20 1/5 1/5 1/4 3/10 7/20 9/20 3/5 1", 30);
  const Json fast = flush("1/2", "87/100", "1/4 1/4 3/10 7/20 9/20 11/20 13/20 17/20 23/20 2", 24);
  list.claim(
          "mdn/single-flush", "own",
          "p_n = max over η of (p_{n-1} + η μ^{n-1}) / (1 + s²η²): kicks reach |M| = p |S_0|, one "
          "flush turns it into |S| = B μ p, B = 4s²/(1+4s²), and B μ p > 1 makes products grow")
      .over("closed coupled box, one key; s = 1 with μ = 9/10, s = 1/2 with μ = 87/100")
      .is_counterexample()
      .part(grows("1", "9/10", slow), true, {{"steps", slow}})
      .part(grows("1/2", "87/100", fast), true, {{"steps", fast}})
      // an idle step keeps S and multiplies M by μ
      .identity({"S", "M", "mu"}, {{"alpha", "1"}, {"beta", "0"}, {"eta", "0"}},
                "alpha*(1 - beta*eta)*S - beta*mu*M", "S")
      .sibling("the first cycle lies in the box with μ <= 89/100")
      .part(grows("1", "89/100", slow), true, {{"steps", slow}});
}
