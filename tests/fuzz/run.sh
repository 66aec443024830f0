#!/usr/bin/env bash
# `make fuzz`: builds the fuzz targets with clang and runs each for a while, on a copy of its corpus and on the sample models.
#
#     tests/fuzz/run.sh [SECONDS [TARGET...]]        default: 60 s each, all targets
#
# HENRY_FUZZ_JOBS (default 1) is how many processes a target gets at the same time, each with a seed of its own, all on one
# corpus. What a target finds lies in build/fuzz-findings/; once fixed, add it to tests/fuzz/corpus/, which `make test` replays.
set -u
cd "$(dirname "$0")/../.." || exit 2
seconds=${1:-60}
jobs=${HENRY_FUZZ_JOBS:-1}
[ $# -gt 0 ] && shift
command -v clang >/dev/null || { echo "tests/fuzz/run.sh needs clang" >&2; exit 1; }
cmake --preset fuzz -S . >build/fuzz.log 2>&1 && cmake --build build/fuzz --target fuzz_targets henry henry-worker >>build/fuzz.log 2>&1 ||
    { tail -30 build/fuzz.log; exit 1; }
mkdir -p build/fuzz-findings
[ -d build/fuzz-seeds ] || HENRY=build/fuzz/henry tests/fuzz/seeds.sh build/fuzz-seeds || exit 1

# One process of a target; its log ends with libFuzzer's statistics.
fuzz_one() {
    local name=$1 seed=$2
    build/fuzz/fuzz_"$name" -max_total_time="$seconds" -seed="$seed" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -reload=1 \
        -dict=build/fuzz-seeds/"$name".dict -artifact_prefix=build/fuzz-findings/"$name"- \
        build/fuzz-corpus/"$name" "tests/fuzz/corpus/$name" build/fuzz-seeds/"$name" >"build/fuzz-$name-$seed.log" 2>&1
}

passed=0 failed=0
[ $# -gt 0 ] || set -- $(ls tests/fuzz/fuzz_*.c | sed 's|.*/fuzz_||; s|\.c$||')
for name in "$@"; do
    mkdir -p "build/fuzz-corpus/$name"
    rm -f "build/fuzz-$name"-*.log
    pids=""
    for seed in $(seq 1 "$jobs"); do
        fuzz_one "$name" "$seed" &
        pids="$pids $!"
    done
    bad=0
    for pid in $pids; do wait "$pid" || bad=1; done
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz-$name"-*.log | awk '{n += $1} END {print n + 0}')
    edges=$(grep -ohE 'cov: [0-9]+' "build/fuzz-$name"-*.log | awk '$2 > most {most = $2} END {print most + 0}')
    if [ $bad = 0 ]; then
        passed=$((passed + 1))
        echo "$name: $runs runs, $edges edges covered, nothing found"
    else
        failed=$((failed + 1))
        echo "$name: FAILED after $runs runs, see build/fuzz-$name-*.log"
        grep -hE '^(SUMMARY|==.*ERROR)|Test unit written' "build/fuzz-$name"-*.log | head -5
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
