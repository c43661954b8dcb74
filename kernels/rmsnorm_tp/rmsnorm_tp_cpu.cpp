// RMSNorm split over P shards of D channels, equal to the unsplit one.
#include "kernels/common/rms.hpp"

ASSAY_CPU_BEGIN

namespace {

constexpr TensorSpec kTensors[] = {
    {"x", "BTPD", Role::token},
    {"weight", "PD", Role::param, Slot::none, nullptr, true, 1},
    {"y", "BTPD", Role::token_output},
};
constexpr OpSpec kSpec{"rmsnorm_tp", kTensors, std::size(kTensors)};

}  // namespace

const OpKernel rmsnorm_tp_kernel = sequence_kernel<RmsNorm, kSpec>();

ASSAY_CPU_END
