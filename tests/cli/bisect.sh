# A wrong constant in a pass, a rule, a fusion, a kernel, a call or the memory plan of GPT-2 is found by name. henry_planted is the
# command line with these faults in it (tests/support/planted.c).
PLANTED=$(dirname "$HENRY")/henry_planted
MODEL=${HENRY_TEST_MODELS:-$DATA/../../../../shared}/models/gpt2_tiny
[ -d "$MODEL" ] || { echo "no folder '$MODEL' with a model" >&2; exit 78; }
bisect() { HENRY_PLANT=$1 "$PLANTED" bisect "$MODEL/model.pt2" -i "$MODEL/input_0.npy" --threads 2 "${@:2}"; }
bisect none
bisect none -e "$MODEL/output_0.npy"
for fault in pass fold pattern fusion kernel call memory; do
    echo "--- $fault"
    bisect $fault -e "$MODEL/output_0.npy" | grep -v 'there\|^wrong' | sed 's/k_[0-9a-f]*/k_X/; s/number [0-9]* of [0-9]*/number N/; s/step [0-9]*/step N/' || true
done
# A wrong decomposition is named when the values of nodes are there: of PyTorch, or here of a run without the fault, which has some of them.
"$HENRY" run "$MODEL/model.pt2" -i "$MODEL/input_0.npy" --no-fusion --debug-tensors save,to=good >out
bisect decompose -e "$MODEL/output_0.npy" | grep -v 'there\|^wrong' || true
bisect decompose -e "$MODEL/output_0.npy" --compare good | grep -v 'there\|^wrong' || true
# Without the answers of PyTorch the imported graph, run by the reference interpreter, is right.
bisect pattern --json >json || echo "exit status $?"
grep '"kind"\|"rule"\|"node"\|"wrong"' json
# The same fault in the graph that everything is compared with: nothing is wrong by that measure.
bisect none --rtol 0 --atol 0 >text || echo "exit status $?"
head -c 6 text; echo
"$HENRY" bisect "$MODEL/model.pt2" 2>&1 | sed 's/;.*//' || true
