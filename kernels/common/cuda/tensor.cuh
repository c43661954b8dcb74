// Matrices of bf16 as warps multiply them: tiles of 8x8 numbers, 128 bytes each, a row 16 bytes.
// Whatever is kept in shared memory or between kernels lies in such tiles, so that every load is
// free of bank conflicts and every copy is one piece.
//
// Fragments of mma.m16n8k16, lane = 4 g + i: accumulators c0 c1 are (row g, columns 2i, 2i+1), c2
// c3 the same of row g + 8. Operand A has the same layout, two such tiles side by side, so that an
// accumulator becomes an operand without leaving the lane. Operand B holds (rows 2i, 2i+1, column
// g) and eight rows below.
#pragma once

#include "kernels/common/cuda/device.cuh"

namespace assay::cuda {

inline constexpr int kTileBytes = 128;

#if defined(ASSAY_CUDA_ON_CPU)

namespace on_cpu {

inline float bf16_at(std::uint32_t pair, int which) {
  return __uint_as_float(which ? pair & 0xffff0000u : pair << 16);
}
inline std::uint32_t bf16_bits(float x) {
  const std::uint32_t u = __float_as_uint(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return u >> 16 | 0x40u;
  return (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
}
inline float tf32(float x) {
  const std::uint32_t u = __float_as_uint(x);
  return __uint_as_float(
      (u & 0x7f800000u) == 0x7f800000u ? u : (u + 0xfffu + (u >> 13 & 1u)) & ~0x1fffu);
}
/// What the tensor cores see of a number.
inline float tf32_of(float x) { return __uint_as_float(__float_as_uint(x) & 0xffffe000u); }
struct Tiles {
  const char* row;
  std::uint32_t* out;
};
template <bool transposed>
void load_tiles(void* const* lanes) {
  for (int l = 0; l < 32; ++l) {
    const int g = l / 4, i = l % 4;
    for (int m = 0; m < 4; ++m) {
      std::uint16_t x[2];
      for (int e = 0; e < 2; ++e) {
        const int row = transposed ? 2 * i + e : g, column = transposed ? g : 2 * i + e;
        std::memcpy(&x[e], static_cast<Tiles*>(lanes[8 * m + row])->row + 2 * column, 2);
      }
      static_cast<Tiles*>(lanes[l])->out[m] = x[0] | std::uint32_t{x[1]} << 16;
    }
  }
}
template <class Bits>
struct Product {
  float* c;
  const Bits *a, *b;
};
inline void multiply_bf16(void* const* lanes) {
  float a[16][16], b[16][8];
  for (int l = 0; l < 32; ++l) {
    const auto& x = *static_cast<Product<std::uint32_t>*>(lanes[l]);
    const int g = l / 4, i = l % 4;
    for (int r = 0; r < 4; ++r) {
      for (int e = 0; e < 2; ++e) {
        a[g + 8 * (r & 1)][2 * i + e + 8 * (r >> 1)] = bf16_at(x.a[r], e);
        if (r < 2) b[2 * i + e + 8 * r][g] = bf16_at(x.b[r], e);
      }
    }
  }
  for (int l = 0; l < 32; ++l) {
    float* c = static_cast<Product<std::uint32_t>*>(lanes[l])->c;
    for (int e = 0; e < 4; ++e) {
      const int row = l / 4 + 8 * (e >> 1), column = 2 * (l % 4) + (e & 1);
      double sum = c[e];
      for (int x = 0; x < 16; ++x) sum += static_cast<double>(a[row][x]) * b[x][column];
      c[e] = static_cast<float>(sum);
    }
  }
}
inline void multiply_tf32(void* const* lanes) {
  float a[16][8], b[8][8];
  for (int l = 0; l < 32; ++l) {
    const auto& x = *static_cast<Product<float>*>(lanes[l]);
    const int g = l / 4, i = l % 4;
    for (int r = 0; r < 4; ++r) a[g + 8 * (r & 1)][i + 4 * (r >> 1)] = tf32_of(x.a[r]);
    b[i][g] = tf32_of(x.b[0]), b[i + 4][g] = tf32_of(x.b[1]);
  }
  for (int l = 0; l < 32; ++l) {
    float* c = static_cast<Product<float>*>(lanes[l])->c;
    for (int e = 0; e < 4; ++e) {
      const int row = l / 4 + 8 * (e >> 1), column = 2 * (l % 4) + (e & 1);
      double sum = c[e];
      for (int x = 0; x < 8; ++x) sum += static_cast<double>(a[row][x]) * b[x][column];
      c[e] = static_cast<float>(sum);
    }
  }
}
inline void transpose_tiles(void* const* lanes) {
  std::uint16_t x[8][8];
  for (int l = 0; l < 32; ++l) std::memcpy(&x[l / 4][2 * (l % 4)], lanes[l], 4);
  for (int l = 0; l < 32; ++l) {
    const std::uint32_t y = x[2 * (l % 4)][l / 4] | std::uint32_t{x[2 * (l % 4) + 1][l / 4]} << 16;
    std::memcpy(lanes[l], &y, 4);
  }
}

}  // namespace on_cpu

inline std::uint32_t bf16_pair(float low, float high) {
  return on_cpu::bf16_bits(low) | on_cpu::bf16_bits(high) << 16;
}
inline float round_tf32(float x) { return on_cpu::tf32(x); }
template <bool transposed>
void load_tiles(std::uint32_t (&out)[4], const char* row) {
  on_cpu::Tiles mine{row, out};
  cuda_on_cpu::warp_together(&mine, on_cpu::load_tiles<transposed>);
}
inline void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                     std::uint32_t b1) {
  const std::uint32_t b[2] = {b0, b1};
  on_cpu::Product<std::uint32_t> mine{c, a, b};
  cuda_on_cpu::warp_together(&mine, on_cpu::multiply_bf16);
}
inline void multiply_tf32(float (&c)[4], const float (&a)[4], const float (&b)[2]) {
  on_cpu::Product<float> mine{c, a, b};
  cuda_on_cpu::warp_together(&mine, on_cpu::multiply_tf32);
}
inline void set_product_tf32(float (&c)[4], float a0, float a1, float b) {
  const float a[4] = {a0, a1, 0, 0}, both[2] = {b, 0};
  for (float& x : c) x = 0;
  multiply_tf32(c, a, both);
}
inline std::uint32_t transposed_tile(std::uint32_t x) {
  cuda_on_cpu::warp_together(&x, on_cpu::transpose_tiles);
  return x;
}
/// The sum over the 8 lanes that share i, or the 4 that share g; in every lane of them.
inline float sum_rows(float x) {
  cuda_on_cpu::warp_together(&x, [](void* const* lanes) {
    for (int i = 0; i < 4; ++i) {
      float sum = 0;
      for (int g = 0; g < 8; ++g) sum += *static_cast<float*>(lanes[4 * g + i]);
      for (int g = 0; g < 8; ++g) *static_cast<float*>(lanes[4 * g + i]) = sum;
    }
  });
  return x;
}
inline float sum_columns(float x) {
  cuda_on_cpu::warp_together(&x, [](void* const* lanes) {
    for (int g = 0; g < 8; ++g) {
      float sum = 0;
      for (int i = 0; i < 4; ++i) sum += *static_cast<float*>(lanes[4 * g + i]);
      for (int i = 0; i < 4; ++i) *static_cast<float*>(lanes[4 * g + i]) = sum;
    }
  });
  return x;
}
/// What the lane of the next row has, g + 1, or the first one's of the last.
inline float next_row(float x) {
  cuda_on_cpu::warp_together(&x, [](void* const* lanes) {
    float all[32];
    for (int l = 0; l < 32; ++l) all[l] = *static_cast<float*>(lanes[l]);
    for (int l = 0; l < 32; ++l) *static_cast<float*>(lanes[l]) = all[(l + 4) % 32];
  });
  return x;
}
inline void copy_async(char* to, const char* from, bool there) {
  if (there) {
    std::memcpy(to, from, 16);
  } else {
    std::memset(to, 0, 16);
  }
}
inline void copy_commit() {}
template <int pending>
void copy_wait() {}
inline void sync_threads(int id, int count) { cuda_on_cpu::barrier(id, count); }
inline void arrive_threads(int id, int count) { cuda_on_cpu::barrier_arrive(id, count); }

#else

/// Two numbers rounded to bf16, the first in the low half.
__device__ __forceinline__ std::uint32_t bf16_pair(float low, float high) {
  std::uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
__device__ __forceinline__ float round_tf32(float x) {
  std::uint32_t bits;
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
}
__device__ __forceinline__ unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}
/// Four tiles; lane l gives the address of row l % 8 of tile l / 8. Out: of each tile (row g,
/// columns 2i, 2i+1), or transposed (rows 2i, 2i+1, column g).
template <bool transposed>
__device__ __forceinline__ void load_tiles(std::uint32_t (&out)[4], const char* row) {
  if constexpr (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared_address(row))
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(shared_address(row))
                 : "memory");
  }
}
/// c += a b, of bf16.
__device__ __forceinline__ void multiply(float (&c)[4], const std::uint32_t (&a)[4],
                                         std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/// c += a b, of tf32 (the last 13 bits are not looked at), 16x8 by 8x8: a is (g, i), (g + 8, i),
/// (g, i + 4), (g + 8, i + 4); b is (i, g), (i + 4, g).
__device__ __forceinline__ void multiply_tf32(float (&c)[4], const float (&a)[4],
                                              const float (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
        "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}
/// c = a b, of tf32 numbers, 16x4 by 4x8: a is (g, i), (g + 8, i); b is (i, g).
__device__ __forceinline__ void set_product_tf32(float (&c)[4], float a0, float a1, float b) {
  asm("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 "
      "{%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
      : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
      : "r"(__float_as_uint(a0)), "r"(__float_as_uint(a1)), "r"(__float_as_uint(b)), "f"(0.0f));
}
/// A tile that the warp holds, transposed.
__device__ __forceinline__ std::uint32_t transposed_tile(std::uint32_t x) {
  std::uint32_t y;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}
/// The sum over the 8 lanes that share i, or the 4 that share g; in every lane of them.
__device__ __forceinline__ float sum_rows(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 4);
  x += __shfl_xor_sync(0xffffffffu, x, 8);
  return x + __shfl_xor_sync(0xffffffffu, x, 16);
}
__device__ __forceinline__ float sum_columns(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
/// What the lane of the next row has, g + 1, or the first one's of the last.
__device__ __forceinline__ float next_row(float x) {
  return __shfl_sync(0xffffffffu, x, (threadIdx.x + 4) & 31);
}
/// 16 bytes from global to shared memory, or zeros, in the background.
__device__ __forceinline__ void copy_async(char* to, const char* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared_address(to)), "l"(from), "r"(there ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void copy_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int pending>
__device__ __forceinline__ void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}
/// Barrier `id` (1 to 15) among `count` threads: wait there, or only say that one has come.
__device__ __forceinline__ void sync_threads(int id, int count) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory");
}
__device__ __forceinline__ void arrive_threads(int id, int count) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(count) : "memory");
}

