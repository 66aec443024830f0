#!/usr/bin/env bash
# Measures on a GPU: memory-bound kernels, whole models and host time of calls against torch.compile. PyTorch must be there: PYTHON names a Python that has it
# (default python3).
#     bench/gpu.sh [--device DEVICE] [--out DIR] [--have DIR] [PART [OPTION]...]
#   DIR      results, as JSON lines and as RESULTS.md; default: the folder OUT, if that is set, else build/bench-gpu.
#            Of --have: results of an earlier run: what it has is not measured again, and stands in the tables
#   PART     host, kernels, inductor (torch.compile of the rows of kernels), models, tuning, picks (all forms of softmax and norms against the ones
#            that are chosen), profile (where the time of Henry's models goes), table, or all (the default): everything but profile, by importance;
#            --limit SECONDS is for all of it, and --tiny tries it on any machine
#   OPTION   of bench/gpu_kernels.py (--rows softmax,layer_norm --limit 300), bench/gpu_models.py (--models gpt2_4x256 --modes henry,default),
#            bench/gpu_tuning.py (--rows products) and bench_picks (--budget 500 softmax)
# Figures in DIR stay until they are measured again. It runs from a checkout, where it uses build/, and from the pack of `make gpu-pack` (bench.sh there).
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tests/gpu/environment.sh
. tests/gpu/environment.sh
usage() { sed -n '4,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
device=cuda out=${OUT:-$root/build/bench-gpu} have=()
while [ $# -gt 1 ]; do
    case $1 in
    --device) device=$2; shift 2 ;;
    --out) mkdir -p "$2"; out=$(cd "$2" && pwd); shift 2 ;;
    --have) have+=("$(cd "$2" && pwd)"); shift 2 ;;
    *) break ;;
    esac
done
part=${1:-all}
[ $# -gt 0 ] && shift
mkdir -p "$out"
HENRY_CACHE_DIR=$(mktemp -d "${TMPDIR:-/tmp}/henry-bench-XXXXXX")
export HENRY_CACHE_DIR PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
trap 'rm -rf "$HENRY_CACHE_DIR"' EXIT
export TORCHINDUCTOR_CACHE_DIR=${TORCHINDUCTOR_CACHE_DIR:-$HENRY_CACHE_DIR/inductor}

status=0
# measure PART OPTION...: what it has found comes behind what was there, also when it is ended
measure() {
    local file=$out/gpu_$1.jsonl script=$1 programs=(--subject "$build/bench_gpu_subject")
    case $1 in
    kernels) programs+=(--who henry) ;;
    inductor) script=kernels; programs+=(--who inductor) ;;
    models) programs+=(--henry "$build/henry") ;;
    tuning) programs+=(--henry "$build/henry") ;;
    profile) script=models; programs+=(--henry "$build/henry" --profile) ;;
    esac
    if [ "$1" != host ]; then for dir in "${have[@]}"; do programs+=(--have "$dir"); done; fi
    "${stop[@]}" "$python" "bench/gpu_$script.py" "${programs[@]}" --device "$device" -o "$file.new" "${@:2}" || status=1
    [ ! -f "$file.new" ] || { cat "$file.new" >>"$file"; rm "$file.new"; }
}
# picks OPTION...: a line a kernel; of the program's own list, so there is nothing to leave out
picks() { "${stop[@]}" "$build/bench_picks" --device "$device" "$@" >>"$out/gpu_picks.jsonl" || status=1; }
stop=()
bench_table() { "$python" bench/gpu_table.py "${have[@]}" "$out" -o "$out/RESULTS.md" "$@"; }

# share PERCENT PART OPTION...: a part of all, with this part of the time that is left. No row begins later; a row that hangs is ended.
share() {
    local left=$((limit - SECONDS)) mine
    mine=$((left * $1 / 100))
    if [ $left -lt 5 ]; then echo "=== ${*:2}: no time is left"; return; fi
    echo "=== ${*:2}: $mine s of $left"
    stop=(timeout -k 5 $((mine + GRACE < left ? mine + GRACE : left)))
    case $2 in
    host) measure "${@:2}" ;;
    picks) picks "${@:3}" ;;
    *) measure "${@:2}" --limit "$mine" ;;
    esac
    bench_table --counts
}
GRACE=40 # seconds that a row, or torch.compile of a model, may take longer

measure_all() {
    local tiny=() models=() cells=()
    limit=100000
    while [ $# -gt 0 ]; do
        case $1 in
        --limit) limit=$2; shift 2 ;;
        --tiny) tiny=(--tiny) models=(--models tiny) cells=(--predict softmax); shift ;;
        *) usage ;;
        esac
    done
    share 12 host
    share 35 kernels --rows main "${tiny[@]}"
    share 50 models --modes henry,default "${models[@]}"
    share 50 kernels --rows sweep "${tiny[@]}"
    share 50 inductor --rows main "${tiny[@]}"
    share 60 models --modes max-autotune "${models[@]}"
    share 30 tuning "${tiny[@]}"
    share 50 picks --budget 500 "${cells[@]}"
    share 100 inductor --rows sweep "${tiny[@]}"
}

case $part in
kernels | inductor | models | tuning | profile | host) measure "$part" "$@"; bench_table ;;
picks) picks "$@"; bench_table ;;
table) bench_table ;;
all) measure_all "$@"; bench_table ;;
*) usage ;;
esac
exit $status
