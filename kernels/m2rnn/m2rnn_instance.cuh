// The kernels of one precision and width, in a translation unit of their own.
#pragma once

#include "kernels/m2rnn/m2rnn_backward.cuh"
#include "kernels/m2rnn/m2rnn_forward.cuh"

#define ASSAY_M2RNN_FORWARD(name, Precision, width)                                                \
  namespace assay::cuda {                                                                          \
  __global__ void __maxnreg__((Precision::forward_registers<width>())) m2rnn_forward_kernel_##name \
      ##_##width(const __grid_constant__ M2rnnParams p) {                                          \
    forward_block<Precision, width, 1>(p);                                                         \
  }                                                                                                \
  cudaError_t m2rnn_forward_##name##_##width(const M2rnnParams& p, cudaStream_t stream) {          \
    return launch_forward<Precision, width, 1>(m2rnn_forward_kernel_##name##_##width, p, stream);  \
  }                                                                                                \
  }

#define ASSAY_M2RNN_BACKWARD(name, Precision, width)                                             \
  namespace assay::cuda {                                                                        \
  __global__ void __maxnreg__((Precision::backward_registers<width>())) m2rnn_backward_kernel_   \
      ##name##_##width(const __grid_constant__ M2rnnParams p) {                                  \
    backward_block<Precision, width>(p);                                                         \
  }                                                                                              \
  cudaError_t m2rnn_backward_##name##_##width(const M2rnnParams& p, cudaStream_t stream) {       \
    return launch_backward<Precision, width>(m2rnn_backward_kernel_##name##_##width, p, stream); \
  }                                                                                              \
  std::int64_t m2rnn_scratch_##name##_##width() {                                                \
    return History<Precision, width>::kShared ? 0 : History<Precision, width>::kWarpBytes;       \
  }                                                                                              \
  }
