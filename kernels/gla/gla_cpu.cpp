// Gated linear attention: S_t = diag(α_t) S_{t-1} + k_t v_t^T.
#include "kernels/common/fast_weight.hpp"
#include "kernels/common/fast_weight_tensors.hpp"
#include "kernels/common/kernels.hpp"

ASSAY_CPU_BEGIN

namespace {

constexpr TensorSpec kTensors[] = {kQuery,        kKey,     kValue,     kChannelDecay,
                                   kInitialState, kReadOut, kFinalState};

}  // namespace

constexpr OpSpec gla_spec = op_spec("gla", kTensors);
const OpKernel gla_kernel = sequence_kernel<AdditiveWeights, gla_spec>();

ASSAY_CPU_END
