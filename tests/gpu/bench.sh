#!/usr/bin/env bash
# Tries the benchmarks of a GPU where there is none, the pack's program of all programs, and turns of cases: the tables, the program that is timed, on the CPU and on the stand-in for CUDA's driver, and,
# if there is PyTorch (PYTHON names a Python), all of bench/gpu.sh with tiny shapes and a limit.
#     tests/gpu/bench.sh       after tools/gpu_pack.sh; BUILD names the build folder
set -u
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${BUILD:-build}" && pwd) shared=${HENRY_TEST_MODELS:-$PWD/../shared} python=${PYTHON:-python3}
work=$(mktemp -d "${TMPDIR:-/tmp}/henry-gpu-bench-XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
export HENRY_CACHE_DIR=$work/cache PYTHONDONTWRITEBYTECODE=1
limit=30
passed=0 failed=0 skipped=0

pass() { passed=$((passed + 1)); }
fail() { echo "$*"; failed=$((failed + 1)); }

# subject OPTION...: into $work/subject.json
subject() { timeout 100 "$build/gpu-pack/bin/bench_gpu_subject" --rotate 0 --seconds 0.01 "$@" "$shared/models/layer_norm_backward/model.pt2" >"$work/subject.json" 2>"$work/subject.err"; }
# told CONDITION: of `told`, what the subject has said
told() { "$python" -c "import json, sys; told = json.load(open(sys.argv[1])); sys.exit(not ($1))" "$work/subject.json"; }
told_or_fail() { if told "$1"; then pass; else fail "not so: $1: $(cat "$work/subject.json" "$work/subject.err")"; fi; }

# The pack's programs are one: by a link, by its first argument, or not at all; a copy that has lost the links makes them.
try_programs() {
    local bin=$build/gpu-pack/bin
    if [ "$("$bin/henry" --version)" = "$("$bin/programs" henry --version)" ]; then pass; else fail "programs: a link and the first argument are not the same"; fi
    "$bin/programs" nobody 2>"$work/nobody"
    if [ $? = 2 ] && grep -q "no program is called 'nobody'" "$work/nobody"; then pass; else fail "programs: 'nobody' is a program"; fi
    mkdir -p "$work/copy/bin" && cp "$bin/programs" "$work/copy/bin/"
    # shellcheck source=tests/gpu/environment.sh
    if (cd "$work/copy" && . "$OLDPWD/tests/gpu/environment.sh" && [ "$(find bin -type l | wc -l)" = "$(bin/programs --names | wc -l)" ]); then pass; else fail "programs: links are not made again"; fi
}

# From the pack, so that all that its scripts import is there.
try_table() { mkdir "$work/table" && "$python" "$build/gpu-pack/tests/gpu/test_table.py" "$work/table"; }

try_subject() {
    # a step reads or writes at least the gradient
    if subject --device cpu; then told_or_fail 'told["call_us"] > 0 and all(s["bytes"] > 1 << 15 and s["us"] > 0 for s in told["steps"])'; else fail "$(cat "$work/subject.err")"; fi
    if subject --device cpu --no-calls --graphs; then told_or_fail 'told["call_us"] == 0 and told["graph_runs"] == 0 and told["graph_us"] > 0'; else fail "$(cat "$work/subject.err")"; fi
    export LD_LIBRARY_PATH=$build/cuda_standin
    if [ ! -e "$LD_LIBRARY_PATH/libcuda.so.1" ]; then
        skipped=$((skipped + 1))
    elif subject --device cuda --graphs --bare; then
        told_or_fail 'told["turns"]["launches"] == 2 and told["turns"]["call_us"] > told["turns"]["bare_call_us"] > 0 and told["turns"]["bare_launch_ns"] > 0'
        told_or_fail 'told["graph_runs"] > 0 and told["graph_us"] > 0 and told["graph_call_there_us"] > 0 and told["call_there_us"] > 0'
    elif [ "${CI:-}" != true ] && grep -qi nvrtc "$work/subject.err"; then
        skipped=$((skipped + 1)) # kernels cannot be compiled here
    else
        fail "$(cat "$work/subject.err")"
    fi
    unset LD_LIBRARY_PATH
}

# All parts get their turn, or are told that there is no time; it ends in time; what an earlier run has is not measured again, but is in the tables.
try_all() {
    local begin
    if ! "$python" -c 'import torch' 2>/dev/null; then skipped=$((skipped + 1)); return; fi
    "$build/gpu-pack/bench.sh" --device cpu --out "$work/first" kernels --tiny --rows softmax >"$work/first.log" 2>&1
    if grep -qs '"title": "softmax bf16 48x320".*"henry_us"' "$work/first/gpu_kernels.jsonl"; then pass; else fail "$(cat "$work/first.log")"; fi
    begin=$SECONDS
    "$build/gpu-pack/bench.sh" --device cpu --out "$work/out" --have "$work/first" all --tiny --limit $limit >"$work/all.log" 2>&1
    if [ $((SECONDS - begin)) -le $((limit + 10)) ] && [ "$(grep -c '^=== ' "$work/all.log")" = 9 ] && grep -q '^[0-9]* figures: ' "$work/all.log"; then pass; else fail "$(cat "$work/all.log")"; fi
    if ! grep -qs '"title": "softmax bf16 48x320"' "$work/out/gpu_kernels.jsonl" && grep -q '^| softmax bf16 48x320 ' "$work/out/RESULTS.md"; then pass; else fail "softmax was measured again, or is not in the table"; fi
}

# All turns of tests/gpu/run.sh have each operator case once under compute-sanitizer.
try_turns() {
    local turn
    eval "$(sed -n '/^share_turn() {/,/^}/p' tests/gpu/run.sh)"
    for turn in $(seq 7 56); do share_turn 4 50; done | sort -u >"$work/turns"
    if [ "$(wc -l <"$work/turns")" = 200 ] && grep -qx 199/200 "$work/turns"; then pass; else fail "turns: not all cases: $(wc -l <"$work/turns")"; fi
}

try_table
try_programs
try_turns
try_subject
try_all
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
