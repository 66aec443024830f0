# For scripts that run on a machine with a GPU, from a checkout or from the pack (tools/gpu_pack.sh); they source it in their root.
#   build            the programs
#   HENRY_TEST_MODELS  the folder that holds models/ and pt2-cases/
#   HENRY_NVRTC      NVRTC, if it was found: PyTorch's own, or a toolkit's
# shellcheck shell=bash
root=$PWD
if [ -d bin ]; then build=$root/bin; else build=${HENRY_TEST_BUILD:-$root/build}; fi
if [ -d shared/models ]; then HENRY_TEST_MODELS=$root/shared; else HENRY_TEST_MODELS=${HENRY_TEST_MODELS:-$root/../shared}; fi
export HENRY_TEST_BUILD=$build HENRY_TEST_MODELS LC_ALL=C.UTF-8
chmod +x "$build"/henry "$build"/henry-worker 2>/dev/null # a copy may have lost it
python=${PYTHON:-python3}

# The newest libnvrtc.so of PyTorch's packages, or of a toolkit; prints nothing when there is none.
find_nvrtc() {
    local file
    for file in $("$python" -c 'import sys, glob
for p in sys.path:
    for f in sorted(glob.glob(p + "/nvidia/*/lib/libnvrtc.so.[0-9]*"), reverse=True):
        if "alt" not in f: print(f)' 2>/dev/null) "${CUDA_HOME:-/usr/local/cuda}"/lib64/libnvrtc.so /usr/local/cuda-*/lib64/libnvrtc.so; do
        [ -r "$file" ] && { echo "$file"; return; }
    done
}
if [ -z "${HENRY_NVRTC:-}" ]; then
    HENRY_NVRTC=$(find_nvrtc)
    if [ -n "$HENRY_NVRTC" ]; then export HENRY_NVRTC; else unset HENRY_NVRTC; fi
fi
