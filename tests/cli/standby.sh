# Kernels compiled by programs that stand by, and by programs that are started for each kernel, are the same bytes.
for n in 1 2 3 4 5 6; do echo "int f(int x) { return x * $n + $n; }" >k$n.c; done
all() { where=$1; shift; mkdir "$where" && "$HENRY" kernel compile k?.c -j 2 --no-cache -o "$where" "$@" >/dev/null; }
all with && all without --no-standby && HENRY_STANDBY=off all off && diff -r with without && diff -r with off && ls with | wc -l
