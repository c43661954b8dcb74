// Gated DeltaNet on the device: mdn without momentum.
#include "kernels/common/fast_weight_tensors.hpp"
#include "kernels/mdn/mdn_ops.hpp"

namespace assay::cuda {
namespace {

constexpr cpu::TensorSpec kTensors[] = {cpu::kQuery,     cpu::kKey,       cpu::kValue,
                                        cpu::kHeadDecay, cpu::kWrite,     cpu::kInitialState,
                                        cpu::kReadOut,   cpu::kFinalState};
constexpr cpu::OpSpec kSpec = cpu::op_spec("gdn", kTensors, true);

}  // namespace

const OpKernel gdn_kernel{
    "gdn", [](const cpu::Call& call, std::size_t* bytes) { return plan_mdn(kSpec, call, bytes); },
    [](const cpu::Call& call, cudaStream_t stream) { return run_mdn(kSpec, call, stream); }};

}  // namespace assay::cuda
