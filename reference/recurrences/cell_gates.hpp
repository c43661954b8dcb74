// The affine maps inside a GRU or LSTM cell: gate g of G is W_g z (+ b_g), with weights [G,D,E] as
// PyTorch lays them out (rows are outputs).
#pragma once

#include "reference/recurrences/step_recurrence.hpp"

namespace assay {

inline InputSpec cell_weight(const std::string& name, const std::string& axes,
                             const std::string& doc) {
  return {name, axes, Role::param, doc, {}};
}
inline InputSpec cell_bias(const std::string& name, const std::string& doc) {
  return {name, "HGD", Role::param, doc, {}, true};
}

/// a [G,D] = b + W z, weights [G,D,E], z [E].
template <class Real>
void cell_affine(std::int64_t G, std::int64_t D, std::int64_t E, const Real* W, const Real* b,
                 const Real* z, Real* a) {
  for (std::int64_t i = 0; i < G * D; ++i) a[i] = b[i];
  la::gemv_add(G * D, E, W, z, a);
}

/// d_W += d_a z^T     d_b += d_a     d_z += W^T d_a
template <class Real>
void cell_affine_adjoint(std::int64_t G, std::int64_t D, std::int64_t E, const Real* W,
                         const Real* z, const Real* d_a, Real* d_W, Real* d_b, Real* d_z) {
  la::ger_add(G * D, E, d_a, z, d_W);
  for (std::int64_t i = 0; i < G * D; ++i) d_b[i] += d_a[i];
  la::gemv_t_add(G * D, E, W, d_a, d_z);
}

}  // namespace assay
