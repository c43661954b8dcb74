// q and k as the fast kernels read them, where the call wants them corrected or normalised first,
// and the way back of their gradients. A warp for a step of a head of the state.
#include "kernels/common/cuda/tensor.cuh"
#include "kernels/mdn/mdn_fast.hpp"
#include "kernels/mdn/mdn_unit.cuh"

namespace assay::cuda {
namespace {

constexpr int kThreads = 256;

/// What a lane has of a row of K <= 32 parts: elements lane, lane + 32, ..., zeros beyond K.
template <int parts>
struct Row {
  float x[parts];

  __device__ __forceinline__ void load(const Strided& from, std::int64_t batch, std::int64_t t,
                                       int head, int K, int lane) {
    const char* at = token_at(from, batch, t, head) + lane * from.column;
#pragma unroll
    for (int j = 0; j < parts; ++j) {
      x[j] = lane + 32 * j < K ? load_element(at + 32 * j * from.column, from.dtype) : 0.0f;
    }
  }
  __device__ __forceinline__ void add(float factor, const Row& y) {
#pragma unroll
    for (int j = 0; j < parts; ++j) x[j] = fmaf(factor, y.x[j], x[j]);
  }
  __device__ __forceinline__ void scale(double factor) {
#pragma unroll
    for (int j = 0; j < parts; ++j) x[j] = static_cast<float>(x[j] * factor);
  }
  /// 1/|x|, in double: squares of the smallest and the largest numbers of fp32 are beyond it.
  __device__ __forceinline__ double inverse_norm(float eps) const {
    double sum = 0;
#pragma unroll
    for (int j = 0; j < parts; ++j) sum += double{x[j]} * double{x[j]};
    return 1 / sqrt(warp_sum(sum) + eps);
  }
  __device__ __forceinline__ float dot(const Row& y) const {
    float sum = 0;
#pragma unroll
    for (int j = 0; j < parts; ++j) sum = fmaf(x[j], y.x[j], sum);
    return warp_sum(sum);
  }
};

__device__ __forceinline__ float correction_of(const MdnPack& p, int head) {
  const Strided& d = p.q_correction;
  if (!d.data) return 0;
  return load_element(d.data + (head / d.share) * d.head, d.dtype);
}

template <int parts>
__global__ void __launch_bounds__(kThreads) mdn_pack_kernel(const __grid_constant__ MdnPack p) {
  const int lane = threadIdx.x & 31;
  const std::int64_t row = std::int64_t{blockIdx.x} * (kThreads / 32) + (threadIdx.x >> 5);
  if (row >= p.tokens * p.H) return;
  const int head = static_cast<int>(row % p.H);
  const std::int64_t batch = row / p.H / p.T, t = row / p.H % p.T;
  Row<parts> q, k;
  q.load(p.q, batch, t, head, p.K, lane), k.load(p.k, batch, t, head, p.K, lane);
  q.add(-correction_of(p, head), k);
  if (p.l2norm) {
    q.scale(q.inverse_norm(p.l2norm_eps)), k.scale(k.inverse_norm(p.l2norm_eps));
  }
#pragma unroll
  for (int j = 0; j < parts; ++j) {
    if (lane + 32 * j >= p.K) continue;
    const std::int64_t at = (row * p.K + lane + 32 * j) * (p.dtype == DType::f32 ? 4 : 2);
    store_element(p.packed_q + at, p.dtype, q.x[j]);
    store_element(p.packed_k + at, p.dtype, k.x[j]);
  }
}

template <int parts>
__global__ void __launch_bounds__(kThreads) mdn_unpack_kernel(const __grid_constant__ MdnPack p) {
  const int lane = threadIdx.x & 31;
  const std::int64_t row = std::int64_t{blockIdx.x} * (kThreads / 32) + (threadIdx.x >> 5);
  if (row >= p.tokens * p.H) return;
  const int head = static_cast<int>(row % p.H);
  const std::int64_t batch = row / p.H / p.T, t = row / p.H % p.T;
  Row<parts> q, given_k, d_q, d_k;
  q.load(p.q, batch, t, head, p.K, lane), given_k.load(p.k, batch, t, head, p.K, lane);
#pragma unroll
  for (int j = 0; j < parts; ++j) {
    const std::int64_t at = row * p.K + lane + 32 * j;
    const bool there = lane + 32 * j < p.K;
    d_q.x[j] = there ? p.d_q[at] : 0.0f, d_k.x[j] = there ? p.d_k[at] : 0.0f;
  }
  const float correction = correction_of(p, head);
  q.add(-correction, given_k);
  if (p.l2norm) {  // d_x = (d_y - y (y . d_y)) / |x|
    const auto back = [&](Row<parts> x, Row<parts>& d) {
      const double inverse = x.inverse_norm(p.l2norm_eps);
      x.scale(inverse);
      d.add(-x.dot(d), x);
      d.scale(inverse);
    };
    back(q, d_q), back(given_k, d_k);
  }
  d_k.add(-correction, d_q);
#pragma unroll
  for (int j = 0; j < parts; ++j) {
    if (lane + 32 * j >= p.K) continue;
    const std::int64_t at = row * p.K + lane + 32 * j;
    p.d_q[at] = d_q.x[j], p.d_k[at] = d_k.x[j];
  }
  if (!p.d_correction) return;
  const float along = given_k.dot(d_q);
  if (lane == 0) p.d_correction[row] = -along;
}

/// The sum over all steps and the heads that share an element.
__global__ void __launch_bounds__(kThreads)
    mdn_pack_correction_kernel(const __grid_constant__ MdnPack p,
                               const __grid_constant__ Strided out) {
  ASSAY_SHARED_MEMORY(memory);
  float* parts = reinterpret_cast<float*>(memory);
  const int head = blockIdx.x;
  double sum = 0;
  for (std::int64_t at = threadIdx.x; at < p.tokens * out.share; at += kThreads) {
    sum += p.d_correction[at / out.share * p.H + head * out.share + at % out.share];
  }
  const float own = warp_sum(static_cast<float>(sum));
  if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = own;
  __syncthreads();
  if (threadIdx.x != 0) return;
  float total = 0;
  for (int i = 0; i < kThreads / 32; ++i) total += parts[i];
  store_element(out.data + head * out.head, out.dtype, total);
}

dim3 grid_of(const MdnPack& p) {
  const std::int64_t rows = p.tokens * p.H, each = kThreads / 32;
  return dim3(static_cast<unsigned>((rows + each - 1) / each));
}

}  // namespace

cudaError_t mdn_pack(const MdnPack& p, cudaStream_t stream) {
  if (p.K <= 64) return launch(mdn_pack_kernel<2>, grid_of(p), kThreads, 0, stream, p);
  return launch(mdn_pack_kernel<4>, grid_of(p), kThreads, 0, stream, p);
}
cudaError_t mdn_unpack(const MdnPack& p, const Strided& d_correction, cudaStream_t stream) {
  const cudaError_t e = p.K <= 64
                            ? launch(mdn_unpack_kernel<2>, grid_of(p), kThreads, 0, stream, p)
                            : launch(mdn_unpack_kernel<4>, grid_of(p), kThreads, 0, stream, p);
  if (e != cudaSuccess || !d_correction.given) return e;
  return launch(mdn_pack_correction_kernel, dim3(static_cast<unsigned>(p.H / d_correction.share)),
                kThreads, kThreads * 4, stream, p, d_correction);
}

}  // namespace assay::cuda
