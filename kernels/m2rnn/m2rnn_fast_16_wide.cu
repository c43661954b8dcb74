// The forward pass for many states of width 16: 32 rows to a warp. The processors are busy then,
// and what a warp does once for all its rows counts; with few states, its latency does.
#include "kernels/m2rnn/m2rnn_forward.cuh"

namespace assay::cuda {

__global__ void __maxnreg__(128)
    m2rnn_forward_kernel_fast_16_wide(const __grid_constant__ M2rnnParams p) {
  forward_block<Fast, 16, 2>(p);
}

cudaError_t m2rnn_forward_fast_16_wide(const M2rnnParams& p, cudaStream_t stream) {
  return launch_forward<Fast, 16, 2>(m2rnn_forward_kernel_fast_16_wide, p, stream);
}

}  // namespace assay::cuda
