// Forward through time. A block has two warpgroups, each warp for 16 columns of V of one head of a
// sequence: the first carries S^T and M^T, solves for R and updates, the second reads out O from
// the states before the chunk, which the first leaves in shared memory, and keeps what the way back
// needs. The next chunks are fetched by a third, or, where registers do not allow one, by the
// second.
#pragma once

#include "kernels/common/cuda/warpgroup.cuh"
#include "kernels/mdn/mdn_carry.cuh"

namespace assay::cuda {

/// Warps of a warpgroup: pairs of one that carries and one that reads out.
inline constexpr int kPairs = 4;

template <bool momentum, int K>
struct ScanMemory {
  static constexpr bool kHelpersFetch = momentum;
  static constexpr int kThreads = (kHelpersFetch ? 64 : 96) * kPairs;
  static constexpr int kStates = momentum ? 2 : 1;
  static constexpr int kRows = kChunk * K * 2, kValues = kChunk * 16 * kPairs * 2;
  static constexpr int kQ = 0, kK = kRows, kV = 2 * kRows, kRecord = kV + kValues;
  static constexpr int kStage = (kRecord + kRecordForward + 1023) / 1024 * 1024;
  static constexpr int kState = 16 * K * 2;  // of a pair
  static constexpr int kResidual = 16 * kChunk * 2;
  static constexpr int kOwn = 2 * kPairs * kStates * kState + kPairs * kResidual;
  static constexpr int kStages = 3 * kStage + kOwn + 2 * kChunk * 4 <= kMostSharedBytes ? 3 : 2;
  static constexpr int kStatesAt = kStages * kStage;  // [parity, pair, state]
  static constexpr int kResidualsAt = kStatesAt + 2 * kPairs * kStates * kState;
  static constexpr int kTokensAt = kStatesAt + kOwn;  // [parity, kChunk], of a table
  static constexpr int kBytes = kTokensAt + 2 * kChunk * 4;
  static_assert(kBytes <= kMostSharedBytes);
};

template <bool momentum, int K>
struct Scan : MdnWarp {
  using Memory = ScanMemory<momentum, K>;
  static constexpr bool kHelpersFetch = Memory::kHelpersFetch;
  static constexpr int kSuppliers = 32 * kPairs;

  using MdnWarp::MdnWarp;

