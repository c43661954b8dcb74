// SSD (Mamba-2): S_t = α_t S_{t-1} + k_t v_t^T, o_t = scale S_t^T q_t + skip_h v_t.
#include "kernels/common/fast_weight.hpp"
#include "kernels/common/fast_weight_tensors.hpp"
#include "kernels/common/kernels.hpp"

ASSAY_CPU_BEGIN

namespace {

constexpr TensorSpec kTensors[] = {kQuery, kKey,          kValue,   kHeadDecay,
                                   kSkip,  kInitialState, kReadOut, kFinalState};

}  // namespace

constexpr OpSpec ssd_spec = op_spec("ssd", kTensors);
const OpKernel ssd_kernel = sequence_kernel<AdditiveWeights, ssd_spec>();

ASSAY_CPU_END
