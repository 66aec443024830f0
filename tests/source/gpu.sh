#!/usr/bin/env bash
# C projects for CUDA on a real GPU: built by the C compiler that is here, they compute what the module computes that the same compiler
# made, bit for bit; with cuBLASLt and cuDNN, and once more without them. Ends with a line of counts.
#     tests/source/gpu.sh [MODEL]...
# It runs from a checkout, where it uses build/, and from the pack of `make gpu-pack` (source.sh there).
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/gpu/environment.sh
. tests/source/cuda_projects.sh
passed=0 failed=0
work=$(mktemp -d "${TMPDIR:-/tmp}/henry-source-XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
unset CC AR CFLAGS LDFLAGS MAKEFLAGS CPATH LIBRARY_PATH NVCC HENRY_DEBUG_TENSORS
export HENRY_CACHE_DIR=$work/cache
folder=$work/project
for tool in make cc; do
    command -v $tool >/dev/null && continue
    echo "skipped: no $tool here"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
done

# The outputs of the project are those of `henry run`.
equals_module() {
    local f
    rm -rf "$work/module" "$work/out"
    mkdir "$work/out"
    "$build/henry" run "$file" --device cuda "${inputs[@]}" -d "$work/module" -q >/dev/null || return 1
    "$folder/example" -w "$folder/weights.bin" "${inputs[@]}" -o "$work/out" >/dev/null || return 1
    [ "$(ls "$work/module" | wc -l)" = "$(ls "$work/out" | wc -l)" ] || { echo "other outputs than the module's"; return 1; }
    for f in "$work"/module/*.npy; do
        cmp <(content "$f") <(content "$work/out/$(basename "$f" | sed 's/^output_/out_/')") || return 1
    done
}

step() {
    local what=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
        line="$line $(printf '%-16s' "$what")"
    else
        failed=$((failed + 1))
        line="$line $(printf '%-16s' FAILED)"
        echo "FAILED $name: $what"
        head -20 "$work/log"
    fi
}

# How long a call takes, with copies of inputs and outputs.
times() {
    local project module
    project=$("$folder/example" -w "$folder/weights.bin" "${inputs[@]}" -n 200 2>/dev/null | sed -n 's/^best of .*: //p')
    module=$("$build/henry" run "$file" --device cuda "${inputs[@]}" --repeat 200 2>/dev/null | sed -n 's/^time *\([0-9.]* ms\), median.*/\1/p')
    echo "best $project, henry's median $module"
}

build_it() { emit cuda && build_project; }
# With DEBUG=1 a project looks at its tensors, and computes the same.
build_debug() { emit cuda && build_project DEBUG=1; }
sees_tensors() {
    HENRY_DEBUG_TENSORS=stats "$folder/example" -w "$folder/weights.bin" "${inputs[@]}" 2>"$work/stats" >/dev/null && grep -q "after b.*mean" "$work/stats"
}

for name in ${*:-mlp gpt2_tiny bert_tiny llama_tiny digits_cnn mobilenet_v3 train_step_mlp layer_norm_backward rms_norm_backward bf16 data loops mutate}; do
    describe "$name"
    line=$(printf '%-20s' "$name")
    rm -rf "$folder"
    step built build_it
    step equal equals_module
    HENRY_CUBLASLT=off HENRY_CUDNN=off step "equal (kernels)" equals_module
    echo "$line $(times)"
done
for name in mlp data train_step_mlp; do
    describe "$name"
    line=$(printf '%-20s' "$name, DEBUG=1")
    rm -rf "$folder"
    step built build_debug
    step equal equals_module
    step tensors sees_tensors
    echo "$line"
done
# What shares memory, and results in the memory of the copy of an input.
for mode in none outputs combined; do
    for name in train_step_mlp gpt2_tiny; do
        describe "$name"
        line=$(printf '%-20s' "$name, $mode")
        options=(--pool $mode --donate 0)
        rm -rf "$folder"
        step built build_it
        step equal equals_module
        echo "$line"
    done
done
echo "$passed passed, $failed failed"
exit $((failed != 0))
