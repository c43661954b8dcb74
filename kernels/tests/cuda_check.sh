#!/bin/bash
# The CUDA kernels on this machine's GPU, judged by the project's own program.
#
# usage: cuda_check.sh accept ASSAY PLUGIN.so SAMPLES
#        cuda_check.sh reject ASSAY PLUGIN_WITH_FAULTS.so
#
# Exit 77 (skipped) without a GPU. `reject` wants every fault that can be built in to be found, on a
# case that shows it.
set -u
mode=$1 assay=$2 plugin=$3
if ! nvidia-smi -L >/dev/null 2>&1; then
  echo "skipped: no NVIDIA GPU on this machine"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

case_file() {  # NAME, then arguments of gen
  local name=$1
  shift
  "$assay" gen m2rnn --out "$work/$name" "$@" >/dev/null || exit 2
}
case_file wide --shape B=2,T=40,N=2,K=80,V=16,N.q=1 --seed 11
case_file clipped --shape B=2,T=40,N=2,K=24,V=16 --seed 12 --option state_grad_clip=0.3125

judge() {  # what to say, expected exit, command
  local what=$1 expected=$2
  shift 2
  "$@" >"$work/out" 2>&1
  local got=$?
  if [ $got -eq "$expected" ]; then
    echo "ok      $what"
  else
    bad=1
    echo "FAILED  $what: exit $got, expected $expected"
    tail -n 25 "$work/out"
  fi
}

declared() {  # the plug-in's own model of a format, for cases that are made for it
  echo "{\"name\": \"cuda $1\", \"input\": \"$1\", \"operand\": \"$1\"," \
    "\"accumulator\": \"fp32\", \"state\": \"fp32\", \"gate\": \"fp32\"," \
    "\"output\": \"$1\", \"form\": \"recurrent\", \"tanh_error\": 0.00048828125," \
    "\"truncating_accumulator\": true}" >"$work/$1.json"
}
declared bf16
declared fp16

if [ "$mode" = accept ]; then
  for model in fp32 bf16 fp16; do
    file=$model
    [ $model = fp32 ] || file=$work/$model.json
    judge "m2rnn, m2rnn_gate with $model tokens" 0 \
      "$assay" check m2rnn m2rnn_gate --candidate "$plugin" --model "$file" --budget 120s
    for shape in B=2,T=20,N=2,K=80,V=16,N.q=1 B=1,T=7,N=2,K=256,V=64 B=1,T=18,N=2,K=130,V=33,N.w=1; do
      dtype=$(case $model in fp32) echo F32 ;; bf16) echo BF16 ;; fp16) echo F16 ;; esac)
      case_file one --shape $shape --seed 13 --dtype "$dtype"
      judge "m2rnn $shape $model" 0 \
        "$assay" check --case "$work/one" --candidate "$plugin" --budget 120s
    done
  done
  judge "the clamp of the state's cotangent" 0 \
    "$assay" check --case "$work/clipped" --candidate "$plugin" --budget 60s
  for sample in m2rnn_s3 mdn_mqar; do
    judge "tensors of a trained network, $sample" 0 \
      "$assay" check --case "$4/$sample.safetensors" --candidate "$plugin" --budget 300s \
      --time-limit 120
  done
  for model in fp32 tf32 bf16 fp16; do
    judge "mdn, gdn, delta under $model" 0 \
      "$assay" check mdn gdn delta --candidate "$plugin" --model $model --budget 120s
  done
  "$(dirname "$0")/cuda_on_cpu/delta_rules.sh" accept "$assay" "$plugin" || bad=1
  exit $bad
fi

for name in wide clipped; do
  judge "$name without a fault" 0 \
    "$assay" check --case "$work/$name" --candidate "$plugin" --model fp32 --budget 60s
done
for fault in future_dropped retain_overwritten recompute_stale gate_swapped candidate_ungated \
  tanh_slope_of_state w_transposed_forward w_transposed_adjoint df_uses_new_state \
  dq_uses_old_state dv_residual_missing group_grad_last_head dw_last_batch \
  final_cotangent_ignored key_tail_dropped clip_output_not_state; do
  name=wide
  [ $fault = clip_output_not_state ] && name=clipped
  judge "m2rnn.$fault is rejected" 1 env ASSAY_M2RNN_FAULT=$fault \
    "$assay" check --case "$work/$name" --candidate "$plugin" --model fp32 --budget 60s
done
"$(dirname "$0")/cuda_on_cpu/delta_rules.sh" reject "$assay" "$plugin" || bad=1
exit $bad
