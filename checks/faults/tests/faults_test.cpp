// Every fault shows what it says: in a case made for it, in the tensors that it concerns and in no
// others; and wherever it claims to apply.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "checks/faults/facts.hpp"
#include "checks/faults/fault.hpp"
#include "reference/case/generate.hpp"
#include "reference/oracle/registry.hpp"
#include "reference/scalars/scalars.hpp"

namespace {

using namespace assay;  // NOLINT

struct Example {
  std::string id, op, shape;
  std::set<std::string> wrong;  // tensors that differ, gradients as d_…; all others are equal
  std::vector<std::string> gates = {}, options = {}, without = {};
  std::vector<std::string> erased = {};  // cotangents that the case does not have
};

ValidCase make_case(const Example& e, std::uint64_t seed = 7) {
  const Operation& operation = find_operation(e.op);
  const auto provider = [&](const Case* data) { return operation.schema(data); };
  GenerateRequest request;
  request.op = e.op;
  request.shape = e.shape;
  request.gates = e.gates;
  request.options = e.options;
  request.without = e.without;
  request.seed = seed;
  Case data = generate(provider, request);
  for (const std::string& name : e.erased) data.tensors.erase(name);
  const Schema schema = provider(&data);
  return validate(std::move(data), schema);
}

std::map<std::string, Tensor<double>> all_tensors(const Result<double>& r) {
  std::map<std::string, Tensor<double>> all = r.outputs;
  for (const auto& [name, t] : r.gradients) all["d_" + name] = t;
  return all;
}

/// Differs by more than the rounding of double; NaN differs from everything.
bool differs(const Tensor<double>& a, const Tensor<double>& b) {
  double scale = 0, worst = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a.data[i]) || std::isnan(b.data[i])) return true;
    scale = std::max(scale, std::fabs(b.data[i]));
    worst = std::max(worst, std::fabs(a.data[i] - b.data[i]));
  }
  return worst > 1e-10 * scale;
}

std::set<std::string> wrong_tensors(const Fault& fault, const ValidCase& c,
                                    Form form = Form::recurrent) {
  const RunOptions run{form, true, 1, {}};
  const auto truth = all_tensors(evaluate(lift<double>(c), run));
  const auto wrong = all_tensors(fault.evaluate(c, run));
  std::set<std::string> names;
  REQUIRE(truth.size() == wrong.size());
  for (const auto& [name, t] : truth) {
    REQUIRE(wrong.count(name) == 1);
    REQUIRE(wrong.at(name).shape == t.shape);
    if (differs(wrong.at(name), t)) names.insert(name);
  }
  return names;
}

std::string text(const std::set<std::string>& names) {
  std::string line;
  for (const std::string& name : names) line += name + " ";
  return line;
}

const std::string kM2 = "B=2,T=5,N=4,N.q=2,N.k=2,K=3,V=3";
const std::string kMdn = "B=2,T=7,H=2,K=3,V=2";
const std::string kMom = "B=2,T=6,M=4,H=2,K=3,V=2";
using Names = std::set<std::string>;

const Names kMdnGradients = {
    "d_q", "d_k", "d_v", "d_alpha", "d_mu", "d_beta", "d_eta", "d_q_correction", "d_s0", "d_m0"};
Names with(Names names, const Names& more) {
  names.insert(more.begin(), more.end());
  return names;
}
Names without(Names names, const Names& less) {
  for (const std::string& name : less) names.erase(name);
  return names;
}
const Names kMdnOutputs = {"o", "s_final", "m_final"};
const Names kMdnAll = with(kMdnOutputs, kMdnGradients);
const Names kFusedAll = with(
    kMdnOutputs, {"d_q", "d_k", "d_v", "d_x_alpha", "d_x_mu", "d_x_beta", "d_x_eta", "d_a_alpha",
                  "d_b_alpha", "d_a_mu", "d_b_mu", "d_q_correction", "d_s0", "d_m0"});
