# Which field of the key differs.
echo 'int f(int x) { return x + 1; }' >f.c
if "$HENRY" cache why f.c --cache-dir "$PWD/empty" 2>err; then echo "no error"; fi
cat err
"$HENRY" kernel compile f.c -o f.so --entry f >/dev/null
"$HENRY" cache why f.c --entry f
"$HENRY" cache why f.c --entry f --flag=-O3
# The compiler in words, and exactly.
printf '#!/bin/sh\ncase $1 in --version) echo "Some clang version 99.1.0 (1.2)";; *) exec cc "$@";; esac\n' >other
chmod +x other
HENRY_CC=$PWD/other "$HENRY" cache why f.c --entry f | sed -E "s/[0-9a-f]{64}/DIGEST/g; s/was '(gcc|clang) [0-9.]+ /was 'CC N /"
