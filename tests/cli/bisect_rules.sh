# A fault in what a rule behind the passes has made is found by the name of the rule, and one in the program of weights by that of its pass.
# henry_planted is the command line with these faults in it (tests/support/planted.c).
PLANTED=$(dirname "$HENRY")/henry_planted
data=$(dirname "$DATA")/../../tests/cli/data step=$data/../../models/adamw_step
MODELS=${HENRY_TEST_MODELS:-$data/../../../../shared}/models
[ -d "$MODELS" ] || { echo "no folder '$MODELS' with models" >&2; exit 77; }

# array NAME ROWS COLUMNS: an array of numbers of four letters, "123?"
array() {
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': ($2, $3), }" >"$1"
    seq -f '%03.0f?' 0 999 | tr -d '\n' >thousand
    for _ in $(seq 1 $(($2 * $3 / 1000 + 1))); do cat thousand; done | head -c $(($2 * $3 * 4)) >>"$1"
}
inputs() { find "$1" -name 'input_*.npy' | sort -V | sed 's/^/-i /' | tr '\n' ' '; }
# Each with the fault, and without it.
bisect() {
    echo "--- $1"
    HENRY_PLANT=$1 "$PLANTED" bisect "${@:2}" --threads 2 >text || true
    sed -n 's/k_[0-9a-f]*/k_X/; s/number [0-9]* of [0-9]*/number N/; s/step [0-9]*/step N/; /^[a-z]*: .*\.c)$/p; /^rewrite/p; /^kernel/p; /^memory/p; /^lowering/p; /^nothing/p' text
    HENRY_PLANT=none "$PLANTED" bisect "${@:2}" --threads 2
}
array x.npy 8 64
array y.npy 65536 8
array w.npy 8 8
array z.npy 100 40
bisect pieces "$data/pieces.hnir" -i x.npy -i x.npy
bisect again "$data/again.hnir" -i y.npy -i w.npy
bisect remade "$MODELS/train_step_mlp/model.pt2" $(inputs "$MODELS/train_step_mlp")
bisect reuse "$MODELS/train_step_mlp/model.pt2" $(inputs "$MODELS/train_step_mlp")
bisect segments "$step/model.pt2" $(inputs "$step")
bisect cat "$MODELS/llama_tiny/model.pt2" $(inputs "$MODELS/llama_tiny")
bisect carry "$data/loops.pt2" -i "$data/loops_in0.npy" -i "$data/loops_in1.npy"
bisect swap "$data/loops.pt2" -i "$data/loops_in0.npy" -i "$data/loops_in1.npy"
bisect weights "$data/low_rank.pt2" -i "$data/low_rank_in0.npy"
# A form that runs for 100 rows and no others.
"$HENRY" tune "$data/multi_kernel.hnir" --hint s0=8 --no-cache -o timed.json -q 2>/dev/null
awk -f "$data/records.awk" timed.json >records.json
bisect variants "$data/multi_kernel.hnir" -i z.npy --tuning records.json
