#!/usr/bin/env bash
# Whole programs on a device that is not the CPU: OpenCL, with whatever driver there is; in CI that is PoCL.
#     tests/devices/run.sh [DEVICE [VARIANT]]        default: opencl; also cuda, and cpu to try the script itself
# VARIANT: of the programs that are run; `_imaginary` has a device of the tests in the place of OpenCL, with operations.
# First the nine models, with a table of what is left to the CPU: no step, and no copy but those of inputs and outputs. Then
# conditionals, indices out of bounds, sizes from the data, assertions, state, scatters in order, and bundles.
set -u
cd "$(dirname "$0")/../.." || exit 2
build=$(realpath "${HENRY_TEST_BUILD:-build}")
variant=${2:-}
henry=$build/henry$variant shared=$(realpath "${HENRY_TEST_MODELS:-../shared}") data=$PWD/tests/cli/data
device=${1:-opencl}
kind=${device%%:*}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export HENRY_CACHE_DIR=$work/cache
passed=0 failed=0 skipped=0

good() { passed=$((passed + 1)); }
bad() {
    failed=$((failed + 1))
    echo "FAILED $*"
}

# Without a driver there is nothing to test; in CI there is one.
if ! "$henry" run examples/data/digits/model.pt2 -i examples/data/digits/input_0.npy --device "$device" -q 2>"$work/err"; then
    cat "$work/err"
    if [ "${CI:-}" = true ]; then echo "0 passed, 1 failed"; exit 1; fi
    echo "skipped: no program runs on $device here"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi

# --- the nine models ---

# The bytes of the elements of .npy files.
elements() {
    local sum=0 f
    for f in "$@"; do sum=$((sum + $(stat -c %s "$f") - 10 - $(od -An -tu2 -j8 -N2 "$f"))); done
    echo $sum
}

# number FILE KEY: of a JSON object, written a key for each line
number() { sed -n "s/^ *\"$2\": \([0-9]*\),\{0,1\}\$/\1/p" "$1" | head -1; }

model() {
    local dir=$shared/models/$1 args=() f in out steps host to from
    local inputs outputs
    mapfile -t inputs < <(ls "$dir"/input_*.npy | sort -V)
    mapfile -t outputs < <(ls "$dir"/output_*.npy | sort -V)
    for f in "${inputs[@]}"; do args+=(-i "$f"); done
    for f in "${outputs[@]}"; do args+=(-e "$f"); done
    case $1 in *_backward) ;; *) args+=(--rtol 1e-4 --atol 1e-5) ;; esac
    if ! "$henry" run "$dir/model.pt2" --device "$device" "${args[@]}" --quiet --stats "$work/stats" 2>"$work/err"; then
        bad "$1: $(cat "$work/err")"
        return
    fi
    in=$(elements "${inputs[@]}") out=$(elements "${outputs[@]}")
    [ "$kind" = cpu ] && in=0 out=0 # nothing is copied
    steps=$(number "$work/stats" steps) host=$(number "$work/stats" host_steps)
    to=$(number "$work/stats" bytes_to_device) from=$(number "$work/stats" bytes_from_device)
    printf '%-20s %5s %8s %10s %10s %10s %10s\n' "$1" "$steps" "$host" "$to" "$in" "$from" "$out"
    if [ "$host" = 0 ] && [ "$to" = "$in" ] && [ "$from" = "$out" ]; then good; else bad "$1: not all of it runs on the device"; fi
}

