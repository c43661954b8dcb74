// What the device kernels of mdn_gates are told. Tokens are [B,T,H], parameters [H]; `share` of
// each says how many heads of the H read one of its own.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/common/cuda/strided.hpp"

namespace assay::cuda {

struct MdnGatesParams {
  enum Token { x_alpha, x_beta, x_mu, x_eta, kTokens };
  enum Parameter { a_alpha, b_alpha, a_mu, b_mu, kParameters };
  enum Output { log_alpha, beta, log_mu, eta, kOutputs };

  Strided token[kTokens], parameter[kParameters], output[kOutputs];
  Strided d_output[kOutputs], d_token[kTokens], d_parameter[kParameters];
  std::int64_t batches = 0, T = 0;
  int heads = 1;
  float s = 1, tau = 1, log_mu_min = -2;
  double* sums = nullptr;  // [kParameters, heads, parts], for gradients of parameters
  int parts = 1;
};

cudaError_t mdn_gates_forward(const MdnGatesParams& p, cudaStream_t stream);
/// Gradients of tokens and parameters; sums in a fixed order.
cudaError_t mdn_gates_backward(const MdnGatesParams& p, cudaStream_t stream);

}  // namespace assay::cuda
