// Comba: D_t = α_t S_{t-1}, S_t = D_t + β_t k_t (v_t - D_t^T p_t)^T, q_t - d_h k_t for q_t.
#include "kernels/common/delta_chunk.hpp"
#include "kernels/common/fast_weight.hpp"
#include "kernels/common/fast_weight_tensors.hpp"
#include "kernels/common/kernels.hpp"

ASSAY_CPU_BEGIN

namespace {

constexpr TensorSpec kReadKey{"p", "BTHK", Role::token, Slot::p};
constexpr TensorSpec kTensors[] = {kQuery,     kKey,       kValue,           kReadKey,
                                   kHeadDecay, kWrite,     kQueryCorrection, kInitialState,
                                   kReadOut,   kFinalState};

}  // namespace

constexpr OpSpec comba_spec = op_spec("comba", kTensors, true);
const OpKernel comba_kernel = sequence_kernel<ChunkedDeltaWeights, comba_spec>();

ASSAY_CPU_END
