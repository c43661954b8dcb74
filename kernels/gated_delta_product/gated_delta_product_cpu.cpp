// Gated DeltaProduct: D = α_t S_{t-1}; J times D += β_j k_j (v_j - D^T k_j)^T; S_t = D.
#include "kernels/common/fast_weight.hpp"
#include "kernels/common/fast_weight_tensors.hpp"
#include "kernels/common/kernels.hpp"

ASSAY_CPU_BEGIN

namespace {

constexpr TensorSpec kKeys{"k", "BTJHK", Role::token, Slot::k};
constexpr TensorSpec kValues{"v", "BTJHV", Role::token, Slot::v};
constexpr TensorSpec kWrites{"beta", "BTJH", Role::token, Slot::beta};
constexpr TensorSpec kTensors[] = {kQuery,     kKeys,         kValues,  kWrites,
                                   kHeadDecay, kInitialState, kReadOut, kFinalState};

}  // namespace

constexpr OpSpec gated_delta_product_spec = op_spec("gated_delta_product", kTensors);
const OpKernel gated_delta_product_kernel =
    sequence_kernel<DeltaWeights, gated_delta_product_spec>();

ASSAY_CPU_END
