// prepare for bf16 rows: products of a warpgroup, W and T in parts of bf16.
#include "kernels/common/cuda/warpgroup.cuh"
#include "kernels/mdn/mdn_prepare.cuh"

namespace assay::cuda {
namespace {

constexpr int kThreads = kPrepareThreads;

/// q and k, or what takes their place once they have been multiplied.
template <int K>
constexpr int kRowsBytes = 2 * kChunk* K * 2;
static_assert(sizeof(MdnInverse) <= kRowsBytes<64>);

template <int K>
struct HalfRecord {
  char *memory, *record;  // the latter at this lane's place in a tile
  bool in_parts;          // T as well
  int row;

  /// Q K^T and K K^T.
  __device__ __forceinline__ void products(float (&qk)[kChunk / 8][4],
                                           float (&kk)[kChunk / 8][4]) const {
    const RowMatrix q{memory}, k{memory + kChunk * K * 2};
    group_begin();
#pragma unroll
    for (int step = 0; step < K / 16; ++step) group_multiply_both(qk, q, k, step);
#pragma unroll
    for (int step = 0; step < K / 16; ++step) group_multiply_both(kk, k, k, step);
    group_end();
  }
  __device__ __forceinline__ void put_W(int block, int n, int half, float w0, float w1) const {
    const std::uint32_t pair = bf16_pair(w0, w1);
    char* to = record + triangle_block(row, block) * kBlockBytes + block_tile(half, n);
    *reinterpret_cast<std::uint32_t*>(to + kRecordW) = pair;
    *reinterpret_cast<std::uint32_t*>(to + kRecordWLow) =
        bf16_pair(w0 - low_of(pair), w1 - high_of(pair));
  }
  __device__ __forceinline__ void put_T(int column, const BlockParts& T) const {
    char* to = record + triangle_block(row, column) * kBlockBytes;
#pragma unroll
    for (int a = 0; a < 4; ++a) {
      char* tile = to + block_tile(a & 1, a >> 1);
      *reinterpret_cast<std::uint32_t*>(tile + kRecordT) = T.part[0][a];
      if (in_parts) *reinterpret_cast<std::uint32_t*>(tile + kRecordTLow) = T.part[1][a];
    }
  }
};

template <bool momentum, int K>
__global__ void __launch_bounds__(kThreads, momentum ? 4 : 5)
    mdn_prepare_kernel(const __grid_constant__ MdnFast f) {
  ASSAY_SHARED_MEMORY(memory);
  MdnCoefficients& c = *reinterpret_cast<MdnCoefficients*>(memory + kRowsBytes<K>);
  const MdnParams& p = f.p;
  const MdnPlace at = place_of(p, blockIdx.x);
  if (at.steps == 0) return;
  const int thread = threadIdx.x, lane = thread & 31;
  copy_rows<K / 8, kThreads>(memory, q_rows(p, at.batch, at.first, at.head), at.steps, thread);
  copy_rows<K / 8, kThreads>(memory + kChunk * K * 2,
                             k_rows(p, at.sequence, at.batch, at.first, at.head), at.steps, thread);
  copy_commit();
  prepare_gates<momentum>(p, at, c);
  copy_wait<0>();
  group_publish();
  __syncthreads();
  float* kept = f.coefficients ? f.coefficients + at.index * kKeptFloats : nullptr;
  keep_coefficients(c, vectors_of(f, at.index), kept);
  // The same in all lanes, as the compiler can tell.
  const int row = __shfl_sync(0xffffffffu, thread / 32, 0);
  const HalfRecord<K> record{memory, f.records + at.index * kRecordBytes + lane * 4,
                             kept != nullptr, row};
  const Prepare<momentum, HalfRecord<K>> all{
      p, c, record, *reinterpret_cast<MdnInverse*>(memory), kept, lane, lane >> 2, lane & 3, row};
  all.run();
}

template <bool momentum>
cudaError_t prepare(const MdnFast& f, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(f.p.places()));
  constexpr int kOwn = sizeof(MdnCoefficients);
  if (f.p.K == 64) {
    return launch(mdn_prepare_kernel<momentum, 64>, grid, kThreads, kRowsBytes<64> + kOwn, stream,
                  f);
  }
  return launch(mdn_prepare_kernel<momentum, 128>, grid, kThreads, kRowsBytes<128> + kOwn, stream,
                f);
}

}  // namespace

cudaError_t mdn_prepare_bf16(const MdnFast& f, cudaStream_t stream) {
  return f.p.momentum ? prepare<true>(f, stream) : prepare<false>(f, stream);
}

}  // namespace assay::cuda
