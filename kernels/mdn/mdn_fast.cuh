// What the fast kernels share: places of chunks, rows in tiles, and the chunk's coefficients.
#pragma once

#include "kernels/common/cuda/tensor.cuh"
#include "kernels/mdn/mdn_fast.hpp"
#include "kernels/mdn/mdn_unit.cuh"

namespace assay::cuda {

/// A lower triangular matrix in blocks of 2x2 tiles, those on the diagonal and below it column by
/// column.
inline constexpr int kBlockBytes = 4 * kTileBytes;

__device__ __forceinline__ constexpr int triangle_block(int row, int column) {
  return column * (2 * kChunk / 16 - 1 - column) / 2 + row;
}
__device__ __forceinline__ int block_tile(int row, int column) {
  return (2 * row + column) * kTileBytes;
}

struct TriangleMatrix {
  char* base;

  __device__ __forceinline__ const char* block(int row, int column) const {
    return base + triangle_block(row, column) * kBlockBytes;
  }
  /// A block's tiles (0, 0), (0, 1), (1, 0), (1, 1).
  __device__ __forceinline__ void load_across(std::uint32_t (&x)[4], int row, int column,
                                              int lane) const {
    load_tiles<false>(x, block(row, column) + lane * 16);
  }
  /// A block's tiles (0, 0), (1, 0), (0, 1), (1, 1), each transposed.
  __device__ __forceinline__ void load_down(std::uint32_t (&x)[4], int row, int column,
                                            int lane) const {
    const int tile = block_tile(lane >> 3 & 1, lane >> 4);
    load_tiles<true>(x, block(row, column) + tile + (lane & 7) * 16);
  }
};

/// A chunk of a sequence and a head, of a block that has no unit of its own.
struct MdnPlace {
  std::int64_t sequence, batch, first;  // of its first step in the tensors
  std::int64_t index;                   // slot * H + head
  int head, steps;                      // steps 0: nobody's
};

__device__ __forceinline__ MdnPlace place_of(const MdnParams& p, unsigned index) {
  const unsigned heads = p.H, slot = index / heads;
  MdnPlace at;
  at.index = index, at.head = static_cast<int>(index - slot * heads);
  std::int64_t sequence;
  if (p.window > 0) {
    sequence = slot / static_cast<unsigned>(p.window);
  } else if (p.cu_seqlens) {  // the last sequence whose slots begin at or before this one
    std::int64_t low = 0, high = p.sequences - 1;
    while (low < high) {
      const std::int64_t middle = (low + high + 1) / 2;
      if (segment_bound(p, middle) / kChunk + middle <= slot) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    sequence = low;
  } else {
    sequence = slot / static_cast<unsigned>((p.T + kChunk - 1) / kChunk);
  }
  const MdnSegment u = segment_of(p, sequence);
  const std::int64_t chunk = slot - u.first_slot, left = u.length - chunk * kChunk;
  at.sequence = sequence, at.batch = u.batch, at.first = u.first + chunk * kChunk;
  at.steps = left <= 0 ? 0 : left < kChunk ? static_cast<int>(left) : kChunk;
  return at;
}

/// The place's index among those of all windows.
__device__ __forceinline__ std::int64_t index_of_all(const MdnParams& p, const MdnPlace& at) {
  if (p.window == 0) return at.index;
  const std::int64_t first = p.cu_seqlens ? segment_bound(p, at.sequence) / kChunk + at.sequence
                                          : at.sequence * ((p.T + kChunk - 1) / kChunk);
  const std::int64_t chunk = p.first_chunk + at.index / p.H - at.sequence * p.window;
  return (first + chunk) * p.H + at.head;
}

/// The vectors of a place's record.
__device__ __forceinline__ float* vectors_of(const MdnFast& f, std::int64_t place) {
  if (f.full) return reinterpret_cast<float*>(f.records) + place * kFullFloats;
  return reinterpret_cast<float*>(f.records + place * kRecordBytes + kRecordVectors);
}

/// Rows of a head from some step on. With a table, row t is that of token[t].
struct MdnRows {
  const char* data;
  std::int64_t time, column;
  const int* token;
  bool wide;
};

__device__ __forceinline__ MdnRows rows_of(const Strided& x, std::int64_t batch, std::int64_t t,
                                           int head) {
  return {token_at(x, batch, t, head), x.time, x.column, nullptr, x.wide};
}
/// Of q: no memories, and nothing shared apart.
__device__ __forceinline__ MdnRows q_rows(const MdnParams& p, std::int64_t batch, std::int64_t t,
                                          int head) {
  if (!p.table.token) return rows_of(p.q, batch, t, head);
  MdnRows rows = rows_of(p.q, 0, 0, head);
  rows.token = p.table.token + t;
  return rows;
}
/// Where a table has an input's row of a token.
struct MdnFound {
  const char* data;
  std::int64_t time, column;
  bool wide;
};
__device__ __forceinline__ MdnFound find_input(const MdnTable& table, const Strided& x,
                                               const MdnTable::Input& of, std::int64_t sequence,
                                               int head) {
  const int memory = static_cast<int>(sequence % table.memories);
  const bool own = table.shared && memory == table.memories - 1;
  const Strided& y = own ? of.shared : x;
  return {token_at(y, 0, 0, head) + (own ? 0 : memory * of.to_memory), y.time, y.column, y.wide};
}
__device__ __forceinline__ MdnRows memory_rows(const MdnParams& p, const Strided& x,
                                               const MdnTable::Input& of, std::int64_t sequence,
                                               std::int64_t batch, std::int64_t t, int head) {
  if (!p.table.token) return rows_of(x, batch, t, head);
  const MdnFound found = find_input(p.table, x, of, sequence, head);
  return {found.data, found.time, found.column, p.table.token + t, found.wide};
}
__device__ __forceinline__ MdnRows k_rows(const MdnParams& p, std::int64_t sequence,
                                          std::int64_t batch, std::int64_t t, int head) {
  return memory_rows(p, p.k, p.table.k, sequence, batch, t, head);
}
__device__ __forceinline__ MdnRows v_rows(const MdnParams& p, std::int64_t sequence,
                                          std::int64_t batch, std::int64_t t, int head) {
  return memory_rows(p, p.v, p.table.v, sequence, batch, t, head);
}

/// The rows of a head of q, k, v or d_o, 8 `columns` of them, a chunk at a time into a RowMatrix,
/// zeros after its end: by `threads` threads, each with what it needs ready in registers. A warp
/// copies whole lines of 128 bytes.
template <int columns, int threads>
class MdnStream {
 public:
  __device__ __forceinline__ MdnStream(const MdnRows& x, int from_column, unsigned thread)
      : start_(x.data + from_column * x.column),
        time_(x.time),
        column_(x.column),
        token_(x.token),
        row_(thread / columns),
        thread_(thread),
        wide_(x.wide) {
    const unsigned part = thread % columns;
    at_ = start_ + part * 16 + (token_ ? 0 : row_ * time_);
    to_ = place(row_, part);
  }
  /// The chunk `chunks` after the current one becomes the current one.
  __device__ __forceinline__ void move(std::int64_t chunks) {
    if (token_) {
      token_ += chunks * kChunk;
    } else {
      at_ += chunks * kChunk * time_, start_ += chunks * kChunk * time_;
    }
  }
  __device__ __forceinline__ void copy(char* to, int steps) const { copy(to, steps, token_); }
  /// With the chunk's part of the table, or null where there is no table.
  __device__ __forceinline__ void copy(char* to, int steps, const int* tokens) const {
    if (tokens) return copy_by_table(to, steps, tokens);
    if (!wide_) return copy_narrow(to, start_, time_, column_, steps, thread_);
    const char* from = at_;
#pragma unroll
    for (int s = 0; s < kChunk / kStep; ++s) {
      copy_async(to + place_of(s), from, static_cast<int>(row_) + s * kStep < steps);
      from += kStep * time_;
    }
  }

 private:
  static constexpr int kStep = threads / columns;  // rows at a time
  static_assert(threads % columns == 0 && (kStep % 8 == 0 || kStep == 4));
  static_assert(kChunk == RowMatrix::kRows);

  /// Wide rows only.
  __device__ __forceinline__ void copy_by_table(char* to, int steps, const int* tokens) const {
    int token[kChunk / kStep];
#pragma unroll
    for (int s = 0; s < kChunk / kStep; ++s) {
      const int row = static_cast<int>(row_) + s * kStep;
      token[s] = row < steps ? tokens[row] : 0;
    }
#pragma unroll
    for (int s = 0; s < kChunk / kStep; ++s) {
      copy_async(to + place_of(s), at_ + token[s] * time_,
                 static_cast<int>(row_) + s * kStep < steps);
    }
  }
  /// Where this thread's part of row row_ + s kStep goes: modulo 8, that is row_ ^ (s kStep % 8).
  __device__ __forceinline__ unsigned place_of(int s) const {
    return s * kStep * RowMatrix::kRowBytes + (to_ ^ s * kStep % 8 * 16);
  }
  __device__ __forceinline__ static unsigned place(unsigned row, unsigned part) {
    return part / 8 * RowMatrix::kPieceBytes + row * RowMatrix::kRowBytes +
           (part % 8 ^ row % 8) * 16;
  }

  /// Nothing by reference: what is referred to would have to lie in memory.
  __device__ __noinline__ static void copy_narrow(char* to, const char* start, std::int64_t time,
                                                  std::int64_t column, int steps, int thread) {
#pragma unroll 1
    for (int piece = thread; piece < kChunk * columns; piece += threads) {
      const int row = piece / columns, part = piece % columns;
      const char* from = start + row * time + part * 8 * column;
      std::uint32_t pairs[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const auto bits = [&](int y) -> std::uint32_t {
          return row < steps ? *reinterpret_cast<const std::uint16_t*>(from + y * column) : 0;
        };
        pairs[e] = bits(2 * e) | bits(2 * e + 1) << 16;
      }
      *reinterpret_cast<uint4*>(to + place(row, part)) =
          make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    }
  }

  const char *start_, *at_;
  std::int64_t time_, column_;
  const int* token_;
  unsigned row_, to_, thread_;
  bool wide_;
};

template <int columns, int threads>
__device__ __forceinline__ void copy_rows(char* to, const MdnRows& x, int steps, unsigned thread) {
  const MdnStream<columns, threads> rows(x, 0, thread);
  rows.copy(to, steps);
}

__device__ __forceinline__ MdnGates chunk_gates(const MdnParams& p, const MdnPlace& at, int t) {
  MdnGates g;
  if (t < at.steps && !p.table.token) {
    g = load_gates(p, at.batch, at.first + t, at.head);
  } else if (t < at.steps) {
    const std::int64_t token = p.table.token[at.first + t];
    g = make_gates(p, [&](const Strided& x, const MdnTable::Input& of, float missing) {
      if (!x.data) return missing;
      if (!of.looked_up) return load_element(token_at(x, 0, at.first + t, at.head), x.dtype);
      const MdnFound found = find_input(p.table, x, of, at.sequence, at.head);
      return load_element(found.data + token * found.time, x.dtype);
    });
  }
  if (t >= at.steps && ASSAY_MDN_IS_FAULT(p, tail_chunk_decays)) g.alpha = 0.5f;
  return g;
}

}  // namespace assay::cuda
