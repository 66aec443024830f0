#!/usr/bin/env bash
# `make test`: runs the suites below, quick ones first, a line each, and ends with the totals.
#
#     tests/run.sh [SUITE]...        default: all of them; `tests/run.sh list` names them
#
# With HENRY_TEST_ALL=1, as `make stress` sets it, some suites try more: tests/README.md says which.
# A suite prints what went wrong and ends with "N passed, N failed", perhaps ", N skipped". Its output is kept in
# build/test-logs/. Exit status 0 when nothing failed.
set -u
cd "$(dirname "$0")/.." || exit 2
root=$PWD
build=${BUILD:-$root/build}
logs=$build/test-logs
jobs=$(nproc)
mkdir -p "$logs"
work=$(mktemp -d "${TMPDIR:-/tmp}/henry-test-XXXXXX") || exit 2
mkdir "$work/pocl"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# Nothing of the user's may change a result, and nothing of ours may reach the user's cache.
unset HENRY_LOG HENRY_CC HENRY_CXX HENRY_THREADS HENRY_COMPILE_THREADS HENRY_WORKER HENRY_REDIS_URL HENRY_DEBUG_TENSORS HENRY_POOL_FILL HENRY_METRIC_TABLES HENRY_METRIC_DIR
export HENRY_CACHE_DIR=$work/cache LC_ALL=C.UTF-8
export HENRY_TEST_BUILD=$build HENRY_TEST_WORK=$work HENRY_TEST_ROOT=$root HENRY_TEST_MODELS=${HENRY_TEST_MODELS:-$root/../shared}

# --- counting ---

# The sum of all lines "N passed, N failed..." on standard input, as such a line.
sum_counts() {
    awk '/^[0-9]+ passed, [0-9]+ failed/ {
            passed += $1; failed += $3
            for (k = 5; k < NF; k++) { if ($(k + 1) ~ /^unsupported/) failed += $k; if ($(k + 1) ~ /^skipped/) skipped += $k }
        }
        END { printf "%d passed, %d failed", passed, failed; if (skipped) printf ", %d skipped", skipped; print "" }'
}

# Runs one command line, from the root. What it says comes out under its name; one that dies without counts, or fails in
# spite of good counts, is one failure.
run_one() {
    local out code
    out=$(eval "$1" 2>&1)
    code=$?
    case "${out##*$'\n'}" in
    [0-9]*" passed, "*" failed"*) ;;
    *) out="$out"$'\n'"ended with status $code and no counts"$'\n'"0 passed, 1 failed" ;;
    esac
    [[ $code != 0 && "${out##*$'\n'}" == *", 0 failed"* ]] && out="$out"$'\n'"ended with status $code"$'\n'"0 passed, 1 failed"
    [[ $out == *$'\n'* ]] && echo "--- $1"
    printf '%s\n' "$out"
}
export -f run_one

# Runs the command lines on standard input, as many at a time as there are CPUs, or as the argument says.
run_programs() { xargs -P "${1:-$jobs}" -d '\n' -I{} bash -c 'run_one "$1"' _ {}; }

