// Forward through time. A block has `pairs` pairs of warps, each for 16 columns of V of one head of
// a sequence: the first of a pair carries S^T and M^T, solves for R and updates, the second fetches
// the next chunk, reads out O from the states before the chunk, which the first leaves in shared
// memory, and keeps what the way back needs.
#pragma once

#include "kernels/mdn/mdn_carry.cuh"

namespace assay::cuda {

template <bool momentum, int K, int pairs>
struct ScanMemory {
  static constexpr bool kHelpersFetch = momentum;
  static constexpr int kThreads = (kHelpersFetch ? 64 : 96) * pairs;
  static constexpr int kStates = momentum ? 2 : 1;
  static constexpr int kRows = kChunk * K * 2, kValues = kChunk * 16 * pairs * 2;
  static constexpr int kQ = 0, kK = kRows, kV = 2 * kRows, kRecord = kV + kValues;
  static constexpr int kStage = kRecord + kRecordForward;
  static constexpr int kState = 16 * K * 2;  // of a pair
  static constexpr int kResidual = 16 * kChunk * 2;
  static constexpr int kStatesAt = 2 * kStage;  // [parity, pair, state]
  static constexpr int kResidualsAt = kStatesAt + 2 * pairs * kStates * kState;
  static constexpr int kBytes = kResidualsAt + pairs * kResidual;
  static_assert(kBytes <= kMostSharedBytes);
};

template <bool momentum, int K, int pairs>
struct Scan {
  using Memory = ScanMemory<momentum, K, pairs>;
  static constexpr bool kHelpersFetch = Memory::kHelpersFetch;
  static constexpr int kSuppliers = 32 * pairs;

  const MdnFast& f;
  const MdnParams& p;
  char* memory;
  MdnSegment u;
  int head = 0, block_v0 = 0, v0 = 0, pair = 0, lane = 0;
  std::int64_t chunks = 0;

  __device__ __forceinline__ std::int64_t place(std::int64_t chunk) const {
    return (u.first_slot + chunk) * p.H + head;
  }
  __device__ __forceinline__ MdnPlace chunk_place(std::int64_t chunk) const {
    MdnPlace at;
    const std::int64_t left = u.length - chunk * kChunk;
    at.batch = u.batch, at.first = u.first + chunk * kChunk, at.index = place(chunk);
    at.head = head, at.steps = left < kChunk ? static_cast<int>(left) : kChunk;
    return at;
  }
  __device__ __forceinline__ std::int64_t unit_rests() const {
    return (u.sequence * p.H + head) * kept_bytes(kChunk, p.V);
  }
  __device__ __forceinline__ char* stage(std::int64_t chunk) const {
    return memory + (chunk & 1) * Memory::kStage;
  }
  __device__ __forceinline__ uint4* state(std::int64_t chunk, int which) const {
    return reinterpret_cast<uint4*>(memory + Memory::kStatesAt +
                                    (((chunk & 1) * pairs + pair) * Memory::kStates + which) *
                                        Memory::kState);
  }
  __device__ __forceinline__ uint4* residual() const {
    return reinterpret_cast<uint4*>(memory + Memory::kResidualsAt + pair * Memory::kResidual);
  }

  __device__ __forceinline__ void publish(std::int64_t chunk, int which,
                                          const Columns<K / 8>& s) const {
    uint4* to = state(chunk, which) + lane;
#pragma unroll
    for (int step = 0; step < K / 16; ++step) {
      std::uint32_t a[4];
      s.operand(step, a);
      to[32 * step] = make_uint4(a[0], a[1], a[2], a[3]);
    }
  }

  /// += (S^T rows^T) for the rows of a chunk.
  __device__ __forceinline__ static void read(Columns<kChunk / 8>& out, const std::uint32_t (&a)[4],
                                              const std::uint32_t (&b)[4], int n) {
    multiply(out.x[n], a, b[0], b[1]), multiply(out.x[n + 1], a, b[2], b[3]);
  }

  /// X^T L^T for a lower triangular L in tiles.
  __device__ __forceinline__ static void times_lower(Columns<kChunk / 8>& out,
                                                     const std::uint32_t (&a)[kChunk / 16][4],
                                                     const TileMatrix<kChunk / 8>& lower,
                                                     int lane) {
#pragma unroll
    for (int n = 0; n < kChunk / 8; n += 2) {
#pragma unroll
      for (int step = 0; step <= n / 2; ++step) {
        std::uint32_t b[4];
        lower.template load_across<false>(b, n, 2 * step, lane);
        read(out, a[step], b, n);
      }
    }
  }

