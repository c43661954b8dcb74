#!/bin/bash
# The device code of mom and its parts, of single steps and of mdn_gates, on small cases; with the
# threads of a block from the first to the last and the other way round, which must give the same.
#
# usage: mixtures.sh ASSAY PLUGIN.so
#
# An error in the update under mom (ASSAY_MDN_FAULT, with a plug-in that has it) must be found.
set -u
assay=$1 plugin=$2
. "$(dirname "$0")/../judge.sh"
options=()

both() {  # model, then arguments of gen
  local model=$1
  shift
  case_file case "$@"
  check "$* in $model" case "$model" 0 "${options[@]}"
  ASSAY_CUDA_ON_CPU_ORDER=reverse check "  from the last thread to the first" case "$model" 0 \
    --quick "${options[@]}"
}

both fp32 mom_dispatch --shape B=3,T=300,M=5 --option top_k=3 --seed 31
both fp32 mom_dispatch --shape B=2,T=512,M=5 --option top_k=2 --seed 41
both fp32 mom_aux_loss --shape B=2,T=300,M=5 --seed 32
both bf16 mdn_gates --shape B=2,T=70,H=3 --seed 33 --dtype BF16
options=(--no-grad)  # a step has a kernel of its own when no gradients are asked for
both fp32 gdn --shape B=3,T=1,H=2,K=20,V=70 --seed 34
both bf16 mdn --shape B=2,T=2,H=2,K=128,V=64 --seed 35 --dtype BF16
# Many heads of 64 or 128: blocks that stay.
both fp32 gdn --shape B=3,T=1,H=7,K=64,V=64 --seed 46
both fp32 mdn --shape B=3,T=1,H=6,K=64,V=64,H.q=2,H.mu=3 --option qk_l2norm=true --seed 47
both bf16 gdn --shape B=2,T=1,H=9,K=128,V=128 --log-gates --seed 48 --dtype BF16
both bf16 mdn --shape B=2,T=1,H=8,K=128,V=128 --seed 49 --dtype BF16
both bf16 mdn_fused_gates --shape B=3,T=1,H=2,K=20,V=70,H.x_mu=1,H.a_alpha=1 --seed 41 --dtype BF16
both fp32 mom --shape B=3,T=1,H=2,K=20,V=12,M=3 --seed 36
options=()
both fp32 mom --shape B=3,T=1,H=2,K=20,V=12,M=3 --seed 36
both fp32 mom --shape B=2,T=75,H=2,K=9,V=6,M=3 --option update=mdn --seed 37
both fp32 mom --shape B=1,T=40,H=2,K=8,V=8,M=3,cu=0,3,3,40 --option top_k=1 --seed 38
options=("${on_tensor_cores[@]}")
both bf16 mom --shape B=1,T=70,H=1,K=64,V=64,M=3 --seed 39 --dtype BF16
ASSAY_CUDA_RECOMPUTE=1 both bf16 mom --shape B=1,T=70,H=1,K=64,V=64,M=3 --seed 39 --dtype BF16
# Zeros of memories that are not chosen: with a shared memory and without; of more than a word.
alone=k_shared,v_shared,alpha_shared,beta_shared
zeros="mom --shape B=1,T=20,H=1,K=64,V=64,M=5,cu=0,3,3,20 --option top_k=2 --seed 43 --dtype BF16"
both bf16 $zeros
both bf16 $zeros --without $alone
ASSAY_MDN_FAULT=second_zero_missing check "  a zero that is not stored is found" case bf16 1 --quick
both bf16 mom --shape B=1,T=4,H=1,K=64,V=64,M=34 --option top_k=3 --seed 44 --dtype BF16 --without $alone
both bf16 mom --shape B=1,T=9,H=2,K=64,V=128,M=4,H.k_mem=1 --seed 45 --dtype BF16 --without $alone
options=()
both fp32 mom --shape B=2,T=256,H=1,K=5,V=4,M=3 --option top_k=1 --seed 42

case_file case mom --shape B=1,T=40,H=1,K=8,V=6,M=2 --option update=mdn --seed 40
ASSAY_MDN_FAULT=stale_second_state check "an error in the update is rejected" case fp32 1
exit $bad
