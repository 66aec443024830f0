#!/usr/bin/env bash
# C projects of `henry compile --emit source`, of every shared model in both dialects of torch.export. Built by gcc and by clang with
# -Wall -Wextra -Werror, they compute what the module computes that the same compiler made, bit for bit. (Of a * b + c * d either product
# may be rounded, and compilers choose differently.) Built for AArch64 and run by qemu-user, they compute what PyTorch stored, within
# the tolerances of tests/models/run.sh. The table of all that stands in the log, with the times of the builds: seconds on the clock, and
# of processors (the former count on an idle machine only).
#     tests/source/run.sh [--fresh] [MODEL]...
# The second dialect is built by gcc alone; with HENRY_TEST_ALL=1 by all three.
# --fresh: every project is built in a folder of its own, for the times of whole builds; else what several share is compiled once.
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${HENRY_TEST_BUILD:-build}
shared=${HENRY_TEST_MODELS:-../shared}
data=tests/cli/data
passed=0 failed=0 skipped=0 fresh=0
[ "${1:-}" = --fresh ] && { fresh=1; shift; }
# in this order neighbours call the same operations
models="mlp train_step_mlp gpt2_tiny bert_tiny llama_tiny attention_step adamw_step mobilenet_v3 digits_cnn layer_norm_backward rms_norm_backward"
if [ ! -d "$shared/models" ]; then
    echo "skipped: no folder '$shared/models'; HENRY_TEST_MODELS names the folder that holds models/"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
unset CC AR CFLAGS LDFLAGS MAKEFLAGS CPATH LIBRARY_PATH
export OMP_NUM_THREADS=2
emulator="qemu-aarch64 -L /usr/aarch64-linux-gnu"

has() { command -v "$1" >/dev/null; }
compilers="gcc"
tools/setup.sh source >/dev/null || true
for name in clang aarch64; do
    case $name in
    clang) has clang && compilers="$compilers clang" && continue ;;
    aarch64) has aarch64-linux-gnu-gcc && has qemu-aarch64 && compilers="$compilers aarch64" && continue ;;
    esac
    echo "no $name: tools/setup.sh source could not install it"
    if [ "${CI:-}" = true ]; then failed=$((failed + 1)); else skipped=$((skipped + 1)); fi
done

dir_of() { if [ -d "tests/models/$1" ]; then echo "tests/models/$1"; else echo "$shared/models/$1"; fi; }

# What .npy files hold behind their heads, which may be written differently.
content() { tail -c "+$((11 + $(od -An -tu2 -j8 -N2 "$1")))" "$1"; }

# emit_and_build FILE COMPILER: the project into the folder $folder; $seconds: of make, on the clock and of processors
emit_and_build() {
    local target=() tools=(CC="$2") TIMEFORMAT="%R %U %S"
    [ "$2" = aarch64 ] && target=(--target aarch64) && tools=(CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar)
    folder=$work/$2
    [ $fresh = 1 ] && rm -rf "$folder"
    "$build/henry" compile "$1" "${target[@]}" --emit source -q -o "$folder" || return 1
    { time make -s -j2 -C "$folder" "${tools[@]}" CFLAGS="-O2 -Wall -Wextra -Werror" \
        KERNEL_WARNINGS="-Wall -Wextra -Werror -Wno-unused -Wno-unused-parameter" example 2>&3 || return 1; } 3>&2 2>"$work/times"
    seconds=$(awk '{ printf "%.1f s %.1f s", $1, $2 + $3 }' "$work/times")
}

# equals_module FILE COMPILER INPUT...: the outputs of the project are those of `henry run`
equals_module() {
    local file=$1 compiler=$2 f
    shift 2
    rm -rf "$work/module" "$work/out"
    mkdir "$work/out"
    HENRY_CC=$compiler "$build/henry" run "$file" "$@" -d "$work/module" -q >/dev/null || return 1
    "$folder/example" -w "$folder/weights.bin" "$@" -o "$work/out" >/dev/null || return 1
    [ "$(ls "$work/module" | wc -l)" = "$(ls "$work/out" | wc -l)" ] || { echo "other outputs than the module's"; return 1; }
    for f in "$work"/module/*.npy; do
        cmp <(content "$f") <(content "$work/out/$(basename "$f" | sed 's/^output_/out_/')") || return 1
    done
}

# near_stored INPUT... EXPECTED... TOLERANCE...: on the emulated processor
near_stored() { $emulator "$folder/example" -w "$folder/weights.bin" "$@"; }

# project NAME FILE INPUT... EXPECTED... [TOLERANCE...]: a row of the table, with what each compiler's project did
project() {
    local name=$1 file=$2 line compiler inputs=() seconds=0 word check k
    shift 2
    for ((k = 1; k < $#; k++)); do [ "${!k}" = -i ] && inputs+=("${@:k:2}"); done
    line=$(printf '%-28s' "$name")
    for compiler in $compilers; do
        if [ "$compiler" != gcc ] && [[ $name == */core ]] && [ -z "${HENRY_TEST_ALL:-}" ]; then continue; fi
        word=equal check=(equals_module "$file" "$compiler" "${inputs[@]}")
        [ "$compiler" = aarch64 ] && word=near check=(near_stored "$@")
        if { emit_and_build "$file" "$compiler" && "${check[@]}"; } >"$work/log" 2>&1; then
            passed=$((passed + 1))
            line="$line $(printf '%13s %-6s' "$seconds" "$word")"
        else
            failed=$((failed + 1))
            line="$line $(printf '%-20s' '       FAILED')"
            echo "FAILED $name, $compiler:"
            head -20 "$work/log"
        fi
    done
    echo "$line"
}

# The dialects of a model, with the files beside it.
model() {
    local dir dialect f args=()
    dir=$(dir_of "$1")
    for f in $(ls "$dir"/input_*.npy | sort -V); do args+=(-i "$f"); done
    for f in $(ls "$dir"/output_*.npy | sort -V); do args+=(-e "$f"); done
    case $1 in *_backward) ;; *) args+=(--rtol 1e-4 --atol 1e-5) ;; esac
    for dialect in model core; do
        [ -f "$dir/$dialect.pt2" ] && project "$1/$dialect" "$dir/$dialect.pt2" "${args[@]}"
    done
}

# Numbers of 16 bits; sizes and branches that depend on data.
small_models() {
    local files="" k
    project bf16 $data/bf16.pt2 -i $data/bf16_x.npy -i $data/bf16_y.npy -e $data/bf16_out0.npy -e $data/bf16_out1.npy
    for k in 0 1 2; do files="$files -i $data/data_in$k.npy"; done
    for k in 0 1 2 3 4 5 6 7; do files="$files -e $data/data_out$k.npy"; done
    # shellcheck disable=SC2086 # a list of words
    project data $data/data.pt2 $files
}

printf '%-28s' "project, built by"
for compiler in $compilers; do printf ' %-20s' "  $compiler"; done
echo
for name in ${*:-$models}; do model "$name"; done
[ $# -gt 0 ] || small_models
echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed != 0))