  __device__ __forceinline__ void carry_states() const {
    Columns<K / 8> S, M;
    load_columns<K>(S, p.s0, u.sequence, head, v0, lane);
    publish(0, 0, S);
    if constexpr (momentum) {
      load_columns<K>(M, p.m0, u.sequence, head, v0, lane);
      publish(0, 1, M);
    }
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      __syncthreads();
      const char* from = stage(chunk);
      const float* vectors =
          reinterpret_cast<const float*>(from + Memory::kRecord + kRecordVectors);
      const TileMatrix<K / 8> keys{const_cast<char*>(from) + Memory::kK};
      std::uint32_t a[kChunk / 16][4];
      {
        Columns<kChunk / 8> of_S, of_M;
        of_S.clear();
        if constexpr (momentum) of_M.clear();
#pragma unroll
        for (int step = 0; step < K / 16; ++step) {
          std::uint32_t s[4], m[4];
          S.operand(step, s);
          if constexpr (momentum) M.operand(step, m);
#pragma unroll
          for (int n = 0; n < kChunk / 8; n += 2) {
            std::uint32_t b[4];
            keys.template load_across<false>(b, n, 2 * step, lane);
            read(of_S, s, b, n);
            if constexpr (momentum) read(of_M, m, b, n);
          }
        }
        const TileMatrix<2 * pairs> values{const_cast<char*>(from) + Memory::kV};
#pragma unroll
        for (int n = 0; n < kChunk / 8; n += 2) {
          std::uint32_t y[4];  // X^T = V^T - ...: tiles (n, first 8 columns), (n, other 8), ...
          values.template load_across<true>(y, n, 2 * pair, lane);
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const float2 decay = factor_of(vectors + kDecay * kChunk, n + half, lane);
            float(&x)[4] = of_S.x[n + half];
            x[0] = fmaf(-decay.x, x[0], low_of(y[2 * half]));
            x[1] = fmaf(-decay.y, x[1], high_of(y[2 * half]));
            x[2] = fmaf(-decay.x, x[2], low_of(y[2 * half + 1]));
            x[3] = fmaf(-decay.y, x[3], high_of(y[2 * half + 1]));
            if constexpr (momentum) {
              const float2 carry = factor_of(vectors + kCarry * kChunk, n + half, lane);
              const float(&m)[4] = of_M.x[n + half];
              x[0] = fmaf(carry.x, m[0], x[0]), x[1] = fmaf(carry.y, m[1], x[1]);
              x[2] = fmaf(carry.x, m[2], x[2]), x[3] = fmaf(carry.y, m[3], x[3]);
            }
          }
        }
#pragma unroll
        for (int step = 0; step < kChunk / 16; ++step) of_S.operand(step, a[step]);
      }
      Columns<kChunk / 8> R;
      R.clear();
      times_lower(R, a, {const_cast<char*>(from) + Memory::kRecord + kRecordT}, lane);
#pragma unroll
      for (int step = 0; step < kChunk / 16; ++step) {
        std::uint32_t r[4];
        R.operand(step, r);
        residual()[32 * step + lane] = make_uint4(r[0], r[1], r[2], r[3]);
        if (f.residual_rests && chunk + 1 == chunks) {
          std::uint32_t rest[4];
          R.operand_rest(step, r, rest);
          keep_operand<kChunk / 8>(
              f.residual_rests + unit_rests() + (v0 / 8) * (kChunk / 8) * kTileBytes, step, rest,
              lane);
        }
      }
      arrive_threads(1 + pair, 64);
      advance(S, M, R, keys, vectors);
      if (chunk + 1 < chunks) {
        publish(chunk + 1, 0, S);
        if constexpr (momentum) publish(chunk + 1, 1, M);
      }
    }
    store_columns<K>(S, p.s_final, u.sequence, head, v0, lane);
    if constexpr (momentum) store_columns<K>(M, p.m_final, u.sequence, head, v0, lane);
  }

  __device__ __forceinline__ void advance(Columns<K / 8>& S, Columns<K / 8>& M,
                                          const Columns<kChunk / 8>& R,
                                          const TileMatrix<K / 8>& keys,
                                          const float* vectors) const {
    const float decay = vectors[kEndDecay], carry = vectors[kEndCarry], mu = vectors[kEndMomentum];
    const bool stale = ASSAY_MDN_IS_FAULT(p, stale_second_state);
#pragma unroll
    for (int n = 0; n < K / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        S.x[n][e] *= decay;
        if constexpr (momentum) {
          S.x[n][e] = fmaf(-carry, M.x[n][e], S.x[n][e]);
          if (!stale) M.x[n][e] *= mu;
        }
      }
    }
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step) {
      std::uint32_t s[4], m[4];
      R.operand_times(step, vectors + kWrite * kChunk, 1, lane, s);
      if constexpr (momentum) {
        R.operand_times(step, vectors + kWriteMomentum * kChunk, stale ? 0.0f : -1.0f, lane, m);
      }
#pragma unroll
      for (int n = 0; n < K / 8; n += 2) {
        std::uint32_t b[4];
        keys.template load_down<true>(b, 2 * step, n, lane);
        multiply(S.x[n], s, b[0], b[1]), multiply(S.x[n + 1], s, b[2], b[3]);
        if constexpr (momentum) {
          multiply(M.x[n], m, b[0], b[1]), multiply(M.x[n + 1], m, b[2], b[3]);
        }
      }
    }
  }

  /// Chunks into shared memory, one after the other, by kSuppliers threads: those of the warps that
  /// read out, or, where registers allow more warps, by some of their own.
  struct Supply {
    MdnStream<K / 8, kSuppliers> q, k;
    MdnStream<2 * pairs, kSuppliers> v;
    const char* record;
    unsigned thread;

    __device__ __forceinline__ explicit Supply(const Scan& s, unsigned number)
        : q(s.p.q, s.u.batch, s.u.first, s.head, 0, number),
          k(s.p.k, s.u.batch, s.u.first, s.head, 0, number),
          v(s.p.v, s.u.batch, s.u.first, s.head, s.block_v0, number),
          record(s.f.records + s.place(0) * kRecordBytes),
          thread(number) {}
    __device__ __forceinline__ explicit Supply(const Scan& s)
        : Supply(s, threadIdx.x - (kHelpersFetch ? 32 : 64) * pairs) {}

    __device__ __forceinline__ void fetch(const Scan& s, std::int64_t chunk) {
      const std::int64_t left = s.u.length - chunk * kChunk;
      const int steps = left < kChunk ? static_cast<int>(left) : kChunk;
      char* to = s.stage(chunk);
      q.copy(to + Memory::kQ, steps), k.copy(to + Memory::kK, steps);
      v.copy(to + Memory::kV, steps);
      copy_piece<kRecordForward, kSuppliers>(to + Memory::kRecord, record, thread);
      copy_commit();
      q.move(1), k.move(1), v.move(1);
      record += std::int64_t{s.p.H} * kRecordBytes;
    }
  };

  __device__ __forceinline__ void supply() const {
    Supply all(*this);
    if (chunks > 0) all.fetch(*this, 0);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      copy_wait<0>();
      __syncthreads();
      if (chunk + 1 < chunks) all.fetch(*this, chunk + 1);
    }
  }

  __device__ __forceinline__ void read_out() const {
    Supply supply(*this);
    if (kHelpersFetch && chunks > 0) supply.fetch(*this, 0);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      if (kHelpersFetch) copy_wait<0>();
      __syncthreads();
      if (kHelpersFetch && chunk + 1 < chunks) supply.fetch(*this, chunk + 1);
      const char* from = stage(chunk);
      const float* vectors =
          reinterpret_cast<const float*>(from + Memory::kRecord + kRecordVectors);
      const TileMatrix<K / 8> queries{const_cast<char*>(from) + Memory::kQ};
      const MdnPlace at = chunk_place(chunk);
      Columns<kChunk / 8> of_S, of_M;
      of_S.clear();
      if constexpr (momentum) of_M.clear();
      const uint4* states[2] = {state(chunk, 0) + lane, state(chunk, momentum ? 1 : 0) + lane};
      char* kept = f.kept ? f.kept + at.index * Memory::kStates * kept_bytes(K, p.V) : nullptr;
#pragma unroll
      for (int step = 0; step < K / 16; ++step) {
        std::uint32_t s[4], m[4];
        const auto take = [&](int which, std::uint32_t(&x)[4]) {
          const uint4 y = states[which][32 * step];
          x[0] = y.x, x[1] = y.y, x[2] = y.z, x[3] = y.w;
          if (!kept) return;
          keep_operand<K / 8>(kept + which * kept_bytes(K, p.V) + (v0 / 8) * (K / 8) * kTileBytes,
                              step, x, lane);
        };
        take(0, s);
        if constexpr (momentum) take(1, m);
        if (p.o.data) {
#pragma unroll
          for (int n = 0; n < kChunk / 8; n += 2) {
            std::uint32_t b[4];
            queries.template load_across<false>(b, n, 2 * step, lane);
            read(of_S, s, b, n);
            if constexpr (momentum) read(of_M, m, b, n);
          }
        }
      }
#pragma unroll
      for (int n = 0; n < kChunk / 8; ++n) {
        float2 decay = factor_of(vectors + kDecay * kChunk, n, lane);
        decay.x *= p.scale, decay.y *= p.scale;
        float(&x)[4] = of_S.x[n];
        x[0] *= decay.x, x[1] *= decay.y, x[2] *= decay.x, x[3] *= decay.y;
        if constexpr (momentum) {
          float2 carry = factor_of(vectors + kReadCarry * kChunk, n, lane);
          carry.x *= -p.scale, carry.y *= -p.scale;
          const float(&m)[4] = of_M.x[n];
          x[0] = fmaf(carry.x, m[0], x[0]), x[1] = fmaf(carry.y, m[1], x[1]);
          x[2] = fmaf(carry.x, m[2], x[2]), x[3] = fmaf(carry.y, m[3], x[3]);
        }
      }
      sync_threads(1 + pair, 64);
      std::uint32_t r[kChunk / 16][4];
#pragma unroll
      for (int step = 0; step < kChunk / 16; ++step) {
        const uint4 y = residual()[32 * step + lane];
        r[step][0] = y.x, r[step][1] = y.y, r[step][2] = y.z, r[step][3] = y.w;
        if (!kept) continue;
        keep_operand<kChunk / 8>(
            f.residuals + at.index * kept_bytes(kChunk, p.V) + (v0 / 8) * (kChunk / 8) * kTileBytes,
            step, r[step], lane);
      }
      if (!p.o.data) continue;
      times_lower(of_S, r, {const_cast<char*>(from) + Memory::kRecord + kRecordW}, lane);
      times_lower(of_S, r, {const_cast<char*>(from) + Memory::kRecord + kRecordWLow}, lane);
      store_rows(of_S, at);
    }
  }

  __device__ __forceinline__ void store_rows(const Columns<kChunk / 8>& o,
                                             const MdnPlace& at) const {
    const int g = lane >> 2, i = lane & 3;
    char* base = token_at(p.o, at.batch, at.first + g, head) + (v0 + 2 * i) * 2;
#pragma unroll
    for (int n = 0; n < kChunk / 8; ++n) {
      const std::uint32_t first = transposed_tile(bf16_pair(o.x[n][0], o.x[n][1]));
      const std::uint32_t other = transposed_tile(bf16_pair(o.x[n][2], o.x[n][3]));
      if (8 * n + g >= at.steps) continue;
      char* to = base + 8 * n * p.o.time;
      *reinterpret_cast<std::uint32_t*>(to) = first;
      *reinterpret_cast<std::uint32_t*>(to + 16) = other;
    }
  }
};

