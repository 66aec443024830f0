#!/usr/bin/env bash
# `make stress`: processes are killed at random moments; nothing may be lost, wrong or stuck.
#     tests/stress/run.sh [ROUNDS]        default: what each test says, some seconds each
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${BUILD:-build}
[ $# -gt 0 ] && export HN_STRESS_ROUNDS=$1
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export HENRY_CACHE_DIR=$work/cache
cmake --build "$build" --target stress_programs henry-worker >"$work/build.log" 2>&1 || { tail -30 "$work/build.log"; exit 1; }
failed=0
for program in "$build"/stress_*; do
    [ -x "$program" ] || continue
    echo "--- $(basename "$program")"
    "$program" || failed=1
done
exit $failed
