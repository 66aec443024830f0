#!/usr/bin/env bash
# The tools that look into a program, on a device: `henry accuracy`, `bisect`, tensors that are checked, saved and compared, and on CUDA
# the program of `henry repro` (which wants make and cc). Ends with a line of counts.
#     tests/gpu/tools.sh [DEVICE]        default: cuda; cpu tries the script itself
# It runs from a checkout, where it uses build/, and from the pack of `make gpu-pack` (test.sh has it as part `tools`).
set -u
cd "$(dirname "$0")/../.." || exit 2
# shellcheck source=tests/gpu/environment.sh
. tests/gpu/environment.sh
device=${1:-cuda} data=tests/cli/data
passed=0 failed=0 skipped=0
work=$(mktemp -d "${TMPDIR:-/tmp}/henry-tools-XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
unset HENRY_DEBUG_TENSORS
export HENRY_CACHE_DIR=$work/cache
henry=$build/henry

# check NAME COMMAND...: what it says is shown when it fails
check() {
    if "${@:2}" >"$work/log" 2>&1; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAILED $1"
        head -20 "$work/log"
    fi
}

# Each kernel and call is near its reference, in units of the last place of the largest element: as tests/cli/accuracy.sh asks of the CPU.
is_accurate() {
    "$henry" accuracy "${model[@]}" --device "$device" --json >"$work/json" || return 1
    sed -n 's/.*"ulp_of_largest": \([^,]*\),/\1/p' "$work/json" | awk '{ all++; if (!($1 < 64)) { bad++; print "step off by", $1 } } END { exit !all || bad }'
}
is_right() { "$henry" bisect "${model[@]}" "${expected[@]}" --device "$device" | tee "$work/said" && grep -q '^nothing is wrong' "$work/said"; }

nan=("$data/nan.pt2" --device "$device" -q)
# A NaN is found where it comes from, and nowhere else: in the square root, or in the tensor whose first columns that is.
finds_nan() {
    "$henry" run "${nan[@]}" -i $data/nan_x.npy --debug-tensors check && ! "$henry" run "${nan[@]}" -i $data/nan_bad.npy --debug-tensors check 2>"$work/said"
    local code=$?
    cat "$work/said"
    [ $code = 0 ] && grep -Eq '\((sqrt|cat)\) at \[1, 2\]: .* 1 are NaN' "$work/said"
}
equals_pytorch() { "$henry" run "${nan[@]}" -i $data/nan_x.npy --compare $data/nan_eager; }
differs_from_pytorch() { ! "$henry" run "${nan[@]}" -i $data/nan_bad.npy --compare $data/nan_eager; }
# Tensors of the CPU beside those of the device, which computes some of them in other kernels.
equals_cpu() {
    rm -rf "$work/cpu"
    "$henry" run "${model[@]}" -q --device cpu --debug-tensors save,to="$work/cpu" && "$henry" run "${model[@]}" -q --device "$device" --compare "$work/cpu" --rtol 1e-4 --atol 1e-5
}
sees_tensors() { "$henry" run "${model[@]}" -q --device "$device" --debug-tensors stats,to="$work/stats" && grep -q 'mean' "$work/stats"; }

# reproduces KERNEL: as a program that compiles it, launches it and compares.
reproduces() {
    rm -rf "$work/one"
    "$henry" repro "${model[@]}" --device "$device" --kernel "$1" -o "$work/one" && make -s -C "$work/one" repro CFLAGS="-O1 -Wall -Wextra -Werror" && (cd "$work/one" && ./repro)
}

for name in gpt2_tiny mobilenet_v3 train_step_mlp; do
    dir=$HENRY_TEST_MODELS/models/$name model=() expected=()
    for f in $(ls "$dir"/input_*.npy | sort -V); do model+=(-i "$f"); done
    for f in $(ls "$dir"/output_*.npy | sort -V); do expected+=(-e "$f"); done
    model=("$dir/model.pt2" "${model[@]}")
    check "$name: accuracy" is_accurate
    check "$name: tensors of each step" sees_tensors
    check "$name: tensors of the CPU" equals_cpu
    [ "$name" = mobilenet_v3 ] || check "$name: bisect" is_right # which runs the reference of each step: a minute for images
    [ "${device%%:*}" = cuda ] || continue
    if ! command -v make >/dev/null || ! command -v cc >/dev/null; then
        echo "skipped: no make or no cc for henry repro"
        skipped=$((skipped + 1))
        continue
    fi
    for kernel in $("$henry" run "${model[@]}" --device "$device" --profile | sed -n 's/.* \(k_[0-9a-f]*\) .*/\1/p' | sort -u | head -4); do
        check "$name: repro $kernel" reproduces "$kernel"
    done
done
check "a NaN" finds_nan
check "tensors of PyTorch" equals_pytorch
check "other inputs than PyTorch's" differs_from_pytorch
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
