// A chunk's coefficients, W = scale (Q K̂^T) ∘ Γ and T = (I + L)^-1 with L = (P K̂^T) ∘ Γ⁻.
//
// T is found in fp32: diagonal blocks of 16 steps by substitution, what is below them by products,
// T_21 = -T_22 L_21 T_11, of tf32 in two parts (three products), which keep 21 bits.
#include "kernels/mdn/mdn_fast.cuh"

namespace assay::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kPitch = kChunk + 4, kBlock = 16, kBlocks = kChunk / kBlock, kScratchPitch = 20;

struct Memory {
  float gamma[kChunk * kPitch];  // then T
  float gates[4 * kChunk];       // alpha, mu, beta, eta
  float vectors[512];            // as in the record
};
/// What takes the place of q and k once they have been multiplied.
struct Later {
  float L[kChunk * kPitch];
  float spare[2 * kBlock * kPitch];
  float scratch[kBlocks][kBlock * kScratchPitch];
};
template <int K>
constexpr int kRowsBytes = 2 * kChunk* K * 2 > static_cast<int>(sizeof(Later))
                               ? 2 * kChunk* K * 2
                               : static_cast<int>(sizeof(Later));

__device__ __forceinline__ float2 pair_at(const float* at) {
  return *reinterpret_cast<const float2*>(at);
}

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

/// T from L: the diagonal blocks; then those below them within pairs of blocks; then the rest, two
/// rows and two columns of blocks. `scratch` is the warp's own, `spare` [32, kPitch] all warps'.
__device__ __forceinline__ void invert(const float* L, float* T, float* scratch, float* spare) {
  const int thread = threadIdx.x, warp = thread >> 5, lane = thread & 31;
  if (thread < kChunk) {
    const int block = thread / kBlock * kBlock, column = thread % kBlock;
    const float* from = L + block * kPitch + block;
    float x[kBlock] = {};
#pragma unroll
    for (int y = 0; y < kBlock; ++y) {
      x[y] = y == column ? 1.0f : y < column ? 0.0f : -x[y];
#pragma unroll
      for (int r = y + 1; r < kBlock; ++r) x[r] = fmaf(from[r * kPitch + y], x[y], x[r]);
      T[(block + y) * kPitch + block + column] = x[y];
    }
  }
  __syncthreads();
  const auto at = [](int row, int column) { return row * kBlock * kPitch + column * kBlock; };
  if (warp < 2) {
    const int row = 2 * warp + 1;
    float sum[2][4] = {}, out[2][4] = {};
    add_block(sum, L + at(row, row - 1), kPitch, T + at(row - 1, row - 1), kPitch, lane);
    store_block(sum, 1.0f, scratch, kScratchPitch, lane);
    __syncwarp();
    add_block(out, T + at(row, row), kPitch, scratch, kScratchPitch, lane);
    store_block(out, -1.0f, T + at(row, row - 1), kPitch, lane);
  }
  __syncthreads();
  const int row = warp >> 1, column = warp & 1;
  {
    float sum[2][4] = {};
    for (int x = column; x < 2; ++x) {
      add_block(sum, L + at(2 + row, x), kPitch, T + at(x, column), kPitch, lane);
    }
    store_block(sum, 1.0f, spare + at(row, column), kPitch, lane);
  }
  __syncthreads();
  float out[2][4] = {};
  for (int x = 0; x <= row; ++x) {
    add_block(out, T + at(2 + row, 2 + x), kPitch, spare + at(x, column), kPitch, lane);
  }
  store_block(out, -1.0f, T + at(2 + row, column), kPitch, lane);
  __syncthreads();
}

template <bool momentum>
__device__ __forceinline__ void coefficients(Memory& c, bool off_by_one) {
  const int j = threadIdx.x;
  const float *alpha = c.gates, *mu = alpha + kChunk, *beta = mu + kChunk, *eta = beta + kChunk;
  if (j < kChunk) {
    float gamma = beta[j], m = 1;
    c.gamma[j * kPitch + j] = gamma;
    follow_column<momentum>(alpha, mu, beta, j + 1, gamma, m, [&](int i, float y, float z) {
      c.gamma[i * kPitch + j] = y;
      gamma = y, m = z;
    });
    if (!momentum && j + 1 < kChunk) m = 0;
    c.vectors[kWrite * kChunk + j] = gamma * eta[j];
    c.vectors[kWriteMomentum * kChunk + j] = m * eta[j];
  } else if (j == kChunk) {
    float before = 0, mu_bar = 0;
    follow_column<momentum>(alpha, mu, beta, 0, 0, 1, [&](int i, float b, float m) {
      c.vectors[kCarry * kChunk + i] = alpha[i] * before;
      c.vectors[kReadCarry * kChunk + i] = b;
      before = b, mu_bar = m;
    });
    c.vectors[kEndCarry] = before, c.vectors[kEndMomentum] = mu_bar;
  } else if (j == kChunk + 32) {
    float last = 1;
    const int from = off_by_one ? 1 : 0;
    if (off_by_one) c.vectors[kDecay * kChunk] = 1;
    follow_column<false>(alpha, mu, beta, from, 1, 0, [&](int i, float a, float) {
      c.vectors[kDecay * kChunk + i] = a;
      last = a;
    });
    c.vectors[kEndDecay] = last;
  }
}

