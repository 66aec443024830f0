#!/usr/bin/env bash
# Golden kernels: what X.hnir becomes for a CPU of level x86-64-v3, opencl_X.hnir for OpenCL devices, or cuda_X.hnir for sm_90a, is
# kept in X.txt (those of X_deterministic.hnir are made with that option), so that a change of the code generator shows as a difference that one can read.
#     tests/kernels/run.sh [--update] [NAME]...        --update rewrites the .txt files
set -u
cd "$(dirname "$0")/../.." || exit 2
print=${HENRY_TEST_BUILD:-build}/print_kernels
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 update=0
[ "${1:-}" = --update ] && { update=1; shift; }
names=("$@")
[ ${#names[@]} = 0 ] && for file in tests/kernels/*.hnir; do names+=("$(basename "$file" .hnir)"); done

for name in "${names[@]}"; do
    want=tests/kernels/$name.txt
    target=x86-64-v3
    case $name in opencl_*) target=opencl ;; cuda_*) target=sm_90a ;; esac
    options=()
    case $name in *_deterministic) options=(--deterministic) ;; esac
    if ! "$print" "${options[@]}" --target "$target" "tests/kernels/$name.hnir" >"$work/out" 2>"$work/err"; then
        echo "$name: $(cat "$work/err")"
        failed=$((failed + 1))
        continue
    fi
    { sed -n 's|^# \(.*\)|/* \1 */|p' "tests/kernels/$name.hnir"; cat "$work/out"; } >"$work/new"
    [ $update = 1 ] && cp "$work/new" "$want"
    if diff -u "$want" "$work/new" >"$work/diff"; then
        passed=$((passed + 1))
    else
        echo "$name: the kernels are not what is kept (tests/kernels/run.sh --update when that is meant):"
        cat "$work/diff"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
