// What kernels of mdn are told that make its gates themselves, from pre-activations in the places
// of the gates (mdn_gate_rule.cuh).
#pragma once

#include "kernels/common/call.hpp"
#include "kernels/common/cuda/strided.hpp"

namespace assay::cuda {

struct MadeGates {
  enum Parameter { a_alpha, b_alpha, a_mu, b_mu, kParameters };

  bool given = false;
  Strided parameter[kParameters];
  float s = 1, tau = 1, log_mu_min = -2;
  float* parts = nullptr;  // [slot or sequence, head, kParameters], of the gradients of parameters
};

/// Fills all of it from a call of mdn_fused_gates; leaves it alone in any other.
void read_made_gates(const cpu::Call& call, std::int64_t heads, Strided& alpha, Strided& beta,
                     Strided& mu, Strided& eta, MadeGates& made);
/// Where the gradients of the parameters go.
void find_parameter_gradients(const cpu::Call& call, std::int64_t heads,
                              Strided (&to)[MadeGates::kParameters]);

}  // namespace assay::cuda
