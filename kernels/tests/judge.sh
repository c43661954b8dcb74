# For the scripts that have kernels judged by the program, who source it once $assay and $plugin are
# set: a place for files, which goes when they end, cases, verdicts, and whether one was bad.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0
# Tensor-core kernels take their time where a CPU stands in for the device: one call each there.
on_tensor_cores=()
case $plugin in *_on_cpu.so) on_tensor_cores=(--quick) ;; esac

case_file() {  # NAME, then arguments of gen
  local name=$1
  shift
  "$assay" gen "$@" --out "$work/$name" >/dev/null || exit 2
}
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
check() {  # what to say, case, model, expected exit, further options
  judge "$1" "$4" "$assay" check --case "$work/$2" --candidate "$plugin" --model "$3" \
    --budget 120s --time-limit 120 "${@:5}"
}