// The cotangent of the state of a linear recurrence does not depend on the state, so what follows
// from it alone is right after a wrong forward pass.
const Names kStateless = {"d_v", "d_s0", "d_m0", "d_v_mem"};
const Names kMdnForward = without(kMdnAll, kStateless);
const Names kM2Gradients = {"d_q", "d_k", "d_v", "d_w", "d_f", "d_h0"};
const Names kM2All = with(kM2Gradients, {"y", "h_final"});
const Names kGdnAll = {"o", "s_final", "d_q", "d_k", "d_v", "d_alpha", "d_beta", "d_s0"};
const Names kGdnForward = without(kGdnAll, kStateless);
const Names kMomOutputs = {"o", "s_final"};
const Names kMomRouted = {"d_router_logits", "d_k_mem", "d_v_mem", "d_alpha_mem", "d_beta_mem"};
const Names kMomGradients = with(kMomRouted, {"d_q", "d_s0"});
const Names kMomForward = without(with(kMomOutputs, kMomGradients), kStateless);
const Names kMomShared = {"d_k_shared", "d_v_shared", "d_alpha_shared", "d_beta_shared"};
const std::vector<std::string> kChunk3 = {"chunk=3"};

const std::vector<Example>& m2rnn_examples() {
  static const std::vector<Example> list = {
      {"m2rnn.future_dropped", "m2rnn", kM2, {"d_k", "d_v", "d_w", "d_f", "d_h0"}},
      {"m2rnn.retain_overwritten", "m2rnn", kM2, {"d_k", "d_v", "d_w", "d_f", "d_h0"}},
      {"m2rnn.recompute_stale", "m2rnn", kM2, kM2Gradients},
      {"m2rnn.gate_swapped", "m2rnn", kM2, kM2All},
      {"m2rnn.candidate_ungated", "m2rnn", kM2, {"d_k", "d_v", "d_w", "d_f", "d_h0"}},
      {"m2rnn.tanh_slope_of_state", "m2rnn", kM2, {"d_k", "d_v", "d_w", "d_f", "d_h0"}},
      {"m2rnn.w_transposed_forward", "m2rnn", kM2, kM2All},
      {"m2rnn.w_transposed_adjoint", "m2rnn", kM2, {"d_k", "d_v", "d_w", "d_f", "d_h0"}},
      {"m2rnn.df_uses_new_state", "m2rnn", kM2, {"d_f"}},
      {"m2rnn.dq_uses_old_state", "m2rnn", kM2, {"d_q"}},
      {"m2rnn.dv_residual_missing", "m2rnn", kM2, {"d_v"}},
      {"m2rnn.group_grad_last_head", "m2rnn", kM2, {"d_q", "d_k"}},
      {"m2rnn.dw_last_batch", "m2rnn", kM2, {"d_w"}},
      {"m2rnn.final_cotangent_ignored", "m2rnn", kM2, {"d_k", "d_v", "d_w", "d_f", "d_h0"}},
      {"m2rnn.key_tail_dropped", "m2rnn", "B=1,T=4,N=1,K=66,V=2", kM2All},
      {"m2rnn.clip_output_not_state",
       "m2rnn",
       kM2,
       {"d_k", "d_v", "d_w", "d_f", "d_h0"},
       {},
       {"state_grad_clip=0.25"}},
      {"m2rnn_block.norm_before_gate",
       "m2rnn_block",
       "B=1,T=5,N=2,K=2,V=3,E=3,W=4",
       {"o", "d_norm_weight", "d_w_o", "d_x", "d_w_q", "d_w_k", "d_w_v", "d_w_f", "d_w_g",
        "d_conv_q", "d_conv_k", "d_conv_v", "d_a", "d_b", "d_w", "d_w_residual", "d_h0"}},
      {"m2rnn_block.gate_after_conv",
       "m2rnn_block",
       "B=1,T=5,N=2,K=2,V=3,E=3,W=4",
       {"o", "d_norm_weight", "d_w_o", "d_x", "d_w_q", "d_w_k", "d_w_v", "d_w_f", "d_w_g",
        "d_conv_q", "d_conv_k", "d_conv_v", "d_a", "d_b", "d_w", "d_w_residual", "d_h0"}},
  };
  return list;
}

