// Mixture-of-Memories, over the gated delta rule as update.
#include "proofs/claims/claim.hpp"

ASSAY_CLAIMS(mom) {
  const auto size = [](const char* route, const char* M, const char* K, const char* V) {
    return Json{{"route", route}, {"M", M}, {"K", K}, {"V", V}};
  };
  const auto variant = [](Json parameters, const char* name) {
    parameters["variant"] = name;
    return parameters;
  };

  list.claim("mom/mix-commutes", "[MoM v4, Eq. 7]",
             "reading the mixture of states is mixing the reads; not so for a non-linear read")
      .over("one token, two memories; the non-linear read is the square")
      .program("mom_mix", size("01", "2", "2", "2"))
      .program("mom_mix", size("01,12", "3", "1", "1"))
      .not_program("mom_mix", variant(size("01", "2", "1", "1"), "square"))
      .sibling("it holds for the squared read")
      .program("mom_mix", variant(size("01", "2", "1", "1"), "square"));

  list.claim("mom/packing", "[MoM v4, Sec. 3.3]",
             "dispatch, one packed recurrence a memory, gather back is the definition token by "
             "token; the order of time inside a segment is necessary")
      .over("four tokens of three memories, two a token; one repeated, one skipped")
      .program("mom_packing", size("01,12,02,01", "3", "2", "1"))
      .program("mom_packing", size("0,0,1,0", "2", "2", "1"))
      .program("mom_packing", size("01,12,23,03,13,02,01,23", "4", "8", "8"), "residues")
      .not_program("mom_packing", variant(size("0,0", "1", "1", "1"), "reversed"))
      .sibling("segments may be reversed")
      .program("mom_packing", variant(size("0,0", "1", "1", "1"), "reversed"));

  list.claim("mom/renorm", "[MoM v4, Eqs. 3-4]",
             "softmax, top k, renormalise is the softmax over the selected logits")
      .over("e_i = exp(logit_i); two of three and two of four selected")
      .identity({"e1", "e2", "e3"}, {{"all", "e1 + e2 + e3"}}, "(e1/all)/(e1/all + e2/all)",
                "e1/(e1 + e2)")
      .identity({"e1", "e2", "e3", "e4"}, {{"all", "e1 + e2 + e3 + e4"}},
                "(e2/all)/(e2/all + e4/all)", "e2/(e2 + e4)")
      .sibling("without renormalisation it is as well")
      .identity({"e1", "e2", "e3"}, {{"all", "e1 + e2 + e3"}}, "e1/all", "e1/(e1 + e2)");

  list.claim("mom/weight-not-on-write", "[MoM v4, Sec. 2.2 note]",
             "the routing weight multiplies the read; on the write it gives something else")
      .over("wrong from two tokens of one memory on, K = V = 1")
      .is_erratum()
      .not_program("mom_variant", variant(size("0,0", "1", "1", "1"), "weight_on_write"))
      .program("mom_packing", size("0,0", "1", "1", "1"))
      .sibling("the weight may stand on the write")
      .program("mom_variant", variant(size("0,0", "1", "1", "1"), "weight_on_write"));

  list.claim("mom/unselected-fixed", "[MoM v4, Sec. 3.2.2]",
             "a memory that is not selected does not decay")
      .over("wrong from one token that selects another memory on, K = V = 1")
      .is_erratum()
      .not_program("mom_variant", variant(size("0,1", "2", "1", "1"), "unselected_decays"))
      .program("mom_packing", size("0,1", "2", "1", "1"))
      .sibling("it may decay")
      .program("mom_variant", variant(size("0,1", "2", "1", "1"), "unselected_decays"));

  list.claim("mom/states-not-merged", "[MoM v4, Eq. 7 note]",
             "the mixture is read and thrown away; it does not replace the states that were mixed")
      .over("wrong from one token of two memories on, K = V = 1")
      .is_erratum()
      .not_program("mom_variant", variant(size("01", "2", "1", "1"), "states_merged"))
      .program("mom_packing", size("01", "2", "1", "1"))
      .sibling("it may replace them")
      .program("mom_variant", variant(size("01", "2", "1", "1"), "states_merged"));

  list.claim("mom/untouched", "[MoM v4, Sec. 3.2]",
             "states of memories that are never selected come out as they went in")
      .over("the state's normal form is its own variable: nothing was computed with it")
      .program("mom_variant", size("01,1,0", "4", "2", "2"))
      .sibling("also under the variant that decays them")
      .program("mom_variant", variant(size("0", "2", "1", "1"), "unselected_decays"));

  const auto dispatch = [](const char* shape, const char* top_k) {
    return Json{{"kind", "operation"}, {"op", "mom_dispatch"}, {"check", "dispatch"},
                {"shape", shape},      {"options", {top_k}},   {"form", "recurrent"}};
  };
  Json reversed = dispatch("B=1,T=2,M=2", "top_k=1");
  reversed["reversed"] = true;
  list.claim("mom_dispatch/permutation", "[MoM v4, Sec. 3.3]",
             "every selected pair of token and memory has one row, in the segment of its batch and "
             "memory, in the order of time; the k largest logits are selected, ties to the lower "
             "index")
      .over("every order of the logits, ties included: B, T, M up to 2, 3, 3; k = 1, 2, 3")
      .part(dispatch("B=1,T=3,M=3", "top_k=2"))
      .part(dispatch("B=2,T=2,M=2", "top_k=1"))
      .part(dispatch("B=2,T=1,M=3", "top_k=3"))
      .part(dispatch("B=1,T=2,M=3", "top_k=1"))
      .sibling("inside a segment time runs backwards")
      .part(reversed);
}
