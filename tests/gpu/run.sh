#!/usr/bin/env bash
# What can only be tested where the device is: whole programs, operators and random graphs on it, against stored outputs of
# PyTorch and the reference interpreter; models in bf16 and f16 against float64, if PyTorch is there (PYTHON names another Python than
# python3); on CUDA also operators under compute-sanitizer.
#     tests/gpu/run.sh [--device DEVICE] [--sample N] [--jobs N] [--limit SECONDS] [--logs DIR] [--turn K] [PART]...
#   DEVICE   default cuda; opencl and cpu try the script itself where there is no GPU
#   N        operators: every Nth case; graphs: 2000 / N (default 1: all). Of --jobs: processes at once (default: one a CPU, at most 16)
#   SECONDS  for one part (default 420); what is not done by then has failed
#   DIR      whole outputs; default: the folder OUT, if that is set, else none are kept
#   K        of 50 (times N): compute-sanitizer takes every 50th case, other ones in each turn, so 50 turns have all; default: by the minute
#   PART     default: all of the table below
# It runs from a checkout, where it uses build/, and from the pack of `make gpu-pack` (test.sh there). Ends with a table.
set -u
cd "$(dirname "$0")/../.." || exit 2
# shellcheck source=tests/gpu/environment.sh
. tests/gpu/environment.sh
device=cuda sample=1 jobs=$(nproc) limit=420 logs=${OUT:-} turn=$(($(date +%s) / 60))
[ "$jobs" -gt 16 ] && jobs=16
parts="row several models programs tools source narrow ops graphs memcheck racecheck initcheck"

usage() {
    sed -n '5,13s/^# \{0,1\}//p' "$0"
    echo "parts: $parts"
    exit 2
}
while [ $# -gt 0 ]; do
    case $1 in
    --device | --sample | --jobs | --limit | --logs | --turn) [ $# -gt 1 ] || usage; declare "${1#--}=$2"; shift ;;
    -*) usage ;;
    *) break ;;
    esac
    shift
done
for part in "$@"; do case " $parts " in *" $part "*) ;; *) usage ;; esac; done

kind=${device%%:*}
target=(--target "$kind")
[ "$kind" = cpu ] && target=()
work=$(mktemp -d "${TMPDIR:-/tmp}/henry-gpu-XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
[ -n "$logs" ] || logs=$work/logs
mkdir -p "$logs" "$work/pocl"
export PYTHONDONTWRITEBYTECODE=1 HENRY_CACHE_DIR=$work/cache POCL_CACHE_DIR=${POCL_CACHE_DIR:-$work/pocl} TMPDIR=$work
unset HENRY_LOG HENRY_REDIS_URL

# --- running programs ---

# A command line, for as long as a part may take. What it says ends with a line of counts in any case.
run_one() {
    local out code
    out=$(timeout -k 5 "$1" bash -c "$2" 2>&1)
    code=$?
    printf '%s\n' "$out"
    case "$code ${out##*$'\n'}" in
    "0 "*" passed, "* | [1-9]*" passed, "*[1-9]*" failed"*) ;;
    *) printf '%s\nended with status %d%s\n0 passed, 1 failed\n' "$2" "$code" "$([ "$code" = 124 ] && echo " after $1 s")" ;;
    esac
}
export -f run_one
# shellcheck disable=SC2016 # the inner shell expands them
# Command lines on standard input, as many at a time as --jobs says.
run_programs() { xargs -P "$jobs" -d '\n' -I{} bash -c 'run_one "$1" "$2"' _ "$limit" {}; }

# --- parts ---

