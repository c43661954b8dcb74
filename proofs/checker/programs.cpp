// The programs on the checker's own arithmetic.
#include "proofs/checker/numbers.hpp"
#include "proofs/programs/all.hpp"

namespace assay::proofs {

#define ASSAY_INSTANTIATE(Real)                                                     \
  template Equations<Real> run_program<Real>(const std::string&, const Parameters&, \
                                             const Source<Real>&);
ASSAY_INSTANTIATE(checker::Exact)
ASSAY_INSTANTIATE(checker::Residue)
ASSAY_INSTANTIATE(checker::Poly)
ASSAY_INSTANTIATE(checker::Degree)
#undef ASSAY_INSTANTIATE

}  // namespace assay::proofs
