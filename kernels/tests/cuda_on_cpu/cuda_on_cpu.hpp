// Device code on the CPU, for tests: included before everything else when a .cu file is compiled as
// C++. Each thread of a block is a fiber; blocks run one after the other on one thread of the CPU.
//
// What is emulated: indices, static and dynamic shared memory (the latter poisoned), barriers of
// block and warp, shuffles and votes, atomics, 16-bit formats, intrinsics. What is not: clusters,
// the bulk copy engine, asynchrony, memory order, rounding modes of the fast intrinsics. Barriers
// that not all threads reach end the process with a line that says so.
//
// ASSAY_CUDA_ON_CPU_ORDER=reverse runs threads and blocks from the last to the first: results that
// change have a race.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

#undef __global__
#undef __device__
#undef __host__
#undef __constant__
#undef __shared__
#undef __forceinline__
#undef __launch_bounds__
#undef __maxnreg__
#undef __grid_constant__
#undef __align__
#undef __noinline__
#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __noinline__
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

namespace assay::cuda_on_cpu {

/// What a thread may ask about itself.
struct Indices {
  uint3 thread{}, block{};
  dim3 threads, blocks;
  int lane = 0, warp = 0;  // of the block
};
extern const Indices* current;

/// Runs every block to its end. cudaErrorInvalidConfiguration for what a device would refuse.
cudaError_t run_grid(dim3 grid, dim3 block, std::size_t shared_bytes,
                     const std::function<void()>& kernel);
/// The dynamic shared memory of the block, poisoned at its start.
char* shared_memory();

/// Waits at barrier `id` (0 to 15) for `threads` threads; 0: all that still run.
void barrier(int id, int threads);
/// Counts as having come, and goes on.
void barrier_arrive(int id, int threads);
/// Waits for the lanes of the mask that still run.
void warp_barrier(std::uint32_t mask);
/// Each lane of a full warp hands over its `mine`; `act` is called once with those of all 32.
void warp_together(void* mine, void (*act)(void* const* lanes));

inline constexpr std::size_t kLaneBytes = 128;
/// Each lane of the mask hands over `bytes`, at most kLaneBytes, and gets 32 slots of kLaneBytes,
/// those of the mask filled. Every lane calls end_exchange once it has read what it wants.
const unsigned char* exchange(std::uint32_t mask, const void* mine, std::size_t bytes);
void end_exchange(std::uint32_t mask);

template <class T>
T shuffle(std::uint32_t mask, T mine, int source, bool in_range) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kLaneBytes);
  const unsigned char* slots = exchange(mask, &mine, sizeof mine);
  T theirs;
  std::memcpy(&theirs, slots + static_cast<std::size_t>(source & 31) * kLaneBytes, sizeof theirs);
  end_exchange(mask);
  return in_range ? theirs : mine;
}
/// The lanes of the mask that handed over what `accept` takes.
template <class T, class Accept>
std::uint32_t lanes_where(std::uint32_t mask, const T& mine, Accept accept) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kLaneBytes);
  const unsigned char* slots = exchange(mask, &mine, sizeof mine);
  std::uint32_t bits = 0;
  for (unsigned l = 0; l < 32; ++l) {
    if (!(mask >> l & 1)) continue;
    T theirs;
    std::memcpy(&theirs, slots + l * kLaneBytes, sizeof theirs);
    if (accept(theirs)) bits |= 1u << l;
  }
  end_exchange(mask);
  return bits;
}

}  // namespace assay::cuda_on_cpu

#define threadIdx (::assay::cuda_on_cpu::current->thread)
#define blockIdx (::assay::cuda_on_cpu::current->block)
#define blockDim (::assay::cuda_on_cpu::current->threads)
#define gridDim (::assay::cuda_on_cpu::current->blocks)
inline constexpr int warpSize = 32;

template <class... P>
cudaError_t cudaFuncSetAttribute(void (*)(P...), cudaFuncAttribute, int) {
  return cudaSuccess;
}

// ---- Barriers, shuffles, votes -----------------------------------------------------------------

