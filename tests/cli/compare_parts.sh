# Kernels that write several parts of a decomposed node under its name: the largest numbers of rows and their sums, means and deviations.
MODEL=${HENRY_TEST_MODELS:-$DATA/../../../../shared}/models/train_step_mlp
[ -d "$MODEL" ] || { echo "no folder '$MODEL' with a model" >&2; exit 78; }
inputs=()
for file in $(ls "$MODEL"/input_*.npy | sort -V); do inputs+=(-i "$file"); done
run() { "$HENRY" run "$MODEL/model.pt2" "${inputs[@]}" --target-cpu generic -q "$@"; }
run --debug-tensors save,to=fused -n 2
run --no-fusion --debug-tensors save,to=plain
for saved in fused plain; do
    run --compare $saved && echo "$saved: equal"
    run --no-fusion --compare $saved && echo "$saved, one kernel per loop: equal"
done
# A part is compared with the same part.
file=$(sed -n 's/.*"step": \([0-9]*\), "when": "after".*"node": "_log_softmax", .*"shape": \[128, 1\].*"file": "\([^"]*\)".*/\2/p' fused/manifest.json | head -2 | tail -1)
printf '\0\0\200\100' | dd of="fused/$file" bs=1 seek=$((128 + 4 * 5)) conv=notrunc 2>/dev/null
run --compare fused 2>&1 | sed 's/k_[0-9a-f]*/K/; s/element is.*//; s/step [0-9]*/step N/; s/from.*//' || true