template <int K>
__device__ __forceinline__ void products(const MdnParams& p, const Memory& c, char* memory,
                                         char* record) {
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, i = lane & 3;
  const TileMatrix<K / 8> q{memory}, k{memory + kChunk * K * 2};
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
  __syncthreads();
  float* L = reinterpret_cast<Later*>(memory)->L;
  const float *alphas = c.gates, *etas = c.gates + 3 * kChunk;
  const bool unshifted = ASSAY_MDN_IS_FAULT(p, gamma_diagonal_zeroed);
#pragma unroll
  for (int n = 0; n < kChunk / 8; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = 16 * warp + 8 * half + g, column = 8 * n + 2 * i;
      std::uint32_t pair = 0, low = 0;
      if (n <= 2 * warp + 1) {
        const int above = unshifted || row == 0 ? row : row - 1;
        const float2 eta = pair_at(etas + column);
        const float2 here = pair_at(c.gamma + row * kPitch + column);
        const float2 before = pair_at(c.gamma + above * kPitch + column);
        const float scale = p.scale, alpha = alphas[row];
        const float(&x)[4] = qk[n], (&y)[4] = kk[n];
        const int e = 2 * half;
        const float w[2] = {column <= row ? scale * x[e] * eta.x * here.x : 0.0f,
                            column < row ? scale * x[e + 1] * eta.y * here.y : 0.0f};
        pair = bf16_pair(w[0], w[1]);
        low = bf16_pair(w[0] - low_of(pair), w[1] - high_of(pair));
        *reinterpret_cast<float2*>(L + row * kPitch + column) =
            make_float2(column < row ? alpha * y[e] * eta.x * before.x : 0.0f,
                        column + 1 < row ? alpha * y[e + 1] * eta.y * before.y : 0.0f);
      }
      char* to = record + ((2 * warp + half) * (kChunk / 8) + n) * kTileBytes + lane * 4;
      *reinterpret_cast<std::uint32_t*>(to + kRecordW) = pair;
      *reinterpret_cast<std::uint32_t*>(to + kRecordWLow) = low;
    }
  }
}

template <int K>
__global__ void __launch_bounds__(kThreads) mdn_prepare_kernel(const __grid_constant__ MdnFast f) {
  ASSAY_SHARED_MEMORY(memory);
  Later& later = *reinterpret_cast<Later*>(memory);
  Memory& c = *reinterpret_cast<Memory*>(memory + kRowsBytes<K>);
  const MdnParams& p = f.p;
  const MdnPlace at = place_of(p, blockIdx.x);
  if (at.steps == 0) return;
  const int thread = threadIdx.x;
  copy_tokens<K / 8, kThreads>(memory, p.q, at, 0, thread);
  copy_tokens<K / 8, kThreads>(memory + kChunk * K * 2, p.k, at, 0, thread);
  copy_commit();
  if (thread < kChunk) {
    const MdnGates g = chunk_gates(p, at, thread);
    float* to = c.gates + thread;
    to[0] = g.alpha, to[kChunk] = g.mu, to[2 * kChunk] = g.beta, to[3 * kChunk] = g.eta;
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
  products<K>(p, c, memory, record);
  float* vectors = reinterpret_cast<float*>(record + kRecordVectors);
  for (int x = thread; x < kEndMomentum + 1; x += kThreads) vectors[x] = c.vectors[x];
  if (f.coefficients) {
    float* kept = f.coefficients + at.index * kKeptFloats;
    for (int x = 4 * thread; x < kChunk * kChunk; x += 4 * kThreads) {
      *reinterpret_cast<float4*>(kept + x) =
          *reinterpret_cast<const float4*>(c.gamma + x / kChunk * kPitch + x % kChunk);
    }
    for (int x = thread; x < 4 * kChunk; x += kThreads) kept[kKeptGates + x] = c.gates[x];
  }
  __syncthreads();
  float* T = c.gamma;
  invert(later.L, T, later.scratch[thread >> 5], later.spare);
  const int lane = thread & 31, g = lane >> 2, i = lane & 3;
  for (int tile = thread >> 5; tile < kChunk; tile += kThreads / 32) {
    const int row = tile / 8, column = tile % 8;
    std::uint32_t pair = 0, low = 0;
    if (column / 2 <= row / 2) {
      const float2 x = pair_at(T + (8 * row + g) * kPitch + 8 * column + 2 * i);
      pair = bf16_pair(x.x, x.y);
      low = bf16_pair(x.x - low_of(pair), x.y - high_of(pair));
    }
    char* to = record + tile * kTileBytes + lane * 4;
    *reinterpret_cast<std::uint32_t*>(to + kRecordT) = pair;
    if (f.coefficients) *reinterpret_cast<std::uint32_t*>(to + kRecordTLow) = low;
  }
}

}  // namespace

cudaError_t mdn_prepare(const MdnFast& f, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(f.p.places()));
  constexpr int kOwn = sizeof(Memory);
  if (f.p.K == 64) {
    return launch(mdn_prepare_kernel<64>, grid, kThreads, kRowsBytes<64> + kOwn, stream, f);
  }
  return launch(mdn_prepare_kernel<128>, grid, kThreads, kRowsBytes<128> + kOwn, stream, f);
}

}  // namespace assay::cuda
