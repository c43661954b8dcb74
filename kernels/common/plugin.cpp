// The plug-in interface (kernels/abi/assay_kernel.h) over the kernels' own Call. Compiled for the
// portable build only; the kernels it calls are those of the build the processor can run.
#include <iterator>

#include "kernels/common/kernels.hpp"
#include "kernels/common/plugin_frame.hpp"

namespace assay::cpu {
namespace {

struct Traits {
  using Kernel = OpKernel;
  static constexpr std::int32_t kDevice = ASSAY_DEVICE_CPU;
  static constexpr const char* kPlace = "CPU memory";
  static const Kernel* find(const char* operation) {
    return find_kernel(kernel_table(), operation);
  }
};
using Frame = PluginFrame<Traits>;

assay_status run(const assay_call* call) {
  return Frame::guarded(call, [](Frame::Translated& t) { return report(t.kernel->run(t.call)); });
}

constexpr std::uint64_t kEverything = ASSAY_CAN_FORWARD | ASSAY_CAN_BACKWARD | ASSAY_CAN_PACKED |
                                      ASSAY_CAN_HEAD_GROUPS | ASSAY_CAN_LOG_GATES |
                                      ASSAY_CAN_LINEAR_GATES | ASSAY_CAN_INITIAL_STATE |
                                      ASSAY_CAN_STRIDED_ROWS | ASSAY_CAN_STRIDED;
constexpr std::uint64_t kPart =
    ASSAY_CAN_FORWARD | ASSAY_CAN_BACKWARD | ASSAY_CAN_STRIDED_ROWS | ASSAY_CAN_STRIDED;

#define ASSAY_CPU_ENTRY(op) {#op, kEverything},
#define ASSAY_CPU_PART_ENTRY(op) {#op, kPart},
constexpr assay_operation kOperations[] = {ASSAY_CPU_RECURRENCES(ASSAY_CPU_ENTRY) ASSAY_CPU_PARTS(
    ASSAY_CPU_ENTRY) ASSAY_CPU_ROUTING(ASSAY_CPU_PART_ENTRY)};

// Whatever is stored, every sum and every coefficient is fp32 (fp64 for fp64 tensors); one rounding
// when an output is stored. Chunk forms where there is one, recurrent elsewhere.
constexpr assay_precision precision(std::int32_t stored, std::int32_t computed) {
  return {stored, computed, computed, computed, computed, stored, ASSAY_FORM_CHUNK,
          64,     0,        0,        0,        0,        0,      0};
}
constexpr assay_precision kPrecisions[] = {
    precision(ASSAY_FP32, ASSAY_FP32), precision(ASSAY_BF16, ASSAY_FP32),
    precision(ASSAY_FP16, ASSAY_FP32), precision(ASSAY_FP64, ASSAY_FP64)};

}  // namespace
}  // namespace assay::cpu

extern "C" {
const assay_table assay_kernel_table = {  // exported by its declaration
    ASSAY_ABI_VERSION,
    sizeof(assay_table),
    "assay kernels for the CPU",
    "0.1.0",
    ASSAY_DEVICE_CPU,
    static_cast<std::int32_t>(std::size(assay::cpu::kOperations)),
    assay::cpu::kOperations,
    assay::cpu::kPrecisions,
    static_cast<std::int32_t>(std::size(assay::cpu::kPrecisions)),
    0,
    assay::cpu::Frame::supports,
    assay::cpu::Frame::workspace_bytes,
    assay::cpu::run,
    assay::cpu::Frame::last_error};
}
