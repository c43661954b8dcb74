// When products of Momentum DeltaNet steps stay bounded: conditions on the gates.
#include <sstream>

#include "proofs/claims/claim.hpp"

namespace assay::proofs {
namespace {

/// The recorded pieces, as a hint for the finder.
Json recorded_pieces() {
  static const char* kText =
#include "proofs/claims/universal_pieces.inc"
      ;
  const auto words = [](const std::string& text) {
    Json list = Json::array();
    std::istringstream in(text);
    for (std::string word; in >> word;) list.push_back(word);
    return list;
  };
  Json pieces = Json::array();
  std::istringstream lines(kText);
  std::string from = "1/20";
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    std::istringstream in(line);
    std::string to, accumulate, turn, all, form;
    std::getline(in, to, '|');
    std::getline(in, accumulate, '|');
    std::getline(in, turn, '|');
    std::getline(in, all);
    to = to.substr(0, to.find(' '));
    Json piece = {{"s", {from, to}}, {"accumulate", words(accumulate)}, {"turn", words(turn)}};
    piece["forms"] = Json::array();
    std::istringstream forms(all);
    while (std::getline(forms, form, ';')) piece["forms"].push_back(words(form));
    pieces.push_back(piece);
    from = to;
  }
  return {{"pieces", pieces}};
}

}  // namespace
}  // namespace assay::proofs

