// The chunk form with operands of fp32 on tensor cores. A number is two of tf32, of 11 bits and a
// sign each, which keep at least 23 of its 24 bits; the product of the two smaller parts, at most
// 2^-24 of the whole, is left out:
//
//   a b = a_high b_high + (a_high b_low + a_low b_high)
//
// The tensor cores truncate sums, always towards zero. They add up eight places at a time; what
// comes of it is added in fp32, to nearest.
#pragma once

#include "kernels/common/cuda/mma.cuh"
#include "kernels/mdn/mdn_carry.cuh"

namespace assay::cuda {

inline constexpr int kFullThreads = 256, kFullWarps = kFullThreads / 32;

/// Numbers of a fragment in two parts.
template <int count>
struct TwoParts {
  float high[count], low[count];

  /// To nearest, and what is left. The tensor cores take no notice of the 13 bits that tf32 does
  /// not have, so that the latter is not rounded. Of a NaN whose bits overflow here, it is still
  /// one.
  __device__ __forceinline__ void set(int e, float x) {
    high[e] = __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u);
    low[e] = x - high[e];
  }
  /// Operand A from its rows g and g + 8, operand B from its column, at two places.
  __device__ __forceinline__ void set(float2 upper, float2 lower) {
    set(0, upper.x), set(1, lower.x), set(2, upper.y), set(3, lower.y);
  }
  __device__ __forceinline__ void set(float2 x) { set(0, x.x), set(1, x.y); }
};

__device__ __forceinline__ void add_product(float (&c)[4], const TwoParts<4>& a,
                                            const TwoParts<2>& b) {
  float sum[4] = {};
  multiply_tf32(sum, a.low, b.high);
  multiply_tf32(sum, a.high, b.low);
  multiply_tf32(sum, a.high, b.high);
#pragma unroll
  for (int e = 0; e < 4; ++e) c[e] += sum[e];
}

/// Accumulators of a warp: (16 rows) x (8 columns) tiles, as in tensor.cuh.
template <int rows, int columns>
struct Tiles {
  float x[rows][columns][4] = {};

  /// This lane's numbers of A and B at eight places.
  struct Step {
    float2 left[rows][2], right[columns];

    template <class A, class B>
    __device__ __forceinline__ void load(int place, int lane, const A& a, const B& b) {
      const int g = lane >> 2;
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        left[r][0] = a(r, g, place), left[r][1] = a(r, g + 8, place);
      }
#pragma unroll
      for (int c = 0; c < columns; ++c) right[c] = b(c, g, place);
    }
  };
  __device__ __forceinline__ void multiply(const Step& step) {
    TwoParts<4> left[rows];
    TwoParts<2> right[columns];
#pragma unroll
    for (int r = 0; r < rows; ++r) left[r].set(step.left[r][0], step.left[r][1]);
#pragma unroll
    for (int c = 0; c < columns; ++c) right[c].set(step.right[c]);
#pragma unroll
    for (int r = 0; r < rows; ++r) {
#pragma unroll
      for (int c = 0; c < columns; ++c) add_product(x[r][c], left[r], right[c]);
    }
  }

  /// += A B over the places [begin, end), multiples of 16. a(tile, row, place) are the numbers of A
  /// at two places, b(tile, column, place) those of B. They are read two steps of eight places
  /// ahead.
  template <class A, class B>
  __device__ __forceinline__ void add(int begin, int end, int lane, const A& a, const B& b) {
    const int last = end - 16 + 2 * (lane & 3);
    Step steps[2];
    steps[0].load(begin + 2 * (lane & 3), lane, a, b);
    steps[1].load(begin + 8 + 2 * (lane & 3), lane, a, b);
    for (int place = begin + 2 * (lane & 3); place <= last; place += 16) {
      Step next[2];
      const int ahead = place < last ? place + 16 : last;
      next[0].load(ahead, lane, a, b), next[1].load(ahead + 8, lane, a, b);
      multiply(steps[0]), multiply(steps[1]);
      steps[0] = next[0], steps[1] = next[1];
    }
  }
};

/// A matrix in memory, lines of `pitch` numbers.
struct Lines {
  const float* at;
  int pitch;

  /// Places lie in a line each.
  __device__ __forceinline__ float2 along(int line, int place) const {
    return *reinterpret_cast<const float2*>(at + line * pitch + place);
  }
  /// Places are lines.
  __device__ __forceinline__ float2 across(int column, int place) const {
    const float* x = at + place * pitch + column;
    return make_float2(x[0], x[pitch]);
  }
};

/// Pitches without bank conflicts where a product reads most.
__host__ __device__ constexpr int row_pitch(int K) { return K + 8; }
inline constexpr int kSquarePitch = kChunk + 8;