  __device__ __forceinline__ MdnPlace chunk_place(std::int64_t chunk) const {
    MdnPlace at;
    const std::int64_t left = u.length - chunk * kChunk;
    at.sequence = u.sequence, at.batch = u.batch, at.first = u.first + chunk * kChunk;
    at.index = place(chunk), at.head = head;
    at.steps = left < kChunk ? static_cast<int>(left) : kChunk;
    return at;
  }
  __device__ __forceinline__ std::int64_t unit_rests() const {
    return (u.sequence * p.H + head) * kept_bytes(kChunk, p.V);
  }
  __device__ __forceinline__ char* stage(std::int64_t chunk) const {
    return memory + static_cast<unsigned>(chunk) % Memory::kStages * Memory::kStage;
  }
  __device__ __forceinline__ uint4* state(std::int64_t chunk, int which) const {
    return reinterpret_cast<uint4*>(memory + Memory::kStatesAt +
                                    (((chunk & 1) * kPairs + pair) * Memory::kStates + which) *
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

  /// out = S^T X^T for rows X [kChunk, K].
  __device__ __forceinline__ static void read(Columns<kChunk / 8>& out,
                                              const std::uint32_t (&a)[K / 16][4],
                                              const RowMatrix& x) {
    out.clear();
    group_begin();
#pragma unroll
    for (int step = 0; step < K / 16; ++step) group_multiply_transposed(out.x, a[step], x, step);
    group_end();
  }

  __device__ __forceinline__ static void read(Columns<kChunk / 8>& out, const Columns<K / 8>& s,
                                              const RowMatrix& x) {
    std::uint32_t a[K / 16][4];
#pragma unroll
    for (int step = 0; step < K / 16; ++step) s.operand(step, a[step]);
    read(out, a, x);
  }

  /// X^T L^T for a lower triangular L.
  __device__ __forceinline__ static void times_lower(Columns<kChunk / 8>& out,
                                                     const std::uint32_t (&a)[kChunk / 16][4],
                                                     const char* lower) {
    const auto block = [&](int row, int column) {
      return lower + triangle_block(row, column) * kBlockBytes;
    };
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      group_multiply_block<6>(out.x, a[c], block(3, c));
      if (c < 3) group_multiply_block<4>(out.x, a[c], block(2, c));
      if (c < 2) group_multiply_block<2>(out.x, a[c], block(1, c));
      if (c < 1) group_multiply_block<0>(out.x, a[c], block(0, c));
    }
  }

  __device__ __forceinline__ void carry() const {
    Columns<K / 8> S, M;
    const std::int64_t before = place_before(p, u);
    load_columns<K>(S, p.s0, before, head, v0, lane);
    publish(0, 0, S);
    if constexpr (momentum) {
      load_columns<K>(M, p.m0, before, head, v0, lane);
      publish(0, 1, M);
    }
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      __syncthreads();
      char* from = stage(chunk);
      const float* vectors =
          reinterpret_cast<const float*>(from + Memory::kRecord + kRecordVectors);
      std::uint32_t a[kChunk / 16][4];
      {
        Columns<kChunk / 8> of_S, of_M;
        read(of_S, S, RowMatrix{from + Memory::kK});
        if constexpr (momentum) read(of_M, M, RowMatrix{from + Memory::kK});
        const RowMatrix values{from + Memory::kV};
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
      group_begin();
      times_lower(R, a, from + Memory::kRecord + kRecordT);
      group_end();
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
      advance(S, M, R, RowMatrix{from + Memory::kK}, vectors);
      if (chunk + 1 < chunks) {
        publish(chunk + 1, 0, S);
        if constexpr (momentum) publish(chunk + 1, 1, M);
      }
    }
    const std::int64_t after = place_after(u);
    const Strided& to_s = u.closes ? p.s_final : p.s_marks;
    const Strided& to_m = u.closes ? p.m_final : p.m_marks;
    store_columns<K>(S, to_s, after, head, v0, lane);
    if constexpr (momentum) store_columns<K>(M, to_m, after, head, v0, lane);
  }

  __device__ __forceinline__ void advance(Columns<K / 8>& S, Columns<K / 8>& M,
                                          const Columns<kChunk / 8>& R, const RowMatrix& keys,
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
    std::uint32_t s[kChunk / 16][4], m[kChunk / 16][4];
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step) {
      R.operand_times(step, vectors + kWrite * kChunk, 1, lane, s[step]);
      if constexpr (momentum) {
        R.operand_times(step, vectors + kWriteMomentum * kChunk, stale ? 0.0f : -1.0f, lane,
                        m[step]);
      }
    }
    group_begin();
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step) {
      group_multiply_rows(S.x, s[step], keys, step);
      if constexpr (momentum) group_multiply_rows(M.x, m[step], keys, step);
    }
    group_end();
  }

  /// Chunks into shared memory, one after the other, by kSuppliers threads: those of the warps that
  /// read out, or, where registers allow more warps, by some of their own.
  struct Supply {
    MdnStream<K / 8, kSuppliers> q, k;
    MdnStream<2 * kPairs, kSuppliers> v;
    const char* record;
    unsigned thread;
    int held = 0;  // of a table: this thread's token of the next chunk to be fetched

    __device__ __forceinline__ explicit Supply(const Scan& s, unsigned number)
        : q(q_rows(s.p, s.u.batch, s.u.first, s.head), 0, number),
          k(k_rows(s.p, s.u.sequence, s.u.batch, s.u.first, s.head), 0, number),
          v(v_rows(s.p, s.u.sequence, s.u.batch, s.u.first, s.head), s.block_v0, number),
          record(s.f.records + s.place(0) * kRecordBytes),
          thread(number) {}
    __device__ __forceinline__ explicit Supply(const Scan& s)
        : Supply(s, threadIdx.x - (kHelpersFetch ? 32 : 64) * kPairs) {}

    /// Chunk after chunk, kStages - 1 before they are needed; beyond the last, nothing.
    __device__ __forceinline__ void start(const Scan& s) {
      const int* table = s.p.table.token ? s.p.table.token + s.u.first : nullptr;
      for (int chunk = 0; chunk < Memory::kStages - 1; ++chunk) {
        fetch(s, chunk, table ? table + chunk * kChunk : nullptr);
      }
      hold(s, Memory::kStages - 1);
    }
    /// Waits for a chunk, and for those who still read what the next to be fetched replaces.
    __device__ __forceinline__ void next(const Scan& s, std::int64_t chunk) {
      int* tokens = reinterpret_cast<int*>(s.memory + Memory::kTokensAt) + (chunk & 1) * kChunk;
      copy_wait<Memory::kStages - 2>();
      group_publish();
      if (s.p.table.token && thread < kChunk) tokens[thread] = held;
      __syncthreads();
      fetch(s, chunk + Memory::kStages - 1, s.p.table.token ? tokens : nullptr);
      hold(s, chunk + Memory::kStages);
    }

