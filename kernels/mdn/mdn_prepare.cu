// A chunk's coefficients, W = scale (Q K̂^T) ∘ Γ and T = (I + L)^-1 with L = (P K̂^T) ∘ Γ⁻.
//
// T is found in fp32: diagonal blocks of 16 steps by substitution, the blocks below by products
// T_ij = -T_ii sum_k L_ik T_kj of tf32 in two parts (three products), which keep 21 bits.
#include "kernels/mdn/mdn_fast.cuh"

namespace assay::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kPitch = kChunk + 4, kBlock = 16, kBlocks = kChunk / kBlock, kScratchPitch = 20;

struct Memory {
  float gamma[kChunk * kPitch];  // then T
  float L[kChunk * kPitch];
  float scratch[kBlocks][kBlock * kScratchPitch];
  float alpha[kChunk], mu[kChunk], beta[kChunk], eta[kChunk];
  float vectors[512];  // as in the record
};

__device__ __forceinline__ void split(float x, float& high, float& low) {
  high = round_tf32(x);
  low = round_tf32(x - high);
}

/// c += A B of 16x16 blocks.
__device__ __forceinline__ void add_block(float (&c)[2][4], const float* a, int a_pitch,
                                          const float* b, int b_pitch, int lane) {
  const int g = lane >> 2, i = lane & 3;
#pragma unroll
  for (int x = 0; x < kBlock; x += 8) {
    float high[4], low[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      split(a[(g + 8 * (e & 1)) * a_pitch + x + i + 4 * (e >> 1)], high[e], low[e]);
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      float b_high[2], b_low[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        split(b[(x + i + 4 * e) * b_pitch + 8 * n + g], b_high[e], b_low[e]);
      }
      multiply_tf32(c[n], low, b_high);
      multiply_tf32(c[n], high, b_low);
      multiply_tf32(c[n], high, b_high);
    }
  }
}

__device__ __forceinline__ void store_block(const float (&c)[2][4], float sign, float* to,
                                            int pitch, int lane) {
  const int g = lane >> 2, i = lane & 3;
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      to[(g + 8 * (e >> 1)) * pitch + 8 * n + 2 * i + (e & 1)] = sign * c[n][e];
    }
  }
}

__device__ __forceinline__ void invert(const float* L, float* T, float* scratch) {
  const int thread = threadIdx.x, warp = thread >> 5, lane = thread & 31;
  if (thread < kChunk) {
    const int block = thread / kBlock * kBlock, column = thread % kBlock;
    const float* from = L + block * kPitch + block;
    float x[kBlock];
#pragma unroll
    for (int r = 0; r < kBlock; ++r) {
      float sum = 0;
#pragma unroll
      for (int y = 0; y < r; ++y) sum = fmaf(from[r * kPitch + y], x[y], sum);
      x[r] = r == column ? 1.0f : r < column ? 0.0f : -sum;
      T[(block + r) * kPitch + block + column] = x[r];
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int down = 1; down < kBlocks; ++down) {
    if (warp >= down) {
      const int row = warp * kBlock, column = (warp - down) * kBlock;
      float sum[2][4] = {};
      for (int x = column; x < row; x += kBlock) {
        add_block(sum, L + row * kPitch + x, kPitch, T + x * kPitch + column, kPitch, lane);
      }
      store_block(sum, 1.0f, scratch, kScratchPitch, lane);
      __syncwarp();
      float out[2][4] = {};
      add_block(out, T + row * kPitch + row, kPitch, scratch, kScratchPitch, lane);
      store_block(out, -1.0f, T + row * kPitch + column, kPitch, lane);
    }
    __syncthreads();
  }
}

template <bool momentum>
__device__ __forceinline__ void coefficients(Memory& c, bool off_by_one) {
  const int j = threadIdx.x;
  if (j < kChunk) {
    float gamma = c.beta[j], m = 1;
    c.gamma[j * kPitch + j] = gamma;
    follow_column<momentum>(c.alpha, c.mu, c.beta, j + 1, gamma, m, [&](int i, float y, float z) {
      c.gamma[i * kPitch + j] = y;
      gamma = y, m = z;
    });
    if (!momentum && j + 1 < kChunk) m = 0;
    c.vectors[kWrite * kChunk + j] = gamma * c.eta[j];
    c.vectors[kWriteMomentum * kChunk + j] = m * c.eta[j];
  } else if (j == kChunk) {
    float before = 0, mu_bar = 0;
    follow_column<momentum>(c.alpha, c.mu, c.beta, 0, 0, 1, [&](int i, float b, float m) {
      c.vectors[kCarry * kChunk + i] = c.alpha[i] * before;
      c.vectors[kReadCarry * kChunk + i] = b;
      before = b, mu_bar = m;
    });
    c.vectors[kEndCarry] = before, c.vectors[kEndMomentum] = mu_bar;
  } else if (j == kChunk + 32) {
    float last = 1;
    const int from = off_by_one ? 1 : 0;
    if (off_by_one) c.vectors[kDecay * kChunk] = 1;
    follow_column<false>(c.alpha, c.mu, c.beta, from, 1, 0, [&](int i, float a, float) {
      c.vectors[kDecay * kChunk + i] = a;
      last = a;
    });
    c.vectors[kEndDecay] = last;
  }
}

template <int K>
__device__ __forceinline__ void products(const MdnParams& p, Memory& c, const char* q_tiles,
                                         const char* k_tiles, char* record) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, i = lane & 3;
  const TileMatrix<K / 8> q{const_cast<char*>(q_tiles)}, k{const_cast<char*>(k_tiles)};
  float qk[kChunk / 8][4] = {}, kk[kChunk / 8][4] = {};
#pragma unroll
  for (int x = 0; x < K / 8; x += 2) {
    std::uint32_t a_q[4], a_k[4];
    q.template load_down<false>(a_q, 2 * warp, x, lane);
    k.template load_down<false>(a_k, 2 * warp, x, lane);
#pragma unroll
    for (int n = 0; n < kChunk / 8; n += 2) {
      if (n > 2 * warp) continue;
      std::uint32_t b[4];
      k.template load_across<false>(b, n, x, lane);
      multiply(qk[n], a_q, b[0], b[1]), multiply(qk[n + 1], a_q, b[2], b[3]);
      multiply(kk[n], a_k, b[0], b[1]), multiply(kk[n + 1], a_k, b[2], b[3]);
    }
  }
  const bool unshifted = ASSAY_MDN_IS_FAULT(p, gamma_diagonal_zeroed);
#pragma unroll
  for (int n = 0; n < kChunk / 8; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = 16 * warp + 8 * half + g;
      float w[2], l[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int column = 8 * n + 2 * i + e;
        const float eta = c.eta[column];
        w[e] = column <= row ? p.scale * qk[n][2 * half + e] * eta * c.gamma[row * kPitch + column]
                             : 0.0f;
        const int above = unshifted ? row : row - 1;
        l[e] = column < row
                   ? c.alpha[row] * kk[n][2 * half + e] * eta * c.gamma[above * kPitch + column]
                   : 0.0f;
        c.L[row * kPitch + column] = l[e];
      }
      const std::uint32_t pair = bf16_pair(w[0], w[1]);
      *reinterpret_cast<std::uint32_t*>(
          record + kRecordW + ((2 * warp + half) * (kChunk / 8) + n) * kTileBytes + lane * 4) =
          pair;
    }
  }
}

