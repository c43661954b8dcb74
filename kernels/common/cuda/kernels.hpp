// The kernels of the CUDA plug-in, one per operation; each is defined in kernels/<op>/. A further
// operation is a line in ASSAY_CUDA_OPERATIONS, a definition of <op>_kernel, and sources that
// kernels/cuda.cmake finds by name (<op>/*.cu and <op>/*_cuda.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/abi/assay_kernel.h"
#include "kernels/common/call.hpp"

// X(operation, capabilities)
#define ASSAY_CUDA_DELTA_RULES(X)                                            \
  X(mdn, ASSAY_CUDA_CAN_ALL | ASSAY_CAN_INITIAL_STATE | ASSAY_CAN_LOG_GATES) \
  X(gdn, ASSAY_CUDA_CAN_ALL | ASSAY_CAN_INITIAL_STATE | ASSAY_CAN_LOG_GATES) \
  X(delta, ASSAY_CUDA_CAN_ALL | ASSAY_CAN_INITIAL_STATE)
#define ASSAY_CUDA_OPERATIONS(X)                                                  \
  X(m2rnn, ASSAY_CUDA_CAN_ALL | ASSAY_CAN_INITIAL_STATE)                          \
  X(m2rnn_gate, ASSAY_CUDA_CAN_ALL)                                               \
  ASSAY_CUDA_DELTA_RULES(X)                                                       \
  X(mdn_gates, ASSAY_CUDA_CAN_ALL)                                                \
  X(mdn_fused_gates, ASSAY_CUDA_CAN_ALL | ASSAY_CAN_INITIAL_STATE)                \
  X(mom, ASSAY_CUDA_CAN_ALL | ASSAY_CAN_INITIAL_STATE | ASSAY_CAN_LOG_GATES)      \
  X(mom_dispatch, ASSAY_CAN_FORWARD | ASSAY_CAN_STRIDED_ROWS | ASSAY_CAN_STRIDED) \
  X(mom_aux_loss,                                                                 \
    ASSAY_CAN_FORWARD | ASSAY_CAN_BACKWARD | ASSAY_CAN_STRIDED_ROWS | ASSAY_CAN_STRIDED)

#define ASSAY_CUDA_CAN_ALL                                                             \
  (ASSAY_CAN_FORWARD | ASSAY_CAN_BACKWARD | ASSAY_CAN_PACKED | ASSAY_CAN_HEAD_GROUPS | \
   ASSAY_CAN_LINEAR_GATES | ASSAY_CAN_STRIDED_ROWS | ASSAY_CAN_STRIDED)

namespace assay::cuda {

/// What a run came to: a refusal, or the error of a CUDA call.
struct RunOutcome {
  cpu::Outcome refusal;
  cudaError_t error = cudaSuccess;
};

struct OpKernel {
  const char* op;
  /// Bytes of workspace; checks shapes, dtypes and options, and looks at no data.
  cpu::Outcome (*plan)(const cpu::Call& call, std::size_t* workspace_bytes);
  /// Launches everything on `stream` and does not wait.
  RunOutcome (*run)(const cpu::Call& call, cudaStream_t stream);
};

#define ASSAY_CUDA_DECLARE(op, can) extern const OpKernel op##_kernel;
ASSAY_CUDA_OPERATIONS(ASSAY_CUDA_DECLARE)
#undef ASSAY_CUDA_DECLARE

}  // namespace assay::cuda
