#!/usr/bin/env bash
# Tries this checkout on a Debian that holds nothing: the README's two commands on a fresh clone in a debootstrap'ed minimal
# system, as root or as a user with sudo. Run by hand, as root; needs the package debootstrap and some 4 GB.
#
#     tests/minimal_debian.sh [--user] [--keep] [FOLDER [TARGET...]]      default: /tmp/henry-minimal, targets demo and test
#
# --user: an ordinary user runs the targets (it may use sudo, as the setup asks for). --keep: leave the folder there.
# FOLDER must not exist, or be the system of an earlier run, which is used again: a second run starts sooner. The clone is always
# fresh.
# HENRY_TEST_MODELS names the sample models (default: ../shared). What apt of this machine is configured with is taken along.
set -eu
cd "$(dirname "$0")/.."
user=root keep=0
while [ $# -gt 0 ]; do
    case $1 in
    --user) user=tester ;;
    --keep) keep=1 ;;
    -*) sed -n '5p' "$0" >&2; exit 2 ;;
    *) break ;;
    esac
    shift
done
system=${1:-/tmp/henry-minimal}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- demo test
[ "$(id -u)" = 0 ] || { echo "tests/minimal_debian.sh needs root, for debootstrap and chroot" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "tests/minimal_debian.sh needs the package debootstrap" >&2; exit 1; }

# Only a folder that this script made is used, and removed at the end.
mark=$system/.henry-minimal-debian
if [ -e "$system" ] && [ ! -f "$mark" ]; then
    echo "tests/minimal_debian.sh: '$system' is there and was not made by this script; name a folder that does not exist" >&2
    exit 2
fi

inside() { chroot "$system" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "$@"; }
release_mounts() {
    for at in proc sys dev/pts dev/shm dev; do mountpoint -q "$system/$at" && umount -l "$system/$at"; done
    [ $keep = 1 ] || { mountpoint -q "$system/proc" || rm -rf --one-file-system "$system"; }
}
trap release_mounts EXIT

if [ ! -x "$system/usr/bin/apt-get" ]; then
    mkdir -p "$system"
    : >"$mark"
    debootstrap --variant=minbase bookworm "$system" >"$system.log" 2>&1 || { tail "$system.log"; exit 1; }
fi
cp /etc/resolv.conf "$system/etc/" 2>/dev/null || true
grep -lE '^Acquire::' /etc/apt/apt.conf.d/* 2>/dev/null | xargs -r cp -t "$system/etc/apt/apt.conf.d/"
mount -t proc proc "$system/proc"
mount -t sysfs sys "$system/sys"
mount --bind /dev "$system/dev"
mount --bind /dev/pts "$system/dev/pts" 2>/dev/null || true
mount -t tmpfs -o mode=1777 shm "$system/dev/shm"

# The one thing that the README expects: make. A user also needs sudo.
inside apt-get update -qq
inside /usr/bin/env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends make $([ $user = root ] || echo sudo) >/dev/null
if [ $user != root ]; then
    inside id $user >/dev/null 2>&1 || inside useradd -m -s /bin/bash $user
    echo "$user ALL=(ALL) NOPASSWD: ALL" >"$system/etc/sudoers.d/$user"
fi

home=$system/src
rm -rf "$home"
mkdir -p "$home"
git clone -q --no-hardlinks . "$home/henry"
cp -r "$(realpath "${HENRY_TEST_MODELS:-../shared}")" "$home/shared"
inside chown -R $user /src

for target in "$@"; do
    echo "minimal Debian, $user: make $target"
    begin=$SECONDS code=0
    inside su $user -c "cd /src/henry && make $target" >"$system.$target.out" 2>"$system.$target.err" || code=$?
    tail -3 "$system.$target.out"
    echo "exit status $code, $((SECONDS - begin)) s; standard error: $(grep -vc '^setup: ' "$system.$target.err" || true) lines besides the setup's"
    [ $code = 0 ] || { tail -20 "$system.$target.err"; exit 1; }
done
