#include "kernels/hosts/selftest/cases.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <sstream>
#include <stdexcept>

namespace assay::hosts {
namespace {

// name:AXES  a token or a parameter in [-1, 1]     name:AXES+  in [0, 1]
// name:AXES% a gate in (0, 1) with a logarithm     name:AXES^  an initial state
struct Row {
  const char* operation;
  const char* inputs;
  const char* outputs;
};

constexpr std::array<Row, 24> kRows = {{
    {"linear_attention", "q:BTHK k:BTHK v:BTHV s0:BHKV^", "o:BTHV s_final:BHKV"},
    {"retention", "q:BTHK k:BTHK v:BTHV gamma:H+ s0:BHKV^", "o:BTHV s_final:BHKV"},
    {"ssd", "q:BTHK k:BTHK v:BTHV alpha:BTH% skip:H s0:BHKV^", "o:BTHV s_final:BHKV"},
    {"gla", "q:BTHK k:BTHK v:BTHV alpha:BTHK% s0:BHKV^", "o:BTHV s_final:BHKV"},
    {"hgrn2", "q:BTHK v:BTHV f:BTHK+ s0:BHKV^", "o:BTHV s_final:BHKV"},
    {"delta", "q:BTHK k:BTHK v:BTHV beta:BTH+ s0:BHKV^", "o:BTHV s_final:BHKV"},
    {"gdn", "q:BTHK k:BTHK v:BTHV alpha:BTH% beta:BTH+ s0:BHKV^", "o:BTHV s_final:BHKV"},
    {"kda", "q:BTHK k:BTHK v:BTHV alpha:BTHK% beta:BTH+ s0:BHKV^", "o:BTHV s_final:BHKV"},
    {"comba", "q:BTHK k:BTHK v:BTHV p:BTHK alpha:BTH% beta:BTH+ s0:BHKV^", "o:BTHV s_final:BHKV"},
    {"gated_delta_product", "q:BTHK k:BTJHK v:BTJHV beta:BTJH+ alpha:BTH% s0:BHKV^",
     "o:BTHV s_final:BHKV"},
    {"mdn", "q:BTHK k:BTHK v:BTHV alpha:BTH% mu:BTH% beta:BTH+ eta:BTH+ s0:BHKV^ m0:BHKV^",
     "o:BTHV s_final:BHKV m_final:BHKV"},
    {"mdn_gates", "x_alpha:BTH x_beta:BTH x_mu:BTH x_eta:BTH a_alpha:H+ b_alpha:H a_mu:H+ b_mu:H",
     "log_alpha:BTH beta:BTH log_mu:BTH eta:BTH"},
    {"mdn_fused_gates",
     "q:BTHK k:BTHK v:BTHV x_alpha:BTH x_mu:BTH x_beta:BTH x_eta:BTH a_alpha:H+ b_alpha:H a_mu:H+ "
     "b_mu:H s0:BHKV^ m0:BHKV^",
     "o:BTHV s_final:BHKV m_final:BHKV"},
    {"m2rnn", "q:BTNK k:BTNK v:BTNV w:NVV f:BTN+ w_residual:NV h0:BNKV^", "y:BTNV h_final:BNKV"},
    {"m2rnn_gate", "x:BTN a:N+ b:N", "f:BTN"},
    {"m2rnn_block",
     "x:BTE w_q:ENK w_k:ENK w_v:ENV w_f:EN w_g:ENV conv_q:NKW conv_k:NKW conv_v:NVW a:N+ b:N "
     "w:NVV w_residual:NV norm_weight:NV w_o:NVE h0:BNKV^",
     "o:BTE h_final:BNKV"},
    {"mom",
     "router_logits:BTM q:BTHK k_mem:BTMHK v_mem:BTMHV alpha_mem:BTMH% beta_mem:BTMH+ "
     "s0:BMHKV^",
     "o:BTHV s_final:BMHKV"},
    {"mom_aux_loss", "router_logits:BTM", "loss:"},
    {"rnn", "x:BTHD w:HDD h0:BHD^", "y:BTHD h_final:BHD"},
    {"gru", "x:BTHE w_ih:H3DE w_hh:H3DD b_ih:H3D b_hh:H3D h0:BHD^", "y:BTHD h_final:BHD"},
    {"lstm", "x:BTHE w_ih:H4DE w_hh:H4DD b_ih:H4D b_hh:H4D h0:BHD^ c0:BHD^",
     "y:BTHD h_final:BHD c_final:BHD"},
    {"causal_conv1d", "x:BTD weight:DW bias:D x0:BwD^", "y:BTD x_final:BwD"},
    {"rmsnorm", "x:BTD weight:D", "y:BTD"},
    {"rmsnorm_tp", "x:BTPD weight:PD", "y:BTPD"},
}};

// All different where an operation lets them be, so that a swap of two axes cannot pass; T is no
// multiple of any chunk.
std::int64_t axis_length(char axis) {
  static const std::map<char, std::int64_t> lengths = {
      {'B', 2}, {'T', 7}, {'H', 2}, {'N', 2}, {'K', 5}, {'V', 3}, {'D', 6}, {'E', 3},
      {'J', 2}, {'M', 4}, {'W', 4}, {'w', 3}, {'P', 2}, {'3', 3}, {'4', 4}};
  return lengths.at(axis);
}

TensorPlan parse_tensor(const std::string& text, bool log_gates) {
  const std::size_t colon = text.find(':');
  TensorPlan plan;
  plan.name = text.substr(0, colon);
  for (const char axis : text.substr(colon + 1)) {
    if (axis == '^') {
      plan.state = true;
    } else if (axis == '+') {
      plan.lo = 0;
    } else if (axis == '%') {
      plan.lo = log_gates ? -1 : 0.3;
      plan.hi = log_gates ? 0 : 1;
      if (log_gates) plan.name = "log_" + plan.name;
    } else {
      plan.shape.push_back(axis_length(axis));
    }
  }
  return plan;
}

std::vector<TensorPlan> parse_tensors(const char* text, bool log_gates) {
  std::vector<TensorPlan> plans;
  std::istringstream words(text);
  for (std::string word; words >> word;) plans.push_back(parse_tensor(word, log_gates));
  return plans;
}

/// x is a multiple of 1/64 in [-1, 1], which every format holds exactly.
void append_number(std::string& bytes, double x, const std::string& dtype) {
  const auto append = [&](auto value) {
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    bytes.append(raw, sizeof value);
  };
  if (dtype == "F64") return append(x);
  const auto narrow = static_cast<float>(x);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &narrow, sizeof bits);
  if (dtype == "F32") return append(bits);
  if (dtype == "BF16") return append(static_cast<std::uint16_t>(bits >> 16));
  if (dtype != "F16") throw std::invalid_argument("append_number: dtype " + dtype);
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  if (narrow == 0) return append(static_cast<std::uint16_t>(sign));
  // Normal numbers only: the exponent's bias falls from 127 to 15, the mantissa from 23 to 10 bits.
  append(static_cast<std::uint16_t>(sign | ((bits & 0x7FFFFFFFu) - (112u << 23)) >> 13));
}

}  // namespace

std::optional<CasePlan> case_for(const std::string& operation, bool log_gates) {
  for (const Row& row : kRows) {
    if (operation != row.operation) continue;
    return CasePlan{parse_tensors(row.inputs, log_gates), parse_tensors(row.outputs, false)};
  }
  return std::nullopt;
}

std::string draw_bytes(const TensorPlan& tensor, const std::string& dtype) {
  std::string bytes;
  std::uint32_t state = 2166136261u;
  for (const char c : tensor.name) state = (state ^ static_cast<unsigned char>(c)) * 16777619u;
  const std::int64_t count = element_count(tensor.shape);
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    const double unit = (state >> 8) * 0x1p-24;
    append_number(bytes, std::floor(64 * (tensor.lo + (tensor.hi - tensor.lo) * unit)) / 64, dtype);
  }
  return bytes;
}

}  // namespace assay::hosts
