#!/usr/bin/env bash
# Whole models as bundles for GPUs, by the driver, without a GPU: every kernel has code for every target, none has a stack, and
# nothing is left to the host. Prints a table; times are of a first compilation, in milliseconds.
#     tests/cuda/compile_models.sh [FOLDER]...        default: all of HENRY_TEST_MODELS/models; each has model.pt2, and core.pt2 perhaps
#     TARGETS=sm_90a tests/cuda/compile_models.sh     default: sm_80,sm_90a,sm_120
set -u
cd "$(dirname "$0")/../.." || exit 2
henry=$(realpath "${HENRY_TEST_BUILD:-build}")/henry
targets=${TARGETS:-sm_80,sm_90a,sm_120}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

if ! "$henry" doctor 2>/dev/null | grep -q '^ok *cuda '; then
    echo "NVRTC is missing: make setup-cuda"
    if [ "${CI:-}" = true ]; then echo "0 passed, 1 failed"; exit 1; fi
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
[ $# -gt 0 ] || set -- "${HENRY_TEST_MODELS:-../shared}"/models/*/
printf '%-20s %8s %10s %8s %10s %10s\n' model kernels different ms registers 'code bytes'
for file in $(for folder in "$@"; do ls "$folder"/{model,core}.pt2 2>/dev/null; done); do
    name=$(basename "$(dirname "$file")")
    case $file in */core.pt2) name+=" core" ;; esac
    if ! said=$("$henry" compile "$file" --target "$targets" -o "$work/model.hnb" --no-cache 2>&1); then
        failed=$((failed + 1))
        echo "FAILED $name: $said"
        continue
    fi
    "$henry" inspect "$work/model.hnb" >"$work/text"
    registers=$(grep -o '([0-9]* registers' "$work/text" | tr -dc '0-9\n' | sort -n | tail -1)
    bytes=$(awk '/^target .* bytes of code$/ { sum += $(NF - 3) } END { print sum + 0 }' "$work/text")
    printf '%-20s %8s %10s %8.0f %10s %10s\n' "$name" "$(grep -c '^step .* kernel' "$work/text")" \
        "$(grep -c '^kernel ' "$work/text")" "$(sed 's/.*calls, \([0-9.]*\) ms.*/\1/' <<<"$said")" "$registers" "$bytes"
    # Of PTX nothing is known but that it is there; machine code comes with its registers.
    count=$(tr , '\n' <<<"$targets" | grep -c .) known=$(tr , '\n' <<<"$targets" | grep -c sm_)
    wrong=$(grep '^kernel ' "$work/text" | awk -v all="$count" -v n="$known" '{ if (gsub(/ object [0-9]/, "") != all || gsub(/ registers/, "") != n || /bytes of stack/) print }')
    if [ -z "$wrong" ] && grep -q '^operations on the host 0, copies between host and device 0 ' "$work/text"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $name: $wrong $(grep '^operations' "$work/text")"
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
