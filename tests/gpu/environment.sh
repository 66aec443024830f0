# For scripts that run on a machine with a GPU, from a checkout or from the pack (tools/gpu_pack.sh); they source it in their root.
#   build              the programs
#   HENRY_TEST_MODELS  the folder that holds models/ and pt2-cases/
#   HENRY_NVRTC, HENRY_CUBLASLT, HENRY_CUDNN  CUDA's libraries, if they were found: PyTorch's own, or a toolkit's
# shellcheck shell=bash
root=$PWD
if [ -d bin ]; then
    build=$root/bin
    # A copy may have lost these: the right to run, and links.
    chmod +x bin/* 2>/dev/null || true
    for name in $(bin/programs --names); do [ -e "bin/$name" ] || ln -s programs "bin/$name"; done
else
    build=${HENRY_TEST_BUILD:-$root/build}
fi
if [ -d shared/models ]; then HENRY_TEST_MODELS=$root/shared; else HENRY_TEST_MODELS=${HENRY_TEST_MODELS:-$root/../shared}; fi
export HENRY_TEST_BUILD=$build HENRY_TEST_MODELS LC_ALL=C.UTF-8
python=${PYTHON:-python3}

# find_library NAME: the newest of PyTorch's packages, or a toolkit's; prints nothing when there is none.
find_library() {
    local file
    for file in $("$python" -c 'import sys, glob
for p in sys.path:
    for f in sorted(glob.glob(p + "/nvidia/*/lib/" + sys.argv[1] + ".so.[0-9]*"), reverse=True):
        if "alt" not in f: print(f)' "$1" 2>/dev/null) "${CUDA_HOME:-/usr/local/cuda}/lib64/$1.so" "/usr/local/cuda/lib64/$1.so"; do
        [ -r "$file" ] && { echo "$file"; return; }
    done
    return 0
}
# name_library VARIABLE NAME: unless the variable is set
name_library() {
    local file
    [ -n "${!1:-}" ] && return 0
    file=$(find_library "$2")
    if [ -n "$file" ]; then export "$1=$file"; else unset "$1"; fi
}
name_library HENRY_NVRTC libnvrtc
name_library HENRY_CUBLASLT libcublasLt
name_library HENRY_CUDNN libcudnn