ASSAY_CLAIMS(mdn_stability) {
  // One norm for S and one for M, any unit keys in any dimension: |S'| <= α|S| + βμ|M| and
  // |M'| <= αη|S| + μ|M|, because |(I - βη k k^T) S| <= |S| for 0 <= βη <= 2.
  const Pairs norm_lemma = {{"c", "c >= 0"}, {"C", "2 - c >= 0"}};
  const auto theorem_a = [](const char* bound) {
    return Pairs{{"a", "alpha >= 0"},
                 {"b", "beta >= 0"},
                 {"C", "kap*(1 - alpha) - beta >= 0"},
                 {"G", "g - alpha*eta >= 0"},
                 {"U", "mu_max - mu >= 0"},
                 {"m", "mu >= 0"},
                 {"T", std::string(bound) + " - mu_max*(1 + kap*g) >= 0"},
                 {"k", "kap > 0"},
                 {"x", "mu_max > 0"}};
  };
  const Strings a_variables = {"alpha", "beta", "mu", "eta", "kap", "g", "mu_max"};
  // n kicks (1, 0, μ, 2) and a flush (0, 1, μ, 2) in the closed box
  const auto kicks = [](int n, const char* mu) {
    Json steps = Json::array();
    for (int i = 0; i < n; ++i) steps.push_back({"1", "0", mu, "2", "e1"});
    steps.push_back({"0", "1", mu, "2", "e1"});
    return steps;
  };
  const auto closed_cycle = [](int n, const char* mu) {
    return Json{{"kind", "cycle"}, {"box", {{"coupling", "kappa"}, {"kappa", "1"}, {"mu_max", mu}}},
                {"keys", "fixed"}, {"strict", false},
                {"period", n + 1}, {"radius", "1"}};
  };
  list.claim("mdn/theorem-a", "own",
             "β <= κ(1-α), αη <= g, βη <= 2, μ <= μ_max <= 1/(1+κg): max(|S|, κ μ_max |M|) never "
             "increases, any unit keys. For β <= 1-α and α up to 1 the bound 1/(1+η_max) is exact")
      .over("column 2-norms, Frobenius or spectral norm; triangle inequality as known")
      .forall({"c", "d"}, norm_lemma, "2*c*d^2 - c^2*d^2 >= 0", "c*C*q", "1", {{"q", "d"}})
      .forall(a_variables, theorem_a("1"), "kap*mu_max*(1 - alpha) - beta*mu >= 0", "x*C + b*U")
      .forall(a_variables, theorem_a("1"), "1 - mu - kap*mu_max*alpha*eta >= 0", "T + U + k*x*G")
      // above the bound: P = μ^n; n kicks take M from 0 to η (1 - P) / (1 - μ) |S|, and the cycle
      // with a flush has the eigenvalue μP - μη(1-P)/(1-μ), below -1 once P is small
      .identity({"mu", "eta", "P"}, {}, "eta + mu*eta*(1 - P)/(1 - mu)", "eta*(1 - mu*P)/(1 - mu)")
      .forall({"mu", "eta", "P"},
              {{"m", "mu > 0"},
               {"M", "1 - mu > 0"},
               {"D", "mu*(1 + eta) - 1 - P*(mu*eta + mu*(1 - mu)) > 0"}},
              "mu*eta*(1 - P) - mu*P*(1 - mu) - (1 - mu) > 0", "D")
      .part(closed_cycle(4, "53/150"), true, {{"steps", kicks(4, "53/150")}})
      .part(closed_cycle(6, "169/500"), true, {{"steps", kicks(6, "169/500")}})
      .sibling("κ μ_max (1 + κ g) <= 11/10 is enough")
      .forall(a_variables, theorem_a("11/10"), "1 - mu - kap*mu_max*alpha*eta >= 0");

  const auto clip = [](const char* largest) {
    return Pairs{{"a", "alpha >= 0"},
                 {"b", "beta >= 0"},
                 {"C", "1 - alpha - beta >= 0"},
                 {"m", "mu >= 0"},
                 {"M", "1 - mu >= 0"},
                 {"L", "L > 0"},
                 {"l", std::string(largest) + " - L >= 0"},
                 {"H", "L*(1 - mu) - alpha*eta >= 0"}};
  };
  const Strings clip_variables = {"alpha", "beta", "mu", "eta", "L"};
  list.claim("mdn/run-time-clip", "own",
             "η <= L(1-μ)/α with L <= 1 and β <= 1-α: max(|S|, |M|/L) never increases, for every "
             "μ < 1, any unit keys")
      .over("gates known only at run time; βη <= 2")
      .forall({"c", "d"}, norm_lemma, "2*c*d^2 - c^2*d^2 >= 0", "c*C*q", "1", {{"q", "d"}})
      .forall(clip_variables, clip("1"), "1 - (alpha + beta*mu*L) >= 0", "C + b*M + b*m*l")
      .forall(clip_variables, clip("1"), "L - (alpha*eta + mu*L) >= 0", "H")
      .sibling("L <= 2 is enough")
      .forall(clip_variables, clip("2"), "1 - (alpha + beta*mu*L) >= 0");

  // Theorem B. u = s², m = μ_max², X = u η², a = 1/(1+X), b = X/(1+X), c = 2u(1-m),
  // Q = diag(1, c) - A^T diag(1, c) A. Each gate enters A affinely, so that α in {0, a},
  // β in {0, b} and the largest μ are enough; so are 2x2 blocks.
  const Strings umn = {"u", "eta", "m"};
  const Pairs b_box = {{"u", "u >= 0"},
                       {"e", "eta >= 0"},
                       {"E", "2 - eta >= 0"},
                       {"m", "m >= 0"},
                       {"n", "1 - m > 0"},
                       {"R1", "(1 + 2*u)*(1 - m)^2 - m >= 0"},
                       {"R2", "2*(1 - m) - (m - 2*u*(1 - m)^2)*(1 + 4*u)^2 >= 0"}};
  const Text orthogonal = "n^2*(2 + e)*E + e^2*R1";
  const Pairs along = {{"q11", "1 - (a*(1 - b*eta))^2 - c*(a*eta)^2"},
                       {"q22", "c - m*(b^2 + c)"},
                       {"r", "a*(1 - b*eta)*b - c*a*eta"},
                       {"o11", "1 - a^2"},
                       {"p", "a*b"}};
  list.claim(
          "mdn/theorem-b", "own",
          "coupled box: |S|² + c|M|², c = 2s²(1-μ²), never increases if ρ <= 1 + 2s² and "
          "(ρ - 2s²)(1+4s²)²(1-μ²) <= 2, ρ = μ²/(1-μ²)²; any unit keys. At this c both conditions "
          "are necessary, and a larger c is not possible")
      .over("α <= 1/(1+s²η²), β <= s²η²/(1+s²η²), η <= 2, every s")
      // det Q of a turn along the key, from the orthogonal one
      .identity({"a", "b", "c", "m", "eta"}, along, "(q11*q22 - m*r^2) - (o11*q22 - m*p^2)",
                "a^2*c*eta*(2*b - eta*(b^2 + c))")
      .identity({"X", "c", "m"}, {{"a", "1/(1 + X)"}, {"b", "X/(1 + X)"}},
                "(1 - a^2)*(c - m*(b^2 + c)) - m*(a*b)^2", "b*(1 + a)*(c*(1 - m) - m*X/(2 + X))")
      .identity(umn,
                {{"X", "u*eta^2"},
                 {"a", "1/(1 + X)"},
                 {"b", "X/(1 + X)"},
                 {"c", "2*u*(1 - m)"},
                 {"q11", "1 - (a*(1 - b*eta))^2 - c*(a*eta)^2"},
                 {"q22", "c - m*(b^2 + c)"},
                 {"r", "a*(1 - b*eta)*b - c*a*eta"}},
                "(q11*q22 - m*r^2)*(1 + X)^4",
                "X*u*eta*(eta*(2*u*(1 - m)^2 - m)*(1 + X)^2 + 2*(1 - m)*(2 + X*(2 - eta)))")
      // α = a, β = 0
      .identity(umn,
                {{"X", "u*eta^2"},
                 {"a", "1/(1 + X)"},
                 {"c", "2*u*(1 - m)"},
                 {"q11", "1 - a^2 - c*(a*eta)^2"},
                 {"q22", "c - m*c"},
                 {"r", "c*a*eta"}},
                "(q11*q22 - m*r^2)*(1 + X)^2", "2*u^3*eta^4*(1 - m)^2")
      .identity(umn, {{"X", "u*eta^2"}, {"a", "1/(1 + X)"}, {"c", "2*u*(1 - m)"}},
                "(1 - a^2 - c*(a*eta)^2)*(1 + X)^2", "X*(X + 2*m)")
      // a turn, orthogonal: det and Q22
      .forall(umn, b_box, "2*(1 - m)^2*(2 + u*eta^2) - m*eta^2 >= 0", orthogonal)
      .forall(umn, b_box, "2*(1 - m)^2*(1 + u*eta^2)^2 - m*u*eta^4 >= 0",
              "2*n^2 + u*e^2*(" + orthogonal + ")")
      // a turn, along: det (the bracket above) and Q11 (1+X)^4
      .forall(umn, b_box,
              "eta*(2*u*(1 - m)^2 - m)*(1 + u*eta^2)^2 + 2*(1 - m)*(2 + u*eta^2*(2 - eta)) >= 0",
              "e*(1 + u*e^2)^2*R2 + 2*n*(E + 2*u*E*(4 + 2*e + e^2) + "
              "u^2*E*(16 + 8*e + 4*e^2 + 2*e^3 + e^4) + u*e^2*E*(1 + 4*u)^2)",
              "(1 + 4*u)^2")
      .forall(umn, b_box,
              "(1 + u*eta^2)^2*(1 + (u*eta^2)^2 + 2*u*eta^2*m) - (1 + u*eta^2 - u*eta^3)^2 >= 0",
              "u*e^2*(u*e^2*(1 + u*e^2)^2 + 2*e + u*e^3*E) + 2*u*e^2*m*(1 + u*e^2)^2")
      // necessity at η = 2, and c <= 2u(1-m) from η -> 0
      .identity({"u", "m"}, {}, "2*(1 - m)^2*(2 + 4*u) - 4*m", "4*((1 + 2*u)*(1 - m)^2 - m)")
      .identity({"u", "m"}, {}, "2*(2*u*(1 - m)^2 - m)*(1 + 4*u)^2 + 2*(1 - m)*2",
                "2*(2*(1 - m) - (m - 2*u*(1 - m)^2)*(1 + 4*u)^2)")
      .forall({"u", "eta", "m", "c"},
              {{"n", "1 - m > 0"},
               {"c", "c > 0"},
               {"e", "eta > 0"},
               {"D", "c - 2*u*(1 - m) - u^2*eta^2*(1 - m) > 0"}},
              "0 - (u*eta^2*(2 + u*eta^2)*c*(1 - m) - c^2*eta^2) > 0", "c*e^2*D")
      .sibling("the first condition alone is enough")
      .forall(umn,
              {{"u", "u >= 0"},
               {"e", "eta >= 0"},
               {"E", "2 - eta >= 0"},
               {"m", "m >= 0"},
               {"n", "1 - m > 0"},
               {"R1", "(1 + 2*u)*(1 - m)^2 - m >= 0"}},
              "eta*(2*u*(1 - m)^2 - m)*(1 + u*eta^2)^2 + 2*(1 - m)*(2 + u*eta^2*(2 - eta)) >= 0");

  const auto golden = [](const char* bound) {
    return Pairs{{"u", "u >= 0"},
                 {"m", "m >= 0"},
                 {"n", "1 - m > 0"},
                 {"G", std::string("(1 - m)^2*") + bound + " - m >= 0"}};
  };
  list.claim("mdn/golden-ratio", "own",
             "μ <= (√5-1)/2 meets both conditions of Theorem B for every s")
      .over("m = μ²; m <= (1-m)² is μ² + μ <= 1")
      .forall({"mu"}, {{"p", "mu >= 0"}, {"g", "1 - mu - mu^2 >= 0"}}, "(1 - mu^2)^2 - mu^2 >= 0",
              "g*(g + 2*p)")
      .forall({"u", "m"}, golden("1"), "(1 + 2*u)*(1 - m)^2 - m >= 0", "G + 2*u*n^2")
      .forall({"u", "m"}, golden("1"), "2*(1 - m) - (m - 2*u*(1 - m)^2)*(1 + 4*u)^2 >= 0",
              "n^2*(1 + 2*u)*q + 2*n*m + G*(1 + 4*u)^2", "1", {{"q", "4*u - 1"}})
      .sibling("μ <= 5/8 meets the first one for every s")
      .forall({"u", "mu"}, {{"u", "u >= 0"}, {"p", "mu >= 0"}, {"g", "5/8 - mu >= 0"}},
              "(1 + 2*u)*(1 - mu^2)^2 - mu^2 >= 0");

  // Theorem D. N = 2/(1-μ) bounds |M|, d = 4s²(1+N) the change of S in a step,
  // E = Σ (1/4) 2 μ^j (j d)² how far <S, M'> can be below 0.
  list.claim("mdn/theorem-d", "own",
             "8s⁴μ(1+μ)(3-μ)²/(1-μ)⁵ + 2s²(N²-1) <= 1 with N = 2/(1-μ), and 8s² <= (1-μ)²: "
             "|S_t| <= |S_0| from M_0 = 0, any unit keys")
      .over("coupled box; induction over time, vertices of the box by affinity")
      .identity({"mu"}, {{"N", "2/(1 - mu)"}}, "mu*N + 2", "N")
      // Σ_j j² μ^j telescopes: j² P = T(j, P) - T(j+1, μP), T(0, 1) = μ(1+μ)/(1-μ)³
      .identity({"mu", "j", "P"},
                {{"w", "1 - mu"},
                 {"here", "P*(j^2*w^2 + 2*j*mu*w + mu*(1 + mu))/w^3"},
                 {"next", "mu*P*((j + 1)^2*w^2 + 2*(j + 1)*mu*w + mu*(1 + mu))/w^3"}},
                "here - next", "j^2*P")
      .identity({"mu", "s"},
                {{"N", "2/(1 - mu)"}, {"d", "4*s^2*(1 + N)"}, {"sum", "mu*(1 + mu)/(1 - mu)^3"}},
                "1/4*2*d^2*sum", "8*s^4*mu*(1 + mu)*(3 - mu)^2/(1 - mu)^5")
      .forall({"x", "y"}, {}, "x*y + 1/4*(x - y)^2 >= 0", "1/4*q", "1", {{"q", "x + y"}})
      // |aS - bM'|² <= a² + 2abE + b²N² <= (a + b)² iff E + (b/2a)(N² - 1) <= 1
      .identity({"a", "b", "E", "N"}, {}, "(a + b)^2 - (a^2 + 2*a*b*E + b^2*N^2)",
                "2*a*b*(1 - E - b/(2*a)*(N^2 - 1))")
      // b/a = s²η² <= 4s²
      .forall({"s", "eta"}, {{"e", "eta >= 0"}, {"E", "2 - eta >= 0"}}, "4*s^2 - s^2*eta^2 >= 0",
              "q*E*(2 + e)", "1", {{"q", "s"}})
      .identity({"mu", "s"}, {{"N", "2/(1 - mu)"}}, "4*s^2/(1 - mu)*N", "8*s^2/(1 - mu)^2")
      .sibling("T(0) is μ/(1-μ)³")
      .identity({"mu", "s"},
                {{"N", "2/(1 - mu)"}, {"d", "4*s^2*(1 + N)"}, {"sum", "mu/(1 - mu)^3"}},
                "1/4*2*d^2*sum", "8*s^4*mu*(1 + mu)*(3 - mu)^2/(1 - mu)^5");

  const Json universal_pieces = {
      {"kind", "nonexpansion"}, {"s", {"1/20", "1"}}, {"mu_max", "7/10"}, {"eta_max", "2"}};
  list.claim(
          "mdn/universal", "own",
          "μ_t <= 7/10: all products of steps of the coupled box are bounded uniformly in T, for "
          "every s > 0, all unit keys, every dimension")
      .over(
          "s <= 1/20 by Theorem D, 1/20 <= s <= 1 by forms for intervals of s, s >= 1 by Theorem B")
      .forall({"s"}, {{"s", "s >= 0"}, {"S", "1/20 - s >= 0"}},
              "1 - (8*s^4*7/10*17/10*(23/10)^2/(3/10)^5 + 2*s^2*((20/3)^2 - 1)) >= 0")
      .forall({"s"}, {{"s", "s >= 0"}, {"S", "1/20 - s >= 0"}}, "(3/10)^2 - 8*s^2 >= 0")
      .part(universal_pieces, true, recorded_pieces())
      .forall({"u"}, {{"U", "u - 1 >= 0"}}, "(1 + 2*u)*(51/100)^2 - 49/100 >= 0")
      .forall({"u"}, {{"U", "u - 1 >= 0"}}, "2*51/100 - (49/100 - 2*u*(51/100)^2)*(1 + 4*u)^2 >= 0")
      .sibling("Theorem D reaches s = 1/10")
      .forall({"s"}, {{"s", "s >= 0"}, {"S", "1/10 - s >= 0"}},
              "1 - (8*s^4*7/10*17/10*(23/10)^2/(3/10)^5 + 2*s^2*((20/3)^2 - 1)) >= 0");

  const auto forms = [](const char* s, const char* mu) {
    return Json{{"kind", "nonexpansion"}, {"s", {s, s}}, {"mu_max", mu}, {"eta_max", "2"}};
  };
  list.claim(
          "mdn/theorem-c-any-keys", "own",
          "|S_t| <= |S_0| from M_0 = 0 for any unit keys, by path-complete quadratic forms: μ <= "
          ".71, .70, .70, .79, .87 for s = 1/5, 7/20, 1/2, 1, 2")
      .over("coupled box, continuous η; one form for each type of the next step")
      .part(forms("1/5", "71/100"))
      .part(forms("7/20", "7/10"))
      .part(forms("1/2", "7/10"))
      .part(forms("1", "79/100"))
      .part(forms("2", "87/100"))
      .sibling("μ <= .76 for s = 7/20")
      .part(forms("7/20", "19/25"));

  const auto polygon = [](const char* s, const char* mu, const char* keys) {
    return Json{{"kind", "polygon"}, {"s", s}, {"mu_max", mu}, {"keys", keys}};
  };
  list.claim("mdn/theorem-c-one-basis", "own",
             "|S_t| <= |S_0| from M_0 = 0 by invariant polygons: one key, μ <= .79, .82, .86, and "
             "keys "
             "of one orthonormal basis, μ <= .71, .735, .84, for s = 7/20, 1/2, 1")
      .over("coupled box, continuous η enclosed cell by cell")
      .part(polygon("7/20", "79/100", "fixed"))
      .part(polygon("1/2", "41/50", "fixed"))
      .part(polygon("1", "43/50", "fixed"))
      .part(polygon("7/20", "71/100", "basis"))
      .part(polygon("1/2", "147/200", "basis"))
      .part(polygon("1", "21/25", "basis"))
      .sibling("one key, μ <= .85, s = 1/2")
      .part(polygon("1/2", "17/20", "fixed"));
}
