#!/usr/bin/env bash
# C projects of `henry compile --emit source --target sm_90a`, without a GPU. They run on a stand-in for the driver, which looks at the
# order of calls, arguments and lifetimes (tests/support/cuda_standin.h). Their kernels are run by the CPU, from the text of the projects
# (tests/support/cuda_on_cpu.c): results are near PyTorch's, within the tolerances of the example. Operations are done by stand-ins
# of cuBLASLt and cuDNN, and once more by kernels. Some run in Python, too, by python/henry. tests/source/gpu.sh is for a real GPU.
#     tests/source/cuda.sh [MODEL]...
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${HENRY_TEST_BUILD:-build}
export HENRY_TEST_MODELS=${HENRY_TEST_MODELS:-../shared}
. tests/source/cuda_projects.sh
passed=0 failed=0 skipped=0
if [ "$(uname -m)" != x86_64 ] || ! command -v "${CXX:-g++}" >/dev/null; then
    echo "skipped: kernels are run by the CPU on x86-64, with a C++ compiler"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
unset CC AR CFLAGS LDFLAGS MAKEFLAGS CPATH LIBRARY_PATH NVCC HENRY_DEBUG_TENSORS
export OMP_NUM_THREADS=2 LD_LIBRARY_PATH=$build/cuda_standin HENRY_CUDA_TEXTS=$PWD/$build/cuda_texts/libcuda_texts.so
case $build in /*) HENRY_CUDA_TEXTS=$build/cuda_texts/libcuda_texts.so ;; esac
lt=$build/cublaslt_standin/libcublasLt.so.13 dnn=$build/cudnn_standin/libcudnn.so.9
folder=$work/project

# check NAME COMMAND...: what it says is shown when it fails
check() {
    local name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $name"
        head -20 "$work/log"
    fi
}

# In the place of machine code: the name of the text, for the stand-in. Without NVRTC a project comes without code.
name_texts() {
    local f
    for f in "$folder"/kernels_*.cu; do
        f=$(basename "$f" .cu)
        echo "standin text $folder/$f.cu" >"$work/line"
        case $f in *.compute_*) f=$f.ptx ;; *) f=$f.cubin ;; esac
        cmp -s "$work/line" "$folder/$f" || cp "$work/line" "$folder/$f"
    done
    for f in $(stats_code); do printf 'standin\nhn_tensor_stats 24 0 1024\nhn_tensor_stats_join 3 0 1024\n' >"$folder/$f"; done
}
# Files of machine code for statistics of tensors: the stand-in knows these kernels by their names.
stats_code() { sed -n 's/^STATS_CODE = //p' "$folder/Makefile"; }
make_texts() {
    rm -f "$folder"/kernels_* "$folder"/stats.*
    HENRY_NVRTC=/nonexistent emit "${1:-sm_90a}" && name_texts && build_project
}

run() { "$folder/example" -w "$folder/weights.bin" "$@"; }
libraries() { HENRY_CUBLASLT=$lt HENRY_CUDNN=$dnn "$@"; }
kernels() { HENRY_CUBLASLT=off HENRY_CUDNN=off "$@"; }

# Results as PyTorch has stored them, by libraries and by kernels.
values() {
    describe "$1"
    check "$1: the project is built" make_texts || return
    check "$1: libraries" libraries run "${inputs[@]}" "${expected[@]}"
    check "$1: kernels" kernels run "${inputs[@]}" "${expected[@]}"
}

# What the model changes: as the CPU changes it.
changes() {
    local f
    rm -rf "$work/module" "$work/out"
    mkdir "$work/out"
    "$build/henry" run "$file" "${inputs[@]}" -d "$work/module" -q || return 1
    libraries run "${inputs[@]}" -n 1 -o "$work/out" >/dev/null || return 1
    for f in "$work"/module/mutated_*.npy; do cmp <(content "$f") <(content "$work/out/$(basename "$f")") || return 1; done
}

# same_arrays DIR: its output_K.npy and mutated_NAME.npy are those of the example, bit for bit.
same_arrays() {
    local f name
    for f in "$work"/example/*.npy; do
        name=$(basename "$f")
        cmp <(content "$f") <(content "$1/${name/#out_/output_}") || return 1
    done
}

# The project in Python, on the same driver: line by line from program.json, and by torch.fx where PyTorch is (PYTHON=...).
python=${PYTHON:-python3} has_torch=""
"$python" -c 'import torch' 2>/dev/null && has_torch=1
lines() {
    rm -rf "$work/example" "$work/lines"
    mkdir "$work/example"
    make -s -j2 -C "$folder" CFLAGS="$flags" libmodel.so && "$1" run "${inputs[@]}" -n 1 -o "$work/example" &&
        PYTHONPATH=$PWD/python "$1" "$python" -m henry.program "$folder" "${inputs[@]}" -d "$work/lines" && same_arrays "$work/lines"
}
by_fx() {
    local files=() f
    for f in "${inputs[@]}"; do [ "$f" = -i ] || files+=("$f"); done
    rm -rf "$work/fx"
    PYTHONPATH=$PWD/python "$1" "$python" tests/python/fx.py "$folder" "$work/fx" "${files[@]}" && same_arrays "$work/fx"
}
# in_python NAME libraries|kernels: behind `values NAME`
in_python() {
    check "$1: line by line, $2" lines "$2"
    if [ "$has_torch" ]; then check "$1: torch.fx, $2" by_fx "$2"; else skipped=$((skipped + 1)); fi
}

# array TYPE SHAPE BYTES: a .npy file
array() { printf "\223NUMPY\1\0\166\0%-117s\n%b" "{'descr': '$1', 'fortran_order': False, 'shape': $2, }" "$3"; }

says() {
    local wanted=$1
    shift
    "$@" >"$work/said" 2>&1 && { echo "it does not fail"; return 1; }
    grep -qF "$wanted" "$work/said" || { cat "$work/said"; return 1; }
}

# NVRTC's code comes along, and is what the project itself makes. The stand-in takes it; its kernels compute nothing then.
same_code() {
    local f
    libraries run || return 1
    mkdir -p "$work/code" && cp "$folder"/*.cubin "$work/code" || return 1
    NVRTC=$nvrtc make -s -C "$folder" code || return 1
    for f in "$work"/code/*.cubin; do cmp "$f" "$folder/$(basename "$f")" || return 1; done
}
code() {
    local nvrtc=${HENRY_NVRTC:-}
    [ -n "$nvrtc" ] || nvrtc=$(ls "$build"/cuda/libnvrtc.so.* 2>/dev/null | head -1)
    describe mlp
    rm -f "$folder"/kernels_* "$folder"/stats.*
    emit sm_90a,sm_80 >"$work/why" 2>&1
    if grep -q "without machine code" "$work/why"; then
        if [ "${CI:-}" = true ]; then
            echo "FAILED, since CI=true: $(head -1 "$work/why")"
            failed=$((failed + 1))
        else
            echo "skipped: $(head -1 "$work/why")"
            skipped=$((skipped + 1))
        fi
        return
    fi
    check "machine code of two targets" build_project
    check "the project makes the same machine code" same_code
    debug_linears >/dev/null 2>&1
    rm -f "$folder"/kernels_* "$folder"/stats.*
    check "debug: with machine code, linears.hnir is emitted" emit sm_90a
    check "debug: it is built" build_project DEBUG=1
    check "debug: the project says what the module says" same_lines
}

# Long rows, which the shared memory of one target holds and that of the other does not: launches differ.
rows_model() {
    cat <<'END'
graph @rows {
  input user %x : f32[2, 30000] "x"
  %a = aten.erf.default(%x) : f32[2, 30000]
  %b = aten._softmax.default(%a, 1, false) : f32[2, 30000]
  %y = aten._softmax.default(%b, 1, false) : f32[2, 30000]
  output user %y "y"
}
END
}
make_rows() {
    rows_model >"$work/rows.hnir"
    floats '(2, 30000)' 60000 >"$work/x.npy"
    file=$work/rows.hnir inputs=(-i "$work/x.npy")
    rm -rf "$work/module"
    "$build/henry" run "$file" "${inputs[@]}" -d "$work/module" -q && make_texts sm_90a,sm_86 || return 1
    expected=(-e "$work/module/output_0.npy")
    "$python" tests/python/schema.py docs/program.schema.json "$folder/program.json"
}
# Launches of the second target are written down, and are others than those of the first.
launches_differ() {
    "$python" - "$folder/program.json" <<'END'
import json, sys
lines = json.load(open(sys.argv[1]))["program"]["lines"]
fields = ("threads", "shared_bytes", "extent")
pairs = [(line, line["others"]) for line in lines if line["kind"] == "kernel"]
assert pairs and all(len(others) == 1 for _, others in pairs)
assert any([line.get(f) for f in fields] != [others[0].get(f) for f in fields] for line, others in pairs)
END
}
rows() {
    local arch
    check "long rows: the project is built" make_rows
    check "long rows: launches of two targets" launches_differ
    for arch in 90 86; do
        export HENRY_CUDA_STANDIN=arch=$arch
        check "long rows: sm_$arch" libraries run "${inputs[@]}" "${expected[@]}"
        in_python "long rows: sm_$arch" libraries
    done
    unset HENRY_CUDA_STANDIN
}

# Operations of the GPU that are asked for forms, which tuning gives them: a copy of the project, edited. The library of the stand-in has one way.
forms() {
    local folder=$work/asked of=$folder
    rm -rf "$folder"
    cp -r "$of" "$folder"
    check "$1: operations get forms" give_forms
    in_python "$1: operations with forms" libraries
    in_python "$1: operations with forms" kernels
}
give_forms() {
    "$python" - "$folder/program.json" <<'END' && "$python" tests/python/schema.py docs/program.schema.json "$folder/program.json"
import json, sys
with open(sys.argv[1]) as file:
    document = json.load(file)
lines = [line for line in document["program"]["lines"] if line["kind"] == "extern" and line["device"] == "cuda"]
assert any("kernel" in line for line in lines)
for line in lines:
    line.update(form="", variants=[{"form": ""}], choose={"sizes": [7], "otherwise": 0, "ranges": [{"variant": 1, "in": [[7, None]]}]})
with open(sys.argv[1], "w") as file:
    json.dump(document, file)
END
}

# Two targets: the GPU says which.
targets() {
    describe digits_cnn
    check "two targets: the project is built" make_texts sm_80,sm_90a
    check "two targets: sm_90" libraries run "${inputs[@]}" "${expected[@]}"
    HENRY_CUDA_STANDIN=arch=86 check "two targets: sm_86" libraries run "${inputs[@]}" "${expected[@]}"
    HENRY_CUDA_STANDIN=arch=75 check "no target" says "code for sm_80 does not run on cuda:0" libraries run
    HENRY_CUDA_STANDIN=devices=0 check "no GPU" says "needs a CUDA device" libraries run
    HENRY_CUDA_STANDIN=memory=1000 check "no memory" says "out of memory: no" libraries run
}

# An operand of a convolution that begins at a place that depends on a size: it is aligned in another way in each of these runs.
shifted_model() {
    cat <<'END'
graph @shifted {
  symbol size s0 in [2, 64] hint 6
  input user %x : f32[s0, 33, 15, 15] "x"
  input user %w : f32[64, 33, 3, 3] "w"
  %n = slice(%x, dim=0, start=s0 - 2, size=2, step=1)
  %y = aten.convolution.default(%n, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : f32[2, 64, 13, 13]
  output user %y "y"
}
END
}
shifted_caller() {
    cat <<'END'
#include "model.h"
#include <stdio.h>
enum { IMAGE = 33 * 225 };
static float x[8 * IMAGE], w[64 * 33 * 9];
int main(int argc, char **argv) {
    char error[400];
    model *m;
    if (argc < 2 || model_open(argv[1], 1, &m, error, sizeof error)) return 1;
    for (int i = 0; i < 8 * IMAGE; i++) x[i] = (float)(i / IMAGE);
    for (int i = 0; i < 64 * 33 * 9; i++) w[i] = 1;
    for (int s = 6; s <= 8; s++) {
        model_array in[2] = {{x, {s, 33, 15, 15}}, {w, {64, 33, 3, 3}}}, out[1] = {{0}};
        if (model_run(m, in, out)) return puts(model_error(m)), 1;
        if (*(float *)out[0].data != 297.0f * (float)(s - 2)) return puts("another result"), 1;
    }
    model_close(m);
    return 0;
}
END
}
build_shifted() {
    shifted_model >"$work/shifted.hnir"
    shifted_caller >"$work/shifted.c"
    file=$work/shifted.hnir
    make_texts && "${CC:-cc}" -I"$folder" -o "$work/shifted" "$work/shifted.c" "$folder/libmodel.a" -pthread -lm -ldl
}

small() {
    check "an operand that is shifted: the project is built" build_shifted
    check "an operand that is shifted" libraries "$work/shifted" "$folder/weights.bin"
    values mutate
    check "mutate: what changes" changes
    in_python mutate libraries
    describe assert
    check "assert: the project is built" make_texts
    check "an assertion" says "assertion failed" libraries run
    values branch
    describe embed
    check "embed: the project is built" make_texts
    array '<i8' '(1, 2)' '\1\0\0\0\0\0\0\0\143\0\0\0\0\0\0\0' >"$work/index.npy"
    array '<i4' '(1, 2)' '\0\0\0\0\0\0\0\0' >"$work/kinds.npy"
    check "an index out of bounds" says "an index is out of bounds" libraries run -i "$work/index.npy" -i "$work/kinds.npy"
    describe data
    check "debug: the project is built" debug_project
    check "debug: tensors of the GPU are seen" debug_stats
    check "debug: the GPU makes statistics, and no tensor is copied" debug_counts
    check "debug: without its kernels the host makes the same" debug_by_host
    check "debug: linears.hnir is built" debug_linears
    check "debug: the first NaN" debug_nan
    check "debug: where the GPU has no memory for statistics, the host makes them, which is said once" debug_without_memory
}

# Pools on the GPU, and results in the memory of the copy of an input.
memory() {
    for options in outputs combined; do
        options=(--pool "$options" --donate 0)
        values train_step_mlp
    done
    options=()
}

debug_project() { make_texts && build_project DEBUG=1; }
debug_stats() {
    HENRY_DEBUG_TENSORS=stats libraries run "${inputs[@]}" "${expected[@]}" 2>"$work/stats" || { cat "$work/stats"; return 1; }
    grep -q "kernel .* on cuda:0.*after b.*mean" "$work/stats" && grep -q "define on cuda:0" "$work/stats"
}

# told LEVEL: how often the example waits, copies to the host, and how many bytes; its lines are in `stats`.
told() {
    HENRY_DEBUG_TENSORS=$1 HENRY_CUDA_STANDIN=tell=1 libraries run "${inputs[@]}" -n 1 >/dev/null 2>"$work/stats" || { cat "$work/stats" >&2; return 1; }
    sed -n 's/^cuda stand-in: \([0-9]*\) waits, \([0-9]*\) copies to the host of \([0-9]*\) bytes/\1 \2 \3/p' "$work/stats"
}
# STATS: 72 bytes for each tensor. CHECK: one copy for all tensors, with one wait. What the GPU takes for that comes to two more when memory
# is given back at the end.
debug_counts() {
    local plain stats checked tensors
    read -ra plain < <(told off) && read -ra stats < <(told stats) && grep -v stand-in "$work/stats" >"$work/by_gpu" && read -ra checked < <(told check) || return 1
    echo "off: ${plain[*]}, stats: ${stats[*]}, check: ${checked[*]}"
    tensors=$((stats[1] - plain[1]))
    [ $tensors -ge 5 ] && [ $((stats[2] - plain[2])) = $((72 * tensors)) ] &&
        [ $((checked[1] - plain[1])) = 1 ] && [ $(((checked[2] - plain[2]) % 72)) = 0 ] && [ $((checked[0] - plain[0])) -le 3 ]
}
debug_by_host() {
    local f
    for f in $(stats_code); do echo "no code" >"$folder/$f"; done
    build_project DEBUG=1 && told stats >/dev/null || return 1
    grep -q "statistics of tensors are made on the host, to which each tensor is copied" "$work/stats" || return 1
    grep -v "stand-in\|on the host" "$work/stats" | diff "$work/by_gpu" -
}

# Products alone, which stand-ins do in machine code, too; x has a NaN and an infinity.
linears_model() {
    cat <<'END'
graph @linears {
  input user %x : f32[4, 3] "x"
  input user %w : f32[3, 700] "w"
  input user %v : f32[700, 2] "v"
  %h = aten.mm.default(%x, %w) : f32[4, 700]
  %y = aten.mm.default(%h, %v) : f32[4, 2]
  output user %y "y"
}
END
}
# floats SHAPE COUNT [LAST 8 BYTES]: an array of 1.0, -2.0 and so on
floats() {
    local k bytes=""
    for ((k = 0; k < $2 / 2; k++)); do bytes+='\0\0\200\77\0\0\0\300'; done
    array '<f4' "$1" "$bytes${3:-}"
}
debug_linears() {
    linears_model >"$work/linears.hnir"
    floats '(4, 3)' 10 '\0\0\300\177\0\0\200\177' >"$work/x.npy"
    floats '(3, 700)' 2100 >"$work/w.npy"
    floats '(700, 2)' 1400 >"$work/v.npy"
    file=$work/linears.hnir inputs=(-i "$work/x.npy" -i "$work/w.npy" -i "$work/v.npy") expected=()
    debug_project
}
# Of this level, without how the program calls itself and its lines of the stand-in.
said_by_project() { HENRY_DEBUG_TENSORS=$1 libraries run "${inputs[@]}" -n 1 2>&1 >/dev/null | sed "s/^.*'matmul' (/(/"; }
said_by_module() { HENRY_DEBUG_TENSORS=$1 libraries "$build/henry" run "$file" --target sm_90a --device cuda -q "${inputs[@]}" 2>&1 >/dev/null | sed "s/^.*'matmul' (/(/"; }
debug_nan() {
    said_by_project check >"$work/said" && cat "$work/said"
    grep -qF "(step 0 of call 1) is given nan in b1 'x' at [3, 1]: of 12 elements (f32) 1 are NaN and 1 infinite" "$work/said" || return 1
    said_by_project check,nan=ok >"$work/said" && cat "$work/said"
    grep -qF "is given inf in b1 'x' at [3, 2]" "$work/said" && says "is given inf" env HENRY_DEBUG_TENSORS=check,nan=ok "$folder/example" -w "$folder/weights.bin" "${inputs[@]}"
}
# With the least memory that the model itself gets by with.
debug_without_memory() {
    local least=0 most=1000000 middle
    said_by_project stats >"$work/project_said" && [ -s "$work/project_said" ] || return 1
    while [ $((most - least)) -gt 1 ]; do
        middle=$(((least + most) / 2))
        if HENRY_CUDA_STANDIN=memory=$middle libraries run "${inputs[@]}" -n 1 >/dev/null 2>&1; then most=$middle; else least=$middle; fi
    done
    HENRY_CUDA_STANDIN=memory=$most said_by_project stats >"$work/said"
    [ "$(grep -c '^a tensor is copied to the host for its statistics: ' "$work/said")" = 1 ] && grep -v '^a tensor is copied' "$work/said" | diff "$work/project_said" -
}
# Line by line, with NVRTC's code of the kernels that make the statistics.
same_lines() {
    local level
    for level in stats check check,nan=ok; do
        said_by_project $level >"$work/project_said" && said_by_module $level >"$work/module_said"
        [ -s "$work/module_said" ] && diff "$work/module_said" "$work/project_said" || return 1
    done
}

for name in ${*:-mlp gpt2_tiny digits_cnn train_step_mlp adamw_step rms_norm_backward bf16 data loops}; do
    values "$name"
    # Operations by libraries and by kernels, casts, sizes that the data gives, loops.
    case $name in
    digits_cnn) in_python "$name" libraries; in_python "$name" kernels; forms "$name" ;;
    gpt2_tiny | bf16 | data | loops) in_python "$name" libraries ;;
    esac
done
if [ $# = 0 ]; then memory; small; targets; rows; code; fi
echo "$passed passed, $failed failed, $skipped skipped"
exit $((failed != 0))
