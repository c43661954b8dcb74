// Products of a warpgroup: four warps, each with 16 rows of A, in registers or in tiles in shared
// memory (tensor.cuh), and a B that all of them read from such tiles as it lies there. Between group_begin and group_end
// nothing else may touch the accumulators, nor A.
#pragma once

#include "kernels/common/cuda/tensor.cuh"

namespace assay::cuda {

/// Where a matrix lies: tile (r, c), of 8 rows and 8 columns of it, is `rows` r + `columns` c bytes
/// after `at`. A tile holds rows of it, or rows of its transpose.
struct GroupMatrix {
  const char* at;
  int rows, columns;
};

#if defined(ASSAY_CUDA_ON_CPU)

inline void group_begin() {}
inline void group_end() {}
inline void group_publish() {}

/// c[first + n] += A B for `count` tiles of columns n; A has 16 columns.
template <bool transposed, int first, int count, int tiles>
void group_multiply(float (&c)[tiles][4], const std::uint32_t (&a)[4], const GroupMatrix& b) {
  const int lane = threadIdx.x & 31;
  for (int n = 0; n < count; n += 2) {
    std::uint32_t y[4];
    load_tiles<!transposed>(y, b.at + (n + (lane >> 4)) * b.columns + (lane >> 3 & 1) * b.rows +
                                   (lane & 7) * 16);
    multiply(c[first + n], a, y[0], y[1]), multiply(c[first + n + 1], a, y[2], y[3]);
  }
}
/// c += A B for A [64, 16] and B [16, 64], whose tiles hold rows of A and of the transpose of B.
inline void group_multiply(float (&c)[8][4], const GroupMatrix& a, const GroupMatrix& b) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32 % 4;
  std::uint32_t x[4];
  load_tiles<false>(x, a.at + (2 * warp + (lane >> 3 & 1)) * a.rows + (lane >> 4) * a.columns +
                           (lane & 7) * 16);
  group_multiply<true, 0, 8>(c, x, b);
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

/// `along`: from tile to tile along the sum; `across`: along the other axis.
__device__ __forceinline__ std::uint64_t group_descriptor(const char* at, int along, int across) {
  const auto field = [](unsigned bytes) -> std::uint64_t { return (bytes & 0x3ffff) >> 4; };
  return field(shared_address(at)) | field(along) << 16 | field(across) << 32;
}

// One tile of accumulators, as operands of the assembler.
#define ASSAY_TILE(n) \
  "+f"(c[first + n][0]), "+f"(c[first + n][1]), "+f"(c[first + n][2]), "+f"(c[first + n][3])
#define ASSAY_TILES_2 \
  ASSAY_TILE(0), ASSAY_TILE(1)
#define ASSAY_TILES_4 \
  ASSAY_TILE(0), ASSAY_TILE(1), ASSAY_TILE(2), ASSAY_TILE(3)
#define ASSAY_TILES_6 \
  ASSAY_TILE(0), ASSAY_TILE(1), ASSAY_TILE(2), ASSAY_TILE(3), ASSAY_TILE(4), \
  ASSAY_TILE(5)
#define ASSAY_TILES_8 \
  ASSAY_TILE(0), ASSAY_TILE(1), ASSAY_TILE(2), ASSAY_TILE(3), ASSAY_TILE(4), \
  ASSAY_TILE(5), ASSAY_TILE(6), ASSAY_TILE(7)
#define ASSAY_TILES_16 \
  ASSAY_TILE(0), ASSAY_TILE(1), ASSAY_TILE(2), ASSAY_TILE(3), ASSAY_TILE(4), \
  ASSAY_TILE(5), ASSAY_TILE(6), ASSAY_TILE(7), ASSAY_TILE(8), ASSAY_TILE(9), \
  ASSAY_TILE(10), ASSAY_TILE(11), ASSAY_TILE(12), ASSAY_TILE(13), ASSAY_TILE(14), \
  ASSAY_TILE(15)
#define ASSAY_GROUP_MULTIPLY(count, columns, registers, a0, a1, a2, a3, d, t)                      \
  asm volatile(                                                                                    \
      "{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"                                                     \
      "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.bf16.bf16 {" registers                 \
      "}, {" a0 ", " a1 ", " a2 ", " a3 "}, " d ", p, 1, 1, " t "; }"                              \
      : ASSAY_TILES_##count                                                                        \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(descriptor), "n"(transposed ? 0 : 1))

#define ASSAY_REGISTERS_2 \
  "%0,%1,%2,%3,%4,%5,%6,%7"
#define ASSAY_REGISTERS_4 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define ASSAY_REGISTERS_6 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
  "%16,%17,%18,%19,%20,%21,%22,%23"
#define ASSAY_REGISTERS_8 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
  "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define ASSAY_REGISTERS_16 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
  "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
  "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"

/// c[first + n] += A B for `count` tiles of columns n; A has 16 columns.
template <bool transposed, int first, int count, int tiles>
__device__ __forceinline__ void group_multiply(float (&c)[tiles][4], const std::uint32_t (&a)[4],
                                               const GroupMatrix& b) {
  static_assert(first + count <= tiles);
  const std::uint64_t descriptor = group_descriptor(b.at, b.rows, b.columns);
  if constexpr (count == 2) {
    ASSAY_GROUP_MULTIPLY(2, 16, ASSAY_REGISTERS_2, "%8", "%9", "%10", "%11", "%12", "%13");
  } else if constexpr (count == 4) {
    ASSAY_GROUP_MULTIPLY(4, 32, ASSAY_REGISTERS_4, "%16", "%17", "%18", "%19", "%20", "%21");
  } else if constexpr (count == 6) {
    ASSAY_GROUP_MULTIPLY(6, 48, ASSAY_REGISTERS_6, "%24", "%25", "%26", "%27", "%28", "%29");
  } else if constexpr (count == 8) {
    ASSAY_GROUP_MULTIPLY(8, 64, ASSAY_REGISTERS_8, "%32", "%33", "%34", "%35", "%36", "%37");
  } else {
    static_assert(count == 16);
    ASSAY_GROUP_MULTIPLY(16, 128, ASSAY_REGISTERS_16, "%64", "%65", "%66", "%67", "%68", "%69");
  }
}

/// c += A B for A [64, 16] and B [16, 64], whose tiles hold rows of A and of the transpose of B.
__device__ __forceinline__ void group_multiply(float (&c)[8][4], const GroupMatrix& a,
                                               const GroupMatrix& b) {
  constexpr int first = 0;
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" ASSAY_REGISTERS_8
      "}, %32, %33, p, 1, 1, 0, 0; }"
      : ASSAY_TILES_8
      : "l"(group_descriptor(a.at, a.columns, a.rows)),
        "l"(group_descriptor(b.at, b.rows, b.columns)));
}

#undef ASSAY_TILES_2
#undef ASSAY_REGISTERS_2
#undef ASSAY_TILES_4
#undef ASSAY_REGISTERS_4
#undef ASSAY_TILES_6
#undef ASSAY_REGISTERS_6
#undef ASSAY_TILES_8
#undef ASSAY_REGISTERS_8
#undef ASSAY_TILES_16
#undef ASSAY_REGISTERS_16
#undef ASSAY_TILE
#undef ASSAY_GROUP_MULTIPLY

#endif

}  // namespace assay::cuda