template <bool momentum, int K, int pairs>
__device__ __forceinline__ void scan_block(const MdnFast& f) {
  ASSAY_SHARED_MEMORY(memory);
  const MdnParams& p = f.p;
  const unsigned unit = blockIdx.x, heads = p.H;
  const int warp = threadIdx.x >> 5, pair = warp % pairs;
  Scan<momentum, K, pairs> run{f, p, memory, segment_of(p, unit / heads)};
  run.head = static_cast<int>(unit % heads), run.pair = pair;
  run.block_v0 = static_cast<int>(blockIdx.y) * 16 * pairs;
  run.v0 = run.block_v0 + 16 * pair, run.lane = threadIdx.x & 31;
  run.chunks = (run.u.length + kChunk - 1) / kChunk;
  if (warp < pairs) {
    run.carry_states();
  } else if (warp < 2 * pairs) {
    run.read_out();
  } else {
    run.supply();
  }
}

}  // namespace assay::cuda

#define ASSAY_MDN_SCAN(name, momentum, K, pairs)                                                   \
  namespace assay::cuda {                                                                          \
  __global__ void __launch_bounds__((ScanMemory<momentum, K, pairs>::kThreads),                    \
                                    1) mdn_scan_kernel_##name(const __grid_constant__ MdnFast f) { \
    scan_block<momentum, K, pairs>(f);                                                             \
  }                                                                                                \
  cudaError_t mdn_scan_##name(const MdnFast& f, cudaStream_t stream) {                             \
    using Memory = ScanMemory<momentum, K, pairs>;                                                 \
    const dim3 grid(static_cast<unsigned>(f.p.units()),                                            \
                    static_cast<unsigned>(f.p.V / (16 * pairs)));                                  \
    return launch(mdn_scan_kernel_##name, grid, Memory::kThreads, Memory::kBytes, stream, f);      \
  }                                                                                                \
  }
