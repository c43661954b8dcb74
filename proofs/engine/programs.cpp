// The programs on the finder's arithmetic.
#include "proofs/engine/symbol.hpp"
#include "proofs/programs/all.hpp"
#include "reference/scalars/scalars.hpp"

namespace assay::proofs {

const std::vector<std::string>& program_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, program] : program_table<Rational>()) all.push_back(name);
    return all;
  }();
  return names;
}

#define ASSAY_INSTANTIATE(Real)                                                     \
  template Equations<Real> run_program<Real>(const std::string&, const Parameters&, \
                                             const Source<Real>&);
ASSAY_INSTANTIATE(Rational)
ASSAY_INSTANTIATE(Field)
ASSAY_INSTANTIATE(Symbol)
ASSAY_INSTANTIATE(DegreeBound)
#undef ASSAY_INSTANTIATE

}  // namespace assay::proofs
