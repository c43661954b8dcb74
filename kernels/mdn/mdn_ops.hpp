// mdn, gdn and delta of the CUDA plug-in: from a call to launches.
#pragma once

#include "kernels/common/cuda/kernels.hpp"
#include "kernels/common/spec.hpp"
#include "kernels/mdn/mdn_cuda.hpp"

namespace assay::cuda {

/// `spec` is mdn's, or that of an operation without mu. With a table, q, k and v of the call are
/// what rows are looked up in; the fast kernels must take it.
cpu::Outcome plan_mdn(const cpu::OpSpec& spec, const cpu::Call& call, std::size_t* bytes,
                      const MdnTable* table = nullptr);
RunOutcome run_mdn(const cpu::OpSpec& spec, const cpu::Call& call, cudaStream_t stream,
                   const MdnTable* table = nullptr);

}  // namespace assay::cuda