const std::vector<Example>& mdn_examples() {
  static const std::vector<Example> list = {
      {"mdn.gamma_diagonal_zeroed", "mdn", kMdn, kMdnAll, {}, kChunk3},
      {"mdn.gamma_ratio_form", "mdn", kMdn, kMdnAll, {}, kChunk3},
      {"mdn.b_from_log_mu", "mdn", kMdn, kMdnAll, {}, kChunk3},
      {"mdn.log_domain_cancellation", "mdn", kMdn, kMdnAll, {}, kChunk3},
      {"mdn.mu_zero_nan", "mdn", kMdn, kMdnAll, {"dead"}, kChunk3},
      {"mdn.eta_missing_in_state", "mdn", kMdn, kMdnForward, {}, kChunk3},
      {"mdn.chunk_state_order", "mdn", kMdn, kMdnForward, {}, kChunk3},
      {"mdn.carry_momentum_dropped", "mdn", kMdn, kMdnForward, {}, kChunk3},
      {"mdn.dmu_within_chunk", "mdn", kMdn, {"d_mu"}, {}, kChunk3},
      {"mdn.residual_undecayed", "mdn", kMdn, kMdnForward},
      {"mdn.second_order_alpha_missing", "mdn", kMdn, kMdnForward},
      {"mdn.eta_in_residual_key", "mdn", kMdn, kMdnForward},
      {"mdn.momentum_sign", "mdn", kMdn, kMdnForward},
      {"mdn.momentum_dampened", "mdn", kMdn, kMdnForward},
      {"mdn.dalpha_without_residual_path", "mdn", kMdn, {"d_alpha"}},
      {"mdn.dk_single_path", "mdn", kMdn, {"d_k"}},
      {"mdn.dk_single_path:residual", "mdn", kMdn, {"d_k"}},
      {"mdn.gate_upper_bounds_dropped",
       "mdn_gates",
       "B=1,T=4,H=2",
       {"log_alpha", "beta", "d_x_eta", "d_x_beta"}},
      {"mdn.gate_upper_bounds_dropped", "mdn_fused_gates", kMdn, kFusedAll},
      {"mdn.gate_floor_passes",
       "mdn_gates",
       "B=1,T=4,H=2",
       {"d_x_mu", "d_a_mu", "d_b_mu"},
       {"a_mu=4:5"}},
      {"mdn.gate_floor_passes",
       "mdn_fused_gates",
       kMdn,
       {"d_x_mu", "d_a_mu", "d_b_mu"},
       {"a_mu=4:5"}},
  };
  return list;
}