# Replays the corpora of the fuzz targets of a build folder.
replay_corpora() {
    for dir in tests/fuzz/corpus/*/; do
        name=$(basename "$dir")
        if [ -x "$1/fuzz_$name" ]; then echo "$1/fuzz_$name $dir"; else echo "echo 0 passed, 1 failed"; echo "no target for $dir" >&2; fi
    done | run_programs
}

# From the last name to the first: the long ones belong to folders late in the alphabet, and none of them must be begun last.
unit_programs() { find "$1" -maxdepth 1 -name 'unit_*' -type f -perm -u+x | sort -r; }

# Half of the time of the long ones is waiting, for processes and for the disk.
run_units() { run_programs $((2 * jobs)); }

# run_graphs in as many processes as there are CPUs: BUILD COUNT [OPTION]...
share_graphs() {
    local each=$((($2 + jobs - 1) / jobs))
    for k in $(seq 0 $((jobs - 1))); do echo "$1/run_graphs $((k * each)) $each ${*:3}"; done | run_programs
}

# Kernel forms for imaginary processors, without compiler or device: BUILD COUNT [OPTION]...
share_forms() {
    local each=$((($2 + jobs - 1) / jobs))
    for k in $(seq 0 $((jobs - 1))); do echo "$1/run_forms $((k * each)) $each ${*:3}"; done | run_programs
}

share_cases() { for k in $(seq 0 $((jobs - 1))); do echo "$1/run_cases --part $k/$jobs ${*:2}"; done | run_programs; }

# Levels of CPU features that this machine has besides its own.
lower_levels() {
    grep -qw avx512vl /proc/cpuinfo && echo x86-64-v3
    grep -qw avx2 /proc/cpuinfo && echo generic
}

# --- suites ---

suite_include() { tests/format.sh; tests/include_direction.sh; tests/include_direction_cases.sh; tests/environment.sh; tests/op_order.sh; tools/operators.sh --check; }

suite_build() {
    # -k 0: one program that does not build must not keep the others from running.
    if cmake --build "$build" --target all unit_tests test_programs fuzz_targets examples -- -k 0 2>&1; then
        echo "1 passed, 0 failed"
    else
        echo "0 passed, 1 failed"
    fi
}

# PoCL, a driver of OpenCL that runs on the CPU, for all tests of such devices; without it they are skipped. It keeps what it
# compiles: here, and for this run only.
export POCL_CACHE_DIR=$work/pocl
need_opencl() { tools/setup.sh opencl; }

# NVRTC, the compiler of kernels for NVIDIA's GPUs, for all tests that need it; without it they are skipped. A run tries once.
nvrtc_tried=""
need_nvrtc() {
    [ -z "$nvrtc_tried" ] || return 0
    nvrtc_tried=1
    "$build/henry" doctor 2>/dev/null | grep -q '^ok *cuda ' || tools/setup.sh cuda "$build/cuda" || echo "NVRTC is missing, and cannot be installed"
}

suite_unit() { need_opencl; need_nvrtc; unit_programs "$build" | run_units; }
suite_ir() {
    tests/ir/run.sh
    "$build/run_loop_text" 0 400
    if [ -d "$HENRY_TEST_MODELS/models" ]; then "$build/run_loop_text" "$HENRY_TEST_MODELS"/models/*/*.pt2; else echo "0 passed, 0 failed, 1 skipped"; fi
}
suite_kernels() { tests/kernels/run.sh; }
suite_fuzz() { replay_corpora "$build"; }
suite_cli() { need_nvrtc; tests/cli/run.sh; }
suite_error() { tests/error/run.sh; }
suite_report() { tests/report/run.sh; }
suite_reduce() { tests/reduce/run.sh; }
suite_models() { tests/models/run.sh; }
suite_source() { need_nvrtc; printf "%s\n" tests/source/run.sh tests/source/cuda.sh | jobs=1 run_programs; }
suite_stress() { BUILD=$build tests/stress/run.sh --quick; }
suite_abi() { tests/abi/run.sh; }
suite_python() { tests/python/run.sh; }
suite_ops() { share_cases "$build"; share_cases "$build" --loops; }
suite_ops_compiled() {
    local every=16
    [ "${HENRY_TEST_ALL:-}" ] && every=8
    share_cases "$build" --compiled
    for level in $(lower_levels); do echo "$build/run_cases --part 0/$every --compiled --target $level"; done | run_programs
}

