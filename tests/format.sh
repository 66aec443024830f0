#!/usr/bin/env bash
# Checks that every C file, and every script of the page of `henry report`, is as `make format` leaves it (the files
# .clang-format have the rules). Versions of clang-format differ in what they do with some lines, so only the one that Debian
# 12 has is asked. It is installed if that is possible; where it is not, the check is skipped, or fails if CI=true.
set -u
cd "$(dirname "$0")/.." || exit 2
command -v clang-format-14 >/dev/null || tools/setup.sh format
if ! command -v clang-format-14 >/dev/null; then
    echo "no clang-format-14: the layout is not checked"
    [ "${CI:-}" = true ] && { echo "0 passed, 1 failed"; exit 1; }
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
bad=$(git ls-files '*.c' '*.h' 'share/report/*.js' 2>/dev/null || find . \( -name '*.[ch]' -o -path './share/report/*.js' \) -not -path './build/*')
bad=$(printf '%s\n' "$bad" | xargs -P "$(nproc)" -n 40 clang-format-14 --dry-run 2>&1 | sed -n 's/^\([^:]*\):[0-9].*warning.*/\1/p' | sort -u)
if [ -z "$bad" ]; then
    echo "1 passed, 0 failed"
else
    echo "not as 'make format' leaves them:"
    printf '%s\n' "$bad"
    echo "0 passed, 1 failed"
    exit 1
fi
