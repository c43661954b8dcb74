#!/bin/bash
# The device code of mdn, gdn, delta and mdn_fused_gates on small cases that every kernel of them has
# a part in, wherever it runs: on a GPU, or compiled for the CPU.
#
# usage: delta_rules.sh accept|reject|both ASSAY PLUGIN.so
#
# `reject` needs a plug-in with faults built in (ASSAY_MDN_FAULTS) and wants each to be found.
set -u
mode=$1 assay=$2 plugin=$3
. "$(dirname "$0")/../judge.sh"

# fp32 of any width, on tensor cores where widths are multiples of 16 (`full`), and bf16 on tensor
# cores: packed, shared heads, a tail, K and V apart.
case_file mdn mdn --shape B=2,T=70,H=2,K=24,V=16,H.k=1,H.beta=1 --seed 21 --option qk_l2norm=true
case_file gdn gdn --shape B=1,T=75,H=2,K=9,V=20,cu=0,3,3,75 --seed 22 --log-gates
case_file delta delta --shape B=1,T=66,H=1,K=130,V=8 --seed 23
case_file mdn_fast mdn --shape B=1,T=80,H=2,K=64,V=64,H.q=1,H.beta=1 --seed 24 --option qk_l2norm=true --dtype BF16
case_file gdn_fast gdn --shape B=1,T=130,H=1,K=64,V=128,cu=0,65,65,130 --seed 25 --dtype BF16
case_file delta_fast delta --shape B=1,T=65,H=1,K=128,V=64 --seed 26 --dtype BF16
case_file mdn_full mdn --shape B=1,T=67,H=2,K=32,V=16,H.k=1,H.beta=1 --seed 31 --option qk_l2norm=true
case_file gdn_full gdn --shape B=1,T=75,H=1,K=16,V=80,cu=0,3,3,75 --seed 32 --log-gates --dtype F16
case_file delta_full delta --shape B=1,T=66,H=1,K=48,V=16 --seed 33
case_file fused_full mdn_fused_gates --shape B=1,T=67,H=2,K=16,V=32,H.k=1,H.x_beta=1,H.a_mu=1 --seed 34
case_file mdn_windows mdn --shape B=1,T=200,H=1,K=64,V=64,cu=0,135,200 --seed 29 --dtype BF16
case_file fused mdn_fused_gates --shape B=2,T=70,H=2,K=24,V=16,H.k=1,H.x_beta=1,H.a_mu=1 --seed 29 --option qk_l2norm=true --option log_mu_min=-0.5
case_file fused_fast mdn_fused_gates --shape B=1,T=80,H=2,K=64,V=64,H.x_alpha=1,H.b_alpha=1,cu=0,3,80 --seed 30 --option log_mu_min=-0.5 --dtype BF16
# The smallest that show every fault: a chunk and a tail.
case_file mdn_small mdn --shape B=1,T=67,H=2,K=24,V=16,H.k=1,H.beta=1 --seed 27 --option qk_l2norm=true
case_file mdn_small_fast mdn --shape B=1,T=67,H=2,K=64,V=64,H.q=1,H.beta=1 --seed 28 --option qk_l2norm=true --dtype BF16

if [ "$mode" != reject ]; then
  for name in mdn gdn delta fused; do
    check "$name in fp32" $name fp32 0
    check "$name in bf16 on tensor cores" ${name}_fast bf16 0 "${on_tensor_cores[@]}"
  done
  for name in mdn delta fused; do
    check "$name in fp32 on tensor cores" ${name}_full fp32 0
  done
  check "gdn of fp16 as fp32 on tensor cores" gdn_full fp16 0
  ASSAY_CUDA_RECOMPUTE=1 check "gdn_full, back a chunk at a time, recomputed" gdn_full fp16 0
  for name in mdn_windows gdn_fast fused_fast; do
    ASSAY_CUDA_RECOMPUTE=1 check "$name, back a chunk at a time, recomputed" $name bf16 0 \
      "${on_tensor_cores[@]}"
  done
fi
if [ "$mode" != accept ]; then  # one call shows an error
  for fault in gamma_diagonal_zeroed stale_second_state tail_chunk_decays decay_exclusive \
    eta_missing_in_state chunk_state_order carry_dropped dbeta_without_carry \
    dalpha_without_residual dmu_within_chunk dk_single_path final_cotangent_ignored \
    group_grad_last_head tail_unwritten scale_missing_in_dq; do
    ASSAY_MDN_FAULT=$fault check "mdn in fp32 with $fault is rejected" mdn_small fp32 1 --quick
  done
  for fault in gamma_diagonal_zeroed stale_second_state tail_chunk_decays decay_exclusive \
    dbeta_without_carry dalpha_without_residual dk_single_path final_cotangent_ignored \
    group_grad_last_head scale_missing_in_dq; do
    ASSAY_MDN_FAULT=$fault check "mdn in bf16 with $fault is rejected" mdn_small_fast bf16 1 --quick
    ASSAY_MDN_FAULT=$fault check "mdn in fp32 on tensor cores with $fault is rejected" mdn_full fp32 1 \
      --quick
  done
  for fault in gate_floor_passes gate_bound_missing gate_parameters_first_chunk; do
    ASSAY_MDN_FAULT=$fault check "mdn_fused_gates in fp32 with $fault is rejected" fused fp32 1 --quick
    ASSAY_MDN_FAULT=$fault check "mdn_fused_gates in bf16 with $fault is rejected" fused_fast bf16 1 \
      --quick
  done
fi
exit $bad
