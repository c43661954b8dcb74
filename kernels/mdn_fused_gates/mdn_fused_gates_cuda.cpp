// mdn whose gates are made inside, on the device: mdn's kernels with pre-activations in the places
// of the gates.
#include "kernels/common/binding.hpp"
#include "kernels/common/fast_weight_tensors.hpp"
#include "kernels/mdn/mdn_ops.hpp"

namespace assay::cuda {
namespace {

using cpu::Call;
using cpu::Role;
using cpu::Slot;

constexpr cpu::TensorSpec kTensors[] = {cpu::kQuery,
                                        cpu::kKey,
                                        cpu::kValue,
                                        {"x_alpha", "BTH", Role::token, Slot::decay},
                                        {"x_mu", "BTH", Role::token, Slot::mu},
                                        {"x_beta", "BTH", Role::token, Slot::beta},
                                        {"x_eta", "BTH", Role::token, Slot::eta},
                                        cpu::kQueryCorrection,
                                        {"a_alpha", "H", Role::param},
                                        {"b_alpha", "H", Role::param},
                                        {"a_mu", "H", Role::param},
                                        {"b_mu", "H", Role::param},
                                        cpu::kInitialState,
                                        cpu::kInitialMomentum,
                                        cpu::kReadOut,
                                        cpu::kFinalState,
                                        cpu::kFinalMomentum};
constexpr cpu::OpSpec kSpec = cpu::op_spec("mdn_fused_gates", kTensors, true);

cpu::Outcome plan(const Call& call, std::size_t* bytes) {
  if (!(call.options.tau > 0)) return refuse(cpu::Status::bad_argument, "tau must be positive");
  return plan_mdn(kSpec, call, bytes);
}

}  // namespace

const OpKernel mdn_fused_gates_kernel{
    "mdn_fused_gates", plan,
    [](const Call& call, cudaStream_t stream) { return run_mdn(kSpec, call, stream); }};

}  // namespace assay::cuda
