# What is missing is said, with a way to get it; without a compiler the exit status is 1.
"$HENRY" doctor | sed -n 's/^\(ok\|warn\|FAIL\)  *\(compiler\|kernels\|worker\|cache\|temp\) .*/\1 \2/p'
"$HENRY" doctor --json | grep '"failed"'
if HENRY_CC=/nonexistent/cc "$HENRY" doctor >out 2>err; then echo "no error"; fi
sed -n '1,2p;$p' out
if HENRY_WORKER=/nonexistent/worker "$HENRY" doctor >out 2>err; then grep -A 1 '^warn.*worker' out | sed 's/  */ /g'; fi
mkdir shared
chmod 777 shared
"$HENRY" doctor --cache-dir "$PWD/shared" 2>err | grep '^warn.*cache' | cut -c 1-10
