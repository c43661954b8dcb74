// Sums of what heads, or sequences, have parts of; in a fixed order.
#include "kernels/mdn/mdn_unit.cuh"

namespace assay::cuda {
namespace {

__global__ void mdn_sum_kernel(const __grid_constant__ MdnTokenSum s) {
  const int heads = s.H / s.out.share;
  const std::int64_t rows = s.batches * s.T * heads;
  const std::int64_t stride = std::int64_t{1} * gridDim.x * blockDim.x;
  for (std::int64_t at = std::int64_t{1} * blockIdx.x * blockDim.x + threadIdx.x;
       at < rows * s.width; at += stride) {
    const int column = static_cast<int>(at % s.width),
              head = static_cast<int>(at / s.width % heads);
    const std::int64_t token = at / s.width / heads;
    const float* from = s.partial + (token * s.H + head * s.out.share) * s.width + column;
    float sum = 0;
    for (int i = 0; i < s.out.share; ++i) {
      if (ASSAY_MDN_IS_FAULT(s, group_grad_last_head)) sum = 0;
      sum += from[i * s.width];
    }
    char* to = s.out.data + token / s.T * s.out.batch + token % s.T * s.out.time +
               head * s.out.head + column * s.out.column;
    store_element(to, s.out.dtype, sum);
  }
}

__global__ void mdn_correction_kernel(const __grid_constant__ MdnParams p,
                                      const __grid_constant__ Strided out) {
  const int head = blockIdx.x, lane = threadIdx.x;
  float sum = 0;
  for (std::int64_t at = lane; at < p.sequences * out.share; at += 32) {
    const std::int64_t sequence = at / out.share;
    sum += p.d_correction[sequence * p.H + head * out.share + at % out.share];
  }
  sum = warp_sum(sum);
  if (lane == 0) store_element(out.data + head * out.head, out.dtype, sum);
}

}  // namespace

cudaError_t mdn_sum_tokens(const MdnTokenSum& sum, cudaStream_t stream) {
  const std::int64_t count = sum.batches * sum.T * (sum.H / sum.out.share) * sum.width;
  const std::int64_t blocks = (count + 255) / 256;
  return launch(mdn_sum_kernel, dim3(static_cast<unsigned>(blocks < 4096 ? blocks : 4096)), 256, 0,
                stream, sum);
}

cudaError_t mdn_sum_correction(const MdnParams& p, const Strided& out, cudaStream_t stream) {
  return launch(mdn_correction_kernel, dim3(static_cast<unsigned>(p.H / out.share)), 32, 0, stream,
                p, out);
}

}  // namespace assay::cuda
