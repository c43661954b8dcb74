// The table of programs; included where they are instantiated.
#pragma once

#include "proofs/programs/m2rnn.hpp"
#include "proofs/programs/mdn.hpp"
#include "proofs/programs/mom.hpp"

namespace assay::proofs {

template <class Real>
using ProgramTable =
    std::map<std::string, Equations<Real> (*)(const Parameters&, const Source<Real>&)>;

template <class Real>
const ProgramTable<Real>& program_table() {
  static const ProgramTable<Real> table = {
      {"mdn_chunk", mdn_chunk<Real>},
      {"mdn_gamma", mdn_gamma<Real>},
      {"mdn_second_order", mdn_second_order<Real>},
      {"mdn_charpoly", mdn_charpoly<Real>},
      {"gdn_charpoly", gdn_charpoly<Real>},
      {"mdn_reduces_gdn", mdn_reduces_gdn<Real>},
      {"gdn_reduces_delta", gdn_reduces_delta<Real>},
      {"mdn_inverse", mdn_inverse<Real>},
      {"mdn_blocks", mdn_blocks<Real>},
      {"mdn_residual", mdn_residual<Real>},
      {"m2rnn_value_gradient", m2rnn_value_gradient<Real>},
      {"m2rnn_is_rnn", m2rnn_is_rnn<Real>},
      {"m2rnn_algorithm2", m2rnn_algorithm2<Real>},
      {"m2rnn_jacobian_at_zero", m2rnn_jacobian_at_zero<Real>},
      {"mom_packing", mom_packing<Real>},
      {"mom_mix", mom_mix<Real>},
      {"mom_variant", mom_variant<Real>},
  };
  return table;
}

template <class Real>
Equations<Real> run_program(const std::string& name, const Parameters& parameters,
                            const Source<Real>& source) {
  const auto found = program_table<Real>().find(name);
  if (found == program_table<Real>().end()) {
    throw std::invalid_argument("there is no program '" + name + "'");
  }
  return found->second(parameters, source);
}

}  // namespace assay::proofs
