// The plug-in interface (kernels/abi/assay_kernel.h) over the device kernels.
#include <cstring>
#include <iterator>

#include "kernels/common/cuda/kernels.hpp"
#include "kernels/common/plugin_frame.hpp"

namespace assay::cuda {
namespace {

struct Traits {
  using Kernel = OpKernel;
#if defined(ASSAY_CUDA_ON_CPU)
  static constexpr std::int32_t kDevice = ASSAY_DEVICE_CPU;
  static constexpr const char* kName = "assay kernels for NVIDIA GPUs, on the CPU";
#else
  static constexpr std::int32_t kDevice = ASSAY_DEVICE_CUDA;
  static constexpr const char* kName = "assay kernels for NVIDIA GPUs";
#endif
  static constexpr const char* kPlace = "device memory";

  static const Kernel* find(const char* operation) {
#define ASSAY_CUDA_ADDRESS(op, can) &op##_kernel,
    static const Kernel* const all[] = {ASSAY_CUDA_OPERATIONS(ASSAY_CUDA_ADDRESS)};
#undef ASSAY_CUDA_ADDRESS
    for (const Kernel* kernel : all) {
      if (std::strcmp(kernel->op, operation) == 0) return kernel;
    }
    return nullptr;
  }
};
using Frame = cpu::PluginFrame<Traits>;

assay_status run(const assay_call* call) {
  return Frame::guarded(call, [call](Frame::Translated& t) {
    const RunOutcome out = t.kernel->run(t.call, static_cast<cudaStream_t>(call->stream));
    if (out.refusal.status != cpu::Status::ok) return cpu::report(out.refusal);
    if (out.error == cudaSuccess) return cpu::report({});
    cudaGetLastError();
    const auto status =
        out.error == cudaErrorMemoryAllocation ? ASSAY_OUT_OF_MEMORY : ASSAY_DEVICE_ERROR;
    return cpu::fail(status, "%s: %s", t.kernel->op, cudaGetErrorString(out.error));
  });
}

#define ASSAY_CUDA_ENTRY(op, can) {#op, can},
constexpr assay_operation kOperations[] = {ASSAY_CUDA_OPERATIONS(ASSAY_CUDA_ENTRY)};
#undef ASSAY_CUDA_ENTRY

// The delta rules compute in chunks; who knows no chunk form is judged by the recurrent one.
// fp32 tokens: products with operands of 24 bits, sums on the tensor cores, libm's transcendentals.
// 16-bit tokens: tanh.approx.f32 has 2^-11; the coarsest operands are, with bf16, the states that
// the way back of m2rnn reads, with fp16 the tf32 ones of H W (D W^T has bf16 in two parts in
// both).
constexpr assay_precision precision(std::int32_t stored, std::int32_t operand, double tanh_error) {
  return {stored, operand, ASSAY_FP32, ASSAY_FP32, ASSAY_FP32, stored, ASSAY_FORM_CHUNK,
          64,     0,       tanh_error, 0,          0,          1,      0};
}
constexpr assay_precision kPrecisions[] = {precision(ASSAY_FP32, ASSAY_FP32, 0),
                                           precision(ASSAY_BF16, ASSAY_BF16, 0x1p-11),
                                           precision(ASSAY_FP16, ASSAY_FP16, 0x1p-11)};

}  // namespace
}  // namespace assay::cuda

extern "C" {
const assay_table assay_kernel_table = {  // exported by its declaration
    ASSAY_ABI_VERSION,
    sizeof(assay_table),
    assay::cuda::Traits::kName,
    "0.1.0",
    assay::cuda::Traits::kDevice,
    static_cast<std::int32_t>(std::size(assay::cuda::kOperations)),
    assay::cuda::kOperations,
    assay::cuda::kPrecisions,
    static_cast<std::int32_t>(std::size(assay::cuda::kPrecisions)),
    0,
    assay::cuda::Frame::supports,
    assay::cuda::Frame::workspace_bytes,
    assay::cuda::run,
    assay::cuda::Frame::last_error};
}
