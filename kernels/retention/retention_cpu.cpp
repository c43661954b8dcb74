// Retention (RetNet): S_t = γ_h S_{t-1} + k_t v_t^T.
#include "kernels/common/fast_weight.hpp"
#include "kernels/common/fast_weight_tensors.hpp"
#include "kernels/common/kernels.hpp"

ASSAY_CPU_BEGIN

namespace {

constexpr TensorSpec kGamma{"gamma", "H", Role::param, Slot::decay};
constexpr TensorSpec kTensors[] = {kQuery,        kKey,     kValue,     kGamma,
                                   kInitialState, kReadOut, kFinalState};

}  // namespace

constexpr OpSpec retention_spec = op_spec("retention", kTensors);
const OpKernel retention_kernel = sequence_kernel<AdditiveWeights, retention_spec>();

ASSAY_CPU_END
