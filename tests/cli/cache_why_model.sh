# Why a model is compiled again: the option, the file, the bytes of the graph, or nothing.
cp "$DATA/model.pt2" m.pt2
why() { "$HENRY" cache why m.pt2 "$@" | sed -E 's/[0-9a-f]{64}/DIGEST/g; s/[0-9]+ records, [0-9]+ bytes/N records, N bytes/g; s/[0-9]+ bytes, changed [0-9.]+/FILE/g; s|/[^ ]*/||g; s/^program [0-9a-f]*/program KEY/'; }
if "$HENRY" cache why m.pt2 --cache-dir "$PWD/empty" 2>err; then echo "no error"; fi
cat err
"$HENRY" run m.pt2 -i "$DATA/input_0.npy" --threads 1 >/dev/null
why --threads 1
echo "options:"
why --threads 2 --no-fusion
why --threads 1 --deterministic
echo "touched:"
touch -d 2020-01-01 m.pt2
why --threads 1
echo "elsewhere:"
cp m.pt2 n.pt2
"$HENRY" cache why n.pt2 --threads 1 | head -1
echo "another model:"
cp "$DATA/../../../tests/cli/data/mutate.pt2" m.pt2
why --threads 1
echo "a graph as text:"
"$HENRY" compile m.pt2 --emit graph -o m.hnir
cp m.hnir m.pt2
"$HENRY" run m.pt2 -i "$DATA/../../../tests/cli/data/mutate_x.npy" --threads 1 -q
why --threads 1
why --threads 1 --pool none
why --threads 1 --donate 0
for command in 'cache why' bench accuracy; do
    "$HENRY" $command m.pt2 --pool lunch 2>&1 && echo "taken"
done
exit 0
