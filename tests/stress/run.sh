#!/usr/bin/env bash
# `make stress`: processes are killed, calls fail, disks fill, bytes change; nothing may be lost, wrong or stuck. The figures
# of docs/reliability.md.
#     tests/stress/run.sh [--quick] [PROGRAM]...        default: all, about half an hour; --quick: the short form of `make test`
#
# A program is tests/stress/test_PROGRAM.c. Each prints rows ("row|what|asked|reached|seed|seconds") and ends with its counts;
# the rows become a table in BUILD/stress.md. HENRY_TEST_MODELS names the folder with the models (default ../shared).
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${HENRY_TEST_BUILD:-${BUILD:-build}}
mode="" names=()
for word in "$@"; do
    case $word in
    --quick) mode=--quick ;;
    -*) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
    *) names+=("$word") ;;
    esac
done
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
unset HENRY_LOG HENRY_CC HENRY_CXX HENRY_THREADS HENRY_COMPILE_THREADS HENRY_WORKER HENRY_REDIS_URL
export HENRY_CACHE_DIR=$work/cache HENRY_TEST_MODELS=${HENRY_TEST_MODELS:-../shared}
cmake --build "$build" --target stress_programs henry-worker >"$work/build.log" 2>&1 || { tail -30 "$work/build.log"; echo "0 passed, 1 failed"; exit 1; }
[ ${#names[@]} -gt 0 ] || for file in tests/stress/test_*.c; do name=$(basename "$file" .c); names+=("${name#test_}"); done

machine="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) CPUs, $(uname -sr)"
passed=0 failed=0
for name in "${names[@]}"; do
    echo "--- stress_test_$name $mode"
    "$build/stress_test_$name" $mode >"$work/out" 2>"$work/err"
    code=$?
    cat "$work/err"
    sed '$d' "$work/out" # its counts go into the total
    counts=$(tail -1 "$work/out")
    case $counts in
    [0-9]*" passed, "[0-9]*" failed") ;;
    *) echo "stress_test_$name ended with status $code and no counts"; counts="0 passed, 1 failed" ;;
    esac
    passed=$((passed + ${counts%% *})) failed=$((failed + $(echo "$counts" | cut -d' ' -f3)))
    sed -n "s/^row|\(.*\)|\(.*\)|\(.*\)|\(.*\)|\(.*\)/| \1 | \2 | \3 | \`stress_test_$name $mode\`, seed \4, \5 s |/p" "$work/out" | sed 's/ `, seed/`, seed/' >>"$work/rows"
done
{
    echo "Machine: $machine. $(date -u +%F)"
    echo
    echo "| what | asked | reached | command, seed, duration |"
    echo "|---|---|---|---|"
    cat "$work/rows"
} >"$build/stress.md"
echo "table: $build/stress.md"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
