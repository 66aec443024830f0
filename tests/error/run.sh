#!/usr/bin/env bash
# Bad input. Each case ends with exit status 1 or 2 and exactly one line on standard error, which names the file, the node
# or the argument; nothing on standard output, no file left behind, and never a signal.
#     tests/error/run.sh [CASE]...
set -u
cd "$(dirname "$0")/../.." || exit 2
here=$PWD/tests/error
build=$(realpath "${HENRY_TEST_BUILD:-build}")
henry=$build/henry edit=$build/edit_pt2
model=$PWD/examples/data/digits/model.pt2 input=$PWD/examples/data/digits/input_0.npy
work=$(mktemp -d) || exit 2
trap 'umount "$work/in/full" 2>/dev/null; chmod -R u+w "$work"; rm -rf "$work"' EXIT
export HENRY_CACHE_DIR=$work/cache
mkdir "$work/in" "$work/out"
cd "$work/in" || exit 2
passed=0 failed=0 skipped=0 wanted=" $* "
complain() { why="$why
    $1"; }

# The last command's traces against what must be. $1: pattern of its one line; $2: exit status.
judge() {
    local lines
    [ "$code" = "$2" ] || complain "exit status $code, expected $2"
    lines=$(wc -l <"$work/err")
    [ "$lines" = 1 ] || complain "$lines lines on standard error: $(head -c 600 "$work/err")"
    [ "$(wc -c <"$work/err")" -le 10000 ] || complain "$(wc -c <"$work/err") bytes on standard error"
    ! grep -q '[[:cntrl:]]' "$work/err" || complain "control characters on standard error"
    # shellcheck disable=SC2053 # a pattern
    [[ $(cat "$work/err") == henry:\ *$1* ]] || complain "expected '$1', got: $(head -c 600 "$work/err")"
    [ -s "$work/stdout" ] && complain "standard output: $(head -c 300 "$work/stdout")"
    [ -z "$(ls -A "$work/out")" ] || complain "left behind: $(ls "$work/out")"
}

# refuse CASE PATTERN STATUS ARGUMENT...: henry with these arguments, in a folder that must stay empty.
refuse() {
    local name=$1 pattern=$2 status=$3
    [ "$wanted" != "  " ] && [[ $wanted != *" $name "* ]] && return
    why=""
    (cd "$work/out" && timeout 60 "$henry" "${@:4}" >"$work/stdout" 2>"$work/err" </dev/null)
    code=$?
    judge "$pattern" "$status"
    if [ -z "$why" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $name (again: tests/error/run.sh $name)$why"; fi
    rm -rf "$work/out"
    mkdir "$work/out"
}

# damage CASE PATTERN ACTION...: the example's model, changed by edit_pt2, compiled and run.
damage() {
    [ "$wanted" != "  " ] && [[ $wanted != *" $1 "* ]] && return
    if ! "$edit" "$model" "$1.pt2" "${@:3}"; then failed=$((failed + 1)); echo "FAILED $1: cannot make its file"; return; fi
    refuse "$1" "$2" 1 run "$work/in/$1.pt2" -i "$input" -d .
    refuse "$1" "$2" 1 compile "$work/in/$1.pt2" -o out.hnb
    rm -f "$1.pt2"
}

# npy TYPE SHAPE BYTES: an .npy file of zeros
npy() { printf '\x93NUMPY\x01\x00\x46\x00%-69s\n' "{'descr': '$1', 'fortran_order': False, 'shape': ($2), }"; head -c "$3" /dev/zero; }

# put_byte FILE OFFSET: changes one byte
put_byte() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    # shellcheck disable=SC2059 # an octal escape
    printf "\\$(printf %o $((byte ^ 255)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

# --- the archive ---

size=$(wc -c <"$model")
for part in 0 1 21 1000 $((size / 2)) $((size - 1)) $((size - 22)); do
    head -c "$part" "$model" >"short_$part.pt2"
    refuse "truncated_$part" "'*short_$part.pt2'" 1 run "$work/in/short_$part.pt2" -i "$input" -d .
done
# A changed byte is found, or it is one that nothing depends on: then the result is the right one.
flip() {
    [ "$wanted" != "  " ] && [[ $wanted != *" bit_flip "* ]] && return
    cp "$model" flip.pt2
    chmod u+w flip.pt2
    put_byte flip.pt2 "$1"
    why=""
    (cd "$work/out" && timeout 60 "$henry" run ../in/flip.pt2 -i "$input" -d . >"$work/stdout" 2>"$work/err" </dev/null)
    code=$?
    if [ $code = 0 ]; then
        cmp -s "$work/out/output_0.npy" "$work/right/output_0.npy" || complain "another result and no error"
    else
        judge flip.pt2 1
    fi
    if [ -z "$why" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED bit_flip at byte $1$why"; fi
    rm -rf "$work/out"
    mkdir "$work/out"
}
"$henry" run "$model" -i "$input" -d "$work/right" >/dev/null 2>&1
directory=$(grep -abo 'PK'$'\001\002' "$model" | tail -1 | cut -d: -f1) # its last row; a record holds an archive of its own
program=$(grep -abo '{"graph_module"' "$model" | head -1 | cut -d: -f1)
weights=$(grep -abo 'weight_4' "$model" | head -1 | cut -d: -f1)
for at in 0 3 26 30 $((weights + 5000)) $((weights + 15000)) $((program - 1)) "$program" $((program + 5)) $((program + 2000)) $((program + 20000)) \
    "$directory" $((directory + 10)) $((directory + 16)) $((directory + 20)) $((directory + 24)) $((directory + 28)) $((directory + 42)) $((directory + 46)) \
    $((size - 98)) $((size - 50)) $((size - 42)) $((size - 22)) $((size - 12)) $((size - 6)) $((size - 1)); do
    flip "$at"
done
damage zip_bomb "model.json' * inflate*" bomb model.json 1500
damage zip_liar "model.json' does not inflate to its 100 bytes" lie model.json 8
# Weights are mapped, and read for their checksums beside the compilation: parameters and buffers, in place and inflated.
damage flip_parameter "'*flip_parameter.pt2'*zip record 'model/data/weights/weight_4' fails its checksum" flip weight_4
damage flip_buffer "'*flip_buffer.pt2'*weights/weight_12' fails its checksum" flip weight_12
damage flip_small "weights/weight_17' fails its checksum" flip weight_17
damage flip_packed "weights/weight_8' fails its checksum" deflate flip weight_8
damage checksum_parameter "weights/weight_4' fails its checksum" checksum weight_4
damage checksum_packed "weights/weight_13' fails its checksum" deflate checksum weight_13
whole=$model model=$here/../cli/data/constants.pt2
damage flip_constant "constants/tensor_0' fails its checksum" flip constants/tensor_0
damage checksum_constant "constants/tensor_0' fails its checksum" checksum constants/tensor_0
model=$whole
damage checksum_table "weights/model_weights_config.json' fails its checksum" checksum model_weights_config.json
damage checksum_program "models/model.json' fails its checksum" checksum models/model.json
damage duplicate_record "weight_3' appears twice" duplicate weight_3
damage unsafe_name "unsafe name" rename weight_3 model/../../weight_3
damage absolute_name "unsafe name" rename weight_3 /tmp/weight_3
damage no_weights "weight_3" drop weight_3
damage no_program "models/*.json" drop models/model.json

# An archive that was packed again by other means is a model like any other.
rezip() {
    why=""
    "$edit" "$model" rezip.pt2 deflate || complain "cannot make its file"
    (cd "$work/out" && timeout 60 "$henry" run ../in/rezip.pt2 -i "$input" -d . --quiet >/dev/null 2>"$work/err") || complain "refused: $(cat "$work/err")"
    cmp -s "$work/out/output_0.npy" "$work/right/output_0.npy" || complain "another result"
    if [ -z "$why" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED rezip$why"; fi
    rm -rf "$work/out"
    mkdir "$work/out"
}
[ "$wanted" = "  " ] && rezip

# --- the program ---

damage schema_major "schema version is 9.*; henry reads 8" replace models/model.json '"major": 8' '"major": 9'
damage unknown_op "aten.tahn.default*'relu_1'*" replace models/model.json '"torch.ops.aten.relu.default", "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "batch_norm_1"}}' '"torch.ops.aten.tahn.default", "inputs": [{"name": "self", "arg": {"as_tensor": {"name": "batch_norm_1"}}'
damage unknown_ops "aten.tahn.default*'relu', net.py:253* and 2 more*aten.pool_max.default*'max_pool2d', net.py:253" \
    replace_all models/model.json site-packages/torch/nn/modules/container.py home/net.py \
    replace_all models/model.json torch.ops.aten.relu.default torch.ops.aten.tahn.default \
    replace models/model.json torch.ops.aten.max_pool2d.default torch.ops.aten.pool_max.default
damage unknown_dtype "'relu' has dtype 99" replace models/model.json '"relu": {"dtype": 7' '"relu": {"dtype": 99'
damage wrong_recorded_size "'conv2d'" replace models/model.json '"as_int": 32}}}, {"as_int": 16}, {"as_int": 8}' '"as_int": 32}}}, {"as_int": 16}, {"as_int": 9}'
damage size_overflow "'p_0_weight'*elements" replace models/model.json '"sizes": [{"as_int": 16}, {"as_int": 1}, {"as_int": 3}' '"sizes": [{"as_int": 4611686018427387904}, {"as_int": 4611686018427387904}, {"as_int": 3}'
damage negative_size "-16" replace models/model.json '"sizes": [{"as_int": 16}, {"as_int": 1}' '"sizes": [{"as_int": -16}, {"as_int": 1}'
damage cycle "'softmax' is used but not defined before" replace models/model.json '{"name": "input", "arg": {"as_tensor": {"name": "input"}}' '{"name": "input", "arg": {"as_tensor": {"name": "softmax"}}'
damage undefined_value "'nowhere'" replace models/model.json '{"name": "input", "arg": {"as_tensor": {"name": "input"}}' '{"name": "input", "arg": {"as_tensor": {"name": "nowhere"}}'
damage defined_twice "'relu'*twice" replace models/model.json '[{"as_tensor": {"name": "relu_1"}}]' '[{"as_tensor": {"name": "relu"}}]'
brackets=$(head -c 100000 /dev/zero | tr '\0' '[')
damage deep_nesting "nested" replace models/model.json '"guards_code": []' "\"guards_code\": $brackets"
damage deep_arguments "nested" replace models/model.json '"as_ints": [1, 1]' "\"as_ints\": $brackets"
damage all_brackets "bad JSON" nest models/model.json 100000
damage no_json "bad JSON" nest models/model.json 0
damage deep_expression "cannot read expression" replace models/model.json "\"Symbol('s31'," "\"$(head -c 100000 /dev/zero | tr '\0' '(')Symbol('s31',"
refuse branch_size "'cond'*the size of result 0 depends on data inside the branches*mask" 1 run "$here/../cli/data/branch_size.pt2"
damage unknown_argument "'strde'" replace models/model.json '"name": "stride"' '"name": "strde"'
damage wrong_argument "'stride'" replace models/model.json '"name": "stride", "arg": {"as_ints": [1, 1]}' '"name": "stride", "arg": {"as_string": "one"}'

# --- inputs ---

npy '<f8' '2, 1, 8, 8' 1024 >f64.npy
npy '<f4' '2, 1, 8, 9' 576 >wide.npy
npy '<f4' '2, 64' 512 >flat.npy
npy '<f4' '5000, 1, 8, 8' 1280000 >many.npy
npy '<f4' '2, 1, 8, 8' 100 >cut.npy
npy '<f4' '9223372036854775807, 9' 0 >huge.npy
refuse input_dtype "'*f64.npy'*'input' takes f32" 1 run "$model" -i "$work/in/f64.npy" -d .
refuse input_shape "'input' dimension 3 is 9, must be 8" 1 run "$model" -i "$work/in/wide.npy" -d .
refuse input_rank "'input' has 2 dimensions, must have 4" 1 run "$model" -i "$work/in/flat.npy" -d .
refuse input_above_range "'input' dimension 0 is 5000, must be at most 4096" 1 run "$model" -i "$work/in/many.npy" -d .
refuse input_cut "'*cut.npy'" 1 run "$model" -i "$work/in/cut.npy" -d .
refuse input_huge "'*huge.npy'" 1 run "$model" -i "$work/in/huge.npy" -d .
refuse inputs_missing "0 inputs given, the model takes 1" 1 run "$model" -d .
refuse inputs_many "2 inputs given, the model takes 1" 1 run "$model" -i "$input" -i "$input" -d .
refuse input_absent "'absent.npy'" 1 run "$model" -i absent.npy -d .
refuse model_absent "'absent.pt2'" 1 run absent.pt2
refuse control_characters "'a\\\\nb\\\\x1b\[31m.pt2'" 1 run $'a\nb\e[31m.pt2'
refuse model_folder "'/'" 1 run /
refuse usage_option "'--colour'" 2 run "$model" --colour
refuse usage_number "'many'" 2 run "$model" -i "$input" --threads many

# --- texts ---

text() { printf '%s\n' "$2" >"$1"; }
text deep.hnir "graph @g { $(for k in $(seq 2000); do printf 'cond(graph {'; done)"
text loop.hnlp 'program { b1 : input 0 f32[4] b2 : output f32[4] extent 4
  pointwise (i0 < 4; ) {
    %1 = b1[i0] : f64
    b2[i0] = %1
  }
}'
refuse graph_text "'*deep.hnir': line 1, column" 1 opt "$work/in/deep.hnir"
refuse loop_text "'*loop.hnlp': line 3, column 5: *load of another dtype" 1 opt "$work/in/loop.hnlp"

# --- the surroundings ---

refuse output_folder "'/proc/nowhere'" 1 run "$model" -i "$input" -d /proc/nowhere
refuse output_nameless "empty name" 1 compile "$model" -o ""
refuse output_file "'/proc/nowhere/x.hnb'" 1 compile "$model" -o /proc/nowhere/x.hnb
HENRY_CC=/nowhere/cc refuse no_compiler "/nowhere/cc" 1 run "$model" -i "$input" -d . --no-cache
text not_a_compiler '#!/bin/sh'
chmod +x not_a_compiler
HENRY_CC=$work/in/not_a_compiler refuse odd_compiler "not_a_compiler" 1 run "$model" -i "$input" -d . --no-cache
HENRY_CC=/bin/true refuse mute_compiler "wrote no output" 1 run "$model" -i "$input" -d . --no-cache
echo "int f(void) { return 1; }" >f.c
refuse flag_linker_output "flag '-Wl,-o,f.map'" 1 kernel compile "$work/in/f.c" --flag=-Wl,-o,f.map -o out.so --no-cache
refuse flag_profile "flag '-fprofile-generate=.'" 1 kernel compile "$work/in/f.c" --flag=-fprofile-generate=. -o out.so --no-cache
refuse flag_plugin "flag '-fplugin=/x.so'" 1 kernel compile "$work/in/f.c" --flag=-fplugin=/x.so -o out.so --no-cache

printf '#!/bin/bash\nulimit -f 60\nexec "%s" "$@"\n' "$henry" >small_files # KiB
chmod +x small_files
unlimited=$henry henry=$work/in/small_files
refuse file_size_limit "'*x.hnb': File too large" 1 compile "$model" -o x.hnb --no-cache
henry=$unlimited

# warn_once CASE: the run works all the same and says once what is wrong with the cache.
warn_once() {
    [ "$wanted" != "  " ] && [[ $wanted != *" $1 "* ]] && return
    why=""
    (cd "$work/out" && timeout 60 "$henry" run "$model" -i "$input" -d . --quiet "${@:2}" >/dev/null 2>"$work/err")
    code=$?
    [ $code = 0 ] || complain "exit status $code: $(head -c 600 "$work/err")"
    [ -f "$work/out/output_0.npy" ] || complain "no output"
    [ "$(wc -l <"$work/err")" = 1 ] && grep -q cache "$work/err" || complain "expected one warning of the cache, got: $(head -c 600 "$work/err")"
    if [ -z "$why" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $1 (again: tests/error/run.sh $1)$why"; fi
    rm -rf "$work/out"
    mkdir "$work/out"
}
text file_for_folder x
warn_once cache_is_a_file --cache-dir "$work/in/file_for_folder"
warn_once cache_unwritable --cache-dir /proc/henry-cache
cp "$model" "$work/many.pt2"
npy '<f4' '4000, 1, 8, 8' 1024000 >big.npy
if mkdir full && mount -t tmpfs -o size=16k,nr_inodes=64 none full 2>/dev/null; then
    warn_once cache_full --cache-dir "$work/in/full"
    rm -rf full/*
    refuse output_disk_full "'*full/x.hnb'" 1 compile "$model" -o "$work/in/full/x.hnb"
    refuse outputs_disk_full "'*full/*'" 1 run "$work/many.pt2" -i "$work/in/big.npy" -d "$work/in/full"
    [ -z "$(find full -type f)" ] && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "FAILED left on the full disk: $(ls full)"; }
    umount full
else
    skipped=$((skipped + 1)) # needs the right to mount a small disk
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
