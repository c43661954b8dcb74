// Products of a warpgroup: four warps, each with 16 rows of A, in registers or in shared memory,
// and a B of 16 rows that all of them read from shared memory as it lies there. Between group_begin
// and group_end nothing else may touch the accumulators, nor A.
#pragma once

#include "kernels/common/cuda/tensor.cuh"

namespace assay::cuda {

#if defined(ASSAY_CUDA_ON_CPU)

inline void group_begin() {}
inline void group_end() {}
inline void group_publish() {}

/// c += A B, B being the transpose of columns 16 step, ... of `x`.
inline void group_multiply_transposed(float (&c)[8][4], const std::uint32_t (&a)[4],
                                      const RowMatrix& x, int step) {
  for (int n = 0; n < 8; n += 2) {
    std::uint32_t y[4];
    x.load_across<false>(y, n, 2 * step, threadIdx.x & 31);
    multiply(c[n], a, y[0], y[1]), multiply(c[n + 1], a, y[2], y[3]);
  }
}
/// c += A B, B being rows 16 step, ... of `x`.
template <int tiles>
void group_multiply_rows(float (&c)[tiles][4], const std::uint32_t (&a)[4], const RowMatrix& x,
                         int step) {
  for (int n = 0; n < tiles; n += 2) {
    std::uint32_t y[4];
    x.load_down<true>(y, 2 * step, n, threadIdx.x & 31);
    multiply(c[n], a, y[0], y[1]), multiply(c[n + 1], a, y[2], y[3]);
  }
}
/// c += A B, A and the transpose of B being columns 16 step, ... of `x` and `y`.
inline void group_multiply_both(float (&c)[8][4], const RowMatrix& x, const RowMatrix& y,
                                int step) {
  std::uint32_t a[4];
  x.load_down<false>(a, 2 * (threadIdx.x / 32 % 4), 2 * step, threadIdx.x & 31);
  group_multiply_transposed(c, a, y, step);
}
/// Two tiles of c += A B, the transpose of B being a block of tiles (0, 0), (0, 1), (1, 0), (1, 1).
template <int first, int tiles>
void group_multiply_block(float (&c)[tiles][4], const std::uint32_t (&a)[4], const char* block) {
  std::uint32_t y[4];
  load_tiles<false>(y, block + (threadIdx.x & 31) * 16);
  multiply(c[first], a, y[0], y[1]), multiply(c[first + 1], a, y[2], y[3]);
}

#else

/// Registers and shared memory are ready to be read by products.
__device__ __forceinline__ void group_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// Waits for all products.
__device__ __forceinline__ void group_end() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
/// What this thread has stored in shared memory can be read by products, after a barrier.
__device__ __forceinline__ void group_publish() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// `leading` and `stride` are bytes between tiles, or between what is eight of them for rows in
/// pieces: along the sum and across it, or for rows of B the other way round.
__device__ __forceinline__ std::uint64_t group_descriptor(const char* at, int leading, int stride,
                                                          bool pieces) {
  const auto field = [](unsigned bytes) -> std::uint64_t { return (bytes & 0x3ffff) >> 4; };
  return field(shared_address(at)) | field(leading) << 16 | field(stride) << 32 |
         (pieces ? std::uint64_t{1} << 62 : 0);
}
/// Columns 16 step, ... as A, or their transpose as B.
__device__ __forceinline__ std::uint64_t group_columns(const RowMatrix& x, int step) {
  const char* at = x.base + step / 4 * RowMatrix::kPieceBytes + step % 4 * 32;
  return group_descriptor(at, 16, 8 * RowMatrix::kRowBytes, true);
}

#define ASSAY_TILE(n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define ASSAY_TILES_8(n)                                                                     \
  ASSAY_TILE(n), ASSAY_TILE(n + 1), ASSAY_TILE(n + 2), ASSAY_TILE(n + 3), ASSAY_TILE(n + 4), \
      ASSAY_TILE(n + 5), ASSAY_TILE(n + 6), ASSAY_TILE(n + 7)
#define ASSAY_REGISTERS_32                                 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
  "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define ASSAY_REGISTERS_64                                            \
  ASSAY_REGISTERS_32                                                  \
  ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
  "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define ASSAY_OF_REGISTERS "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
#define ASSAY_GROUP(columns)               \
  "{ .reg .pred p; setp.ne.b32 p, 1, 0;\n" \
  "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32.bf16.bf16 "

/// c += A B, B being the transpose of columns 16 step, ... of `x`.
__device__ __forceinline__ void group_multiply_transposed(float (&c)[8][4],
                                                          const std::uint32_t (&a)[4],
                                                          const RowMatrix& x, int step) {
  asm volatile(ASSAY_GROUP("64") "{" ASSAY_REGISTERS_32 "}, {%32,%33,%34,%35}, %36, p, 1, 1, 0; }"
               : ASSAY_TILES_8(0)
               : ASSAY_OF_REGISTERS, "l"(group_columns(x, step)));
}
/// c += A B, B being rows 16 step, ... of `x`.
template <int tiles>
__device__ __forceinline__ void group_multiply_rows(float (&c)[tiles][4],
                                                    const std::uint32_t (&a)[4], const RowMatrix& x,
                                                    int step) {
  const std::uint64_t rows =
      group_descriptor(x.base + 16 * step * RowMatrix::kRowBytes, RowMatrix::kPieceBytes,
                       8 * RowMatrix::kRowBytes, true);
  if constexpr (tiles == 8) {
    asm volatile(ASSAY_GROUP("64") "{" ASSAY_REGISTERS_32 "}, {%32,%33,%34,%35}, %36, p, 1, 1, 1; }"
                 : ASSAY_TILES_8(0)
                 : ASSAY_OF_REGISTERS, "l"(rows));
  } else {
    static_assert(tiles == 16);
    asm volatile(ASSAY_GROUP("128") "{" ASSAY_REGISTERS_64
                                    "}, {%64,%65,%66,%67}, %68, p, 1, 1, 1; }"
                 : ASSAY_TILES_8(0), ASSAY_TILES_8(8)
                 : ASSAY_OF_REGISTERS, "l"(rows));
  }
}
/// c += A B, A and the transpose of B being columns 16 step, ... of `x` and `y`.
__device__ __forceinline__ void group_multiply_both(float (&c)[8][4], const RowMatrix& x,
                                                    const RowMatrix& y, int step) {
  asm volatile(ASSAY_GROUP("64") "{" ASSAY_REGISTERS_32 "}, %32, %33, p, 1, 1, 0, 0; }"
               : ASSAY_TILES_8(0)
               : "l"(group_columns(x, step)), "l"(group_columns(y, step)));
}
/// Two tiles of c += A B, the transpose of B being a block of tiles (0, 0), (0, 1), (1, 0), (1, 1).
template <int first, int tiles>
__device__ __forceinline__ void group_multiply_block(float (&c)[tiles][4],
                                                     const std::uint32_t (&a)[4],
                                                     const char* block) {
  asm volatile(ASSAY_GROUP("16") "{%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11}, %12, p, 1, 1, 0; }"
               : ASSAY_TILE(first), ASSAY_TILE(first + 1)
               : ASSAY_OF_REGISTERS,
                 "l"(group_descriptor(block, kTileBytes, 2 * kTileBytes, false)));
}

#undef ASSAY_TILE
#undef ASSAY_TILES_8
#undef ASSAY_REGISTERS_32
#undef ASSAY_REGISTERS_64
#undef ASSAY_OF_REGISTERS
#undef ASSAY_GROUP

#endif

}  // namespace assay::cuda