inline void __syncthreads() { ::assay::cuda_on_cpu::barrier(0, 0); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { ::assay::cuda_on_cpu::warp_barrier(mask); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline unsigned __activemask() { return 0xffffffffu; }

template <class T>
T __shfl_sync(unsigned mask, T x, int source, int width = 32) {
  const int lane = ::assay::cuda_on_cpu::current->lane;
  return ::assay::cuda_on_cpu::shuffle(mask, x, (lane & ~(width - 1)) + (source & (width - 1)),
                                       true);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T x, int bits, int width = 32) {
  const int lane = ::assay::cuda_on_cpu::current->lane, other = lane ^ bits;
  return ::assay::cuda_on_cpu::shuffle(mask, x, other, other < (lane & ~(width - 1)) + width);
}
template <class T>
T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32) {
  const int lane = ::assay::cuda_on_cpu::current->lane, other = lane - static_cast<int>(by);
  return ::assay::cuda_on_cpu::shuffle(mask, x, other, other >= (lane & ~(width - 1)));
}
template <class T>
T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32) {
  const int lane = ::assay::cuda_on_cpu::current->lane, other = lane + static_cast<int>(by);
  return ::assay::cuda_on_cpu::shuffle(mask, x, other, other < (lane & ~(width - 1)) + width);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return ::assay::cuda_on_cpu::lanes_where(mask, predicate, [](int theirs) { return theirs != 0; });
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) == mask;
}
template <class T>
unsigned __match_any_sync(unsigned mask, T x) {
  return ::assay::cuda_on_cpu::lanes_where(mask, x, [&](const T& theirs) { return theirs == x; });
}
inline int __syncthreads_or(int predicate) {
  static int any;
  __syncthreads();
  any = 0;
  __syncthreads();
  if (predicate) any = 1;
  __syncthreads();
  return any;
}

// ---- Atomics: nothing else runs at the same time -----------------------------------------------

template <class T, class U>
T atomicAdd(T* at, U x) {
  const T before = *at;
  *at = static_cast<T>(before + static_cast<T>(x));
  return before;
}
template <class T, class U>
T atomicMax(T* at, U x) {
  const T before = *at;
  *at = std::max(before, static_cast<T>(x));
  return before;
}
template <class T, class U>
T atomicMin(T* at, U x) {
  const T before = *at;
  *at = std::min(before, static_cast<T>(x));
  return before;
}
template <class T, class U>
T atomicOr(T* at, U x) {
  const T before = *at;
  *at = before | static_cast<T>(x);
  return before;
}
template <class T, class U>
T atomicExch(T* at, U x) {
  const T before = *at;
  *at = static_cast<T>(x);
  return before;
}
template <class T>
T atomicCAS(T* at, T expected, T x) {
  const T before = *at;
  if (before == expected) *at = x;
  return before;
}

// ---- Intrinsics --------------------------------------------------------------------------------

template <class To, class From>
inline To assay_bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}
inline unsigned __float_as_uint(float x) { return assay_bits_as<unsigned>(x); }
inline int __float_as_int(float x) { return assay_bits_as<int>(x); }
inline float __uint_as_float(unsigned x) { return assay_bits_as<float>(x); }
inline float __int_as_float(int x) { return assay_bits_as<float>(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __exp2f(float x) { return std::exp2(x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fmaf_rn(float x, float y, float z) { return std::fma(x, y, z); }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __frsqrt_rn(float x) { return 1 / std::sqrt(x); }
inline float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1 : 0; }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyint(x)); }
inline int __float2int_rd(float x) { return static_cast<int>(std::floor(x)); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline unsigned __umulhi(unsigned x, unsigned y) {
  return static_cast<unsigned>(static_cast<std::uint64_t>(x) * y >> 32);
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  const std::uint64_t both = static_cast<std::uint64_t>(y) << 32 | x;
  unsigned out = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned byte = static_cast<unsigned>(both >> 8 * (selector >> 4 * i & 7)) & 255u;
    out |= byte << 8 * i;
  }
  return out;
}
template <class T>
T __ldg(const T* at) {
  return *at;
}
template <class T>
T __ldcs(const T* at) {
  return *at;
}
template <class T>
T __ldcg(const T* at) {
  return *at;
}
template <class T>
void __stcs(T* at, const T& x) {
  *at = x;
}
template <class T>
void __stcg(T* at, const T& x) {
  *at = x;
}
template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  return static_cast<std::common_type_t<A, B>>(b) < static_cast<std::common_type_t<A, B>>(a) ? b
                                                                                             : a;
}
template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  return static_cast<std::common_type_t<A, B>>(a) < static_cast<std::common_type_t<A, B>>(b) ? b
                                                                                             : a;
}
