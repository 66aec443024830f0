#!/usr/bin/env bash
# Seeds of the fuzz targets from the sample models, and a dictionary for each target.
#
#     tests/fuzz/seeds.sh OUT      writes OUT/TARGET/* and OUT/TARGET.dict; OUT must be new or empty
#
# Seeds are what Henry reads and writes for the models of HENRY_TEST_MODELS (default: ../shared): files of at most 64 KiB, since
# long ones make a fuzzer slow. A dictionary holds the words in quotes of the reader's sources, so nobody keeps it up by hand.
# Needs unzip, and HENRY (default: build/henry).
set -u
[ $# = 1 ] || { sed -n '4p' "$0" >&2; exit 2; }
out=$1
cd "$(dirname "$0")/../.." || exit 2
henry=${HENRY:-build/henry}
models=${HENRY_TEST_MODELS:-../shared}
[ -z "$(ls -A "$out" 2>/dev/null)" ] || { echo "tests/fuzz/seeds.sh: '$out' is not empty; name a new folder" >&2; exit 2; }
command -v unzip >/dev/null || { echo "tests/fuzz/seeds.sh needs unzip" >&2; exit 1; }
for target in tests/fuzz/fuzz_*.c; do
    name=${target##*/fuzz_}
    mkdir -p "$out/${name%.c}"
done

# --- seeds ---

# The JSON of the first model in an archive, and the table of its weights behind a line "---", as fuzz_pt2 reads them.
program_json() { unzip -p "$1" '*/models/*.json' 2>/dev/null | head -c 1000000; }
with_weights() { program_json "$1"; printf '\n---\n'; unzip -p "$1" '*/data/weights/*_weights_config.json' 2>/dev/null; }

from_model() {
    local file=$1 name=$2
    cp "$file" "$out/pt2/$name.pt2"
    cp "$file" "$out/zip/$name.pt2"
    program_json "$file" >"$out/json/$name"
    with_weights "$file" >"$out/pt2/$name"
    program_json "$file" | grep -o '"expr_str": *"[^"]*"' | sed 's/.*: *"//; s/"$//' | sort -u | head -50 |
        while read -r text; do printf '%s' "$text" | tee "$out/sym_parse/${text//[^a-z0-9]/_}" >"$out/expr/${text//[^a-z0-9]/_}"; done
    for stage in import decompose patterns; do
        "$henry" compile --no-cache "$file" --dump-after "$stage" >"$out/ir_text/$name-$stage" 2>/dev/null
    done
    "$henry" compile "$file" --emit graph -o "$out/hnir/$name" 2>/dev/null
    "$henry" compile --no-cache "$file" --dump-after sched >"$out/loop_text/$name" 2>/dev/null
    "$henry" compile --no-cache "$file" --emit text >"$out/wrapper_text/$name" 2>/dev/null
    "$henry" compile --no-cache "$file" --weights pt2 -o "$out/bundle/$name.hnb" >/dev/null 2>&1
    "$henry" compile --no-cache "$file" --weights safetensors -o "$out/safetensors/$name.hnb" >/dev/null 2>&1
}

for file in "$models"/models/*/*.pt2 "$models"/pt2-cases/*.pt2; do
    [ -f "$file" ] || continue
    folder=$(basename "$(dirname "$file")")
    from_model "$file" "$folder-$(basename "$file" .pt2)"
done
for file in "$models"/models/*/*.npy; do
    [ -f "$file" ] && cp "$file" "$out/npy/$(basename "$(dirname "$file")")-$(basename "$file")"
done
rm -f "$out"/safetensors/*.hnb
find "$out" -type f \( -empty -o -size +64k \) ! -name '*.dict' -delete

# --- dictionaries ---

# The words in quotes of some sources, one a line as libFuzzer wants them.
words() { grep -ohE '"[][A-Za-z0-9_.,:;<>=(){}/+*%-]{2,32}"' "$@" | sort -u; }

words src/wrapper/{parse,names}.c src/ir/{lex,dtype}.c src/ir/dtypes.def include/henry/abi/extern_abi.h >"$out/wrapper_text.dict"
words src/ir/{parse,print,text,lex}.c src/ir/{ops,aten,dtypes}.def >"$out/ir_text.dict"
cp "$out/ir_text.dict" "$out/hnir.dict"
words src/ir/{loop_parse,loop_print,sop_text}.c src/ir/{ops,dtypes}.def include/henry/abi/extern_abi.h >"$out/loop_text.dict"
words src/kernel/{parse,print}.c src/ir/sop_text.c src/ir/{ops,dtypes}.def >"$out/form_text.dict"
words src/tune/record*.c >"$out/tuning.dict"
words src/front/pt2/*.c >"$out/pt2.dict"
cp "$out/pt2.dict" "$out/json.dict"
cp "$out/pt2.dict" "$out/expr.dict"
words src/sym/parse.c src/sym/print.c >"$out/sym_parse.dict"
words src/base/npy.c >"$out/npy.dict"
words src/bundle/safetensors*.c >"$out/safetensors.dict"
# Formats of bytes: the marks of their records, lengths at their limits.
numbers='"\xff\xff\xff\xff" "\xff\xff\xff\x7f" "\x00\x00\x00\x80" "\xff\xff\xff\xff\xff\xff\xff\xff" "\x00\x00\x00\x00\x00\x00\x00\x80" "\x01\x00\x00\x00" "\x00\x00\x01\x00"'
printf '%s\n' '"PK\x01\x02"' '"PK\x03\x04"' '"PK\x05\x06"' '"PK\x06\x06"' '"PK\x06\x07"' '"\x01\x00\x10\x00"' '"\x08\x00"' $numbers >"$out/zip.dict"
printf '%s\n' '"\x80\x02"' '"}q\x00"' '"ctorch._utils\x0a_rebuild_tensor_v2\x0a"' '"X\x07\x00\x00\x00"' '"tR"' '"K\x01"' '"\x8a\x04"' '"(t."' '"e"' '"b."' $numbers >"$out/pickle.dict"
printf '%s\n' '"\x89HNB\x0d\x0a\x1a\x0a"' $numbers >"$out/bundle.dict"