    __device__ __forceinline__ void hold(const Scan& s, std::int64_t chunk) {
      const std::int64_t t = chunk * kChunk + thread;
      if (s.p.table.token && thread < kChunk && t < s.u.length) {
        held = s.p.table.token[s.u.first + t];
      }
    }

    __device__ __forceinline__ void fetch(const Scan& s, std::int64_t chunk, const int* tokens) {
      if (chunk >= s.chunks) return copy_commit();
      const std::int64_t left = s.u.length - chunk * kChunk;
      const int steps = left < kChunk ? static_cast<int>(left) : kChunk;
      char* to = s.stage(chunk);
      q.copy(to + Memory::kQ, steps, tokens), k.copy(to + Memory::kK, steps, tokens);
      v.copy(to + Memory::kV, steps, tokens);
      copy_piece<kRecordForward, kSuppliers>(to + Memory::kRecord, record, thread);
      copy_commit();
      q.move(1), k.move(1), v.move(1);
      record += std::int64_t{s.p.H} * kRecordBytes;
    }
  };

  __device__ __forceinline__ void supply() const {
    Supply all(*this);
    all.start(*this);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) all.next(*this, chunk);
  }

  __device__ __forceinline__ void help() const {
    Supply supply(*this);
    if (kHelpersFetch) supply.start(*this);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      if (kHelpersFetch) {
        supply.next(*this, chunk);
      } else {
        __syncthreads();
      }
      char* from = stage(chunk);
      const float* vectors =
          reinterpret_cast<const float*>(from + Memory::kRecord + kRecordVectors);
      const MdnPlace at = chunk_place(chunk);
      Columns<kChunk / 8> of_S, of_M;
      const uint4* states[2] = {state(chunk, 0) + lane, state(chunk, momentum ? 1 : 0) + lane};
      char* kept = f.kept ? f.kept + at.index * Memory::kStates * kept_bytes(K, p.V) : nullptr;
      const auto read_state = [&](int which, Columns<kChunk / 8>& out) {
        std::uint32_t a[K / 16][4];
#pragma unroll
        for (int step = 0; step < K / 16; ++step) {
          const uint4 y = states[which][32 * step];
          a[step][0] = y.x, a[step][1] = y.y, a[step][2] = y.z, a[step][3] = y.w;
        }
        if (kept) {
          char* to = kept + which * kept_bytes(K, p.V) + (v0 / 8) * (K / 8) * kTileBytes;
#pragma unroll
          for (int step = 0; step < K / 16; ++step) keep_operand<K / 8>(to, step, a[step], lane);
        }
        read(out, a, RowMatrix{from + Memory::kQ});
      };
      read_state(0, of_S);
      if constexpr (momentum) read_state(1, of_M);
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
      group_begin();
      times_lower(of_S, r, from + Memory::kRecord + kRecordW);
      times_lower(of_S, r, from + Memory::kRecord + kRecordWLow);
      group_end();
      store_rows(of_S, at);
    }
  }

  __device__ __forceinline__ void store_rows(const Columns<kChunk / 8>& o,
                                             const MdnPlace& at) const {
    const int g = lane >> 2, i = lane & 3;
    if (!p.o.data) return;
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

}  // namespace assay::cuda

#define ASSAY_MDN_SCAN(name, momentum, K)                                                     \
  namespace assay::cuda {                                                                     \
  __global__ void __launch_bounds__((ScanMemory<momentum, K>::kThreads), 1) mdn_scan_kernel_  \
      ##name(const __grid_constant__ MdnFast f) {                                             \
    run_warps<Scan<momentum, K>, kPairs>(f);                                                  \
  }                                                                                           \
  cudaError_t mdn_scan_##name(const MdnFast& f, cudaStream_t stream) {                        \
    using Memory = ScanMemory<momentum, K>;                                                   \
    const dim3 grid(static_cast<unsigned>(f.p.units()),                                       \
                    static_cast<unsigned>(f.p.V / (16 * kPairs)));                            \
    return launch(mdn_scan_kernel_##name, grid, Memory::kThreads, Memory::kBytes, stream, f); \
  }                                                                                           \
  }