template <int K>
__global__ void __launch_bounds__(kThreads) mdn_prepare_kernel(const __grid_constant__ MdnFast f) {
  ASSAY_SHARED_MEMORY(memory);
  char *q = memory, *k = memory + kChunk * K * 2;
  Memory& c = *reinterpret_cast<Memory*>(memory + 2 * kChunk * K * 2);
  const MdnParams& p = f.p;
  const MdnPlace at = place_of(p, blockIdx.x);
  if (at.steps == 0) return;
  const int thread = threadIdx.x;
  copy_tokens<K / 8>(q, p.q, at, 0, thread, kThreads);
  copy_tokens<K / 8>(k, p.k, at, 0, thread, kThreads);
  copy_commit();
  if (thread < kChunk) {
    const MdnGates g = chunk_gates(p, at, thread);
    c.alpha[thread] = g.alpha, c.mu[thread] = g.mu, c.beta[thread] = g.beta, c.eta[thread] = g.eta;
  }
  __syncthreads();
  const bool off_by_one = ASSAY_MDN_IS_FAULT(p, decay_exclusive);
  if (p.momentum) {
    coefficients<true>(c, off_by_one);
  } else {
    coefficients<false>(c, off_by_one);
  }
  copy_wait<0>();
  __syncthreads();
  char* record = f.records + at.index * kRecordBytes;
  products<K>(p, c, q, k, record);
  float* vectors = reinterpret_cast<float*>(record + kRecordVectors);
  for (int x = thread; x < kEndMomentum + 1; x += kThreads) vectors[x] = c.vectors[x];
  __syncthreads();
  float* T = c.gamma;
  invert(c.L, T, c.scratch[thread >> 5]);
  const int lane = thread & 31, g = lane >> 2, i = lane & 3;
  for (int tile = thread >> 5; tile < kChunk; tile += kThreads / 32) {
    const int row = tile / 8, column = tile % 8;
    const float* from = T + (8 * row + g) * kPitch + 8 * column + 2 * i;
    const bool there = column / 2 <= row / 2;
    *reinterpret_cast<std::uint32_t*>(record + kRecordT + tile * kTileBytes + lane * 4) =
        there ? bf16_pair(from[0], from[1]) : 0u;
  }
}

}  // namespace

cudaError_t mdn_prepare(const MdnFast& f, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(f.p.places()));
  const int bytes = 2 * kChunk * f.p.K * 2 + static_cast<int>(sizeof(Memory));
  if (f.p.K == 64) return launch(mdn_prepare_kernel<64>, grid, kThreads, bytes, stream, f);
  return launch(mdn_prepare_kernel<128>, grid, kThreads, bytes, stream, f);
}

}  // namespace assay::cuda
