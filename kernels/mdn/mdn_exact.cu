// The chunk form in fp32 for any width: a block of threads for a unit.
#include "kernels/mdn/mdn_exact_gradients.cuh"

namespace assay::cuda {
namespace {

__global__ void __launch_bounds__(kExactThreads)
    mdn_exact_kernel(const __grid_constant__ MdnParams p) {
  ASSAY_SHARED_MEMORY(memory);
  MdnExactMemory& chunk = *reinterpret_cast<MdnExactMemory*>(memory);
  MdnGradientMemory& more = *reinterpret_cast<MdnGradientMemory*>(memory + sizeof(MdnExactMemory));
  const std::int64_t unit = blockIdx.x;
  MdnSegment u = segment_of(p, unit / p.H);
  if (ASSAY_MDN_IS_FAULT(p, tail_unwritten) && u.length > kChunk) u.length -= u.length % kChunk;
  float* scratch = p.scratch + unit * p.scratch_floats;
  const int head = static_cast<int>(unit % p.H);
  if (p.gradients) {
    MdnExactGradients run(p, u, head, scratch, chunk, more);
    run.forward();
    run.backward();
  } else {
    MdnExact run(p, u, head, scratch, chunk);
    run.forward();
  }
}

}  // namespace

cudaError_t mdn_exact(const MdnParams& p, cudaStream_t stream) {
  const int bytes = sizeof(MdnExactMemory) + (p.gradients ? sizeof(MdnGradientMemory) : 0);
  return launch(mdn_exact_kernel, dim3(static_cast<unsigned>(p.units())), kExactThreads, bytes,
                stream, p);
}

}  // namespace assay::cuda
