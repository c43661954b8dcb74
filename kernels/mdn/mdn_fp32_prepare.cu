// prepare for everything but bf16: q and k of a chunk as fp32 without gaps, zeros after its end,
// and T and W in fp32.
#include "kernels/mdn/mdn_fp32.cuh"
#include "kernels/mdn/mdn_prepare.cuh"

namespace assay::cuda {
namespace {

struct FullRecord {
  const float *q, *k;  // in shared memory
  float* record;       // of the place
  int K, lane, row;

  __device__ __forceinline__ void add(float (&out)[kChunk / 8][4], const float* left,
                                      const float* right) const {
    const Lines a{left + kBlock * row * row_pitch(K), row_pitch(K)}, b{right, row_pitch(K)};
    Tiles<1, kChunk / 8> sum;
    sum.add(
        0, K, lane, [&](int, int x, int place) { return a.along(x, place); },
        [&](int c, int x, int place) { return b.along(8 * c + x, place); });
#pragma unroll
    for (int n = 0; n < kChunk / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) out[n][e] = sum.x[0][n][e];
    }
  }
  __device__ __forceinline__ void products(float (&qk)[kChunk / 8][4],
                                           float (&kk)[kChunk / 8][4]) const {
    add(qk, q, k), add(kk, k, k);
  }
  __device__ __forceinline__ float* at(int which, int column, int half) const {
    const int g = lane >> 2, i = lane & 3;
    return record + which + (kBlock * row + 8 * half + g) * kChunk + column + 2 * i;
  }
  __device__ __forceinline__ void put_W(int block, int n, int half, float w0, float w1) const {
    *reinterpret_cast<float2*>(at(kFullW, kBlock * block + 8 * n, half)) = make_float2(w0, w1);
  }
  __device__ __forceinline__ void put_T(int column, const BlockParts& T) const {
#pragma unroll
    for (int a = 0; a < 4; ++a) {
      float x = 0, y = 0;
#pragma unroll
      for (int s = 2; s >= 0; --s) x += low_of(T.part[s][a]), y += high_of(T.part[s][a]);
      *reinterpret_cast<float2*>(at(kFullT, kBlock * column + 8 * (a >> 1), a & 1)) =
          make_float2(x, y);
    }
  }
};

template <bool momentum>
__global__ void __launch_bounds__(kPrepareThreads)
    mdn_fp32_prepare_kernel(const __grid_constant__ MdnFast f) {
  ASSAY_SHARED_MEMORY(memory);
  const MdnParams& p = f.p;
  const int rows = kChunk * row_pitch(p.K);
  MdnCoefficients& c = *reinterpret_cast<MdnCoefficients*>(memory);
  MdnInverse& inverse = *reinterpret_cast<MdnInverse*>(memory + sizeof(MdnCoefficients));
  float* q = reinterpret_cast<float*>(memory + sizeof(MdnCoefficients));
  float* k = q + rows;
  const MdnPlace at = place_of(p, blockIdx.x);
  if (at.steps == 0) return;
  float* kept_rows = f.rows + 2 * at.index * kChunk * p.K;
  load_lines<kPrepareThreads>(q, row_pitch(p.K), p.q, at, p.K, kept_rows);
  load_lines<kPrepareThreads>(k, row_pitch(p.K), p.k, at, p.K, kept_rows + kChunk * p.K);
  prepare_gates<momentum>(p, at, c);
  float* kept = f.coefficients ? f.coefficients + at.index * kKeptFloats : nullptr;
  float* record = vectors_of(f, at.index);
  keep_coefficients(c, record, kept);
  const int lane = threadIdx.x & 31;
  const int row = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x >> 5), 0);
  const FullRecord parts{q, k, record, p.K, lane, row};
  const Prepare<momentum, FullRecord> all{p,    c,         parts,    inverse, kept,
                                          lane, lane >> 2, lane & 3, row};
  all.run();
}

}  // namespace

cudaError_t mdn_fp32_prepare(const MdnFast& f, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(f.p.places()));
  const int rows = 2 * kChunk * (f.p.K + 8) * 4, inverse = sizeof(MdnInverse);
  const int bytes = static_cast<int>(sizeof(MdnCoefficients)) + (rows > inverse ? rows : inverse);
  return f.p.momentum
             ? launch(mdn_fp32_prepare_kernel<true>, grid, kPrepareThreads, bytes, stream, f)
             : launch(mdn_fp32_prepare_kernel<false>, grid, kPrepareThreads, bytes, stream, f);
}

}  // namespace assay::cuda