const std::vector<Example>& other_examples() {
  static const std::vector<Example> list = {
      {"gdn.residual_undecayed", "gdn", "B=1,T=5,H=2,K=3,V=2", kGdnForward},
      {"gdn.beta_on_prediction_only", "gdn", "B=1,T=5,H=2,K=3,V=2", kGdnForward},
      {"kda.scalar_decay", "kda", "B=1,T=5,H=2,K=3,V=2", kGdnAll},
      {"rmsnorm_tp.cubic_term_missing", "rmsnorm_tp", "B=1,T=3,P=2,D=3", {"d_x"}},
      {"rmsnorm_tp.local_statistics", "rmsnorm_tp", "B=1,T=3,P=2,D=3", {"y", "d_x", "d_weight"}},
      {"mom.weight_on_write", "mom", kMom, kMomForward},
      {"mom.unselected_decays", "mom", kMom, kMomForward},
      {"mom.not_renormalised", "mom", kMom, with({"o"}, kMomGradients)},
      {"mom.states_merged", "mom", kMom, kMomForward},
      {"mom.shared_in_top_k", "mom", kMom, with(kMomOutputs, with(kMomGradients, kMomShared))},
      {"mom.logit_grad_unnormalised", "mom", kMom, {"d_router_logits"}},
      {"mom.order_broken", "mom", kMom, with(kMomOutputs, with(kMomGradients, kMomShared))},
      {"mom.segment_leak", "mom", kMom, kMomForward},
      {"*.read_before_update", "gdn", "B=1,T=5,H=2,K=3,V=2", {"o"}},
      {"*.read_before_update", "m2rnn", kM2, {"y"}},
      {"*.read_before_update", "mom", kMom, {"o"}},
      {"*.read_before_update", "lstm", "B=1,T=4,H=2,D=3,E=2", {"y"}},
      {"*.scale_missing_in_dq", "gla", "B=1,T=5,H=2,K=3,V=2", {"d_q"}},
      {"*.scale_missing_in_dq:twice", "gla", "B=1,T=5,H=2,K=3,V=2", {"d_q"}},
      {"*.state_reduced_precision",
       "delta",
       "B=1,T=5,H=2,K=3,V=2",
       {"o", "s_final", "d_q", "d_k", "d_beta"}},
      {"*.zero_gradient", "gdn", "B=1,T=5,H=2,K=3,V=2", {"d_q"}},
      {"*.head_group_modulo",
       "linear_attention",
       "B=1,T=5,H=4,H.q=2,K=3,V=2",
       {"o", "d_q", "d_k", "d_v", "d_s0"}},
      {"*.state_transposed",
       "retention",
       "B=1,T=5,H=2,K=3,V=3",
       {"o", "s_final", "d_q", "d_k", "d_v", "d_gamma", "d_s0"}},
      {"*.exp_before_mask",
       "gdn",
       "B=1,T=9,H=2,K=3,V=2",
       {"d_log_alpha"},
       {"log_alpha=-40:-20"},
       {"chunk=4"}},
      {"*.tail_unwritten", "gdn", "B=1,T=5,H=2,K=3,V=2", {"o"}, {}, kChunk3},
      {"*.initial_state_grad_needs_final",
       "gdn",
       "B=1,T=5,H=2,K=3,V=2",
       {"d_s0"},
       {},
       {},
       {},
       {"d_s_final"}},
      {"*.packed_leak", "gdn", "H=2,K=3,V=2,cu=0,2,2,5", without(kGdnAll, {"d_s0", "d_v"})},
      {"*.tail_chunk_decays", "gdn", "B=1,T=5,H=2,K=3,V=2", {"s_final"}, {}, kChunk3},
      {"*.tail_chunk_decays", "mdn", kMdn, {"s_final", "m_final"}, {}, kChunk3},
      {"*.tail_chunk_decays", "mom", kMom, {"s_final"}},
      {"*.decay_exclusive", "gdn", "B=1,T=5,H=2,K=3,V=2", kGdnAll},
      {"*.final_state_reduced_precision",
       "gdn",
       "B=1,T=7,H=2,K=3,V=2",
       {"o", "s_final", "d_q", "d_k", "d_alpha", "d_beta"},
       {},
       kChunk3},
  };
  return list;
}

std::vector<Example> examples() {
  std::vector<Example> all;
  for (const auto* list : {&m2rnn_examples(), &mdn_examples(), &other_examples()}) {
    all.insert(all.end(), list->begin(), list->end());
  }
  return all;
}

TEST_CASE("faults: every fault shows in the tensors that it concerns", "[faults][examples]") {
  for (const Example& e : examples()) {
    INFO(e.id << " on " << e.op << " " << e.shape);
    const ValidCase c = make_case(e);
    const Fault& fault = find_fault(e.id);
    CHECK(fault.applies(c));
    CHECK(text(wrong_tensors(fault, c)) == text(e.wrong));
  }
}

TEST_CASE("faults: every entry of the dictionary has an example", "[faults][completeness]") {
  std::set<std::string> shown, listed;
  for (const Example& e : examples()) shown.insert(e.id);
  for (const Fault* fault : faults()) {
    listed.insert(fault->info().id);
    CHECK(!fault->info().title.empty());
    CHECK(!fault->info().source.empty());
    CHECK(&find_fault(fault->info().id) == fault);
  }
  CHECK(listed.size() == faults().size());
  CHECK(text(listed) == text(shown));
  CHECK_THROWS_AS(find_fault("mdn.gamma_diagonal"), InputError);
  CHECK_THROWS_WITH(find_fault("mdn.gamma_diagonal_zerod"),
                    Catch::Matchers::Contains("mdn.gamma_diagonal_zeroed"));
}

