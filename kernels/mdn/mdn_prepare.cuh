// A chunk's W = scale (Q K̂^T) ∘ Γ and T = (I + L)^-1 with L = (P K̂^T) ∘ Γ⁻, from Q K^T, K K^T and
// the coefficients. A warp has 16 steps. Products and where W and T go are those of a `Record`:
//
//   products(qk, kk)                         accumulators of this warp's 16 rows
//   put_W(block, n, half, w0, w1)            W of step 8 half + g, columns 8 n + 2 i and the next
//   put_T(column, parts)                     a block of T
#pragma once

#include "kernels/mdn/mdn_inverse.cuh"

namespace assay::cuda {

inline constexpr int kPrepareThreads = 128;
static_assert(kPrepareThreads == 2 * kChunk && kPrepareThreads == 32 * kBlocks);

__device__ __forceinline__ float2 pair_at(const float* at) {
  return *reinterpret_cast<const float2*>(at);
}

template <bool momentum, class Record>
struct Prepare {
  const MdnParams& p;
  const MdnCoefficients& c;
  const Record& record;
  MdnInverse& inverse;  // may lie where q and k do
  float* kept;
  int lane, g, i, row;

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
        record.put_W(block, n, half, w[0], w[1]);
      }
    }
  }

  __device__ __forceinline__ void run() const {
    float qk[kChunk / 8][4] = {}, kk[kChunk / 8][4] = {};
    record.products(qk, kk);
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
    const auto store = [&](int column, const BlockParts& T) { record.put_T(column, T); };
    inverse.run(L, own_kk, row, lane, store);
  }
};

/// The chunk's coefficients, from its gates; vectors into the record, and what the way back needs.
template <bool momentum>
__device__ __forceinline__ void prepare_gates(const MdnParams& p, const MdnPlace& at,
                                              MdnCoefficients& c) {
  const int thread = threadIdx.x;
  if (thread < kChunk) {
    const MdnGates g = chunk_gates(p, at, thread);
    float* to = c.gates + thread;
    to[0] = g.alpha, to[kChunk] = g.mu, to[2 * kChunk] = g.beta, to[3 * kChunk] = g.eta;
  }
  make_coefficients<momentum>(c, ASSAY_MDN_IS_FAULT(p, decay_exclusive));
}
__device__ __forceinline__ void keep_coefficients(const MdnCoefficients& c, float* vectors,
                                                  float* kept) {
  const int thread = threadIdx.x;
  for (int x = thread; x < kEndMomentum + 1; x += kPrepareThreads) vectors[x] = c.vectors[x];
  for (int x = thread; kept && x < 4 * kChunk; x += kPrepareThreads) {
    kept[kKeptGates + x] = c.gates[x];
  }
}

}  // namespace assay::cuda
