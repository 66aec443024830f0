# Files with the same graph and other weights share programs, and each computes with its own weights. Weights that the
# compiler computed with (a batch norm put into its convolution) are part of the program: other values are another one.
export HENRY_CACHE_CHECK=1
data=$DATA/../../../tests/cli/data
mkdir -m 700 cache
run() { "$HENRY" run "$1" -i "$data/$2_in.npy" -e "$data/$3_out.npy" --json --cache-dir cache >json || echo "failed"; echo "$3: $(grep -o '"graph": "[a-z]*"\|"same": [a-z]*\|"compiled": [0-9]*' json | tr '\n' ' ')"; }
for model in tune tune_bn; do
    run "$data/${model}_a.pt2" $model ${model}_a
    run "$data/${model}_b.pt2" $model ${model}_b
    run "$data/${model}_a.pt2" $model ${model}_a
    run "$data/${model}_b.pt2" $model ${model}_b
    "$HENRY" cache why "$data/${model}_b.pt2" --cache-dir cache | sed 's/^program [0-9a-f]*/program KEY/'
done
"$HENRY" cache stats --cache-dir cache | awk '$1 == "graph" { print $2, $3 }'
# A copy, a new time, another place: the same program. The file that a bundle refers to is the one that it was made from.
cp "$data/tune_b.pt2" copy.pt2
run copy.pt2 tune tune_b
touch -d 2020-01-01 copy.pt2
run copy.pt2 tune tune_b
mkdir "a folder with a longer name"
cp copy.pt2 "a folder with a longer name/model.pt2"
run "a folder with a longer name/model.pt2" tune tune_b
"$HENRY" compile "a folder with a longer name/model.pt2" -o moved.hnb --weights-beside --cache-dir cache >/dev/null
"$HENRY" inspect moved.hnb | grep -o "'[^']*model.pt2'"
"$HENRY" run moved.hnb -i "$data/tune_in.npy" -e "$data/tune_b_out.npy" --quiet
# A damaged copy is found although the program is there.
cp "$data/tune_b.pt2" bad.pt2
offset=$(grep -abo 'data/weights/weight_0' bad.pt2 | head -1 | cut -d: -f1)
printf 'XXXX' | dd of=bad.pt2 bs=1 seek=$((offset + 100)) conv=notrunc 2>/dev/null
"$HENRY" run bad.pt2 -i "$data/tune_in.npy" --cache-dir cache --quiet 2>err || grep -o 'fails its checksum\|damaged' err | head -1
# A path that the image has no room for: compiled for it.
long=$(printf 'x%.0s' $(seq 240)) && long=$long/$long/$long/$long/$long
mkdir -p "$long"
cp copy.pt2 "$long/model.pt2"
run "$long/model.pt2" tune tune_b
run "$long/model.pt2" tune tune_b
run copy.pt2 tune tune_b
