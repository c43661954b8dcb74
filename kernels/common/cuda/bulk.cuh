// Copies of many bytes from global to shared memory that one thread starts and the copy engine
// makes. A counter in shared memory tells everybody when the bytes are there.
#pragma once

#include "kernels/common/cuda/tensor.cuh"

#if defined(ASSAY_CUDA_ON_CPU)
#include <cstring>
#endif

namespace assay::cuda {

/// In shared memory. Its phases are numbered 0, 1, 0, ...: one for each copy.
using BulkCounter = unsigned long long;

#if defined(ASSAY_CUDA_ON_CPU)

// Copied at once: whoever waits has met the thread that copies at a barrier before.
inline void bulk_prepare(BulkCounter*, int) {}
inline void bulk_load(void* to, const void* from, unsigned bytes, BulkCounter*) {
  std::memcpy(to, from, bytes);
}
inline void bulk_wait(const BulkCounter*, unsigned) {}

#else

/// By one thread, with a barrier before the first use.
__device__ __forceinline__ void bulk_prepare(BulkCounter* counters, int count) {
  for (int i = 0; i < count; ++i) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(counters + i)));
  }
  asm volatile("fence.mbarrier_init.release.cluster;");
}
/// `bytes`, and both addresses, are multiples of 16. Nobody may still read what was there before.
__device__ __forceinline__ void bulk_load(void* to, const void* from, unsigned bytes,
                                          BulkCounter* counter) {
  const unsigned at = shared_address(counter);
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(at)
      : "memory");
}
/// Until the copy of this phase has arrived.
__device__ __forceinline__ void bulk_wait(const BulkCounter* counter, unsigned phase) {
  asm volatile(
      "{\n"
      ".reg .pred there;\n"
      "again%=:\n"
      "mbarrier.try_wait.parity.shared.b64 there, [%0], %1;\n"
      "@!there bra again%=;\n"
      "}" ::"r"(shared_address(counter)),
      "r"(phase)
      : "memory");
}

#endif

}  // namespace assay::cuda
