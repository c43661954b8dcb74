#include "kernels/common/fast_weight.hpp"

ASSAY_CPU_BEGIN

template void run_sequences<FastWeight<float, Additive>>(const Binding&, const Call&);
template void run_sequences<FastWeight<double, Additive>>(const Binding&, const Call&);
template void run_sequences<FastWeight<float, Delta>>(const Binding&, const Call&);
template void run_sequences<FastWeight<double, Delta>>(const Binding&, const Call&);

ASSAY_CPU_END
