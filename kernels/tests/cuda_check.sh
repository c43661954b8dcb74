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
. "$(dirname "$0")/judge.sh"

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
  done
  for sample in m2rnn_s3 mdn_mqar; do
    judge "tensors of a trained network, $sample" 0 \
      "$assay" check --case "$4/$sample.safetensors" --candidate "$plugin" --budget 300s \
      --time-limit 120
  done
  for model in fp32 tf32 bf16 fp16; do
    judge "mdn, gdn, delta, mdn_fused_gates under $model" 0 \
      "$assay" check mdn gdn delta mdn_fused_gates --candidate "$plugin" --model $model \
        --budget 120s
  done
  for case in "gdn 64" "mdn 128"; do  # more heads than a GPU has multiprocessors: blocks that stay
    width=${case#* }
    case_file steps ${case% *} --shape B=34,T=1,H=16,K=$width,V=$width --seed 1 --dtype BF16
    check "one step of 544 heads, $case" steps bf16 0 --no-grad
  done
  "$(dirname "$0")/cuda_on_cpu/m2rnn.sh" accept "$assay" "$plugin" || bad=1
  "$(dirname "$0")/cuda_on_cpu/delta_rules.sh" accept "$assay" "$plugin" || bad=1
  exit $bad
fi

"$(dirname "$0")/cuda_on_cpu/m2rnn.sh" reject "$assay" "$plugin" || bad=1
"$(dirname "$0")/cuda_on_cpu/delta_rules.sh" reject "$assay" "$plugin" || bad=1
exit $bad
