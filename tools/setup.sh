#!/bin/sh
# Installs the Debian packages that building and testing need, as root or through sudo. Says which; does nothing
# when all are there.
#     tools/setup.sh [opencl|format|source|browser|cuda [FOLDER]]
# opencl: what tests/opencl needs instead: OpenCL's loader, and PoCL, which runs it on the CPU; format: what `make format` needs;
# browser: what tests/report needs: Chromium, in which pages of `henry report` are looked at;
# source: what tests/source needs: clang, a compiler for AArch64, and qemu-user, which runs its programs;
# cuda: NVRTC, from NVIDIA's package at PyPI, into FOLDER (default: build/cuda), where Henry's programs in its parent folder find it
set -eu
# A driver takes the code of every NVRTC of its own major version: that of CUDA 13.0 fits drivers 580 and later.
nvrtc_version=13.0.88
nvrtc_sha256=ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575

packages="gcc g++ make cmake ninja-build pkg-config libsodium-dev libxxhash-dev libdeflate-dev libhiredis-dev opencl-c-headers redis-server"
case ${1:-} in
opencl) packages="ocl-icd-libopencl1 pocl-opencl-icd" ;;
source) packages="clang gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user" ;;
format) packages="clang-format-14" ;;
browser) packages="chromium python3" ;;
cuda) packages="" ;;
esac

has_package() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'; }

install_packages() {
    missing=""
    for package in "$@"; do has_package "$package" || missing="$missing $package"; done
    [ -n "$missing" ] || return 0
    echo "setup: installing$missing" >&2
    sudo=""
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || { echo "setup: these packages need root or sudo:$missing" >&2; exit 1; }
        sudo="sudo"
    fi
    log=$(mktemp)
    # shellcheck disable=SC2086 # a list of words
    { $sudo apt-get update -qq && DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing; } >"$log" 2>&1 ||
        { cat "$log" >&2; rm -f "$log"; exit 1; }
    rm -f "$log"
}

# The wheel is an archive: nothing of it is run, and nothing is installed into Python.
install_nvrtc() {
    folder=$1
    [ "$(cat "$folder/version" 2>/dev/null)" = "$nvrtc_version" ] && return 0
    python3 -m pip --version >/dev/null 2>&1 || install_packages python3-pip
    echo "setup: getting NVRTC $nvrtc_version into $folder" >&2
    mkdir -p "$(dirname "$folder")"
    part=$(mktemp -d "$folder-XXXXXX")
    trap 'rm -rf "$part"' EXIT
    echo "nvidia-cuda-nvrtc==$nvrtc_version --hash=sha256:$nvrtc_sha256" >"$part/wanted"
    python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: --platform manylinux_2_12_x86_64 \
        --platform manylinux2010_x86_64 --require-hashes -r "$part/wanted" -d "$part" >&2
    python3 -m zipfile -e "$part"/nvidia_cuda_nvrtc-*.whl "$part/wheel"
    mkdir "$part/new"
    find "$part/wheel" -name 'libnvrtc*.so*' ! -name '*.alt.*' -exec mv {} "$part/new" \;
    find "$part/wheel" -type f -iname 'license*' -exec mv {} "$part/new" \;
    echo "$nvrtc_version" >"$part/new/version"
    chmod 755 "$part/new"
    rm -rf "$folder"
    mv "$part/new" "$folder"
}

# shellcheck disable=SC2086 # a list of words
install_packages $packages
[ "${1:-}" != cuda ] || install_nvrtc "${2:-build/cuda}"
