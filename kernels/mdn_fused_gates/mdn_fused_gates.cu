// Gradients of the parameters of the gates: what the places left, added up in a fixed order.
#include "kernels/common/cuda/device.cuh"
#include "kernels/common/cuda/element.cuh"
#include "kernels/common/cuda/items.cuh"
#include "kernels/mdn/mdn_cuda.hpp"
#include "kernels/mdn/mdn_fault.hpp"

namespace assay::cuda {
namespace {

/// A block per head and parameter.
__global__ void sum_parameters_kernel(const __grid_constant__ MdnParameterSum s) {
  const int h = blockIdx.x, which = blockIdx.y;
  const Strided& out = s.out[which];
  if (!out.data || h % out.share != 0) return;
  const std::int64_t places = ASSAY_MDN_IS_FAULT(s, gate_parameters_first_chunk) ? 1 : s.places;
  double sum = 0;
  for (std::int64_t at = threadIdx.x; at < places * out.share; at += kItemThreads) {
    const std::int64_t place = at / out.share, head = h + at % out.share;
    sum += s.parts[(place * s.H + head) * MadeGates::kParameters + which];
  }
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) {
    store_element(out.data + h / out.share * out.head, out.dtype, static_cast<float>(sum));
  }
}

}  // namespace

cudaError_t mdn_sum_parameters(const MdnParameterSum& sum, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(sum.H), MadeGates::kParameters);
  return launch(sum_parameters_kernel, grid, kItemThreads, 0, stream, sum);
}

}  // namespace assay::cuda
