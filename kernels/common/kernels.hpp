// The kernels of this build, one per operation; each is defined in kernels/<op>/<op>_cpu.cpp.
#pragma once

#include "kernels/common/call.hpp"
#include "kernels/common/spec.hpp"
#include "kernels/common/variant.hpp"

#define ASSAY_CPU_FAST_WEIGHTS(X) \
  X(linear_attention)             \
  X(retention) X(ssd) X(gla) X(hgrn2) X(delta) X(gdn) X(kda) X(comba) X(gated_delta_product) X(mdn)
#define ASSAY_CPU_RECURRENCES(X) \
  ASSAY_CPU_FAST_WEIGHTS(X)      \
  X(mdn_fused_gates) X(m2rnn) X(mom) X(rnn) X(gru) X(lstm)
#define ASSAY_CPU_PARTS(X) \
  X(m2rnn_gate) X(mdn_gates) X(causal_conv1d) X(rmsnorm) X(rmsnorm_tp) X(m2rnn_block)
#define ASSAY_CPU_ROUTING(X) X(mom_dispatch) X(mom_aux_loss)
#define ASSAY_CPU_OPERATIONS(X) ASSAY_CPU_RECURRENCES(X) ASSAY_CPU_PARTS(X) ASSAY_CPU_ROUTING(X)

ASSAY_CPU_BEGIN

#define ASSAY_CPU_DECLARE(op) extern const OpKernel op##_kernel;
ASSAY_CPU_OPERATIONS(ASSAY_CPU_DECLARE)
#undef ASSAY_CPU_DECLARE

/// The tensors of the fast-weight members; mom gives each memory a set of its own.
#define ASSAY_CPU_DECLARE(op) extern const OpSpec op##_spec;
ASSAY_CPU_FAST_WEIGHTS(ASSAY_CPU_DECLARE)
#undef ASSAY_CPU_DECLARE

/// All of them.
extern const KernelTable table;

ASSAY_CPU_END
