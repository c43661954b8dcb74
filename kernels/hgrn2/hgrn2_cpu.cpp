// HGRN2: S_t = diag(f_t) S_{t-1} + (1 - f_t) v_t^T; the complement of the gate is the key.
#include "kernels/common/fast_weight.hpp"
#include "kernels/common/fast_weight_tensors.hpp"
#include "kernels/common/kernels.hpp"

ASSAY_CPU_BEGIN

namespace {

constexpr TensorSpec kForget{"f", "BTHK", Role::token, Slot::decay};
constexpr TensorSpec kTensors[] = {kQuery, kValue, kForget, kInitialState, kReadOut, kFinalState};

}  // namespace

constexpr OpSpec hgrn2_spec = op_spec("hgrn2", kTensors);
const OpKernel hgrn2_kernel = sequence_kernel<AdditiveWeights, hgrn2_spec>();

ASSAY_CPU_END
