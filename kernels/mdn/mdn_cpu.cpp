// Momentum DeltaNet: r = v - α S'^T k, M = μ M' - η k r^T, S = α S' - β M.
#include "kernels/common/fast_weight.hpp"
#include "kernels/common/fast_weight_tensors.hpp"
#include "kernels/common/kernels.hpp"
#include "kernels/common/mdn_chunk.hpp"

ASSAY_CPU_BEGIN

namespace {

constexpr TensorSpec kTensors[] = {
    kQuery,   kKey,           kValue,           kHeadDecay,    kMomentumDecay,
    kWrite,   kResidualScale, kQueryCorrection, kInitialState, kInitialMomentum,
    kReadOut, kFinalState,    kFinalMomentum};

}  // namespace

constexpr OpSpec mdn_spec = op_spec("mdn", kTensors, true);
const OpKernel mdn_kernel = sequence_kernel<ChunkedMomentumWeights, mdn_spec>();

ASSAY_CPU_END
