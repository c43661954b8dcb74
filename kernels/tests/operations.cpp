// The tensors of every operation the tests know.
#include <algorithm>

#include "kernels/tests/problem.hpp"

namespace assay::cpu::testing {
namespace {

using Lines = std::vector<TensorLine>;

const TensorLine kQ{"q", "BTHK", 'i'}, kK{"k", "BTHK", 'i'}, kV{"v", "BTHV", 'i'},
    kO{"o", "BTHV", 'o'}, kS0{"s0", "BHKV", 's'}, kS{"s_final", "BHKV", 'f'},
    kAlpha{"alpha", "BTH", 'i', 0.5, 1}, kBeta{"beta", "BTH", 'i', 0, 1};

void add_fast_weights(std::map<std::string, Lines>& l) {
  const TensorLine channels{"alpha", "BTHK", 'i', 0.5, 1}, qc{"q_correction", "H", 'i'};
  l["linear_attention"] = {kQ, kK, kV, kS0, kO, kS};
  l["retention"] = {kQ, kK, kV, {"gamma", "H", 'i', 0.5, 1}, kS0, kO, kS};
  l["ssd"] = {kQ, kK, kV, kAlpha, {"skip", "H", 'i'}, kS0, kO, kS};
  l["gla"] = {kQ, kK, kV, channels, kS0, kO, kS};
  l["hgrn2"] = {kQ, kV, {"f", "BTHK", 'i', 0.25, 1}, kS0, kO, kS};
  l["delta"] = {kQ, kK, kV, kBeta, kS0, kO, kS};
  l["gdn"] = {kQ, kK, kV, kAlpha, kBeta, kS0, kO, kS};
  l["kda"] = {kQ, kK, kV, channels, kBeta, kS0, kO, kS};
  l["comba"] = {kQ, kK, {"p", "BTHK", 'i'}, kV, kAlpha, kBeta, qc, kS0, kO, kS};
  l["gated_delta_product"] = {
      kQ, {"k", "BTJHK", 'i'}, {"v", "BTJHV", 'i'}, {"beta", "BTJH", 'i', 0, 1}, kAlpha, kS0, kO,
      kS};
  l["mdn"] = {kQ,
              kK,
              kV,
              kAlpha,
              {"mu", "BTH", 'i', 0.125, 0.875},
              kBeta,
              {"eta", "BTH", 'i', 0, 1},
              qc,
              kS0,
              {"m0", "BHKV", 's'},
              kO,
              kS,
              {"m_final", "BHKV", 'f'}};
  Lines& fused = l["mdn_fused_gates"] = {kQ, kK, kV, qc, kS0, {"m0", "BHKV", 's'}, kO, kS};
  fused.push_back({"m_final", "BHKV", 'f'});
  for (const char* name : {"x_alpha", "x_mu", "x_beta", "x_eta"}) {
    fused.push_back({name, "BTH", 'i'});
  }
  for (const char* name : {"a_alpha", "a_mu"}) fused.push_back({name, "H", 'i', 0, 2});
  for (const char* name : {"b_alpha", "b_mu"}) fused.push_back({name, "H", 'i'});
}

void add_recurrences(std::map<std::string, Lines>& l) {
  l["m2rnn"] = {{"q", "BTNK", 'i'},  {"k", "BTNK", 'i'},      {"v", "BTNV", 'i'},
                {"w", "NVV", 'i'},   {"f", "BTN", 'i', 0, 1}, {"w_residual", "NV", 'i'},
                {"h0", "BNKV", 's'}, {"y", "BTNV", 'o'},      {"h_final", "BNKV", 'f'}};
  l["mom"] = {{"router_logits", "BTM", 'i', -2, 2},
              kQ,
              {"k_mem", "BTMHK", 'i'},
              {"v_mem", "BTMHV", 'i'},
              {"alpha_mem", "BTMH", 'i', 0.5, 1},
              {"beta_mem", "BTMH", 'i', 0, 1},
              {"k_shared", "BTHK", 'i'},
              {"v_shared", "BTHV", 'i'},
              {"alpha_shared", "BTH", 'i', 0.5, 1},
              {"beta_shared", "BTH", 'i', 0, 1},
              {"s0", "BRHKV", 's'},
              kO,
              {"s_final", "BRHKV", 'f'}};
  l["rnn"] = {{"x", "BTHD", 'i'},
              {"w", "HDD", 'i'},
              {"h0", "BHD", 's'},
              {"y", "BTHD", 'o'},
              {"h_final", "BHD", 'f'}};
  l["gru"] = {{"x", "BTHE", 'i'},   {"w_ih", "HGDE", 'i'},  {"w_hh", "HGDD", 'i'},
              {"b_ih", "HGD", 'i'}, {"b_hh", "HGD", 'i'},   {"h0", "BHD", 's'},
              {"y", "BTHD", 'o'},   {"h_final", "BHD", 'f'}};
  l["lstm"] = l["gru"];
  l["lstm"].push_back({"c0", "BHD", 's'});
  l["lstm"].push_back({"c_final", "BHD", 'f'});
}

void add_parts(std::map<std::string, Lines>& l) {
  l["m2rnn_gate"] = {{"x", "BTN", 'i'}, {"a", "N", 'i', 0, 2}, {"b", "N", 'i'}, {"f", "BTN", 'o'}};
  l["mdn_gates"] = {
      {"x_alpha", "BTH", 'i'},  {"x_beta", "BTH", 'i'},      {"x_mu", "BTH", 'i'},
      {"x_eta", "BTH", 'i'},    {"a_alpha", "H", 'i', 0, 2}, {"b_alpha", "H", 'i'},
      {"a_mu", "H", 'i', 0, 2}, {"b_mu", "H", 'i'},          {"log_alpha", "BTH", 'o'},
      {"beta", "BTH", 'o'},     {"log_mu", "BTH", 'o'},      {"eta", "BTH", 'o'}};
  l["causal_conv1d"] = {{"x", "BTD", 'i'},  {"weight", "DW", 'i'}, {"bias", "D", 'i'},
                        {"x0", "BwD", 's'}, {"y", "BTD", 'o'},     {"x_final", "BwD", 'f'}};
  l["rmsnorm"] = {{"x", "BTD", 'i'}, {"weight", "D", 'i'}, {"y", "BTD", 'o'}};
  l["rmsnorm_tp"] = {{"x", "BTPD", 'i'}, {"weight", "PD", 'i'}, {"y", "BTPD", 'o'}};
  l["m2rnn_block"] = {{"x", "BTE", 'i'},         {"w_q", "ENK", 'i'},
                      {"w_k", "ENK", 'i'},       {"w_v", "ENV", 'i'},
                      {"w_f", "EN", 'i'},        {"w_g", "ENV", 'i'},
                      {"conv_q", "NKW", 'i'},    {"conv_k", "NKW", 'i'},
                      {"conv_v", "NVW", 'i'},    {"a", "N", 'i', 0, 2},
                      {"b", "N", 'i'},           {"w", "NVV", 'i'},
                      {"w_residual", "NV", 'i'}, {"norm_weight", "NV", 'i'},
                      {"w_o", "NVE", 'i'},       {"h0", "BNKV", 's'},
                      {"o", "BTE", 'o'},         {"h_final", "BNKV", 'f'}};
}

std::map<std::string, Lines> make_lines() {
  std::map<std::string, Lines> l;
  add_fast_weights(l);
  add_recurrences(l);
  add_parts(l);
  return l;
}

const std::map<std::string, Lines>& all_lines() {
  static const std::map<std::string, Lines> lines = make_lines();
  return lines;
}

}  // namespace

const std::vector<TensorLine>& lines_of(const std::string& op) { return all_lines().at(op); }

std::vector<std::string> all_operations() {
  std::vector<std::string> names;
  for (const auto& [name, lines] : all_lines()) names.push_back(name);
  return names;
}

std::vector<std::string> recurrences() {
  std::vector<std::string> names;
  for (const auto& [name, lines] : all_lines()) {
    const auto has_state = [](const TensorLine& line) { return line.kind == 's'; };
    // The block carries the windows of its convolutions besides h0, so it cannot be continued.
    if (name != "m2rnn_block" && std::any_of(lines.begin(), lines.end(), has_state)) {
      names.push_back(name);
    }
  }
  return names;
}

std::vector<std::string> chunked_operations() {
  return {"comba", "delta", "gdn", "kda", "mdn", "mdn_fused_gates"};
}

}  // namespace assay::cpu::testing
