// Chooses the build of the kernels once, when first asked. Compiled for the portable build only.
#include <cstring>

#include "kernels/common/call.hpp"

namespace assay::cpu {

namespace baseline {
extern const KernelTable table;
}
#ifdef ASSAY_CPU_HAS_AVX2
namespace avx2 {
extern const KernelTable table;
}
#endif

const KernelTable& baseline_kernel_table() { return baseline::table; }

const KernelTable& kernel_table() {
#ifdef ASSAY_CPU_HAS_AVX2
  static const bool runs_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                                __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                                __builtin_cpu_supports("popcnt");
  if (runs_avx2) return avx2::table;
#endif
  return baseline::table;
}

const OpKernel* find_kernel(const KernelTable& table, const char* op) {
  for (int i = 0; i < table.count; ++i) {
    if (std::strcmp(table.kernels[i]->op, op) == 0) return table.kernels[i];
  }
  return nullptr;
}

}  // namespace assay::cpu
