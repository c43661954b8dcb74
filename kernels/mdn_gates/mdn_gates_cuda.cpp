// The operation mdn_gates of the CUDA plug-in: from a call to launches.
#include "kernels/mdn_gates/mdn_gates_cuda.hpp"

#include <algorithm>
#include <iterator>

#include "kernels/common/binding.hpp"
#include "kernels/common/cuda/one_block.hpp"
#include "kernels/common/cuda/workspace.hpp"

namespace assay::cuda {
namespace {

using cpu::Call;
using cpu::find_view;
using cpu::Outcome;
using cpu::refuse;
using cpu::Role;
using cpu::Status;
using cpu::TensorSpec;

constexpr TensorSpec kTensors[] = {{"x_alpha", "BTH", Role::token},
                                   {"x_beta", "BTH", Role::token},
                                   {"x_mu", "BTH", Role::token},
                                   {"x_eta", "BTH", Role::token},
                                   {"a_alpha", "H", Role::param},
                                   {"b_alpha", "H", Role::param},
                                   {"a_mu", "H", Role::param},
                                   {"b_mu", "H", Role::param},
                                   {"log_alpha", "BTH", Role::token_output},
                                   {"beta", "BTH", Role::token_output},
                                   {"log_mu", "BTH", Role::token_output},
                                   {"eta", "BTH", Role::token_output}};
constexpr cpu::OpSpec kSpec{"mdn_gates", kTensors, std::size(kTensors)};

Outcome make_plan(const Call& call, void* memory, MdnGatesParams& p, std::size_t* bytes) {
  cpu::Binding b;
  if (const Outcome o = refuse_fp64(call); o.status != Status::ok) return o;
  if (const Outcome o = bind(kSpec, call, b); o.status != Status::ok) return o;
  if (!(call.options.tau > 0)) return refuse(Status::bad_argument, "tau must be positive");
  if (b.H > 65535) return refuse(Status::unsupported, "more than 65535 heads");
  for (int i = 0; i < 4; ++i) {
    const TensorSpec &x = kTensors[i], &a = kTensors[4 + i], &y = kTensors[8 + i];
    p.token[i] = strided(find_view(call.inputs, "", x.name), x.axes, b.H);
    p.parameter[i] = strided(find_view(call.inputs, "", a.name), a.axes, b.H);
    p.output[i] = strided(find_view(call.outputs, "", y.name), y.axes, b.H);
    p.d_output[i] = strided(find_view(call.cotangents, "d_", y.name), y.axes, b.H);
    p.d_token[i] = strided(find_view(call.gradients, "d_", x.name), x.axes, b.H);
    p.d_parameter[i] = strided(find_view(call.gradients, "d_", a.name), a.axes, b.H);
  }
  p.batches = b.axis('B'), p.T = b.axis('T'), p.heads = static_cast<int>(b.H);
  p.s = static_cast<float>(call.options.s), p.tau = static_cast<float>(call.options.tau);
  p.log_mu_min = static_cast<float>(call.options.log_mu_min);
  Workspace pieces(memory);
  if (call.gradients.count > 0) {
    p.parts = static_cast<int>(std::clamp<std::int64_t>(p.batches * p.T / 4096, 1, 64));
    p.sums = pieces.take<double>(std::int64_t{MdnGatesParams::kParameters} * p.heads * p.parts);
  }
  *bytes = pieces.used();
  return {};
}

cudaError_t launch(const Call& call, const MdnGatesParams& p, cudaStream_t stream) {
  cudaError_t error = cudaSuccess;
  if (call.outputs.count > 0) error = mdn_gates_forward(p, stream);
  if (error == cudaSuccess && call.gradients.count > 0) error = mdn_gates_backward(p, stream);
  return error;
}

}  // namespace

const OpKernel mdn_gates_kernel{"mdn_gates", plan_block<MdnGatesParams, make_plan>,
                                run_block<MdnGatesParams, make_plan, launch>};

}  // namespace assay::cuda
