// The tensors most members of the fast-weight family share.
#pragma once

#include "kernels/common/spec.hpp"

ASSAY_CPU_BEGIN

inline constexpr TensorSpec kQuery{"q", "BTHK", Role::token, Slot::q};
inline constexpr TensorSpec kKey{"k", "BTHK", Role::token, Slot::k};
inline constexpr TensorSpec kValue{"v", "BTHV", Role::token, Slot::v};
inline constexpr TensorSpec kHeadDecay{"alpha", "BTH", Role::token, Slot::decay, "log_alpha"};
inline constexpr TensorSpec kChannelDecay{"alpha", "BTHK", Role::token, Slot::decay, "log_alpha"};
inline constexpr TensorSpec kMomentumDecay{"mu", "BTH", Role::token, Slot::mu, "log_mu"};
inline constexpr TensorSpec kWrite{"beta", "BTH", Role::token, Slot::beta};
inline constexpr TensorSpec kResidualScale{"eta", "BTH", Role::token, Slot::eta, nullptr, true, 1};
inline constexpr TensorSpec kSkip{"skip", "H", Role::param, Slot::skip, nullptr, true};
inline constexpr TensorSpec kQueryCorrection{"q_correction",     "H",     Role::param,
                                             Slot::q_correction, nullptr, true};
inline constexpr TensorSpec kInitialState{"s0", "BHKV", Role::state, Slot::none, nullptr, true};
inline constexpr TensorSpec kInitialMomentum{"m0", "BHKV", Role::state, Slot::none, nullptr, true};
inline constexpr TensorSpec kReadOut{"o", "BTHV", Role::token_output};
inline constexpr TensorSpec kFinalState{"s_final", "BHKV", Role::final_state};
inline constexpr TensorSpec kFinalMomentum{"m_final", "BHKV", Role::final_state};

template <int N>
constexpr OpSpec op_spec(const char* op, const TensorSpec (&tensors)[N], bool chunk_form = false) {
  return {op, tensors, N, chunk_form, false};
}

ASSAY_CPU_END