# A command line for each model: PROGRAM.
each_model() {
    if [ -d "$HENRY_TEST_MODELS/models" ]; then
        for dir in "$HENRY_TEST_MODELS"/models/*/; do echo "$1 $dir"; done
    else
        echo "echo 0 passed, 0 failed, 1 skipped"
    fi
}

# Kernels as OpenCL C, on PoCL. Of the operator cases every 40th, and 80 random graphs; HENRY_TEST_ALL=1, as `make stress` sets it:
# all cases and 3,000 graphs, three quarters of an hour.
suite_opencl() {
    need_opencl
    {
        find "$build" -maxdepth 1 -name 'opencl_test_*' -type f -perm -u+x | sort
        each_model "$build/opencl_run_models"
    } | run_programs
    if [ "${HENRY_TEST_ALL:-}" ]; then
        share_cases "$build" --kernels
        share_graphs "$build" 2000 --kernels --batch 16
        share_graphs "$build" 1000 --contractions --kernels --batch 16
    else
        for k in $(seq 0 $((jobs - 1))); do echo "$build/run_cases --part $((40 * k))/$((40 * jobs)) --kernels"; done | run_programs
        share_graphs "$build" 64 --kernels --batch 16
        share_graphs "$build" 16 --contractions --kernels --batch 16
    fi
}

# Kernels as CUDA C++, which the CPU runs in place of a GPU (tests/support/cuda_on_cpu.c), and as machine code by NVRTC, if it is
# there. Samples as of OpenCL.
suite_cuda() {
    need_nvrtc
    local every=40 graphs=64
    [ "${HENRY_TEST_ALL:-}" ] && every=1 graphs=2000
    {
        # The longest one first: it is one process.
        echo "$build/cuda_run_cubins --lists --cases 0/$every --graphs 0 $graphs"
        find "$build" -maxdepth 1 -name 'cuda_test_*' -type f -perm -u+x | sort
        each_model "$build/cuda_run_models"
        if [ -d "$HENRY_TEST_MODELS/models" ]; then
            echo tests/cuda/compile_models.sh
            # One model for every architecture, with PTX; and for PTX alone.
            echo "TARGETS=sm_80,sm_86,sm_89,sm_90a,sm_100a,sm_120,compute_90 tests/cuda/compile_models.sh $HENRY_TEST_MODELS/models/gpt2_tiny"
            echo "TARGETS=compute_90 tests/cuda/compile_models.sh $HENRY_TEST_MODELS/models/gpt2_tiny"
        fi
        for k in $(seq 0 $((jobs - 1))); do echo "$build/cuda_run_cases --part $((every * k))/$((every * jobs)) --kernels"; done
        echo "$build/cuda_run_cases --part 0/$every --kernels --deterministic tests/ops/cases/scatter.txt"
        for k in $(seq 0 $((jobs - 1))); do echo "$build/cuda_run_graphs $((k * graphs / jobs)) $((graphs / jobs)) --kernels --batch 16"; done
    } | run_programs
}

# Whole programs on an OpenCL device, by the driver's way from file to output: models, and some operator cases and random graphs.
# The table of what models leave to the CPU stands in the log.
suite_devices() {
    need_opencl
    {
        echo tests/devices/run.sh
        echo tests/devices/run.sh opencl _imaginary
        for k in $(seq 0 $((jobs - 1))); do echo "$build/run_cases --part $((k * 193))/$((193 * jobs)) --compiled --target opencl"; done
    } | run_programs
    share_graphs "$build" 10 --target opencl
    share_graphs "$build" 10 --shared --target opencl
    share_graphs "$build" 10 --pieces --target opencl
    share_graphs "$build" 2 --loops --target opencl
}

# The pack for machines with a GPU, and the scripts that test and measure there, on what there is here: a few cases and graphs, tiny shapes.
suite_gpu_pack() {
    if [ ! -d "$HENRY_TEST_MODELS/models" ]; then echo "0 passed, 0 failed, 1 skipped"; return; fi
    need_nvrtc
    BUILD=$build tools/gpu_pack.sh || { echo "0 passed, 1 failed"; return; }
    "$build/gpu-pack/test.sh" --device cpu --sample 100 several tools ops graphs
    BUILD=$build tests/gpu/bench.sh
}

# Seeds of graphs that once came out wrong, in long runs.
GRAPHS_ONCE_WRONG="2447 10980 52455 53036 61917 63505 83207 150887 398162"

# Planned programs by the interpreter of wrapper IR, for several targets; of every N groups of 16 one as a module, too.
share_wrappers() {
    local each=$((($1 + jobs - 1) / jobs))
    for k in $(seq 0 $((jobs - 1))); do echo "$build/run_wrappers $((k * each)) $each ${*:2}"; done | run_programs
}
# About ten seconds; with HENRY_TEST_ALL=1 132,000 programs, of those for the CPU every tenth in a module, too: half an hour.
wrappers() {
    local many=1 modules="--modules 40" more=""
    if [ "${HENRY_TEST_ALL:-}" ]; then many=100 modules="--modules 10" more=$modules; fi
    # shellcheck disable=SC2086 # a list of words
    {
        share_wrappers $((400 * many)) $modules
        share_wrappers $((150 * many)) --contractions $more
        share_wrappers $((150 * many)) --no-fusion
        share_wrappers $((100 * many)) --target sm_90a
        share_wrappers $((100 * many)) --contractions --target sm_90a
        share_wrappers $((100 * many)) --target opencl
        share_wrappers $((100 * many)) --loops $modules
        share_wrappers $((30 * many)) --loops --no-fusion
        share_wrappers $((30 * many)) --loops --target sm_90a
        share_wrappers $((40 * many)) --pool outputs --donate $modules
        share_wrappers $((40 * many)) --shared --pool combined --donate $more
        share_wrappers $((20 * many)) --contractions --pool none
        share_wrappers $((20 * many)) --loops --pool combined --donate
        share_wrappers $((40 * many)) --pool combined --donate --target sm_90a
    }
    # Overlaps that the checks must find.
    share_wrappers 60 --plant
    share_wrappers 60 --pool combined --donate --plant
}
# 500 graphs, of those with contractions 64, and 50 for each lower level; with HENRY_TEST_ALL=1 2,000, 4,000 and 200, 20 minutes.
suite_graphs() {
    local graphs=500 contractions=64 lower=50
    [ "${HENRY_TEST_ALL:-}" ] && graphs=2000 contractions=4000 lower=200
    { # Graphs that meet each rewrite: of a fixed range, in one process each, since what is met is counted there.
        echo "$build/run_forms 0 200 --rewrites"
        echo "$build/run_graphs 0 64 --batch 16 --meets kernels_of_segments --meets kernels_of_variants"
        echo "$build/run_graphs 0 32 --weights --batch 8 --meets weights_computed_once"
        for seed in $GRAPHS_ONCE_WRONG; do echo "$build/run_graphs $seed 1"; done
    } | run_programs
    "$build/run_forms" 5481 1 --shared # a buffer that only the last phase of a slab's rows reads
    "$build/run_forms" 73006949 1 # fewer elements than a vector has, of a size of the call
    "$build/run_forms" 173002528 1 # half of a size of the call, in vectors
    "$build/run_forms" 83000781 1 --cpu # two segments read the buffer that the first may write over
    wrappers
    share_graphs "$build" $graphs
    share_graphs "$build" 200 --no-fusion
    share_graphs "$build" 32 --pool combined --donate --batch 16
    share_forms "$build" 2000
    share_forms "$build" 4000 --cpu
    share_forms "$build" 2000 --shared
    share_forms "$build" 2000 --shared --cpu
    share_graphs "$build" $contractions --contractions --batch 16
    share_graphs "$build" 32 --contractions --no-fusion --batch 16
    share_graphs "$build" 64 --loops --batch 16
    share_graphs "$build" 160 --shared --batch 16
    share_graphs "$build" 160 --pieces --batch 16
    share_graphs "$build" 64 --rare --batch 16
    share_forms "$build" 1000 --pieces
    share_forms "$build" 1000 --pieces --cpu
    share_forms "$build" 200 --contractions
    share_forms "$build" 200 --contractions --cpu
    for level in $(lower_levels); do
        share_graphs "$build" $lower --target "$level"
        share_graphs "$build" 32 --contractions --target "$level" --batch 16
    done
}

# A second build under a sanitizer. $1: preset, $2: folder; the rest: targets.
sanitized_build() {
    cmake --preset "$1" -S . -B "$root/$2" && cmake --build "$root/$2" --target "${@:3}" -- -k 0
} 2>&1

suite_asan() {
    local dir=$root/build/asan
    # The list of what was found of them would stand behind the counts of a test.
    export LSAN_OPTIONS=suppressions=$root/tests/leaks.txt:print_suppressions=0
    # What the lines below run.
    sanitized_build asan-ubsan build/asan unit_tests fuzz_targets stress_test_alloc_failure stress_test_damage henry henry-worker \
        henry_planted run_graphs run_forms run_pt2 edit_pt2 cuda_standin cublaslt_standin cudnn_standin || { echo "0 passed, 1 failed"; return; }
    # Two tests run thousands of forms by the interpreter, a quarter of an hour in this build. Random forms take their place.
    unit_programs "$dir" | grep -v -e unit_kernel_test_plan_gpu -e unit_kernel_test_plan_norms | run_units
    share_forms "$dir" 200
    share_forms "$dir" 200 --cpu
    replay_corpora "$dir"
    "$dir/stress_test_alloc_failure" --quick
    "$dir/stress_test_damage" --quick
    share_graphs "$dir" 200
    HENRY_TEST_BUILD=$dir tests/cli/run.sh
    HENRY_TEST_BUILD=$dir tests/error/run.sh
    HENRY_TEST_BUILD=$dir tests/models/run.sh --quick
}

# The programs in which threads meet. The contractions are left out, and their kernels are built without the sanitizer: their threads
# meet in base/team.c alone, which test_team and the tests of the runtime try, and the sanitizer needs minutes for their arithmetic.
suite_tsan() {
    local dir=$root/build/tsan targets
    targets=$(cd tests/unit && ls service/test_*.c runtime/test_*.c ops/cpu/test_*.c cache/test_*.c base/test_log.c base/test_trace.c base/test_team.c 2>/dev/null |
        grep -v -e test_conv -e test_matmul -e test_attention | sed 's|[/.]|_|g; s|_c$||; s|^|unit_|')
    # shellcheck disable=SC2086 # a list of words
    sanitized_build tsan build/tsan $targets henry-worker || { echo "0 passed, 1 failed"; return; }
    for name in $targets; do echo "env TSAN_OPTIONS=halt_on_error=0:exitcode=66 $dir/$name"; done | sort -r | run_units
}

suites="include build unit ir kernels fuzz ops models source opencl cuda devices gpu_pack cli report reduce error abi python stress ops_compiled graphs asan tsan"

# --- running them ---

run_suite() {
    local name=$1 begin=$SECONDS log=$logs/$1.log counts
    "suite_$name" >"$log" 2>&1
    counts=$(sum_counts <"$log")
    if [ "$counts" = "0 passed, 0 failed" ]; then
        echo "nothing ran" >>"$log"
        counts="0 passed, 1 failed"
    fi
    printf '%-13s %s (%d s)\n' "$name" "$counts" $((SECONDS - begin))
    echo "$counts" >>"$work/totals"
    case "$counts" in
    *", 0 failed"*) ;;
    *)
        failed_suites="$failed_suites $name"
        grep -v '^[0-9]* passed, 0 failed' "$log" | tail -40 | sed 's/^/    /'
        ;;
    esac
}

[ "${1:-}" = list ] && { echo "$suites"; exit 0; }
failed_suites=""
for name in ${*:-$suites}; do
    case " $suites " in
    *" $name "*) run_suite "$name" ;;
    *) echo "tests/run.sh: no suite is called '$name'; there are: $suites" >&2; exit 2 ;;
    esac
done
[ -n "$failed_suites" ] && echo "failed suites:$failed_suites; logs in $logs"
sum_counts <"$work/totals"
[ -z "$failed_suites" ]
