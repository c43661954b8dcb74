#!/bin/bash
# The device code of m2rnn on small cases of every width and format, wherever it runs: on a GPU, or
# compiled for the CPU.
#
# usage: m2rnn.sh accept|reject ASSAY PLUGIN.so
#
# `reject` needs a plug-in with faults built in (ASSAY_M2RNN_FAULTS) and wants each to be found.
set -u
mode=$1 assay=$2 plugin=$3
. "$(dirname "$0")/../judge.sh"

case_file wide m2rnn --shape B=2,T=18,N=2,K=66,V=4,N.q=1 --seed 11 --dtype BF16
case_file clipped m2rnn --shape B=2,T=18,N=2,K=9,V=4 --seed 12 --dtype BF16 --option state_grad_clip=0.3125

if [ "$mode" = accept ]; then
  for model in fp32 bf16 fp16; do
    dtype=$(case $model in fp32) echo F32 ;; bf16) echo BF16 ;; fp16) echo F16 ;; esac)
    for shape in B=2,T=20,N=2,K=40,V=16,N.q=1 B=1,T=18,N=2,K=20,V=30,N.w=1 B=1,T=3,N=1,K=130,V=33; do
      case_file one m2rnn --shape $shape --seed 13 --dtype "$dtype"
      # Repeated calls and properties once for each shape.
      check "m2rnn $shape in $model" one $model 0 $([ $model = bf16 ] || echo --quick)
    done
  done
  check "the clamp of the state's cotangent" clipped bf16 0
  # Numbers of every magnitude: each state is an operand with digits of its own.
  for line in \
    "m2rnn B=3,T=8,N=4,K=16,V=10 bf16 C=64 gates=long values=subnormal states=zero cot=h_final:absent seed=863672032021" \
    "m2rnn B=1,T=9,N=2,K=8,V=1 bf16 C=64 gates=ladder log bare keys=orthogonal states=zero seed=713192472575"; do
    judge "$line" 0 "$assay" replay "$line" --candidate "$plugin" --model bf16
  done
  exit $bad
fi

for name in wide clipped; do
  check "$name without a fault" $name bf16 0 --quick
done
for fault in future_dropped retain_overwritten recompute_stale gate_swapped candidate_ungated \
  tanh_slope_of_state w_transposed_forward w_transposed_adjoint df_uses_new_state \
  dq_uses_old_state dv_residual_missing group_grad_last_head dw_last_batch \
  final_cotangent_ignored key_tail_dropped clip_output_not_state; do
  name=wide
  [ $fault = clip_output_not_state ] && name=clipped
  ASSAY_M2RNN_FAULT=$fault check "m2rnn with $fault is rejected" $name bf16 1 --quick
done
exit $bad