TEST_CASE("faults: a single gradient can be zeroed by name", "[faults][examples]") {
  const ValidCase c = make_case({"", "gdn", "B=1,T=4,H=2,K=3,V=2", {}, {"log_alpha=-1:0"}});
  CHECK(wrong_tensors(find_fault("*.zero_gradient:beta"), c) == Names{"d_beta"});
  CHECK(wrong_tensors(find_fault("*.zero_gradient:alpha"), c) == Names{"d_log_alpha"});
  CHECK_FALSE(find_fault("*.zero_gradient:mu").applies(c));
}

/// First step at which a token output differs.
std::int64_t first_wrong_step(const Fault& fault, const ValidCase& c, const std::string& name) {
  const RunOptions run{Form::recurrent, false, 1, {}};
  const Tensor<double> truth = evaluate(lift<double>(c), run).outputs.at(name);
  const Tensor<double> wrong = fault.evaluate(c, run).outputs.at(name);
  const std::int64_t width = truth.size() / truth.shape[1];  // B = 1
  for (std::int64_t i = 0; i < truth.size(); ++i) {
    if (!(std::fabs(truth.data[i] - wrong.data[i]) <= 1e-12)) return i / width;
  }
  return -1;
}

TEST_CASE("faults: an error begins at the step where its cause lies", "[faults][steps]") {
  const auto first = [](const std::string& id, Example e, const std::string& output) {
    INFO(id);
    return first_wrong_step(find_fault(id), make_case(e), output);
  };
  const std::string mdn = "B=1,T=8,H=1,K=3,V=2", gdn = "B=1,T=7,H=1,K=3,V=2";
  const std::vector<std::string> cold = {"s0", "m0"};
  // In the first chunk nothing is wrong; row 0 of a chunk does not depend on Γ⁻.
  CHECK(first("mdn.carry_momentum_dropped", {"", "mdn", mdn, {}, {}, kChunk3}, "o") == 3);
  CHECK(first("mdn.chunk_state_order", {"", "mdn", mdn, {}, {}, kChunk3}, "o") == 3);
  CHECK(first("mdn.eta_missing_in_state", {"", "mdn", mdn, {}, {}, kChunk3}, "o") == 3);
  CHECK(first("mdn.gamma_diagonal_zeroed", {"", "mdn", mdn, {}, {}, kChunk3}, "o") == 1);
  CHECK(first("mdn.b_from_log_mu", {"", "mdn", mdn, {}, {}, kChunk3, cold}, "o") == 3);
  // Without an initial state the first residual reads nothing.
  CHECK(first("mdn.residual_undecayed", {"", "mdn", mdn, {}, {}, {}, cold}, "o") == 1);
  CHECK(first("gdn.residual_undecayed", {"", "gdn", gdn, {}, {}, {}, {"s0"}}, "o") == 1);
  CHECK(first("m2rnn.w_transposed_forward",
              {"", "m2rnn", "B=1,T=5,N=1,K=3,V=3", {}, {}, {}, {"h0"}}, "y") == 1);
  CHECK(first("*.decay_exclusive", {"", "gdn", gdn, {}, {}, {}, {"s0"}}, "o") == 1);
  CHECK(first("*.state_reduced_precision", {"", "gdn", gdn, {}}, "o") == 1);
  CHECK(first("*.final_state_reduced_precision", {"", "gdn", gdn, {}, {}, kChunk3}, "o") == 3);
  CHECK(first("*.tail_unwritten", {"", "gdn", gdn, {}, {}, kChunk3}, "o") == 6);
  CHECK(first("*.packed_leak", {"", "gdn", "H=1,K=3,V=2,cu=0,3,7", {}}, "o") == 3);
}

}  // namespace
