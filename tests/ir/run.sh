#!/usr/bin/env bash
# Graphs and loops in text form. A file tells on its first lines how `henry opt` is called and what comes out:
#
#     # RUN: -p decompose          options of henry opt
#     # | text                     a line of the expected output; or
#     # ERROR: text                the command fails with this in its message
#
# Every output, and every file without RUN, must also survive being read and printed again.
#     tests/ir/run.sh [--update] [FILE]...        --update rewrites the expected lines
set -u
cd "$(dirname "$0")/../.." || exit 2
henry=${HENRY_TEST_BUILD:-build}/henry
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 update=0
[ "${1:-}" = --update ] && { update=1; shift; }
good() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "$1"; }

check_error() {
    local want=$2
    if "$henry" opt $3 "$1" >"$work/out" 2>"$work/err"; then bad "$1: expected an error with '$want', got none"; return; fi
    grep -qF -- "$want" "$work/err" && good || bad "$1: expected an error with '$want', got: $(cat "$work/err")"
}

check_file() {
    local file=$1 options want
    options=$(sed -n 's/^# RUN: *//p' "$file")
    want=$(sed -n 's/^# ERROR: *//p' "$file")
    if [ -n "$want" ]; then check_error "$file" "$want" "$options"; return; fi
    # shellcheck disable=SC2086 # options are words
    if ! "$henry" opt $options "$file" >"$work/out" 2>"$work/err"; then bad "$file: $(cat "$work/err")"; return; fi
    if [ $update = 1 ] && grep -q '^# RUN:' "$file"; then
        { sed '/^# |/d' "$file"; sed 's/^/# | /' "$work/out"; } >"$work/new" && cp "$work/new" "$file"
    fi
    if grep -q '^# RUN:' "$file"; then
        sed -n 's/^# | \{0,1\}//p' "$file" >"$work/want"
        diff -u "$work/want" "$work/out" >"$work/diff" && good || bad "$file: the output is not what is expected:
$(cat "$work/diff")"
    fi
    "$henry" opt "$work/out" >"$work/again" 2>"$work/err" && cmp -s "$work/out" "$work/again" && good ||
        bad "$file: the printed text does not come back: $(cat "$work/err")"
}

[ $# -gt 0 ] || set -- tests/ir/*.hnir tests/fuzz/corpus/ir_text/*.hnir tests/fuzz/corpus/loop_text/*.hnir
for file in "$@"; do check_file "$file"; done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