if [ -d "$shared/models" ]; then
    printf '%-20s %5s %8s %10s %10s %10s %10s\n' model steps 'on host' 'bytes to' inputs 'from' outputs
    for name in mlp digits_cnn gpt2_tiny bert_tiny llama_tiny mobilenet_v3 layer_norm_backward rms_norm_backward train_step_mlp; do
        model "$name"
    done
    cases=$(ls "$shared"/pt2-cases/*.pt2 | grep -v weights_odd)
else
    echo "skipped: no folder '$shared/models'; HENRY_TEST_MODELS names the folder that holds models/ and pt2-cases/"
    skipped=1 cases=
fi

# --- programs against the interpreter: conditionals, states, recurrent layers and more ---

# data.pt2, number.pt2 and assert.pt2 take other numbers than random ones: below. branch_size.pt2 cannot be compiled.
target=(--target "$kind")
[ "$kind" = cpu ] && target=()
# shellcheck disable=SC2046,SC2086 # lists of files
"$build/run_pt2$variant" "${target[@]}" $(ls "$data"/*.pt2 | grep -v -e /data.pt2 -e /number.pt2 -e /assert.pt2 -e /branch_size.pt2) $cases || failed=$((failed + 1))

# --- what a program says must be the same on both ---

# same NAME ARGUMENT...: `henry run` on the CPU and on the device: status, message, and outputs up to rounding.
same() {
    local name=$1 expected args=() f k=0
    shift
    rm -rf "$work/cpu"
    "$henry" run "$@" -d "$work/cpu" -q 2>"$work/cpu.err"
    expected=$?
    if [ $expected = 0 ]; then
        for f in $(ls "$work/cpu"/output_*.npy | sort -V); do
            [ "$f" = "$work/cpu/output_$k.npy" ] || break # behind an output without elements of an array
            args+=(-e "$f") k=$((k + 1))
        done
    fi
    "$henry" run "$@" --device "$device" "${args[@]}" -d "$work/device" -q 2>"$work/device.err"
    if [ $? = $expected ] && cmp -s "$work/cpu.err" "$work/device.err"; then good; else bad "$name: $(cat "$work/cpu.err"), on $device: $(cat "$work/device.err")"; fi
}

# same_error MESSAGE ARGUMENT...: both fail, with the same message, which has MESSAGE in it.
same_error() {
    same "$@"
    case $(cat "$work/cpu.err") in *"$1"*) ;; *) bad "expected '$1', got: $(cat "$work/cpu.err")" ;; esac
}

npy() { { printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '$2', 'fortran_order': False, 'shape': ($3), }"; printf "$4"; } >"$work/$1"; }
zero='\0\0\0\0' one='\0\0\200\77' minus_one='\0\0\200\277'
npy tokens.npy '<i8' '1, 2' "\12$zero\0\0\0\3$zero\0\0\0"
npy kinds.npy '<i4' '1, 2' "\2\0\0\0$zero"
npy rows.npy '<i8' '4,' "$zero$zero\6\0\0\0$zero\371\377\377\377\377\377\377\377\1\0\0\0$zero"
npy bad_tokens.npy '<i8' '1, 2' "\3$zero\0\0\0\77\102\17\0$zero"
npy nine.npy '<i8' '' "\11$zero\0\0\0"
npy positive.npy '<f4' '2, 3' "$one$one$one$one$one$one"
npy negative.npy '<f4' '2, 3' "$minus_one$minus_one$minus_one$minus_one$minus_one$minus_one"
npy bad_rows.npy '<i8' '4,' "$zero$zero\6\0\0\0$zero\370\377\377\377\377\377\377\377\1\0\0\0$zero"
embed=("$data/embed.pt2" -i)
same indices "${embed[@]}" "$work/tokens.npy" -i "$work/kinds.npy" -i "$work/rows.npy"
same_error "index 999999 in input 'tokens' is out of bounds" "${embed[@]}" "$work/bad_tokens.npy" -i "$work/kinds.npy" -i "$work/rows.npy"
same_error "index -8 in input 'rows' is out of bounds" "${embed[@]}" "$work/tokens.npy" -i "$work/kinds.npy" -i "$work/bad_rows.npy"

data_inputs=("$data/data.pt2" -i "$data/data_in0.npy" -i)
same "sizes from the data" "${data_inputs[@]}" "$data/data_in1.npy" -i "$data/data_in2.npy"
same "other sizes from the data" "${data_inputs[@]}" "$data/data_out6.npy" -i "$data/data_in2.npy"
same_error "is 9, must be" "${data_inputs[@]}" "$work/nine.npy" -i "$data/data_in2.npy"
same "a number among the inputs" "$data/number.pt2" -i "$data/number_in0.npy" -i "$data/number_in1.npy"

same "an assertion that holds" "$data/assert.pt2" -i "$work/positive.npy"
same_error "assertion failed: the sum must be positive" "$data/assert.pt2" -i "$work/negative.npy"

# --- state ---

"$henry" run "$data/mutate.pt2" -i "$data/mutate_x.npy" -d "$work/on_cpu" -q --repeat 3 2>&1 &&
    "$henry" run "$data/mutate.pt2" -i "$data/mutate_x.npy" -d "$work/on_device" -q --repeat 3 --device "$device" 2>&1
if diff -r "$work/on_cpu" "$work/on_device"; then good; else bad "inputs and buffers that a model changes"; fi

# --- memory: what shares it changes no result ---

# pooled MODEL MODE: with an input whose memory may be used, and nothing but NaN where nothing was written. Prints the plan's bytes.
pooled() {
    local dir=$shared/models/$1 args=() f
    for f in $(ls "$dir"/input_*.npy | sort -V); do args+=(-i "$f"); done
    for f in $(ls "$dir"/output_*.npy | sort -V); do args+=(-e "$f"); done
    case $1 in *_backward) ;; *) args+=(--rtol 1e-4 --atol 1e-5) ;; esac
    "$henry" run "$dir/model.pt2" --device "$device" "${args[@]}" --pool "$2" --donate 0 --pool-fill nan -q --stats "$work/stats" || return
    number "$work/stats" plan_bytes
}
[ "$kind" = cpu ] || [ -z "$cases" ] || for name in gpt2_tiny train_step_mlp; do
    none=$(pooled "$name" none) some=$(pooled "$name" intermediates) outputs=$(pooled "$name" outputs) all=$(pooled "$name" combined)
    if [ -n "$outputs" ] && [ "${all:-0}" -gt 0 ] && [ "$all" -le "${none:-0}" ] && [ "${some:-0}" -gt 0 ] && [ "$some" -le "$none" ]; then good; else
        bad "$name: bytes by mode: none '$none', intermediates '$some', outputs '$outputs', combined '$all'"
    fi
done

# --- scatters in order: the bits of the CPU ---

# in_order NAME DTYPE PLACES STEP MODE BEGIN [COLUMNS]: 30,000 numbers of many sizes, or rows of them, go to places that data tells, STEP apart, of
# a tensor that is BEGIN before. CUDA sorts their places.
in_order() {
    local columns=${7:+, $7} one=${7:+, 1} model=$work/in_order.hnir
    cat >"$model" <<EOF
graph {
  input user %nine : i64[] "nine"
  %from_0 = iota(start=0, step=1, size=30000, dtype=i64)
  %n = add(%from_0, %nine)
  %step = full(value=$4, sizes=[], dtype=i64)
  %places = full(value=$3, sizes=[], dtype=i64)
  %far = mul(%n, %step)
  %i = remainder(%far, %places)
  %thirteen = full(value=13, sizes=[], dtype=i64)
  %k = remainder(%n, %thirteen)
  %f = cast(%k, dtype=f32)
  %square = mul(%f, %f)
  %fourth = mul(%square, %square)
  %m = cast(%n, dtype=f32)
  %root = sqrt(%m)
  %s = sub(%fourth, %root)
  %w = cast(%s, dtype=$2)
  %row = reshape(%w, sizes=[30000$one])
  %v = expand(%row, sizes=[30000$columns])
  %x = full(value=$6, sizes=[$3$columns], dtype=$2)
  %y = index_put(%x, [%i], %v, mode="$5", wrap=false) at "$1" "m.py:1"
  output user %y "y"
}
EOF
    rm -rf "$work/cpu" "$work/device"
    if "$henry" run "$model" -i "$work/nine.npy" --deterministic -d "$work/cpu" -q 2>&1 &&
        "$henry" run "$model" -i "$work/nine.npy" --deterministic -d "$work/device" -q --device "$device" 2>&1 &&
        cmp "$work/cpu/output_0.npy" "$work/device/output_0.npy"; then good; else bad "a scatter in order: $*"; fi
    [ "$kind" = cuda ] || return 0
    "$henry" compile "$model" --deterministic "${target[@]}" -o "$work/in_order.hnb" -q
    if "$henry" inspect "$work/in_order.hnb" | grep -q '^step .* combine_sorted('; then good; else bad "not sorted: $*"; fi
}
in_order sums f32 1000 7919 add 0
in_order rounded_sums bf16 1000 7919 add 1
in_order all_at_few_places f64 3 1 add 1
in_order the_last_ones_stay f16 5000 7919 set 0
in_order greatest f32 700 11 max 1
in_order least f64 700 11 min 1
in_order rows f32 1000 7919 add 0 40
in_order rows_that_many_share bf16 7 1 add 1 200
in_order rows_that_stay bf16 300 7 set 1 33

# --- bundles ---

digits=(-i examples/data/digits/input_0.npy -e "$data/digits_out.npy" --rtol 1e-4 --atol 1e-5 -q)
"$henry" compile examples/data/digits/model.pt2 "${target[@]}" -o "$work/digits.hnb" -q || bad "compile"
if "$henry" run "$work/digits.hnb" "${digits[@]}"; then good; else bad "a bundle runs where it was compiled for"; fi
if "$henry" run "$work/digits.hnb" "${digits[@]}" --device "$device" --repeat 3; then good; else bad "a bundle with --device"; fi

# PTX alone, which the driver translates: for a GPU that is later than all named architectures.
if [ "$kind" = cuda ]; then
    "$henry" compile examples/data/digits/model.pt2 --target compute_80 -o "$work/ptx.hnb" -q || bad "compile to PTX"
    if "$henry" run "$work/ptx.hnb" "${digits[@]}" --device "$device"; then good; else bad "a bundle of PTX"; fi
    if [ -n "$cases" ]; then
        gpt2=$shared/models/gpt2_tiny
        "$henry" compile "$gpt2/model.pt2" --target compute_80 -o "$work/ptx.hnb" -q || bad "compile gpt2_tiny to PTX"
        if "$henry" run "$work/ptx.hnb" -i "$gpt2/input_0.npy" -e "$gpt2/output_0.npy" --rtol 1e-4 --atol 1e-5 -q --device "$device"; then good; else bad "gpt2_tiny as a bundle of PTX"; fi
    fi
fi

# refuse PATTERN ARGUMENT...
refuse() {
    local pattern=$1 out
    out=$("$henry" run "${@:2}" -q 2>&1) && bad "taken: ${*:2}"
    case $out in *$pattern*) good ;; *) bad "expected '$pattern', got: $out" ;; esac
}
if [ "$kind" != cpu ]; then
    refuse "was compiled for $kind and does not run on cpu" "$work/digits.hnb" "${digits[@]}" --device cpu
    refuse "no device $kind:999" "$work/digits.hnb" "${digits[@]}" --device "$kind:999"
    refuse "'$kind:x' is no device" "$work/digits.hnb" "${digits[@]}" --device "$kind:x"
fi

# Operations on a device that has none in this library.
if [ -n "$variant" ]; then
    henry=$build/henry
    refuse "on opencl, where this library has no operations" "$work/digits.hnb" -i examples/data/digits/input_0.npy
fi

if [ $skipped = 0 ]; then echo "$passed passed, $failed failed"; else echo "$passed passed, $failed failed, $skipped skipped"; fi
[ $failed = 0 ]
