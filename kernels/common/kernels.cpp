#include "kernels/common/kernels.hpp"

ASSAY_CPU_BEGIN

namespace {
#define ASSAY_CPU_ADDRESS(op) &op##_kernel,
const OpKernel* const kAll[] = {ASSAY_CPU_OPERATIONS(ASSAY_CPU_ADDRESS)};
#undef ASSAY_CPU_ADDRESS
}  // namespace

#define ASSAY_CPU_QUOTE_(x) #x
#define ASSAY_CPU_QUOTE(x) ASSAY_CPU_QUOTE_(x)
const KernelTable table{ASSAY_CPU_QUOTE(ASSAY_CPU_VARIANT), kAll,
                        static_cast<int>(sizeof kAll / sizeof *kAll)};

ASSAY_CPU_END