/// Threads over the parts of lines, four numbers each: a power of two of them for a line of at most
/// 128 numbers, so that no thread divides.
template <int threads>
struct LineThreads {
  int shift, first, part;

  __device__ __forceinline__ explicit LineThreads(int width)
      : shift(width <= 16   ? 2
              : width <= 32 ? 3
              : width <= 64 ? 4
                            : 5),
        first(static_cast<int>(threadIdx.x) >> shift),
        part(4 * (static_cast<int>(threadIdx.x) & ((1 << shift) - 1))) {}
  /// each(line, first of four numbers)
  template <class Each>
  __device__ __forceinline__ void visit(int lines, int width, const Each& each) const {
    if (part >= width) return;
#pragma unroll 4
    for (int line = first; line < lines; line += threads >> shift) each(line, part);
  }
};

__device__ __forceinline__ void copy_four(float* to, const float* from) {
  copy_async(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(from), true);
}

/// Rows of a head, `width` numbers each, into lines of `pitch` and, without gaps, into `kept`, if
/// that is given; zeros after the chunk's end, or where there are no rows.
template <int threads>
__device__ __forceinline__ void load_lines(float* to, int pitch, const Strided& from,
                                           const MdnPlace& at, int width, float* kept = nullptr) {
  const char* base = from.data ? token_at(from, at.batch, at.first, at.head) : nullptr;
  const int unit = from.dtype == DType::f32 ? 4 : 2;
  const std::uint64_t start = reinterpret_cast<std::uintptr_t>(base) | from.time;
  const bool whole = from.column == unit && start % (4 * unit) == 0;  // four numbers at once
  LineThreads<threads>(width).visit(kChunk, width, [&](int t, int column) {
    const char* row = base + t * from.time + column * from.column;
    float4 y = {};
    if (base && t < at.steps) {
      if (whole && unit == 4) {
        y = *reinterpret_cast<const float4*>(row);
      } else if (whole) {
        const uint2 bits = *reinterpret_cast<const uint2*>(row);
        const float2 first = unpack_pair(bits.x, from.dtype),
                     other = unpack_pair(bits.y, from.dtype);
        y = make_float4(first.x, first.y, other.x, other.y);
      } else {
        y.x = load_element(row, from.dtype), y.y = load_element(row + from.column, from.dtype);
        y.z = load_element(row + 2 * from.column, from.dtype);
        y.w = load_element(row + 3 * from.column, from.dtype);
      }
    }
    *reinterpret_cast<float4*>(to + t * pitch + column) = y;
    if (kept) *reinterpret_cast<float4*>(kept + t * width + column) = y;
  });
}

/// [lines, width], without gaps, into lines of `pitch`.
__device__ __forceinline__ void fetch_lines(float* to, int pitch, const float* from, int lines,
                                            int width) {
  LineThreads<kFullThreads>(width).visit(lines, width, [&](int line, int column) {
    copy_four(to + line * pitch + column, from + line * width + column);
  });
}
/// The blocks of T or W on the diagonal and below it.
__device__ __forceinline__ void fetch_lower(float* to, const float* from) {
  LineThreads<kFullThreads>(kChunk).visit(kChunk, kChunk, [&](int line, int column) {
    if (column / 16 > line / 16) return;
    copy_four(to + line * kSquarePitch + column, from + line * kChunk + column);
  });
}
__device__ __forceinline__ void fetch_vectors(float* to, const float* from) {
  const int x = 4 * threadIdx.x;
  if (x < kVectorsBytes / 4) copy_four(to + x, from + x);
}

/// Where the rows of a tensor per token lie, or parts of its gradient.
struct FullRows {
  char* first;  // step 0 of the chunk
  std::int64_t time, column;
  DType dtype;

  __device__ __forceinline__ static FullRows of(const Strided& x, std::int64_t batch,
                                                std::int64_t t, int head) {
    return {x.data ? token_at(x, batch, t, head) : nullptr, x.time, x.column, x.dtype};
  }
  __device__ __forceinline__ static FullRows of(const MdnParams& p, const MdnSink& x,
                                                std::int64_t batch, std::int64_t t, int head) {
    if (!x.partial) return of(x.direct, batch, t, head);
    float* at = x.partial + ((batch * p.T + t) * p.H + head) * x.width;
    return {reinterpret_cast<char*>(at), std::int64_t{4} * p.H * x.width, 4, DType::f32};
  }
  __device__ __forceinline__ char* row(int t) const { return first + t * time; }
  __device__ __forceinline__ void store(char* row, int at, float x, float y) const {
    char* to = row + at * column;
    store_element(to, dtype, x), store_element(to + column, dtype, y);
  }
};

/// A state, or its cotangent, of a head: this block's columns of it in shared memory.
struct StateSlice {
  float* at;
  int K, V, v0, columns, pitch;

