// Linear attention: S_t = S_{t-1} + k_t v_t^T.
#include "kernels/common/fast_weight.hpp"
#include "kernels/common/fast_weight_tensors.hpp"
#include "kernels/common/kernels.hpp"

ASSAY_CPU_BEGIN

namespace {

constexpr TensorSpec kTensors[] = {kQuery, kKey, kValue, kInitialState, kReadOut, kFinalState};

}  // namespace

constexpr OpSpec linear_attention_spec = op_spec("linear_attention", kTensors);
const OpKernel linear_attention_kernel = sequence_kernel<AdditiveWeights, linear_attention_spec>();

ASSAY_CPU_END
