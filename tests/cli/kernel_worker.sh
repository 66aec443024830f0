# A program that lies alone finds the worker of the henry in PATH; a worker that cannot be run is told of, with the reason.
mkdir apart nowhere
cp "$HENRY" apart/alone
echo 'int f(int x) { return x + 1; }' >f.c
PATH=$(dirname "$HENRY"):$PATH apart/alone doctor | grep -o '^ok *worker.*henry-worker' | sed 's|/.*/||; s/  */ /g'
apart/alone kernel compile f.c -j 2 -o f.so --no-cache >/dev/null 2>err
if [ -s err ]; then grep -q "compiling without worker processes.*found no henry-worker.*set HENRY_WORKER" err || cat err; fi # one may be installed
HENRY_WORKER=$PWD/nowhere "$HENRY" kernel compile f.c -j 2 -o f.so --no-cache 2>&1 >/dev/null | grep -o "nowhere': .*"
HENRY_WORKER=$PWD/missing "$HENRY" kernel compile f.c -j 2 -o f.so --no-cache 2>&1 >/dev/null | grep -o "missing': .*"
HENRY_WORKER=$PWD/f.c "$HENRY" kernel compile f.c -j 2 -o f.so --no-cache 2>&1 >/dev/null | grep -o "f.c': .*"
