#!/bin/sh
# Installs the Debian packages that building and testing need, as root or through sudo. Says which; does nothing
# when all are there.
#     tools/setup.sh [opencl|format]
# opencl: what tests/opencl needs instead: OpenCL's loader, and PoCL, which runs it on the CPU; format: what `make format` needs
set -eu
packages="gcc g++ make cmake ninja-build pkg-config libsodium-dev libxxhash-dev libdeflate-dev libhiredis-dev opencl-c-headers redis-server"
[ "${1:-}" = opencl ] && packages="ocl-icd-libopencl1 pocl-opencl-icd"
[ "${1:-}" = format ] && packages="clang-format-14"
missing=""
for package in $packages; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
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
