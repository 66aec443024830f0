# Why something was not kept is counted; what a hit saved is told.
stats() { "$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" --threads 1 --compile-threads 1 --json "$@" 2>/dev/null >out; }
bypasses() { stats "$@"; tr -d '\n ' <out | sed 's/.*"bypasses":{\([^}]*\)}.*/{\1}/; s/:[1-9][0-9]*/:N/g'; echo; }
saved() { tr -d '\n ' <out | sed 's/.*"time_saved_ms":\([0-9.]*\).*/\1/' | sed 's/^0\(\.0*\)*$/none/; s/^[0-9.]*[1-9][0-9.]*$/some/'; echo; }
bypasses
saved
bypasses
saved
bypasses --no-cache
saved
mkdir foreign && echo mine >foreign/mine && chmod 700 foreign
bypasses --cache-dir foreign
# A kernel of a program that is compiled anew is a hit, too.
rm -r "$HENRY_CACHE_DIR/graph"
bypasses
saved
"$HENRY" compile "$DATA/model.pt2" -o a.hnb --threads 1 | grep -c 'ms saved by the cache'
"$HENRY" compile "$DATA/model.pt2" -o a.hnb --threads 1 --weights safetensors --json | tr -d '\n ' | grep -o '"bypasses":{[^}]*}'
# A service tells at its end. Whether a header exists is no part of the key.
printf '#if __has_include("h.h")\n#endif\nint f(void) { return 1; }\n' >k.c
told() { HENRY_LOG=service:info "$HENRY" kernel compile k.c -o k.so -j 2 "$@" 2>&1 | grep -o '[0-9]* not kept: [a-z_]*'; }
told
told --no-cache
