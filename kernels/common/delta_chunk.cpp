#include "kernels/common/delta_chunk.hpp"

ASSAY_CPU_BEGIN

template void run_sequences<FastWeight<float, DeltaChunk>>(const Binding&, const Call&);
template void run_sequences<FastWeight<double, DeltaChunk>>(const Binding&, const Call&);

ASSAY_CPU_END
