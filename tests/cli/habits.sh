# What people type and expect from other tools.
input=$DATA/input_0.npy
echo 'int f(int x) { return x + 1; }' >f.c
echo 'int g(int x) { return x + ; }' >bad.c
# A value may follow a short option at once; flags are not joined.
"$HENRY" kernel compile f.c -j2 -of.so >/dev/null && ls f.so
for option in -j2x -j0 -j -xj2 -qt1; do
    if "$HENRY" run "$DATA/model.pt2" -i "$input" "$option" -q 2>err; then echo "taken"; fi
    cat err
done
# Folders for results have the modes that the umask gives; the cache is nobody else's.
(umask 022 && "$HENRY" run "$DATA/model.pt2" -i"$input" -d out/deep -q && "$HENRY" kernel compile f.c -o objects/ >/dev/null &&
    "$HENRY" compile "$DATA/model.pt2" --emit source -q -o project && HENRY_CACHE_DIR=$PWD/cache "$HENRY" run "$DATA/model.pt2" -i "$input" -q)
stat -c '%A %n' out out/deep objects project cache
# A project that could not be written whole does not build, also where there was one before.
rm project/weights.bin
if (ulimit -f 54; "$HENRY" compile "$DATA/model.pt2" --emit source -o project 2>err); then echo "weights of 57 KB fit"; fi
grep -o 'weights.bin.: cannot write: File too large' err
ls project/Makefile 2>/dev/null || echo "no Makefile"
"$HENRY" compile "$DATA/model.pt2" --emit source -q -o project && ls project/Makefile
# What failed is in the JSON too.
if "$HENRY" kernel compile bad.c --json >json 2>err; then echo "compiled"; fi
grep -c '"error": "cannot compile .bad.c.' json
if "$HENRY" kernel compile f.c bad.c --json >json 2>err; then echo "compiled"; fi
grep -c -e '"key"' -e '"error"' json
[ "$(wc -l <err)" = 2 ] && echo "the diagnosis and the command"
# Reasons as JSON; no bytes left means none.
"$HENRY" cache why "$DATA/model.pt2" --json --no-fusion | grep -A1 '"why"'
"$HENRY" cache gc --max-bytes 0 >/dev/null
"$HENRY" cache stats | grep -c ' 0 entries'
if [ -w /dev/full ]; then "$HENRY" --help >/dev/full 2>err || cat err; fi
