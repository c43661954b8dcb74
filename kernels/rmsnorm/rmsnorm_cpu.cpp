// RMSNorm, y = x (mean x² + eps)^{-1/2} weight.
#include "kernels/common/rms.hpp"

ASSAY_CPU_BEGIN

namespace {

constexpr TensorSpec kTensors[] = {
    {"x", "BTD", Role::token},
    {"weight", "D", Role::param, Slot::none, nullptr, true, 1},
    {"y", "BTD", Role::token_output},
};
constexpr OpSpec kSpec{"rmsnorm", kTensors, std::size(kTensors)};

}  // namespace

const OpKernel rmsnorm_kernel = sequence_kernel<RmsNorm, kSpec>();

ASSAY_CPU_END
