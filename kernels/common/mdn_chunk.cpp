#include "kernels/common/mdn_chunk.hpp"

ASSAY_CPU_BEGIN

template class FastWeight<float, MomentumChunk>;
template class FastWeight<double, MomentumChunk>;
template void run_sequences<FastWeight<float, MomentumChunk>>(const Binding&, const Call&);
template void run_sequences<FastWeight<double, MomentumChunk>>(const Binding&, const Call&);

ASSAY_CPU_END
