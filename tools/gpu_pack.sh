#!/usr/bin/env bash
# `make gpu-pack`: gathers in build/gpu-pack/ what a machine with a GPU needs for tests/gpu/run.sh and bench/gpu.sh, where there is nothing but
# a driver, NVRTC, and PyTorch for the benchmarks: programs that need no other library, operator cases, small models. Says its size.
#     tools/gpu_pack.sh [--archive]        after `make`; --archive: also build/gpu-pack.tar.xz, a quarter of the size
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
shared=${HENRY_TEST_MODELS:-../shared}
pack=$build/gpu-pack
limit_mib=60

cmake --build "$build" --target gpu_pack_programs >"$build/gpu-pack.log" 2>&1 || { cat "$build/gpu-pack.log"; exit 1; }
# One program, and a link to it for each name that it has. What an earlier build left there goes.
find "$pack/bin" -type f ! -name programs ! -name henry-worker -delete
for name in $("$pack/bin/programs" --names); do ln -sf programs "$pack/bin/$name"; done
rm -rf "$pack"/{tests,bench,examples,shared,*.sh,about.txt}
mkdir -p "$pack"/tests/{devices,models,gpu,ops,source} "$pack"/tests/cli "$pack"/examples/data "$pack"/bench "$pack"/shared
cp tests/devices/run.sh "$pack"/tests/devices/
cp -r tests/models/run.sh tests/models/*/ "$pack"/tests/models/
cp tests/gpu/*.{sh,py} "$pack"/tests/gpu/
cp tests/source/{gpu,cuda_projects}.sh "$pack"/tests/source/
cp -r tests/ops/cases "$pack"/tests/ops/
cp -r tests/cli/data "$pack"/tests/cli/
cp -r examples/data/digits "$pack"/examples/data/
cp bench/gpu.sh bench/gpu_*.py bench/{make_models,training_memory,table,picks}.py "$pack"/bench/
cp -r "$shared"/models "$shared"/pt2-cases "$pack"/shared/ ||
    { echo "gpu-pack: no models in '$shared'; HENRY_TEST_MODELS names the folder that holds models/ and pt2-cases/" >&2; exit 1; }
chmod -R u+w "$pack"
# start NAME SCRIPT: a script that is found at once
start() {
    # shellcheck disable=SC2016 # that script expands them
    printf '#!/bin/sh\nexec bash "$(dirname "$0")/%s" "$@"\n' "$2" >"$pack/$1"
    chmod +x "$pack/$1"
}
start test.sh tests/gpu/run.sh
start bench.sh bench/gpu.sh
start source.sh tests/source/gpu.sh
echo "commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)$(git diff --quiet HEAD 2>/dev/null || echo ", changed")" >"$pack/about.txt"

mib=$(du -sm "$pack" | cut -f1)
echo "$pack: $mib MiB"
if [ "${1:-}" = --archive ]; then
    tar -C "$build" -c gpu-pack | xz -T0 >"$pack.tar.xz"
    echo "$pack.tar.xz: $(($(stat -c %s "$pack.tar.xz") >> 20)) MiB"
fi
[ "$mib" -le $limit_mib ] || { echo "gpu-pack: more than $limit_mib MiB" >&2; exit 1; }
