#!/usr/bin/env bash
# `make bench`: measures, prints the table of figures and keeps it in bench/RESULTS.md.
#
#     bench/run.sh [PART]...         kernels steps variants threads bundle service cache startup peers norms fusion roofline tuning tuning_sizes optimizer report picks debugger; default: all of them, then the table
#
# The peers and the exported models need PyTorch and ONNX Runtime: HENRY_BENCH_PYTHON names a Python that has them;
# otherwise a virtual environment is made below build/bench (gigabytes, once). HENRY_BENCH_MODELS names a folder for the
# exported models (5 GB). HENRY_BENCH_COMPILE=0 leaves torch.compile out, which takes a minute a model to start. A part that was measured before and is
# not asked for again keeps its figures. Nothing else should run on the machine meanwhile.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-$PWD/build}
work=$build/bench
models=${HENRY_BENCH_MODELS:-$work/models}
parts=${*:-kernels steps variants threads bundle service cache startup peers norms fusion roofline tuning tuning_sizes optimizer report picks debugger}
mkdir -p "$work"
for part in $parts; do
    case $part in kernels | steps | variants | threads | bundle | service | cache | startup | peers | norms | fusion | roofline | tuning | tuning_sizes | optimizer | report | picks | debugger) ;; *) sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2 ;; esac
done

# Figures of a warm start are of this run, not of a cache that grew before it.
HENRY_CACHE_DIR=$(mktemp -d "${TMPDIR:-/tmp}/henry-bench-XXXXXX")
export HENRY_CACHE_DIR
trap 'rm -rf "$HENRY_CACHE_DIR"' EXIT

needs_models() { case " $parts " in *" cache "* | *" startup "* | *" peers "* | *" norms "* | *" fusion "* | *" roofline "* | *" tuning "* | *" report "* | *" debugger "*) true ;; *) false ;; esac; }

find_python() {
    python=${HENRY_BENCH_PYTHON:-$work/venv/bin/python}
    [ -x "$python" ] && return
    echo "bench: installing PyTorch and ONNX Runtime in $work/venv" >&2
    python3 -m venv "$work/venv" || { echo "bench: needs Debian's package python3-venv" >&2; exit 1; }
    "$python" -m pip install --quiet -r bench/requirements.txt
}

bench_kernels() {
    "$build/bench_kernels" --threads 1 >"$work/kernels.jsonl.new"
    "$build/bench_kernels" --threads 2 >>"$work/kernels.jsonl.new"
    mv "$work/kernels.jsonl.new" "$work/kernels.jsonl"
    "$build/bench_ceilings" --threads 1 >"$work/ceilings.jsonl.new"
    "$build/bench_ceilings" --threads 2 >>"$work/ceilings.jsonl.new"
    mv "$work/ceilings.jsonl.new" "$work/ceilings.jsonl"
}

bench_steps() { "$build/bench_steps" >"$work/steps.json"; }

bench_variants() { "$build/bench_variants" >"$work/variants.json"; }

bench_threads() {
    "$build/henry" compile examples/data/digits/model.pt2 -o "$work/digits.hnb" -q
    "$build/bench_threads" "$work/digits.hnb" 8 >"$work/threads.json"
}

bench_bundle() { "$build/bench_bundle" >"$work/bundle.json"; }

bench_service() { "$build/bench_service" >"$work/service.json"; }

bench_cache() { "$build/bench_graph_cache" --json "$models"/{gpt2_tiny,mobilenet_v3,resnet50}/model.pt2 >"$work/cache.jsonl"; }

bench_startup() {
    "$python" bench/startup.py --henry "$build/henry" --phases "$build/bench_phases" --models "$models" -o "$work/startup.json"
}

bench_peers() {
    local compile=(--compile)
    [ "${HENRY_BENCH_COMPILE:-1}" = 0 ] && compile=()
    "$python" -c 'from importlib.metadata import version as v; print("PyTorch", v("torch") + ", ONNX Runtime", v("onnxruntime"))' >"$work/versions.txt"
    "$python" bench/peers.py --models "$models" --subject "$build/bench_subject" "${compile[@]}" -o "$work/peers.jsonl"
}

bench_norms() { "$python" bench/norms.py --models "$models" --subject "$build/bench_subject" -o "$work/norms.jsonl"; }

# The sample models are skipped where they are not there.
bench_fusion() {
    local samples=${HENRY_TEST_MODELS:-$PWD/../shared}/models
    "$python" bench/training_steps.py "$models"
    (
        shopt -s nullglob
        "$python" bench/fusion.py --henry "$build/henry" -o "$work/fusion.jsonl" "$samples"/*/model.pt2 \
            "$models"/{gpt2_124m,bert_base,resnet50,vit_b_16,mobilenet_v3_large,llama_8x1024}{,_step}/model.pt2
    )
}

# The machine is measured anew: HENRY_CACHE_DIR is empty.
bench_roofline() {
    "$build/henry" bench --roofline --threads 2 --stats "$work/roofline.json" \
        "$models"/{gpt2_124m,bert_base,resnet50,vit_b_16,mobilenet_v3_large,llama_8x1024}/model.pt2 >"$work/roofline.txt"
}

# Caches of its own.
bench_tuning() {
    "$python" bench/tuning.py --henry "$build/henry" -o "$work/tuning.jsonl" \
        "$models"/{gpt2_124m,bert_base,resnet50,vit_b_16,mobilenet_v3_large,llama_8x1024}/model.pt2 >"$work/tuning.txt"
}

bench_tuning_sizes() {
    find_python
    "$python" bench/tuning_sizes.py --henry "$build/henry" -o "$work/tuning_sizes.jsonl" >"$work/tuning_sizes.txt"
}

# AdamW for the parameters of GPT-2 124M: 4 GB of tensors.
bench_optimizer() {
    find_python
    [ -e "$models/adamw/model.pt2" ] || "$python" bench/make_optimizer.py "$models/adamw"
    "$build/bench_optimizer" "$models/adamw/model.pt2" 2 >"$work/optimizer.json"
}

# Chromium, as for its tests.
bench_report() {
    tools/setup.sh browser
    python3 bench/report.py --henry "$build/henry" --models "$models" -o "$work/report.json"
}

# Off, and statistics of every tensor, in turns with no debugger at all.
bench_debugger() { "$build/bench_debugger" "$models/gpt2_124m/model.pt2" 2 >"$work/debugger.json"; }

# Twenty minutes: every form of 42 kernels, 12 products, convolutions and attention, against the model's first guess.
bench_picks() {
    "$build/bench_picks" --budget 1000 >"$work/picks.jsonl.new"
    "$build/bench_picks_calls" --budget 1000 >"$work/picks_calls.jsonl.new"
    mv "$work/picks.jsonl.new" "$work/picks.jsonl"
    mv "$work/picks_calls.jsonl.new" "$work/picks_calls.jsonl"
    python3 bench/picks.py "$work/picks.jsonl" | tee "$work/picks.txt"
    python3 bench/picks.py "$work/picks_calls.jsonl" | tee "$work/picks_calls.txt"
}

cmake --build "$build" --target bench_programs henry-worker henry >"$work/build.log" 2>&1 || { cat "$work/build.log" >&2; exit 1; }
if needs_models; then
    find_python
    "$python" bench/make_models.py "$models"
fi
for part in $parts; do
    echo "bench: $part" >&2
    "bench_$part"
done
python3 bench/table.py "$work" -o bench/RESULTS.md
