// Known errors that a build with ASSAY_M2RNN_FAULTS can be told to make, so that tests see them
// rejected. In any other build a fault is the constant `none` and nothing of it is compiled.
#pragma once

namespace assay::cuda {

// X(name)
#define ASSAY_M2RNN_FAULT_LIST(X) \
  X(none)                         \
  X(future_dropped)               \
  X(retain_overwritten)           \
  X(recompute_stale)              \
  X(gate_swapped)                 \
  X(candidate_ungated)            \
  X(tanh_slope_of_state)          \
  X(w_transposed_forward)         \
  X(w_transposed_adjoint)         \
  X(df_uses_new_state)            \
  X(dq_uses_old_state)            \
  X(dv_residual_missing)          \
  X(group_grad_last_head)         \
  X(dw_last_batch)                \
  X(final_cotangent_ignored)      \
  X(key_tail_dropped)             \
  X(clip_output_not_state)

enum class M2rnnFault : int {
#define ASSAY_M2RNN_FAULT_ENTRY(name) name,
  ASSAY_M2RNN_FAULT_LIST(ASSAY_M2RNN_FAULT_ENTRY)
#undef ASSAY_M2RNN_FAULT_ENTRY
};

#if defined(ASSAY_M2RNN_FAULTS)
#define ASSAY_M2RNN_IS_FAULT(p, name) ((p).fault == static_cast<int>(M2rnnFault::name))
#else
#define ASSAY_M2RNN_IS_FAULT(p, name) false
#endif

}  // namespace assay::cuda