  __device__ __forceinline__ void load(const Strided& from, std::int64_t sequence, int head) const {
    const char* base = from.data ? state_at(from, sequence, head) : nullptr;
    for (int x = threadIdx.x; x < K * columns; x += kFullThreads) {
      const int row = x / columns, column = x - row * columns;
      const bool there = base && v0 + column < V;
      at[row * pitch + column] =
          there ? load_element(base + row * from.row + (v0 + column) * from.column, from.dtype)
                : 0.0f;
    }
  }
  __device__ __forceinline__ void store(const Strided& to, std::int64_t sequence, int head) const {
    if (!to.data) return;
    char* base = state_at(to, sequence, head);
    for (int x = threadIdx.x; x < K * columns; x += kFullThreads) {
      const int row = x / columns, column = x - row * columns;
      if (v0 + column >= V) continue;
      store_element(base + row * to.row + (v0 + column) * to.column, to.dtype,
                    at[row * pitch + column]);
    }
  }
  /// Into [K, V] of fp32.
  __device__ __forceinline__ void keep(float* to) const {
    LineThreads<kFullThreads>(columns).visit(K, columns, [&](int row, int column) {
      if (v0 + column >= V) return;
      *reinterpret_cast<float4*>(to + row * V + v0 + column) =
          *reinterpret_cast<const float4*>(at + row * pitch + column);
    });
  }
};

/// What a block of `scan` or `reverse` has: 16 x `tiles` columns of V of a head of a sequence; a
/// warp of it, 16 steps and half of the columns. `states`: S alone, or S and M.
template <int tiles, int states>
struct FullBlock {
  static constexpr int kColumns = 16 * tiles, kPitch = kColumns + 4;

  const MdnFast& f;
  const MdnParams& p;
  MdnSegment u;
  int head, v0, lane, warp, row0, column0;
  std::int64_t chunks;
  float *S, *M, *q, *k, *spare, *x, *T, *W, *vectors;

  __device__ __forceinline__ FullBlock(const MdnFast& fast, char* memory)
      : f(fast),
        p(fast.p),
        u(segment_of(p, blockIdx.x / static_cast<unsigned>(p.H))),
        head(static_cast<int>(blockIdx.x % static_cast<unsigned>(p.H))),
        v0(static_cast<int>(blockIdx.y) * kColumns),
        lane(static_cast<int>(threadIdx.x & 31)),
        // The same in all lanes, as the compiler can tell.
        warp(__shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x >> 5), 0)),
        row0(16 * (warp & 3)),
        column0(8 * tiles * (warp >> 2)),
        chunks((u.length + kChunk - 1) / kChunk) {
    float* at = reinterpret_cast<float*>(memory);
    const auto take = [&](int count) {
      float* from = at;
      at += count;
      return from;
    };
    vectors = take(2 * kVectorsBytes / 4);
    S = take(p.K * kPitch);
    M = S + p.K * kPitch;
    at += (states - 1) * p.K * kPitch;
    q = take(kChunk * row_pitch(p.K)), k = take(kChunk * row_pitch(p.K));
    spare = take(kChunk * spare_pitch(p.K)), x = take(kChunk * kPitch);
    T = take(kChunk * kSquarePitch), W = take(kChunk * kSquarePitch);
  }
  /// Of the next chunk's keys, or of d_O.
  __host__ __device__ static constexpr int spare_pitch(int K) {
    return row_pitch(K) > kPitch ? row_pitch(K) : kPitch;
  }
  static int bytes(const MdnParams& p) {
    const int lines = 2 * row_pitch(p.K) + spare_pitch(p.K) + kPitch + 2 * kSquarePitch;
    return 4 * (2 * kVectorsBytes / 4 + states * p.K * kPitch + kChunk * lines);
  }

  __device__ __forceinline__ std::int64_t place(std::int64_t chunk) const {
    return (u.first_slot + chunk) * p.H + head;
  }
  __device__ __forceinline__ const float* record(std::int64_t chunk) const {
    return vectors_of(f, place(chunk));
  }
  __device__ __forceinline__ const float* rows(std::int64_t chunk, int which) const {
    return f.rows + (2 * place(chunk) + which) * kChunk * p.K;
  }
  __device__ __forceinline__ float* kept(char* all, std::int64_t chunk, int which) const {
    return reinterpret_cast<float*>(all) + (place(chunk) * states + which) * p.K * p.V;
  }
  __device__ __forceinline__ float* residual(char* all, std::int64_t chunk) const {
    return reinterpret_cast<float*>(all) + place(chunk) * kChunk * p.V;
  }
  __device__ __forceinline__ int steps(std::int64_t chunk) const {
    const std::int64_t left = u.length - chunk * kChunk;
    return left < kChunk ? static_cast<int>(left) : kChunk;
  }
  __device__ __forceinline__ StateSlice slice(float* of) const {
    return {of, p.K, p.V, v0, kColumns, kPitch};
  }

  /// This warp's rows of L Y, for a lower triangular L.
  __device__ __forceinline__ void add_lower(Tiles<1, tiles>& out, const float* lower,
                                            const float* y) const {
    const Lines left{lower + row0 * kSquarePitch, kSquarePitch}, right{y + column0, kPitch};
    out.add(
        0, row0 + 16, lane, [&](int, int row, int place) { return left.along(row, place); },
        [&](int c, int column, int place) { return right.across(8 * c + column, place); });
  }
  /// The same of L^T Y.
  __device__ __forceinline__ void add_upper(Tiles<1, tiles>& out, const float* lower,
                                            const float* y) const {
    const Lines left{lower + row0, kSquarePitch}, right{y + column0, kPitch};
    out.add(
        row0, kChunk, lane, [&](int, int row, int place) { return left.across(row, place); },
        [&](int c, int column, int place) { return right.across(8 * c + column, place); });
  }
  /// out += factor[step] x, for tiles of this warp's steps.
  template <class Out, class X>
  __device__ __forceinline__ void add_scaled(Out& out, const X& x, const float* factor,
                                             float sign) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float y = sign * factor[row0 + (lane >> 2) + 8 * (e >> 1)];
