#!/usr/bin/env bash
# Emitted projects, run line by line from program.json by python/henry: the results must be those of `henry run`, bit for
# bit, and the file must be as docs/program.schema.json says. With a Python that has PyTorch (PYTHON=...), the same by
# torch.fx. HENRY_TEST_ALL=1: all sample models in both dialects.
set -u
cd "$(dirname "$0")/../.." || exit 2
root=$PWD
build=${HENRY_TEST_BUILD:-$root/build}
models=${HENRY_TEST_MODELS:-$root/../shared}/models
python=${PYTHON:-python3}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
export PYTHONPATH=$root/python HENRY_CACHE_DIR=${HENRY_CACHE_DIR:-$work/cache}

if ! "$python" -c ''; then
    if [ "${CI:-}" = true ]; then echo "there is no $python"; echo "0 passed, 1 failed"; exit 1; fi
    echo "skipped: there is no $python"; echo "0 passed, 0 failed, 1 skipped"; exit 0
fi
has_torch=$("$python" -c 'import torch' 2>/dev/null && echo 1)
[ "$has_torch" ] || echo "skipped, for each program: torch.fx; there is no PyTorch for $python (PYTHON=... names another)"

report() {
    if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $2"; fi
}

# False, and counted, without PyTorch.
needs_torch() { [ "$has_torch" ] || { skipped=$((skipped + 1)); false; }; }

# same NAME DIR: the results in DIR are those of the module.
same() {
    local count=0 file
    for file in "$work"/module/*.npy; do
        [ -e "$file" ] || continue
        cmp "$file" "$2/$(basename "$file")" || return 1
        count=$((count + 1))
    done
    [ $count -gt 0 ]
}

# check NAME MODEL INPUT...: `options` of the compilation
options=()
check() {
    local name=$1 model=$2 inputs=() file
    shift 2
    for file in "$@"; do inputs+=(--input "$file"); done
    rm -rf "$work/module" "$work/lines" "$work/fx"
    "$build/henry" compile "$model" --emit source -q -o "$work/project" "${options[@]}" >/dev/null || { report 1 "$name: compile"; return; }
    "$python" tests/python/schema.py docs/program.schema.json "$work/project/program.json"
    report $? "$name: schema"
    "$build/henry" run "$model" "${inputs[@]}" -d "$work/module" -q
    "$python" -m henry.program "$work/project" "${inputs[@]}" -d "$work/lines" >/dev/null && same "$name" "$work/lines"
    report $? "$name: line by line"
    needs_torch || return
    "$python" tests/python/fx.py "$work/project" "$work/fx" "$@" && same "$name" "$work/fx"
    report $? "$name: torch.fx"
}

# varied INPUT...: kernels with several variants, which no sample has: a copy of the last project, edited.
varied() {
    local inputs=() file
    for file in "$@"; do inputs+=(--input "$file"); done
    rm -rf "$work/edited" "$work/lines" "$work/fx"
    cp -r "$work/project" "$work/edited"
    "$python" tests/python/variants.py "$work/edited" && "$python" tests/python/schema.py docs/program.schema.json "$work/edited/program.json"
    report $? "variants: schema"
    "$python" -m henry.program "$work/edited" "${inputs[@]}" -d "$work/lines" >/dev/null && same variants "$work/lines"
    report $? "variants: line by line"
    needs_torch || return
    "$python" tests/python/fx.py "$work/edited" "$work/fx" "$@" && same variants "$work/fx"
    report $? "variants: torch.fx"
}

# Lines that fill memory with zeros, which no model has: a copy of the last project, edited.
zeroed() {
    cp -r "$work/project" "$work/edited"
    "$python" tests/python/zeroed.py "$work/edited" && "$python" tests/python/schema.py docs/program.schema.json "$work/edited/program.json"
    report $? "zeroed: schema"
    "$python" -m henry.program "$work/edited" --input "$1" -d "$work/zeroed" >/dev/null && "$python" tests/python/zeroed.py "$work/edited" "$work/zeroed/output_0.npy"
    report $? "zeroed: line by line"
    needs_torch || return
    "$python" tests/python/fx.py "$work/edited" "$work/zeroed_fx" "$1" && "$python" tests/python/zeroed.py "$work/edited" "$work/zeroed_fx/output_0.npy"
    report $? "zeroed: torch.fx"
}

data=tests/cli/data
check data $data/data.pt2 $data/data_in[012].npy
check number $data/number.pt2 $data/number_in[01].npy
check mutate $data/mutate.pt2 $data/mutate_x.npy
check loops $data/loops.pt2 $data/loops_in[01].npy
check loop_numbers $data/loop_numbers.pt2 $data/loop_numbers_in[01].npy
check combine $data/combine.pt2 $data/combine_in[01].npy
check bf16 $data/bf16.pt2 $data/bf16_[xy].npy
check lstm $data/lstm.pt2 $data/lstm_in0.npy
check pool $data/pool.pt2 $data/pool_in8.npy
varied $data/pool_in8.npy
zeroed $data/pool_in8.npy
options=(--pool combined --donate 0)
check "an input that could be given up" $data/bf16.pt2 $data/bf16_[xy].npy
options=()
if [ -d "$models" ]; then
    names="mlp/core gpt2_tiny/core train_step_mlp/core"
    [ "${HENRY_TEST_ALL:-}" ] && names=$(cd "$models" && ls -d */model.pt2 */core.pt2 | sed 's/\.pt2$//')
    for name in $names; do
        dir=$models/${name%/*}
        check "$name" "$models/$name.pt2" $(ls "$dir"/input_*.npy | sort -V)
    done
fi
if [ $skipped = 0 ]; then echo "$passed passed, $failed failed"; else echo "$passed passed, $failed failed, $skipped skipped"; fi
[ $failed = 0 ]
