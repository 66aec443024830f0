#!/usr/bin/env bash
# Whole models against the outputs that PyTorch stored beside them, in both dialects of torch.export, and the odd .pt2 files
# against the reference interpreter. Models are in shared/models, or in a folder beside this script (there is one dialect of those).
#     tests/models/run.sh [--quick] [--device DEVICE] [MODEL]...        DEVICE: default cpu
# Tolerances: whole models sum in other orders than PyTorch, so rtol 1e-4, atol 1e-5; the two kernels of one operator each
# are held to what torch.testing.assert_close asks of float32.
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${HENRY_TEST_BUILD:-build}
shared=${HENRY_TEST_MODELS:-../shared}
passed=0 failed=0 skipped=0 quick=0 device=cpu
[ "${1:-}" = --quick ] && { quick=1; shift; }
[ "${1:-}" = --device ] && { device=$2; shift 2; }
all="mlp digits_cnn gpt2_tiny bert_tiny llama_tiny mobilenet_v3 layer_norm_backward rms_norm_backward train_step_mlp attention_step adamw_step"
if [ ! -d "$shared/models" ]; then
    echo "skipped: no folder '$shared/models'; HENRY_TEST_MODELS names the folder that holds models/ and pt2-cases/"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi

dir_of() { if [ -d "tests/models/$1" ]; then echo "tests/models/$1"; else echo "$shared/models/$1"; fi; }

# run_model MODEL FILE [options]
run_model() {
    local dir args=() f
    dir=$(dir_of "$1")
    [ -f "$dir/$2" ] || [ "$2" = model.pt2 ] || return
    for f in $(ls "$dir"/input_*.npy | sort -V); do args+=(--input "$f"); done
    for f in $(ls "$dir"/output_*.npy | sort -V); do args+=(--expect "$f"); done
    case $1 in *_backward) ;; *) args+=(--rtol 1e-4 --atol 1e-5) ;; esac
    local out
    if out=$("$build/henry" run "$dir/$2" --device "$device" "${args[@]}" --quiet "${@:3}" 2>&1); then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $1/$2 ${*:3}: $out"
    fi
}

for model in ${*:-$all}; do
    run_model "$model" model.pt2
    run_model "$model" core.pt2
    [ $quick = 1 ] && continue
    run_model "$model" model.pt2 --no-fusion
    run_model "$model" model.pt2 # from the graph cache
    [ "$device" = cpu ] || continue
    run_model "$model" model.pt2 --target-cpu generic
    run_model "$model" model.pt2 --threads 3
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $# -gt 0 ] && exit $((failed != 0))

# Files without outputs. The half-written one must be refused.
odd=$(ls "$shared"/pt2-cases/*.pt2 | grep -v weights_odd)
"$build/run_pt2" $odd || failed=1
"$build/run_pt2" --no-fusion $odd || failed=1
if out=$("$build/henry" inspect "$shared/pt2-cases/weights_odd.pt2" 2>&1); then
    echo "FAILED weights_odd.pt2 was accepted"
    echo "0 passed, 1 failed"
    failed=1
else
    case $out in henry:*) echo "1 passed, 0 failed" ;; *) echo "FAILED weights_odd.pt2: $out"; echo "0 passed, 1 failed"; failed=1 ;; esac
fi
exit $((failed != 0))
