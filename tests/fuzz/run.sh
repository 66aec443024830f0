#!/usr/bin/env bash
# `make fuzz`: builds the fuzz targets with clang and runs each for a while, on a copy of its corpus.
#     tests/fuzz/run.sh [SECONDS [TARGET...]]        default: 60 s each, all targets
# What a target finds lies in build/fuzz-findings/; once fixed, add it to tests/fuzz/corpus/, which `make test` replays.
set -u
cd "$(dirname "$0")/../.." || exit 2
seconds=${1:-60}
[ $# -gt 0 ] && shift
command -v clang >/dev/null || { echo "tests/fuzz/run.sh needs clang" >&2; exit 1; }
cmake --preset fuzz -S . >build/fuzz.log 2>&1 && cmake --build build/fuzz --target fuzz_targets >>build/fuzz.log 2>&1 ||
    { tail -30 build/fuzz.log; exit 1; }
mkdir -p build/fuzz-findings
passed=0 failed=0
[ $# -gt 0 ] || set -- $(ls tests/fuzz/fuzz_*.c | sed 's|.*/fuzz_||; s|\.c$||')
for name in "$@"; do
    corpus=build/fuzz-corpus/$name
    mkdir -p "$corpus" "tests/fuzz/corpus/$name"
    if build/fuzz/fuzz_"$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix=build/fuzz-findings/"$name"- "$corpus" "tests/fuzz/corpus/$name" >"build/fuzz-$name.log" 2>&1; then
        passed=$((passed + 1))
        echo "$name: $(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz-$name.log") runs, nothing found"
    else
        failed=$((failed + 1))
        echo "$name: FAILED, see build/fuzz-$name.log"
        grep -E '^(SUMMARY|==.*ERROR)|Test unit written' "build/fuzz-$name.log" | head -5
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
