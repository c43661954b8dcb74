// mdn, gdn and delta of the CUDA plug-in: from a call to launches.
#pragma once

#include "kernels/common/cuda/kernels.hpp"
#include "kernels/common/spec.hpp"

namespace assay::cuda {

/// `spec` is mdn's, or that of an operation without mu.
cpu::Outcome plan_mdn(const cpu::OpSpec& spec, const cpu::Call& call, std::size_t* bytes);
RunOutcome run_mdn(const cpu::OpSpec& spec, const cpu::Call& call, cudaStream_t stream);

}  // namespace assay::cuda