# The row of CUDA with the driver that is here, and what a launch costs the host.
part_row() {
    if [ "$kind" != cuda ]; then echo "0 passed, 0 failed, 1 skipped"; return; fi
    for name in runtime_test_cuda_{row,copies,faults,overhead,stats} measure_test_cuda_ceilings; do echo "$build/unit_$name"; done | jobs=1 run_programs
}
# Modules on all devices of the kind at once; two on one device, if there is no other.
part_several() {
    local devices=("$device" "$device") count=0
    [ "$device" = cuda ] && count=$(nvidia-smi --list-gpus 2>/dev/null | wc -l)
    [ "$count" -gt 1 ] && mapfile -t devices < <(seq -f 'cuda:%.0f' 0 $((count - 1)))
    for model in mlp bert_tiny; do
        echo "$build/several_devices $HENRY_TEST_MODELS/models/$model/model.pt2 ${devices[*]}"
    done | run_programs
}
part_models() {
    for name in "$HENRY_TEST_MODELS"/models/*/; do echo "bash tests/models/run.sh --device $device $(basename "$name")"; done | run_programs
}
part_programs() { echo "bash tests/devices/run.sh $device" | run_programs; }
part_tools() { echo "bash tests/gpu/tools.sh $device" | run_programs; }
# C projects, which are for CUDA and for CPUs; tests/source/run.sh has those for CPUs.
part_source() {
    if [ "$kind" = cuda ]; then echo "bash tests/source/gpu.sh" | run_programs; else echo "0 passed, 0 failed, 1 skipped"; fi
}
# bf16 and f16; importing PyTorch takes most of the time
part_narrow() {
    for k in 0 1 2; do echo "$python tests/gpu/narrow.py --subject $build/bench_gpu_subject --device $device --part $k/3"; done | run_programs
}
part_ops() {
    for k in $(seq 0 $((jobs - 1))); do
        echo "$build/run_cases --compiled ${target[*]} --watch 60 --part $((k * sample + sample / 2))/$((jobs * sample))"
    done | run_programs
}
part_graphs() {
    local each=$(((2000 / sample + jobs - 1) / jobs))
    for k in $(seq 0 $((jobs - 1))); do echo "$build/run_graphs $((k * each)) $each ${target[*]} --batch 16 --watch 120"; done | run_programs
}

# Some cases under a tool of compute-sanitizer, in a few processes: all together every 50th, those of the turn. Each process has those of
# another part of a file, since neighbours are alike.
share_turn() {
    local k processes=$1 every=$2
    for k in $(seq 0 $((processes - 1))); do echo "$((turn % every + k * every))/$((processes * every))"; done
}
sanitizer() {
    local program share options="" processes=4 every=$((50 * sample)) cases=$build/run_cases
    [ ! -e "$build/programs" ] || cases="$build/programs run_cases" # a tool may call what a link leads to by that name
    program=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
    if [ "$kind" != cuda ] || [ -z "$program" ]; then
        echo "skipped: compute-sanitizer $([ "$kind" = cuda ] && echo "is not installed" || echo "is for CUDA")"
        echo "0 passed, 0 failed, 1 skipped"
        return
    fi
    # Calls of the driver that fail are the program's to handle; some only ask (which parameters a kernel has).
    [ "$1" = memcheck ] && options="--report-api-errors no"
    for share in $(share_turn $processes $every); do
        echo "under_tool $program --tool $1 $options --error-exitcode 99 --target-processes application-only --print-limit 5" \
            "$cases --compiled ${target[*]} --part $share"
    done | run_programs
}
# Counts of the program, then what the tool has found, as failures; so is a program that has not come to its counts.
under_tool() {
    local out errors code
    out=$("$@" 2>&1)
    code=$?
    grep -q '^[1-9][0-9]* passed, ' <<<"$out" || out+=$'\nthe program has run nothing\n0 passed, 1 failed'
    errors=$(sed -n 's/^=* *[A-Z]* SUMMARY: \([0-9]*\) .*/\1/p' <<<"$out" | tail -1)
    [ "$code" = 99 ] && [ "${errors:-1}" = 0 ] && errors=1
    printf '%s\n0 passed, %d failed\n' "$out" "${errors:-1}"
    [ "${errors:-1}" = 0 ]
}
export -f under_tool
part_memcheck() { sanitizer memcheck; }
part_racecheck() { sanitizer racecheck; }
part_initcheck() { sanitizer initcheck; }

# --- the table ---

# The sum of all lines "N passed, N failed..." of a file: passed, failed, skipped. What is unsupported has failed.
counts() {
    awk '/^[0-9]+ passed, [0-9]+ failed/ {
            passed += $1; failed += $3
            for (k = 5; k < NF; k++) { if ($(k + 1) ~ /^unsupported/) failed += $k; if ($(k + 1) ~ /^skipped/) skipped += $k }
        }
        END { print passed + 0, failed + 0, skipped + 0 }' "$1"
}

describe() {
    "$build/henry" --version
    [ "$kind" = cuda ] && nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem --format=csv,noheader 2>/dev/null
    echo "device $device, $jobs processes, turn $((turn % (50 * sample))) of $((50 * sample)) (--turn), NVRTC ${HENRY_NVRTC:-none}, cuBLASLt ${HENRY_CUBLASLT:-none}, cuDNN ${HENRY_CUDNN:-none}"
}

describe
# One program first: without a device there is nothing to test.
if ! "$build/henry" run examples/data/digits/model.pt2 -i examples/data/digits/input_0.npy --device "$device" -q; then
    echo "no program runs on $device"
    exit 1
fi
all_failed=0
# shellcheck disable=SC2086 # a list of words
[ $# -gt 0 ] || set -- $parts
for part in "$@"; do
    begin=$SECONDS log=$logs/$part.log
    "part_$part" >"$log" 2>&1
    read -r passed failed skipped < <(counts "$log")
    [ $((passed + failed + skipped)) = 0 ] && failed=1
    printf '%-12s %7d passed %6d failed %4d skipped %5d s\n' "$part" "$passed" "$failed" "$skipped" $((SECONDS - begin)) | tee -a "$work/table"
    [ "$part" = row ] && sed -n 's/^note: a launch/    &/p' "$log"
    if [ "$failed" != 0 ] || [ "$part" = programs ]; then
        grep -v -e '^[0-9]* passed, 0 failed' -e '^  again:' "$log" | cut -c 1-300 | head -25 | sed 's/^/    /'
    fi
    all_failed=$((all_failed + failed))
done
echo
cat "$work/table"
awk '{ passed += $2; failed += $4; skipped += $6 } END { printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped }' "$work/table"
[ $all_failed = 0 ]
