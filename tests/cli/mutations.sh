# Inputs and buffers that the model writes to come out as files; the input file stays as it is.
data=$DATA/../../../tests/cli/data
cp "$data/mutate_x.npy" x.npy
"$HENRY" run "$data/mutate.pt2" -i x.npy -d out
cmp x.npy "$data/mutate_x.npy"
ls out
for f in out/mutated_*.npy; do echo "$(basename "$f") $(od -An -tf4 -j 128 "$f" | tr -s ' \n' ' ')"; done
"$HENRY" run "$data/mutate.pt2" -i x.npy --repeat 3 --json | grep -c '"runs": 3'
