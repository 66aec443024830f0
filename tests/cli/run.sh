#!/usr/bin/env bash
# The command line. A test is NAME.sh, run with bash in an empty folder; $HENRY is the program, $DATA the examples' data.
# Its standard output must be NAME.stdout (when there is one), its exit status the number in NAME.exit (default 0),
# and each line of NAME.stderr must occur in its standard error. Status 77 means that what it needs is not installed, which is a failure
# if CI=true; 78 that it is nothing that anybody installs for the tests: models, a terminal.
#     tests/cli/run.sh [NAME]...
set -u
cd "$(dirname "$0")" || exit 2
here=$PWD
unset HENRY_REDIS_URL LD_LIBRARY_PATH COMPILER_PATH GCC_EXEC_PREFIX
export HENRY=${HENRY_TEST_BUILD:-$here/../../build}/henry DATA=$here/../../examples/data/digits
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
mkdir "$work/caches"
passed=0 failed=0 skipped=0
bad() { why="$why
  $1"; }

run_test() {
    local name=$1 want=0
    why=""
    [ -f "$name.exit" ] && want=$(cat "$name.exit")
    mkdir -p "$work/$name"
    (cd "$work/$name" && HENRY_CACHE_DIR=$work/caches/$name bash -eu "$here/$name.sh" >"$work/$name.out" 2>"$work/$name.err")
    local code=$?
    [ $code = 77 ] && [ "${CI:-}" = true ] && { failed=$((failed + 1)); echo "FAILED $name: CI=true, and what it needs is missing: $(tail -1 "$work/$name.err")"; return; }
    [ $code = 77 ] || [ $code = 78 ] && { skipped=$((skipped + 1)); echo "skipped $name: $(tail -1 "$work/$name.err")"; return; }
    [ $code = "$want" ] || bad "exit status $code, expected $want: $(tail -3 "$work/$name.err")"
    if [ -f "$name.stdout" ]; then diff -u "$name.stdout" "$work/$name.out" >"$work/diff" || bad "standard output differs: $(cat "$work/diff")"; fi
    if [ -f "$name.stderr" ]; then
        while IFS= read -r line; do
            grep -qF -- "$line" "$work/$name.err" || bad "standard error lacks '$line': $(cat "$work/$name.err")"
        done <"$name.stderr"
    fi
    if [ -z "$why" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $name (again: tests/cli/run.sh $name)$why"; fi
}

# Several tests: a process each, as many at a time as there are CPUs.
run_several() {
    export -f run_alone
    printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -c 'run_alone "$1" "$2"' _ "$here/run.sh" {} >"$work/all"
    grep -v '^[0-9]* passed, ' "$work/all"
    read -r passed failed skipped < <(awk '/^[0-9]+ passed, / { p += $1; f += $3; s += $5 } END { print p + 0, f + 0, s + 0 }' "$work/all")
}
# A process's output in one piece; one that dies without counts has failed.
run_alone() {
    local out
    out=$("$1" "$2")
    [[ ${out##*$'\n'} == *" passed, "* ]] || out="$out"$'\n'"$2 has no counts"$'\n'"0 passed, 1 failed"
    printf '%s\n' "$out"
}

# The largest first: they take longest, and none of them must be begun last.
[ $# -gt 0 ] || set -- $(ls -S *.sh | grep -v '^run.sh$' | sed 's/\.sh$//')
if [ $# = 1 ]; then run_test "$1"; else run_several "$@"; fi
if [ $skipped = 0 ]; then echo "$passed passed, $failed failed"; else echo "$passed passed, $failed failed, $skipped skipped"; fi
[ $failed = 0 ]
