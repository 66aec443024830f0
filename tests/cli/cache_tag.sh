# What was compiled under one tag is not found under another, nor without one: programs and kernels.
run() { "$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" --threads 1 --json "$@" >out; sed -n 's/^ *"\(graph\|compiled\)": "*\([a-z0-9]*\)"*,*$/\1 \2/p' out | tr '\n' ' ' | sed 's/compiled [1-9][0-9]*/compiled some/'; echo; }
run
run --cache-tag one
run --cache-tag one
HENRY_CACHE_TAG=one run
HENRY_CACHE_TAG=one run --cache-tag two
run
HENRY_CACHE_TAG= run
"$HENRY" cache why "$DATA/model.pt2" --threads 1 --cache-tag three | sed "s/was '[a-z]*'/was 'WORD'/"
echo 'int f(void) { return 1; }' >k.c
from() { "$HENRY" kernel compile k.c -o k.so --json "$@" | sed -n 's/.*"from": "\([a-z]*\)".*/\1/p'; }
from
from
from --cache-tag one
from --cache-tag one
