# What is missing is said, with a way to get it; without a compiler the exit status is 1.
"$HENRY" doctor | sed -n 's/^\(ok\|warn\|FAIL\)  *\(compiler\|kernels\|worker\|cache\|temp\) .*/\1 \2/p'
"$HENRY" doctor --json | grep '"failed"'
if HENRY_CC=/nonexistent/cc "$HENRY" doctor >out 2>err; then echo "no error"; fi
sed -n '1,2p;$p' out
if HENRY_WORKER=/nonexistent/worker "$HENRY" doctor >out 2>err; then grep -A 1 '^warn.*worker' out | sed 's/  */ /g'; fi
mkdir shared
chmod 777 shared
"$HENRY" doctor --cache-dir "$PWD/shared" 2>err | grep '^warn.*cache' | cut -c 1-10
# The other compilers are told of, with or without them; a remote cache only when there should be one.
"$HENRY" doctor --json | grep -o '"check": "\(c++\|python\|cuda\|nvcc\|opencl\|remote\)"' | uniq
export LD_LIBRARY_PATH=$(dirname "$HENRY")/cuda_standin # a driver without a GPU
HENRY_CXX=/nonexistent/c++ HENRY_NVRTC=/nonexistent/nvrtc HENRY_NVCC=/nonexistent/nvcc OCL_ICD_VENDORS=/nonexistent/ HENRY_CUDA_STANDIN=devices=0 "$HENRY" doctor >out && echo "no failure"
grep -A 1 '^- ' out | grep -v '^ok\|^--' | sed 's/  */ /g'
tail -1 out | grep -o ' 0 failed'
HENRY_REDIS_URL=unix:///nonexistent/socket "$HENRY" doctor 2>err | grep '^warn.*remote' | cut -c 1-34 | sed 's/  */ /g'
