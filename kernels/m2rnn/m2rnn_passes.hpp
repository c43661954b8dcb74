// The two passes of m2rnn apart, for benchmarks. In a run the backward pass follows the forward
// pass, whose checkpoints lie in the workspace.
#pragma once

#include "kernels/common/cuda/kernels.hpp"

namespace assay::cuda {

RunOutcome run_m2rnn_passes(const cpu::Call& call, bool forward_pass, bool backward_pass,
                            cudaStream_t stream);

}  // namespace assay::cuda
