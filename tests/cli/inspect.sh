# What is in a model file.
"$HENRY" inspect "$DATA/model.pt2" | sed 's|^/.*/examples|examples|'
"$HENRY" inspect "$DATA/model.pt2" --json | grep -E '"(weights_bytes|nodes|dtype)"'
if "$HENRY" inspect "$DATA/model.pt2" --model absent 2>err; then echo "no error"; fi
sed 's|/.*/||' err
# Ranges of symbols, and what the model changes; the same names in a bundle.
data=$DATA/../../../tests/cli/data
"$HENRY" inspect "$data/data.pt2" | grep -e symbol -e changes
"$HENRY" inspect "$data/sizes.pt2" | grep -e symbol -e guard
"$HENRY" inspect "$data/mutate.pt2" | grep changes
for model in mutate sizes; do
    "$HENRY" compile "$data/$model.pt2" -o $model.hnb -q
    for file in "$data/$model.pt2" $model.hnb; do
        "$HENRY" inspect "$file" --json | tr -d ' \n' | grep -o -e '"format":"[a-z0-9]*"' -e '"models":\[{' -e '"mutations":\[{"name":"[a-z]*","target":"[a-z]*","kind":"tensor","dtype":"f32","shape":\[[0-9a-z,"]*\]' \
            -e '"symbols":\[{"name":"[a-z0-9]*"' -e '"weights_bytes":[0-9]*'
    done
done
# Operators that Henry lacks are listed, in place of an error.
edit=${HENRY%/*}/edit_pt2
[ -x "$edit" ] || { echo "edit_pt2 is not built" >&2; exit 77; }
"$edit" "$DATA/model.pt2" lacking.pt2 replace_all models/model.json torch.ops.aten.relu.default torch.ops.aten.tahn.default
"$HENRY" inspect lacking.pt2
"$HENRY" inspect lacking.pt2 --json | grep -A3 '"unsupported"'
