// The chunk form of Momentum DeltaNet and its coefficients.
#include "proofs/claims/claim.hpp"

ASSAY_CLAIMS(mdn_chunk) {
  const auto size = [](int T, int C, int K, int V) {
    return Json{{"T", std::to_string(T)},
                {"C", std::to_string(C)},
                {"K", std::to_string(K)},
                {"V", std::to_string(V)}};
  };
  const auto variant = [](Json parameters, const char* name) {
    parameters["variant"] = name;
    return parameters;
  };

  list.claim("mdn/chunk-equals-recurrent", "[MDN v1, Eqs. 3-18, corrected]",
             "chunk form and recurrent form give the same outputs and both states, for every chunk "
             "length and for lengths that it does not divide")
      .over("all gates, 0 and 1 included; symbolic for C <= 4, modulo p at C = 64, K = V = 128")
      .program("mdn_chunk", size(1, 1, 2, 1))
      .program("mdn_chunk", size(2, 2, 2, 2))
      .program("mdn_chunk", size(3, 2, 2, 1))
      .program("mdn_chunk", size(3, 3, 2, 1))
      .program("mdn_chunk", size(4, 4, 2, 1))
      .program("mdn_chunk", size(100, 64, 128, 128), "residues")
      .part({{"kind", "operation"},
             {"op", "mdn"},
             {"check", "forms"},
             {"form", "chunk"},
             {"shape", ""},
             {"options", {"chunk=5"}}})
      .sibling("the same with Γ in place of Γ moved down a row")
      .program("mdn_chunk", variant(size(2, 2, 1, 1), "diagonal_zeroed"));

  list.claim("mdn/gamma-sum", "[MDN v1, Sec. 3.1]",
             "the closed form of γ equals the sum Σ β Π α Π μ without division, and γ_ii = β_i")
      .over("the closed form where α and μ are not 0, the sum everywhere")
      .program("mdn_gamma", {{"C", "5"}})
      .program("mdn_gamma", {{"C", "64"}}, "residues")
      .program("mdn_gamma", {{"C", "16"}, {"variant", "closed"}}, "residues")
      .sibling("γ_ij is the sum up to i - 1")
      .program("mdn_gamma", {{"C", "2"}, {"variant", "shifted"}});

  list.claim("mdn/gamma-recursion", "own",
             "the recursion without subtraction gives the same γ, b, m; for gates >= 0 each has a "
             "relative error of at most γ_k(u), k <= 3 C, in floating point")
      .over("gates >= 0, no under- or overflow; C = 16, 64, 256")
      .program("mdn_gamma", {{"C", "6"}})
      .part({{"kind", "roundings"}, {"C", 16}, {"bound", 48}})
      .part({{"kind", "roundings"}, {"C", 64}, {"bound", 192}})
      .part({{"kind", "roundings"}, {"C", 256}, {"bound", 768}})
      .sibling("k <= C roundings")
      .part({{"kind", "roundings"}, {"C", 64}, {"bound", 64}});

  list.claim("mdn/gamma-shift", "[MDN v1, p. 5]",
             "the residual system needs Γ moved down a row; Γ with its diagonal zeroed is wrong")
      .over("wrong from T = 2 on, right at T = 1")
      .is_erratum()
      .not_program("mdn_chunk", variant(size(2, 2, 1, 1), "diagonal_zeroed"))
      .program("mdn_chunk", variant(size(1, 1, 1, 1), "diagonal_zeroed"))
      .program("mdn_chunk", size(2, 2, 1, 1))
      .sibling("zeroing the diagonal is right")
      .program("mdn_chunk", variant(size(2, 2, 1, 1), "diagonal_zeroed"));

  list.claim("mdn/eq8-ratio", "[MDN v1, Eq. 8]",
             "the state's write coefficients are Γ_t,: and not γ_tt / γ_t,:")
      .over("wrong from T = 1, K = V = 1 on")
      .is_erratum()
      .not_program("mdn_chunk", variant(size(1, 1, 1, 1), "ratio"))
      .program("mdn_chunk", size(1, 1, 1, 1))
      .sibling("γ_tt / γ_t,: is right at T = 2")
      .program("mdn_chunk", variant(size(2, 2, 1, 1), "ratio"), "residues");

  list.claim("mdn/eq10-b", "[MDN v1, Eq. 10, App. D]", "b = exp(A + ℓ) and not exp(U + ℓ)")
      .over("wrong from T = 1, K = V = 1 on, with a momentum to start from")
      .is_erratum()
      .not_program("mdn_chunk", variant(size(1, 1, 1, 1), "b_log_mu"))
      .program("mdn_chunk", size(1, 1, 1, 1))
      .sibling("exp(U + ℓ) is right at T = 2")
      .program("mdn_chunk", variant(size(2, 2, 1, 1), "b_log_mu"), "residues");

  list.claim("mdn/mu-zero", "[MDN v1, Table 4 footnote]",
             "recurrence and sum are defined at μ = 0; γ_ij = ᾱ_i (c_i - c_{j-1}) / μ̄_j is not")
      .over("one step")
      .is_erratum()
      .part({{"kind", "identity"},
             {"everywhere", true},
             {"variables", {"alpha", "beta", "mu"}},
             {"left", "alpha*(beta*mu/alpha)/mu"},
             {"right", "beta"}},
            false)
      .identity({"alpha", "beta", "mu"}, {}, "alpha*(beta*mu/alpha)/mu", "beta")
      .program("mdn_gamma", {{"C", "3"}})
      .sibling("the closed form is 2 β where it is defined")
      .identity({"alpha", "beta", "mu"}, {}, "alpha*(beta*mu/alpha)/mu", "2*beta");

  list.claim("mdn/inverse-is-product", "own",
             "the entries of (I + (P K̂^T) ∘ Γ⁻)^-1 below the diagonal are reads of products of "
             "transitions: the inverse is as large as the products are")
      .over("symbolic for C = 4, K = 2; modulo p at C = 24, K = 16")
      .program("mdn_inverse", {{"C", "3"}, {"K", "2"}})
      .program("mdn_inverse", {{"C", "4"}, {"K", "2"}})
      .program("mdn_inverse", {{"C", "24"}, {"K", "16"}}, "residues")
      .sibling("the same with the other sign")
      .program("mdn_inverse", {{"C", "3"}, {"K", "2"}, {"variant", "sign"}});

  list.claim("mdn/gamma-bounded", "own",
             "β <= 1 - α gives 0 <= Γ_ij <= 1 and 0 <= b_i <= 1, by induction over the recursion")
      .over("α, β, μ in [0, 1], β <= 1 - α")
      .forall({"alpha", "beta", "g", "m"},
              {{"a", "alpha >= 0"},
               {"b", "beta >= 0"},
               {"C", "1 - alpha - beta >= 0"},
               {"g", "g >= 0"},
               {"G", "1 - g >= 0"},
               {"m", "m >= 0"},
               {"M", "1 - m >= 0"}},
              "1 - alpha*g - beta*m >= 0", "C + a*G + b*M")
      .forall({"alpha", "beta", "g", "m"},
              {{"a", "alpha >= 0"}, {"b", "beta >= 0"}, {"g", "g >= 0"}, {"m", "m >= 0"}},
              "alpha*g + beta*m >= 0", "a*g + b*m")
      .sibling("β <= 1 is enough")
      .forall({"alpha", "beta", "g", "m"},
              {{"a", "alpha >= 0"},
               {"A", "1 - alpha >= 0"},
               {"b", "beta >= 0"},
               {"B", "1 - beta >= 0"},
               {"g", "g >= 0"},
               {"G", "1 - g >= 0"},
               {"m", "m >= 0"},
               {"M", "1 - m >= 0"}},
              "1 - alpha*g - beta*m >= 0");

  list.claim("mdn/table1-second-order", "[MDN v1, Table 1]",
             "with the momentum eliminated, the k k^T term of the second-order recurrence has the "
             "factor α")
      .over("β_{t-1} != 0")
      .is_erratum()
      .not_program("mdn_second_order", {{"K", "1"}, {"V", "1"}, {"variant", "no_alpha"}})
      .program("mdn_second_order", {{"K", "2"}, {"V", "2"}})
      .sibling("without the factor α it holds too")
      .program("mdn_second_order", {{"K", "1"}, {"V", "1"}, {"variant", "no_alpha"}});

  list.claim("mdn/residual-decayed", "[MDN v1, Table 1]",
             "the residual reads the decayed state, p = α k; with p = k it is another recurrence")
      .over("wrong from T = 1, K = V = 1 on, with a state to start from; right for S_0 = 0")
      .is_erratum()
      .not_program("mdn_residual", {{"K", "1"}, {"V", "1"}})
      .program("mdn_residual", {{"K", "2"}, {"V", "2"}, {"variant", "no_state"}})
      .program("mdn_chunk", size(1, 1, 2, 2))
      .sibling("p = k is the same")
      .program("mdn_residual", {{"K", "1"}, {"V", "1"}});

  list.claim("mdn/reduces-gdn", "[MDN v1, Sec. 3.1]", "μ = 0 and η = 1 give one step of gdn")
      .over("every state, K = 3, V = 2")
      .program("mdn_reduces_gdn", {{"K", "3"}, {"V", "2"}})
      .sibling("with μ = 0 alone")
      .program("mdn_reduces_gdn", {{"K", "1"}, {"V", "1"}, {"variant", "eta"}});

  list.claim("gdn/reduces-delta", "[GDN, Eq. 10]", "α = 1 gives one step of delta")
      .over("every state, K = 3, V = 2")
      .program("gdn_reduces_delta", {{"K", "3"}, {"V", "2"}})
      .sibling("for every α")
      .program("gdn_reduces_delta", {{"K", "1"}, {"V", "1"}, {"variant", "alpha"}});
}
