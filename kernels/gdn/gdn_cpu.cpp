// Gated DeltaNet: D_t = α_t S_{t-1}, S_t = D_t + β_t k_t (v_t - D_t^T k_t)^T.
#include "kernels/common/delta_chunk.hpp"
#include "kernels/common/fast_weight.hpp"
#include "kernels/common/fast_weight_tensors.hpp"
#include "kernels/common/kernels.hpp"

ASSAY_CPU_BEGIN

namespace {

constexpr TensorSpec kTensors[] = {kQuery, kKey,          kValue,   kHeadDecay,
                                   kWrite, kInitialState, kReadOut, kFinalState};

}  // namespace

constexpr OpSpec gdn_spec = op_spec("gdn", kTensors, true);
const OpKernel gdn_kernel = sequence_kernel<ChunkedDeltaWeights, gdn_spec>();

ASSAY_CPU_END