#pragma unroll
      for (int n = 0; n < tiles; ++n) out[n][e] = fmaf(y, x[n][e], out[n][e]);
    }
  }
  /// This warp's numbers, two columns at a time: each(step, tile, half of it, column of the block).
  template <class Each>
  __device__ __forceinline__ void visit(const Each& each) const {
    const int g = lane >> 2, i = lane & 3;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int n = 0; n < tiles; ++n) {
        each(row0 + 8 * half + g, n, half, column0 + 8 * n + 2 * i);
      }
    }
  }
  /// Zeros after the chunk's end, and beyond V.
  __device__ __forceinline__ void load(Tiles<1, tiles>& to, const Strided& from,
                                       std::int64_t chunk) const {
    const FullRows rows = FullRows::of(from, u.batch, u.first + chunk * kChunk, head);
    if (!rows.first) return;
    const int steps = this->steps(chunk);
    visit([&](int step, int n, int half, int column) {
      if (step >= steps || v0 + column >= p.V) return;
      const char* at = rows.row(step) + (v0 + column) * rows.column;
      to.x[0][n][2 * half] = load_element(at, rows.dtype);
      to.x[0][n][2 * half + 1] = load_element(at + rows.column, rows.dtype);
    });
  }
  __device__ __forceinline__ void store(const FullRows& to, const Tiles<1, tiles>& from,
                                        std::int64_t chunk) const {
    if (!to.first) return;
    const int steps = this->steps(chunk);
    visit([&](int step, int n, int half, int column) {
      if (step >= steps || v0 + column >= p.V) return;
      const float* x = from.x[0][n] + 2 * half;
      to.store(to.row(step), v0 + column, x[0], x[1]);
    });
  }
  __device__ __forceinline__ void put(const Tiles<1, tiles>& from, float* to) const {
    visit([&](int step, int n, int half, int column) {
      const float* x = from.x[0][n] + 2 * half;
      *reinterpret_cast<float2*>(to + step * kPitch + column) = make_float2(x[0], x[1]);
    });
  }
  __device__ __forceinline__ void keep(const Tiles<1, tiles>& from, float* to) const {
    visit([&](int step, int n, int half, int column) {
      if (v0 + column >= p.V) return;
      const float* x = from.x[0][n] + 2 * half;
      *reinterpret_cast<float2*>(to + step * p.V + v0 + column) = make_float2(x[0], x[1]);
    });
  }

  /// For each of this warp's parts of a state, 16 rows and half of the block's columns:
  /// add(sums, first row, first column), then each(a number's place, sum for S, sum for M).
  template <class Add, class Each>
  __device__ __forceinline__ void over_states(const Add& add, const Each& each) const {
    const int g = lane >> 2, i = lane & 3;
    for (int part = warp; part < p.K / 8; part += kFullWarps) {
      const int row = 16 * (part >> 1), column = 8 * tiles * (part & 1);
      Tiles<states, tiles> sum;
      add(sum, row, column);
#pragma unroll
      for (int n = 0; n < tiles; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int at = (row + g + 8 * (e >> 1)) * kPitch + column + 8 * n + 2 * i + (e & 1);
          each(at, sum.x[0][n][e], sum.x[states - 1][n][e]);
        }
      }
    }
  }
};

}  // namespace assay::cuda
