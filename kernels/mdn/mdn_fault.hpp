// Known errors of the delta-rule kernels that a build with ASSAY_MDN_FAULTS can be told to make, so
// that tests see them rejected. In any other build nothing of it is compiled.
#pragma once

namespace assay::cuda {

// X(name)
#define ASSAY_MDN_FAULT_LIST(X)  \
  X(none)                        \
  X(gamma_diagonal_zeroed)       \
  X(stale_second_state)          \
  X(tail_chunk_decays)           \
  X(decay_exclusive)             \
  X(eta_missing_in_state)        \
  X(chunk_state_order)           \
  X(carry_dropped)               \
  X(dbeta_without_carry)         \
  X(dalpha_without_residual)     \
  X(dmu_within_chunk)            \
  X(dk_single_path)              \
  X(final_cotangent_ignored)     \
  X(group_grad_last_head)        \
  X(tail_unwritten)              \
  X(scale_missing_in_dq)         \
  X(gate_floor_passes)           \
  X(gate_bound_missing)          \
  X(gate_parameters_first_chunk) \
  X(second_zero_missing)

enum class MdnFault : int {
#define ASSAY_MDN_FAULT_ENTRY(name) name,
  ASSAY_MDN_FAULT_LIST(ASSAY_MDN_FAULT_ENTRY)
#undef ASSAY_MDN_FAULT_ENTRY
};

#if defined(ASSAY_MDN_FAULTS)
#define ASSAY_MDN_IS_FAULT(p, name) ((p).fault == static_cast<int>(MdnFault::name))
#else
#define ASSAY_MDN_IS_FAULT(p, name) false
#endif

}  // namespace assay::cuda
