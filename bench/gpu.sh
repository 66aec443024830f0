#!/usr/bin/env bash
# Measures on a GPU: memory-bound kernels, whole models and host time of calls against torch.compile. PyTorch must be there: PYTHON names a Python that has it
# (default python3).
#     bench/gpu.sh [--device DEVICE] [--out DIR] [kernels|models|host|table [OPTION]...]
#   DIR      results, as JSON lines and as RESULTS.md; default: the folder OUT, if that is set, else build/bench-gpu
#   OPTION   of bench/gpu_kernels.py (--rows softmax,layer_norm --no-inductor --limit 300) and bench/gpu_models.py (--models gpt2_4x256 --modes default)
# Without a part: all, then the table. A part that is not asked for again keeps its figures in DIR. It runs from a checkout, where it uses build/,
# and from the pack of `make gpu-pack` (bench.sh there).
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tests/gpu/environment.sh
. tests/gpu/environment.sh
device=cuda out=${OUT:-$root/build/bench-gpu}
while [ $# -gt 1 ]; do
    case $1 in
    --device) device=$2; shift 2 ;;
    --out) mkdir -p "$2"; out=$(cd "$2" && pwd); shift 2 ;;
    *) break ;;
    esac
done
part=${1:-all}
[ $# -gt 0 ] && shift
mkdir -p "$out"
HENRY_CACHE_DIR=$(mktemp -d "${TMPDIR:-/tmp}/henry-bench-XXXXXX")
export HENRY_CACHE_DIR PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
trap 'rm -rf "$HENRY_CACHE_DIR"' EXIT
export TORCHINDUCTOR_CACHE_DIR=$HENRY_CACHE_DIR/inductor

# measure PART OPTION...: what it was before stays until there is something new
measure() {
    local file=$out/gpu_$1.jsonl programs=(--subject "$build/bench_gpu_subject")
    [ "$1" = models ] && programs+=(--henry "$build/henry")
    "$python" "bench/gpu_$1.py" "${programs[@]}" --device "$device" -o "$file.new" "${@:2}" || status=1
    [ ! -f "$file.new" ] || mv "$file.new" "$file"
}
bench_table() { "$python" bench/gpu_table.py "$out" -o "$out/RESULTS.md"; }

status=0
case $part in
kernels | models | host) measure "$part" "$@"; bench_table ;;
table) bench_table ;;
all) for part in host kernels models; do measure $part "$@"; done; bench_table ;;
*) sed -n '4,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
exit $status
