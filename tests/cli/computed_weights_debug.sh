# What is computed from weights alone runs when a model is opened: the debugger, accuracy, repro and bisect look at it, too.
data=$(dirname "$DATA")/../../tests/cli/data
in="$data/low_rank_in0.npy" want="$data/low_rank_out0.npy"
kernel() { sed 's/k_[0-9a-f]\{16\}/K/g'; }
"$HENRY" compile "$data/low_rank.pt2" -o m.hnb -q
run() { "$HENRY" run m.hnb -q -i "$in" "$@" 2>&1 | kernel; }
echo "--- the debugger"
run --debug-tensors names
HENRY_DEBUG_TENSORS=names run --profile | grep -c '^weights 1 step'
run --debug-tensors 'stats,node=mul' | sed 's/ min .*//'
run --debug-tensors names,calls=1
run --debug-tensors save,to=saved
kernel <saved/manifest.json | grep -c '"step": 0, "program": "weights"'
ls saved
# Before there is any call.
run --debug-tensors check
echo "--- accuracy"
"$HENRY" accuracy "$data/low_rank.pt2" -i "$in" | kernel | grep -o 'K  .*\|matmul  .*\|^[0-9]* of .* compared' | sort
"$HENRY" accuracy "$data/low_rank.pt2" -i "$in" --json | grep -c '"program": "weights"'
"$HENRY" accuracy "$data/low_rank.pt2" -i "$in" --computed-weights 0 | grep -c 'program of weights' || true
echo "--- repro"
K=$("$HENRY" accuracy "$data/low_rank.pt2" -i "$in" | sed -n 's/.* \(k_[0-9a-f]*\)  mul, program of weights/\1/p')
for kernel in "$K" weights:0; do
    "$HENRY" repro "$data/low_rank.pt2" -i "$in" --kernel $kernel -o "one_$kernel" >/dev/null
    grep -o '^Step .* weights' "one_$kernel/README.md"
    make -s -C "one_$kernel" CC="${HENRY_CC:-cc}" 2>&1 | tail -1
done
echo "--- bisect"
bisect() { HENRY_PLANT=$1 "$(dirname "$HENRY")/henry_planted" bisect "$data/low_rank.pt2" -i "$in" -e "$want" "${@:2}" | grep -v 'there\|^wrong' | kernel || true; }
bisect none
bisect half
bisect half --computed-weights 0
bisect half --json | grep '"program"\|"kind"'
