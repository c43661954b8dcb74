// What several recurrences use, instantiated once for every scalar.
#include "reference/recurrences/delta_chunk.hpp"
#include "reference/recurrences/fast_weight.hpp"

namespace assay {

#define ASSAY_INSTANTIATE(Real)                                                                \
  template class FastWeight<Real>;                                                             \
  template void delta_chunk_forward<Real>(const DeltaChunkInputs<Real>&, Real*, Real*, Real*); \
  template void delta_chunk_backward<Real>(const DeltaChunkInputs<Real>&, const Real*,         \
                                           const Real*, const Real*, Real*,                    \
                                           const DeltaChunkInputs<Real>&);
ASSAY_FOR_EACH_SCALAR(ASSAY_INSTANTIATE)
#undef ASSAY_INSTANTIATE

}  // namespace assay
