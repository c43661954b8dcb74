// Load-balancing loss of the MoM router.   [MoM v4, Sec. 4.2.7]
//
//   loss = M Σ_m fraction_m mean_m = Σ_t Σ_m scale_m softmax(logits_t)_m
//   scale_m = M fraction_m / (B T), fraction_m = selections of m / all selections (a constant)
//   d_logit_m = d_loss score_m (scale_m - Σ scale score)
#include "kernels/common/cuda/device.cuh"
#include "kernels/common/cuda/element.cuh"
#include "kernels/common/cuda/items.cuh"
#include "kernels/mom_aux_loss/mom_aux_loss_cuda.hpp"

namespace assay::cuda {

namespace {

static_assert(kRouteTile == kItemThreads);

__global__ void scale_kernel(const __grid_constant__ AuxLoss a) {
  const Routing& r = a.routing;
  for (std::int64_t m = first_item(); m < r.M; m += item_stride()) {
    const double rows = static_cast<double>(r.tokens());
    const double count = r.before_tile[m * (r.tiles() + 1) + r.tiles()];
    a.scale[m] = static_cast<float>(r.M * count / (rows * rows * r.top_k));
  }
}

__global__ void __launch_bounds__(kRouteTile) tokens_kernel(const __grid_constant__ AuxLoss a) {
  const Routing& r = a.routing;
  const std::int64_t token = blockIdx.x * std::int64_t{kRouteTile} + threadIdx.x;
  float mean = 0;
  if (token < r.tokens()) {
    const std::int64_t b = token / r.T, t = token % r.T;
    const char* logits = r.logits.data + b * r.logits.batch + t * r.logits.time;
    const auto logit = [&](int m) {
      return load_element(logits + m * r.logits.column, r.logits.dtype);
    };
    float largest = logit(0), sum = 0, weighted = 0;
    for (int m = 1; m < r.M; ++m) largest = fmaxf(largest, logit(m));
    for (int m = 0; m < r.M; ++m) {
      const float e = expf(logit(m) - largest);
      sum += e, weighted += a.scale[m] * e;
    }
    mean = weighted / sum;
    if (a.d_logits.data) {
      const float seed = a.d_loss.data ? load_element(a.d_loss.data, a.d_loss.dtype) : 0.0f;
      char* out = a.d_logits.data + b * a.d_logits.batch + t * a.d_logits.time;
      for (int m = 0; m < r.M; ++m) {
        const float score = expf(logit(m) - largest) / sum;
        store_element(out + m * a.d_logits.column, a.d_logits.dtype,
                      seed * score * (a.scale[m] - mean));
      }
    }
  }
  const double all = sum_of_block(static_cast<double>(mean));
  if (threadIdx.x == 0) a.parts[blockIdx.x] = all;
}

__global__ void __launch_bounds__(kItemThreads) loss_kernel(const __grid_constant__ AuxLoss a) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < a.routing.tiles(); i += kItemThreads) sum += a.parts[i];
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) store_element(a.loss.data, a.loss.dtype, static_cast<float>(sum));
}

}  // namespace

cudaError_t aux_loss(const AuxLoss& a, cudaStream_t stream) {
  const dim3 tiles(static_cast<unsigned>(a.routing.tiles()));
  cudaError_t e = launch(scale_kernel, dim3(blocks_for(a.routing.M)), kItemThreads, 0, stream, a);
  if (e == cudaSuccess) e = launch(tokens_kernel, tiles, kRouteTile, 0, stream, a);
  if (e == cudaSuccess && a.loss.data) {
    e = launch(loss_kernel, dim3(1), kItemThreads, 0, stream, a);
  }
  return e;
}

}  // namespace assay::cuda
