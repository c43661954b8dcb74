// M²RNN: its state, its adjoint as printed, and how far gradients can grow.
#include "proofs/claims/claim.hpp"

ASSAY_CLAIMS(m2rnn) {
  list.claim("m2rnn/bounded", "[M2RNN v2, Eqs. 10-11]", "every entry of H_t stays in [-1, 1]")
      .over("f in [0, 1], H_0 in [-1, 1], any inputs; Z = tanh(...) in [-1, 1]")
      .forall({"f", "h", "z"},
              {{"f", "f >= 0"}, {"F", "1 - f >= 0"}, {"H", "1 - h >= 0"}, {"Z", "1 - z >= 0"}},
              "1 - (f*h + (1 - f)*z) >= 0", "f*H + F*Z")
      .forall({"f", "h", "z"},
              {{"f", "f >= 0"}, {"F", "1 - f >= 0"}, {"H", "1 + h >= 0"}, {"Z", "1 + z >= 0"}},
              "1 + (f*h + (1 - f)*z) >= 0", "f*H + F*Z")
      .sibling("f <= 2 is enough")
      .forall({"f", "h", "z"},
              {{"f", "f >= 0"},
               {"F", "2 - f >= 0"},
               {"h", "1 + h >= 0"},
               {"H", "1 - h >= 0"},
               {"z", "1 + z >= 0"},
               {"Z", "1 - z >= 0"}},
              "1 - (f*h + (1 - f)*z) >= 0");

  list.claim("m2rnn/simulates-rnn", "[M2RNN v2, Thm. 1]",
             "f = 0, q = k = e1, H_0 = 0: the first row is the vector tanh RNN, the others stay 0")
      .over("tanh as a free symbol with tanh(0) = 0; T = 3, K = V = 2")
      .program("m2rnn_is_rnn", {{"T", "3"}, {"K", "2"}, {"V", "2"}})
      .program("m2rnn_is_rnn", {{"T", "2"}, {"K", "3"}, {"V", "3"}})
      .sibling("for every f")
      .program("m2rnn_is_rnn", {{"T", "1"}, {"K", "1"}, {"V", "1"}, {"variant", "f"}});

  const auto algorithm2 = [&](const char* id, const char* variant, const char* says,
                              const char* smallest, int T) {
    Json sizes = {{"T", std::to_string(T)}, {"K", "1"}, {"V", "1"}, {"variant", variant}};
    Claim& claim = list.claim(id, "[M2RNN v2, Algorithm 2]", says)
                       .over(smallest)
                       .is_erratum()
                       .not_program("m2rnn_algorithm2", sizes);
    if (T > 1) {
      Json smaller = sizes;
      smaller["T"] = std::to_string(T - 1);
      claim.program("m2rnn_algorithm2", smaller);
    }
    claim
        .part({{"kind", "operation"},
               {"op", "m2rnn"},
               {"check", "adjoint"},
               {"form", "recurrent"},
               {"shape", "B=1,T=4,N=2,K=3,V=2"},
               {"options", Json::array()}})
        .sibling("the printed line is the adjoint at this size")
        .program("m2rnn_algorithm2", sizes);
  };
  algorithm2("m2rnn/algorithm2-future-dropped", "future_dropped",
             "R_t must add what flows back from later steps; the printed r is the read-out alone",
             "wrong from T = 2, K = V = 1 on, right at T = 1", 2);
  algorithm2("m2rnn/algorithm2-retain-overwritten", "retain_overwritten",
             "C_{t-1} = f R + D W^T; the printed assignment overwrites the branch f R",
             "wrong from T = 1, K = V = 1 on (d_h0)", 1);
  algorithm2("m2rnn/algorithm2-recompute-stale", "recompute_stale",
             "the recomputation must advance H; the printed loop never does",
             "wrong from T = 2, K = V = 1 on, right at T = 1", 2);

  list.claim(
          "m2rnn/state-not-gradient", "[M2RNN v2, Sec. 3.1]",
          "a bounded state does not bound gradients: with V = 1, W = 2, f = 1/2 and zero input H "
          "stays 0 and the backward product grows by 3/2 at every step")
      .over("V = 1, exact")
      .is_counterexample()
      .program("m2rnn_jacobian_at_zero", {{"V", "1"}})
      .not_forall({"f", "w", "d"}, {{"d", "d > 0"}, {"f", "f >= 0"}, {"F", "1 - f >= 0"}},
                  "d >= f*d + (1 - f)*w*d", {{"f", "1/2"}, {"w", "2"}, {"d", "1"}})
      .identity({"d"}, {{"f", "1/2"}, {"w", "2"}}, "f*d + (1 - f)*w*d", "3/2*d")
      .sibling("with |w| <= 1 it grows too")
      .forall({"f", "w", "d"},
              {{"d", "d > 0"}, {"f", "f >= 0"}, {"F", "1 - f >= 0"}, {"W", "1 - w >= 0"}},
              "f*d + (1 - f)*w*d > d");

  list.claim(
          "m2rnn/explodes-while-bounded", "own",
          "W = [[0,2],[2,0]], f = 1/2: the gradient grows by 3/2 a step at H = 0 and by 23/16 at "
          "the fixed point h = (1/4, 1/4) that v = atanh(1/4) - 1/2 holds")
      .over("V = 2, exact; tanh(2 h + v) = z, z = 1/4")
      .is_counterexample()
      .program("m2rnn_jacobian_at_zero", {{"V", "2"}})
      .not_forall({"d"}, {{"d", "d > 0"}}, "d >= 1/2*d + 1/2*2*d", {{"d", "1"}})
      // rows: f I + (1 - f) diag(1 - z²) W^T on (d, d); W^T swaps and doubles
      .identity({"d"}, {{"f", "1/2"}, {"z", "1/4"}}, "f*d + (1 - f)*(1 - z^2)*2*d", "23/16*d")
      .identity({"h"}, {{"f", "1/2"}}, "f*h + (1 - f)*h", "h")
      // the same W drives no growth where |z| = 3/4: explosion needs small |z|
      .identity({"d"}, {{"f", "1/2"}, {"z", "3/4"}}, "f*d + (1 - f)*(1 - z^2)*2*d", "15/16*d")
      .sibling("the factor at h = (1/4, 1/4) is 3/2 as well")
      .identity({"d"}, {{"f", "1/2"}, {"z", "1/4"}}, "f*d + (1 - f)*(1 - z^2)*2*d", "3/2*d");

  // x = |dh|, y = |dh W|, D the largest slope
  const Pairs norms = {{"f", "f >= 0"},
                       {"F", "1 - f >= 0"},
                       {"D", "D >= 0"},
                       {"x", "x >= 0"},
                       {"Y", "w*x - y >= 0"}};
  list.claim(
          "m2rnn/jacobian-bound", "[M2RNN v2, Sec. 3.1]",
          "|dH_t| <= (f + (1-f) |W|_2 max(1-Z²)) |dH_{t-1}| in the Frobenius norm and row by row "
          "in the 2-norm, but not in the spectral norm")
      .over("f in [0, 1]; |dh W| <= |W|_2 |dh| and the triangle inequality as known")
      .forall({"f", "D", "w", "x", "y"}, norms, "(f + (1 - f)*w*D)*x - (f*x + (1 - f)*D*y) >= 0",
              "F*D*Y")
      // one coordinate: a slope in [0, D] shortens it
      .forall({"D", "s", "y"}, {{"s", "s >= 0"}, {"S", "D - s >= 0"}}, "D^2*y^2 - s^2*y^2 >= 0",
              "(S^2 + 2*s*S)*q", "1", {{"q", "y"}})
      // spectral norm: f = 0, W = I, dH = [[1,1],[1,-1]] with norm² 2, slopes 1 but one of d:
      // 2 is inside the spectrum of the Gram matrix [[2, 1-d], [1-d, 1+d²]]
      .not_forall({"d"}, {{"d", "d > 0"}, {"D", "1 - d > 0"}},
                  "(2 - 2)*(2 - (1 + d^2)) - (1 - d)^2 >= 0", {{"d", "1/10"}})
      .sibling("the spectral norm obeys it as well")
      .forall({"d"}, {{"d", "d > 0"}, {"D", "1 - d > 0"}},
              "(2 - 2)*(2 - (1 + d^2)) - (1 - d)^2 >= 0");

  list.claim("m2rnn/scaled-norm", "own",
             "|D^-1 W D|_2 <= 1 for a positive diagonal D: no product of Jacobians grows, whatever "
             "the inputs")
      .over("x = |dh D|, y = |dh W D| <= x; diagonal slopes s in [0, 1] commute with D")
      .forall({"f", "s", "x", "y"},
              {{"f", "f >= 0"},
               {"F", "1 - f >= 0"},
               {"s", "s >= 0"},
               {"S", "1 - s >= 0"},
               {"x", "x >= 0"},
               {"y", "y >= 0"},
               {"Y", "x - y >= 0"}},
              "x - (f*x + (1 - f)*s*y) >= 0", "F*Y + F*y*S")
      .sibling("|D^-1 W D|_2 <= 2 is enough")
      .forall({"f", "s", "x", "y"},
              {{"f", "f >= 0"},
               {"F", "1 - f >= 0"},
               {"s", "s >= 0"},
               {"S", "1 - s >= 0"},
               {"x", "x >= 0"},
               {"y", "y >= 0"},
               {"Y", "2*x - y >= 0"}},
              "x - (f*x + (1 - f)*s*y) >= 0");

  list.claim(
          "m2rnn/capacity-ratio", "[M2RNN v2, App. A]",
          "at equal projection parameters multi-value heads hold (2K+3V)/(3V) times the state of "
          "multi-head ones: 176/48 at K = 64, V = 16")
      .over("the projections counted in the appendix")
      .identity({"P", "K", "V", "d"}, {}, "(P*K/(3*d)) / (P*K*V/((2*K + 3*V)*d))",
                "(2*K + 3*V)/(3*V)")
      .identity({}, {{"K", "64"}, {"V", "16"}}, "(2*K + 3*V)/(3*V)", "176/48")
      .sibling("4 at K = 64, V = 16")
      .identity({}, {{"K", "64"}, {"V", "16"}}, "(2*K + 3*V)/(3*V)", "4");

  list.claim("rmsnorm_tp/cubic-term", "[M2RNN v2, App. C]",
             "the gradient of RMSNorm is s p - r s³ x / d; without the second term it is wrong")
      .over(
          "d = 1, y = s x w, s² (x² + eps) = 1, p = w d_y; differentiated implicitly: "
          "s' = -s³ x, since 2 s s' (x² + eps) + 2 s² x = 0")
      .is_erratum()
      .not_identity({"s", "x", "p"}, {{"r", "p*x"}}, "s*p", "s*p - r*s^3*x")
      .identity({"x", "E"}, {{"s2", "1/(x^2 + E)"}}, "2*(0 - s2*x)*(x^2 + E)*s2 + 2*s2*x", "0")
      .identity({"s", "x", "p"}, {{"r", "p*x"}, {"slope", "0 - s^3*x"}}, "p*(s + x*slope)",
                "s*p - r*s^3*x")
      .sibling("s p is the gradient")
      .identity({"s", "x", "p"}, {{"r", "p*x"}}, "s*p", "s*p - r*s^3*x");

  list.claim("rmsnorm_tp/gradient", "[M2RNN v2, App. C, Eqs. 26-33]",
             "outputs and gradients of the split RMSNorm are those of the whole one, eps included")
      .over("splits into 1, 2, 3 and 5 shards; square root as a free symbol")
      .part({{"kind", "operation"},
             {"op", "rmsnorm_tp"},
             {"whole", "rmsnorm"},
             {"check", "shards"},
             {"shape", "B=1,T=2,P=1,D=6"},
             {"options", {"eps=0.125"}}})
      .part({{"kind", "operation"},
             {"op", "rmsnorm_tp"},
             {"whole", "rmsnorm"},
             {"check", "shards"},
             {"shape", "B=2,T=3,P=2,D=4"},
             {"options", {"eps=0.125"}}})
      .part({{"kind", "operation"},
             {"op", "rmsnorm_tp"},
             {"whole", "rmsnorm"},
             {"check", "shards"},
             {"shape", "B=1,T=2,P=3,D=5"},
             {"options", {"eps=0.125"}}})
      .part({{"kind", "operation"},
             {"op", "rmsnorm_tp"},
             {"whole", "rmsnorm"},
             {"check", "shards"},
             {"shape", "B=1,T=2,P=5,D=3"},
             {"options", {"eps=0.125"}}})
      .sibling("twice the split outputs")
      .part({{"kind", "operation"},
             {"op", "rmsnorm_tp"},
             {"whole", "rmsnorm"},
             {"check", "shards"},
             {"shape", "B=1,T=2,P=2,D=4"},
             {"options", {"eps=0.125"}},
             {"factor", 2}});
}
