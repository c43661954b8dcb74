// Frozen transitions of Momentum DeltaNet and Gated DeltaNet: where their eigenvalues lie.
#include "proofs/claims/claim.hpp"

ASSAY_CLAIMS(mdn_spectrum) {
  list.claim("mdn/charpoly", "[MDN v1, Sec. 3.2, App. F]",
             "det(λI - A_t) = (λ-α)^{K-1} (λ-μ)^{K-1} (λ² - rλ + αμ) with r = α + μ - αβη |k|²")
      .over("every key, normalised or not; symbolic for K <= 3, modulo p at K = 16")
      .program("mdn_charpoly", {{"K", "1"}})
      .program("mdn_charpoly", {{"K", "2"}})
      .program("mdn_charpoly", {{"K", "3"}})
      .program("mdn_charpoly", {{"K", "16"}}, "residues")
      .program("mdn_blocks", Json::object())
      .sibling("r = α + μ - βη |k|²")
      .program("mdn_charpoly", {{"K", "2"}, {"variant", "no_alpha"}});

  const Pairs root_signs = {
      {"a", "1 - x >= 0"}, {"b", "1 + x >= 0"}, {"c", "1 - y >= 0"}, {"d", "1 + y >= 0"}};
  list.claim("mdn/unit-circle", "[MDN v1, Sec. 3.2]",
             "both key eigenvalues lie in the closed unit disc iff "
             "-(1-α)(1-μ) <= αβη <= (1+α)(1+μ)")
      .over("|α|, |μ| <= 1; |k| = 1; real and complex pairs apart")
      // the two inequalities are 1 - r + αμ >= 0 and 1 + r + αμ >= 0
      .identity({"alpha", "beta", "mu", "eta"}, {{"r", "alpha + mu - alpha*beta*eta"}},
                "1 - r + alpha*mu", "alpha*beta*eta + (1 - alpha)*(1 - mu)")
      .identity({"alpha", "beta", "mu", "eta"}, {{"r", "alpha + mu - alpha*beta*eta"}},
                "1 + r + alpha*mu", "(1 + alpha)*(1 + mu) - alpha*beta*eta")
      // a real pair x, y in [-1, 1] has them
      .forall({"x", "y"}, root_signs, "1 - (x + y) + x*y >= 0", "a*c")
      .forall({"x", "y"}, root_signs, "1 + (x + y) + x*y >= 0", "b*d")
      // a real pair with them and |x y| <= 1 has x <= 1 and x >= -1
      .forall({"x", "y"},
              {{"P", "1 - (x + y) + x*y >= 0"}, {"R", "1 - x*y >= 0"}, {"X", "x - 1 > 0"}},
              "0 - 1 >= 0", "P + X*(P + R)", "X^2")
      .forall({"x", "y"},
              {{"Q", "1 + (x + y) + x*y >= 0"}, {"R", "1 - x*y >= 0"}, {"X", "0 - 1 - x > 0"}},
              "0 - 1 >= 0", "Q + X*(Q + R)", "X^2")
      // a complex pair a ± bi has both always, and |λ|² = αμ <= 1
      .forall({"a", "b"}, {}, "1 - 2*a + a^2 + b^2 >= 0", "s + t", "1",
              {{"s", "1 - a"}, {"t", "b"}})
      .forall({"a", "b"}, {}, "1 + 2*a + a^2 + b^2 >= 0", "s + t", "1",
              {{"s", "1 + a"}, {"t", "b"}})
      .forall({"x", "y"}, root_signs, "1 - x*y >= 0", "1/2*a*d + 1/2*b*c")
      .sibling("the upper inequality holds by itself for gates in [0, 1], [0, 2]")
      .forall({"alpha", "beta", "mu", "eta"},
              {{"a", "alpha >= 0"},
               {"A", "1 - alpha >= 0"},
               {"b", "beta >= 0"},
               {"B", "2 - beta >= 0"},
               {"m", "mu >= 0"},
               {"M", "1 - mu >= 0"},
               {"e", "eta >= 0"},
               {"E", "2 - eta >= 0"}},
              "(1 + alpha)*(1 + mu) - alpha*beta*eta >= 0");

  const auto open_box = [](const char* eta_max) {
    return Pairs{{"a", "alpha > 0"}, {"A", "1 - alpha > 0"},
                 {"b", "beta > 0"},  {"B", "1 - beta > 0"},
                 {"m", "mu > 0"},    {"M", "1 - mu > 0"},
                 {"e", "eta > 0"},   {"E", std::string(eta_max) + " - eta > 0"}};
  };
  const Strings gates = {"alpha", "beta", "mu", "eta"};
  list.claim("mdn/frozen-stable", "[MDN v1, Sec. 3.2]", "the spectral radius of every A_t is < 1")
      .over("α, β, μ in (0, 1), η in (0, 2), |k| = 1")
      .forall(gates, open_box("2"), "(1 + alpha)*(1 + mu) - alpha*beta*eta > 0",
              "A + m + a*m + 2*a*B + a*b*E")
      .forall(gates, open_box("2"), "alpha*beta*eta + (1 - alpha)*(1 - mu) > 0", "a*b*e + A*M")
      .forall(gates, open_box("2"), "1 - alpha*mu > 0", "A + a*M")
      .sibling("η up to 4")
      .forall(gates, open_box("4"), "(1 + alpha)*(1 + mu) - alpha*beta*eta > 0");

  const auto half_plane = [](const char* floor) {
    return Pairs{{"a", "alpha > 0"},
                 {"b", "beta >= 0"},
                 {"B", "1 - alpha - beta >= 0"},
                 {"E", "2 - eta >= 0"},
                 {"m", std::string("mu - ") + floor + " > 0"}};
  };
  list.claim("mdn/positive-real-part", "[MDN v1, Sec. 3.2]",
             "both key eigenvalues have positive real part; the constant 1/8 cannot be lowered")
      .over("0 < α, 0 <= β <= 1 - α, η <= 2, μ > 1/8")
      .forall(gates, half_plane("1/8"), "alpha + mu - alpha*beta*eta > 0",
              "m + 2*q + 2*a*B + a*b*E", "1", {{"q", "alpha - 1/4"}})
      // sum and product of a real pair positive: both are
      .forall({"x", "y"}, {{"S", "x + y > 0"}, {"D", "x*y > 0"}, {"X", "0 - x >= 0"}}, "0 - 1 >= 0",
              "X*S + X^2", "D")
      // μ = 1/8 - t fails for every t: α = 1/4, β = 3/4, η = 2 - t gives a negative trace
      .forall({"t"}, {{"t", "t > 0"}}, "0 - (1/4 + (1/8 - t) - 1/4*3/4*(2 - t)) > 0", "13/16*t")
      .sibling("μ > 1/9 is enough")
      .forall(gates, half_plane("1/9"), "alpha + mu - alpha*beta*eta > 0", "", "1",
              {{"q", "alpha - 1/4"}});

  list.claim("mdn/complex-modulus", "[MDN v1, Sec. 3.2]",
             "a complex pair of key eigenvalues has |λ| = sqrt(αμ)")
      .over("r² < 4αμ")
      .identity({"alpha", "mu", "r"},
                {{"real", "r/2"}, {"imaginary_squared", "(4*alpha*mu - r^2)/4"}},
                "real^2 + imaginary_squared", "alpha*mu")
      .identity({"alpha", "mu", "r"}, {{"imaginary_squared", "(4*alpha*mu - r^2)/4"}},
                "(r/2)^2 - imaginary_squared - r*r/2 + alpha*mu", "0")
      .sibling("|λ| = αμ")
      .identity({"alpha", "mu", "r"},
                {{"real", "r/2"}, {"imaginary_squared", "(4*alpha*mu - r^2)/4"}},
                "real^2 + imaginary_squared", "alpha^2*mu^2");

  list.claim("gdn/spectral-radius", "[MDN v1, p. 5]",
             "the spectral radius of α (I - β k k^T) is α, not α (1 - β): K - 1 eigenvalues are α")
      .over("K > 1, 0 < α, 0 < β < 1, |k| = 1")
      .is_erratum()
      .not_forall({"alpha", "beta"}, {{"a", "alpha > 0"}, {"b", "beta > 0"}, {"B", "1 - beta > 0"}},
                  "alpha*(1 - beta) >= alpha")
      .program("gdn_charpoly", {{"K", "2"}})
      .program("gdn_charpoly", {{"K", "4"}})
      .forall({"alpha", "beta"}, {{"a", "alpha > 0"}, {"b", "beta > 0"}, {"B", "1 - beta > 0"}},
              "alpha - alpha*(1 - beta) >= 0", "a*b")
      .sibling("α (1 - β) is the larger one")
      .forall({"alpha", "beta"}, {{"a", "alpha > 0"}, {"b", "beta > 0"}, {"B", "1 - beta > 0"}},
              "alpha*(1 - beta) >= alpha");

  const Pairs gates_of_model = {
      {"eta", "tanh(xe) + 1"}, {"E", "exp(0 - softplus(xa))"}, {"sigma", "sigmoid(xb)"}};
  list.claim("mdn/gate-box", "[MDN v1, Sec. 3.3]",
             "mdn_gates gives α + β <= 1, α, β in [0, 1], η in (0, 2) and log μ in [-2, 0]")
      .over(
          "every pre-activation; E = exp(-a softplus) in (0, 1], σ and (1 + tanh) / 2 in (0, 1), "
          "X = s² η²; once more by balls over the pre-activations themselves, a = s = 1, |x| <= 2")
      .forall({"E", "sigma", "X"},
              {{"e", "E > 0"},
               {"f", "1 - E >= 0"},
               {"s", "sigma > 0"},
               {"S", "1 - sigma > 0"},
               {"x", "X >= 0"}},
              "(1 + X) - E - sigma*X >= 0", "f + x*S")
      .forall({"t"}, {{"p", "t + 1 > 0"}, {"q", "1 - t > 0"}}, "2 - (t + 1) > 0", "q")
      .enclosure({{"xa", "-2", "2"}, {"xb", "-2", "2"}, {"xe", "-2", "2"}}, gates_of_model,
                 "1 - E + eta*eta*(1 - sigma) > 0")
      .enclosure({{"xe", "-8", "8"}}, {}, "2 - (tanh(xe) + 1) > 0")
      .sibling("α + β <= 4/5")
      .enclosure({{"xa", "-2", "2"}, {"xb", "-2", "2"}, {"xe", "-2", "2"}}, gates_of_model,
                 "4/5*(1 + eta*eta) - E - eta*eta*sigma > 0");
}
