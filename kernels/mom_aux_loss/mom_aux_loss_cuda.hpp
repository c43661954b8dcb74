// The load-balancing loss of the MoM router on the device.
#pragma once

#include "kernels/common/cuda/routing.hpp"

namespace assay::cuda {

struct AuxLoss {
  Routing routing;
  Strided loss, d_loss;     // scalars
  Strided d_logits;         // [B,T,M]
  float* scale = nullptr;   // [M]: M fraction_m / (B T)
  double* parts = nullptr;  // [tiles] of the loss
};

/// After `route`: the loss, and the gradient of the logits, of what is given.
cudaError_t aux_loss(const AuxLoss& a, cudaStream_t stream);

}  // namespace assay::cuda
