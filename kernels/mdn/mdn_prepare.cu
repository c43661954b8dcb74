// A chunk's coefficients, W = scale (Q K̂^T) ∘ Γ and T = (I + L)^-1 with L = (P K̂^T) ∘ Γ⁻. A warp
// has 16 steps.
#include "kernels/common/cuda/warpgroup.cuh"
#include "kernels/mdn/mdn_inverse.cuh"

namespace assay::cuda {
namespace {

constexpr int kThreads = 128;
static_assert(kThreads == 2 * kChunk && kThreads == 32 * kBlocks);

/// q and k, or what takes their place once they have been multiplied.
template <int K>
constexpr int kRowsBytes = 2 * kChunk* K * 2;
static_assert(sizeof(MdnInverse) <= kRowsBytes<64>);

__device__ __forceinline__ float2 pair_at(const float* at) {
  return *reinterpret_cast<const float2*>(at);
}

template <bool momentum, int K>
struct Prepare {
  const MdnFast& f;
  const MdnParams& p;
  const MdnCoefficients& c;
  char *memory, *record;
  float* kept;
  int lane, g, i, row;

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

  /// Γ of this step and of the one before it, at two columns.
  struct Gammas {
    float2 here, before;
  };
  __device__ __forceinline__ Gammas gammas_on_diagonal(int step, int column) const {
    const int above = step == 0 ? 0 : step - 1;
    return {c.on_diagonal(row, step, column), c.on_diagonal(row, above, column)};
  }
  __device__ __forceinline__ Gammas gammas_before(int step, int first) const {
    const int t = kBlock * row + step;
    const float2 end = pair_at(c.gamma[row - 1] + first);
    const float now = c.decay[t], then = c.decay_before[t];
    Gammas out{{now * end.x, now * end.y}, {then * end.x, then * end.y}};
    if constexpr (momentum) {
      const float2 m = pair_at(c.m[row - 1] + first);
      const float carry = c.carry[t], before = c.carry_before[t];
      out.here.x = fmaf(carry, m.x, out.here.x), out.here.y = fmaf(carry, m.y, out.here.y);
      out.before.x = fmaf(before, m.x, out.before.x);
      out.before.y = fmaf(before, m.y, out.before.y);
    }
    return out;
  }

  /// A block of W into the record, and one of L in the place of K K^T.
  template <bool on_diagonal>
  __device__ __forceinline__ void weigh(int block, const float (&qk)[2][4],
                                        float (&kk)[2][4]) const {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int column = 8 * n + 2 * i, first = kBlock * block + column;
      float2 eta = make_float2(1, 1);
      if constexpr (momentum) eta = pair_at(c.gates + 3 * kChunk + first);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int step = 8 * half + g, t = kBlock * row + step, e = 2 * half;
        Gammas gamma = on_diagonal ? gammas_on_diagonal(step, column) : gammas_before(step, first);
        if (kept) *reinterpret_cast<float2*>(kept + t * kChunk + first) = gamma.here;
        if (ASSAY_MDN_IS_FAULT(p, gamma_diagonal_zeroed)) gamma.before = gamma.here;
        const float alpha = c.gates[t];
        float w[2] = {p.scale * qk[n][e] * eta.x * gamma.here.x,
                      p.scale * qk[n][e + 1] * eta.y * gamma.here.y};
        kk[n][e] *= alpha * eta.x * gamma.before.x;
        kk[n][e + 1] *= alpha * eta.y * gamma.before.y;
        if constexpr (on_diagonal) {
          if (column > step) w[0] = 0;
          if (column >= step) w[1] = 0, kk[n][e] = 0;
          if (column + 1 >= step) kk[n][e + 1] = 0;
        }
        const std::uint32_t pair = bf16_pair(w[0], w[1]);
        char* to = record + triangle_block(row, block) * kBlockBytes + block_tile(half, n);
        *reinterpret_cast<std::uint32_t*>(to + kRecordW) = pair;
        *reinterpret_cast<std::uint32_t*>(to + kRecordWLow) =
            bf16_pair(w[0] - low_of(pair), w[1] - high_of(pair));
      }
    }
  }

  __device__ __forceinline__ void run() const {
    float qk[kChunk / 8][4] = {}, kk[kChunk / 8][4] = {};
    products(qk, kk);
    __syncthreads();
    float L[kBlocks - 1][2][4], own_qk[2][4], own_kk[2][4];
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      float block[2][4];
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float x = qk[2 * n + (e >> 2)][e & 3], y = kk[2 * n + (e >> 2)][e & 3];
        if (n == row) own_qk[e >> 2][e & 3] = x, own_kk[e >> 2][e & 3] = y;
        if (n < kBlocks - 1) block[e >> 2][e & 3] = x, L[n][e >> 2][e & 3] = y;
      }
      if (n < kBlocks - 1 && n < row) weigh<false>(n, block, L[n]);
    }
    weigh<true>(row, own_qk, own_kk);
    const auto store = [&](int column, const BlockParts& T) {
      char* to = record + triangle_block(row, column) * kBlockBytes;
#pragma unroll
      for (int a = 0; a < 4; ++a) {
        char* tile = to + block_tile(a & 1, a >> 1);
        *reinterpret_cast<std::uint32_t*>(tile + kRecordT) = T.part[0][a];
        if (kept) *reinterpret_cast<std::uint32_t*>(tile + kRecordTLow) = T.part[1][a];
      }
    };
    reinterpret_cast<MdnInverse*>(memory)->run(L, own_kk, row, lane, store);
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
  if (thread < kChunk) {
    const MdnGates g = chunk_gates(p, at, thread);
    float* to = c.gates + thread;
    to[0] = g.alpha, to[kChunk] = g.mu, to[2 * kChunk] = g.beta, to[3 * kChunk] = g.eta;
  }
  make_coefficients<momentum>(c, ASSAY_MDN_IS_FAULT(p, decay_exclusive));
  copy_wait<0>();
  group_publish();
  __syncthreads();
  char* record = f.records + at.index * kRecordBytes;
  float* vectors = reinterpret_cast<float*>(record + kRecordVectors);
  for (int x = thread; x < kEndMomentum + 1; x += kThreads) vectors[x] = c.vectors[x];
  float* kept = f.coefficients ? f.coefficients + at.index * kKeptFloats : nullptr;
  for (int x = thread; kept && x < 4 * kChunk; x += kThreads) kept[kKeptGates + x] = c.gates[x];
  // The same in all lanes, as the compiler can tell.
  const int row = __shfl_sync(0xffffffffu, thread / 32, 0);
  const Prepare<momentum, K> all{f,    p,    c,         memory,   record + lane * 4,
                                 kept, lane, lane >> 2, lane & 3, row};
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

cudaError_t mdn_prepare(const MdnFast& f, cudaStream_t stream) {
  return f.p.momentum ? prepare<true>(f, stream) : prepare<false>(f, stream);
}

}  // namespace assay::cuda