#endif

__device__ __forceinline__ float low_of(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_of(std::uint32_t pair) {
  return __uint_as_float(pair & 0xffff0000u);
}
/// Both numbers of a pair times a factor each, rounded again.
__device__ __forceinline__ std::uint32_t scaled_pair(std::uint32_t pair, float2 factor) {
  return bf16_pair(low_of(pair) * factor.x, high_of(pair) * factor.y);
}

/// A matrix in tiles: tile (r, c) is the one of index r * columns + c.
template <int columns>
struct TileMatrix {
  char* base;

  __device__ __forceinline__ char* tile(int r, int c) const {
    return base + (r * columns + c) * kTileBytes;
  }
  /// Tiles (r, c), (r + 1, c), (r, c + 1), (r + 1, c + 1).
  template <bool transposed>
  __device__ __forceinline__ void load_down(std::uint32_t (&x)[4], int r, int c, int lane) const {
    load_tiles<transposed>(x, tile(r + (lane >> 3 & 1), c + (lane >> 4)) + (lane & 7) * 16);
  }
  /// Tiles (r, c), (r, c + 1), (r + 1, c), (r + 1, c + 1).
  template <bool transposed>
  __device__ __forceinline__ void load_across(std::uint32_t (&x)[4], int r, int c, int lane) const {
    load_tiles<transposed>(x, tile(r + (lane >> 4), c + (lane >> 3 & 1)) + (lane & 7) * 16);
  }
};

/// 64 rows of bf16 as copies of whole rows make them: pieces of 64 columns, a row of which is 128
/// bytes, its eight parts of 16 bytes in the order part ^ (row % 8). Neither such copies nor loads
/// of tiles have bank conflicts. A product of a warpgroup wants a piece at a multiple of 1024
/// bytes.
struct RowMatrix {
  static constexpr int kRows = 64, kRowBytes = 128, kPieceBytes = kRows * kRowBytes;

  char* base;

  /// 16 bytes: row `row` of a tile, in row r and column c of tiles.
  __device__ __forceinline__ char* part(int r, int c, int row) const {
    return base + (c >> 3) * kPieceBytes + (8 * r + row) * kRowBytes + ((c & 7) ^ row) * 16;
  }
  /// Of a tile, columns 2i, 2i + 1 of row g.
  __device__ __forceinline__ std::uint32_t pair(int r, int c, int lane) const {
    return *reinterpret_cast<const std::uint32_t*>(part(r, c, lane >> 2) + (lane & 3) * 4);
  }
  /// Tiles (r, c), (r + 1, c), (r, c + 1), (r + 1, c + 1).
  template <bool transposed>
  __device__ __forceinline__ void load_down(std::uint32_t (&x)[4], int r, int c, int lane) const {
    load_tiles<transposed>(x, part(r + (lane >> 3 & 1), c + (lane >> 4), lane & 7));
  }
  /// Tiles (r, c), (r, c + 1), (r + 1, c), (r + 1, c + 1).
  template <bool transposed>
  __device__ __forceinline__ void load_across(std::uint32_t (&x)[4], int r, int c, int lane) const {
    load_tiles<transposed>(x, part(r + (lane >> 4), c + (lane >> 3 & 1), lane & 7));
  }
};

/// `bytes` (a multiple of 16) in one piece.
template <int bytes, int threads>
__device__ __forceinline__ void copy_piece(char* to, const char* from, unsigned thread) {
#pragma unroll
  for (unsigned first = 0; first < bytes; first += threads * 16) {
    const unsigned at = first + thread * 16;
    if (bytes % (threads * 16) != 0 && at >= bytes) break;
    copy_async(to + at, from + at, true);
  }
}

}  // namespace assay::cuda
