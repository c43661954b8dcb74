// DeltaNet: S_t = S_{t-1} + β_t k_t (v_t - S_{t-1}^T k_t)^T.
#include "kernels/common/delta_chunk.hpp"
#include "kernels/common/fast_weight.hpp"
#include "kernels/common/fast_weight_tensors.hpp"
#include "kernels/common/kernels.hpp"

ASSAY_CPU_BEGIN

namespace {

constexpr TensorSpec kTensors[] = {kQuery,        kKey,     kValue,     kWrite,
                                   kInitialState, kReadOut, kFinalState};

}  // namespace

constexpr OpSpec delta_spec = op_spec("delta", kTensors, true);
const OpKernel delta_kernel = sequence_kernel<ChunkedDeltaWeights, delta_spec>();

ASSAY_CPU_END
