#!/usr/bin/env bash
# `henry reduce` on GPT-2 with faults in it (henry_planted, tests/support/planted.c): what is left of the model must fail in the same
# way, as a file of its own, and be no larger than the fault needs. Prints for each fault the nodes and elements before and after, the
# attempts and the time.
#     tests/reduce/run.sh [FAULT]...
set -u
cd "$(dirname "$0")" || exit 2
build=${HENRY_TEST_BUILD:-$PWD/../../build}
model=${HENRY_TEST_MODELS:-$PWD/../../../shared}/models/gpt2_tiny
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export HENRY_CACHE_DIR=$work/cache
passed=0 failed=0
check() { if [ "$1" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED $2"; fi; }
[ -d "$model" ] || { echo "no folder '$model' with a model"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
cd "$work" || exit 2

planted() { HENRY_PLANT=$fault "$build/henry_planted" "$@"; }
number() { sed -n "s/^ *\"$1\": \([0-9.]*\),*$/\1/p" json; }
reduce() { planted reduce "$model/model.pt2" -i "$model/input_0.npy" --threads 2 --json "$@" >json 2>err; }

# FAULT, the failure, the nodes that it takes. The second layer norm, the fourth product, the third long kernel, of kernels that do not become one: so many are needed.
faults="pass differs 1
fold differs 4
fusion differs 1
kernel differs 7
call differs 4
memory differs 12
nan nan 4
crash crash 4
compile_crash crash 1
error error 1
hog error 4
hang hang 4"

# A file of its own shows the failure again.
shows_again() {
    mkdir -p "$fault" && mv small.hnir "$fault/" && cd "$fault" || return 1
    case $1 in
    differs | nan) planted bisect small.hnir --threads 2 >out 2>err; [ $? = 1 ] && grep -q '^wrong: ' out ;;
    hang) HENRY_PLANT=$fault timeout -s KILL 2 "$build/henry_planted" run small.hnir --threads 2 >out 2>err; [ $? = 137 ] ;;
    crash) (planted run small.hnir --threads 2; exit $?) >out 2>err; [ $? = 139 ] ;;
    error) ! (ulimit -v 4000000; planted run small.hnir --threads 2) >out 2>err && grep -q 'no layer norm today\|no memory is left' err ;;
    esac
    local code=$?
    cd ..
    return $code
}

try() {
    local failure=$1 most=$2
    reduce -o small.hnir --time-limit 2 --memory-limit 512M
    check $? "$fault: $(tail -1 err)"
    printf '%-14s %-8s nodes %4s -> %2s, elements %s -> %s, %s attempts, %.1f s\n' "$fault" "$failure" "$(number nodes_before)" \
        "$(number nodes)" "$(number elements_before)" "$(number elements)" "$(number attempts)" "$(number total_ms | awk '{ print $1 / 1000 }')"
    grep -q "\"failure\": \"$failure\"" json && grep -q '"complete": true' json
    check $? "$fault: another failure than '$failure': $(cat json)"
    [ "$(number nodes)" -le "$most" ]
    check $? "$fault: more than $most nodes"
    shows_again "$failure"
    check $? "$fault: the result does not fail by itself: $(cat "$fault/err")"
}

# What is small already stays as it is, with the inputs that it holds.
reduce_again() {
    local nodes
    nodes=$(number nodes)
    planted reduce "$fault/small.hnir" --threads 2 --json -o again.hnir --time-limit 2 >json 2>err
    [ $? = 0 ] && [ "$(number nodes)" = "$nodes" ]
    check $? "$fault: reduced again: $(cat err json)"
}

while read -r name failure most; do
    [ $# -gt 0 ] && [[ " $* " != *" $name "* ]] && continue
    fault=$name
    try "$failure" "$most"
    case $fault in pass | crash) reduce_again ;; esac
done <<<"$faults"
[ $# -gt 0 ] && { echo "$passed passed, $failed failed"; exit $((failed > 0)); }

# Nothing fails.
fault=none
reduce -o none.hnir
[ $? = 1 ] && grep -q 'does not fail' err && [ ! -e none.hnir ]
check $? "a model without a fault: $(cat err)"

# A command judges; what it gets runs by itself, and its exit status is kept.
printf '#!/bin/sh\nn=$(grep -c "aten.softmax" "$1")\n[ "$n" = 2 ] && exit 3\n[ "$n" = 1 ] && exit 4\nexit 0\n' >judge
chmod +x judge
reduce -o two.hnir --test ./judge
[ $? = 0 ] && [ "$(number nodes)" = 2 ] && [ "$(grep -c aten.softmax two.hnir)" = 2 ] && "$build/henry" run two.hnir -q && ! ls two.hnir.* 2>/dev/null
check $? "--test: $(cat err json)"

# An interrupt ends it soon, with the best so far.
HENRY_PLANT=hang "$build/henry_planted" reduce "$model/model.pt2" -i "$model/input_0.npy" --threads 2 --json -o part.hnir \
    --time-limit 2 >json 2>err &
sleep 6
kill -INT $!
wait $!
[ $? = 0 ] && grep -q '"complete": false' json && [ -s part.hnir ]
check $? "interrupt: $(cat err json)"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
