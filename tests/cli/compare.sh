# Node by node against tensors that PyTorch has saved (tools/save_tensors.py), and against those of another run.
data=$DATA/../../../tests/cli/data
small='(0|[0-9.]+e-(0[789]|1[0-9]))' # the last bits are the processor's
tidy() { sed -E "s/k_[0-9a-f]{16}/K/g; s/^   +$small +$small +0 /   right /; /^time/d; /^output_/d"; }
run() { "$HENRY" run "$@" --target-cpu generic >out 2>err && echo "equal" || echo "status $?"; tidy <out; tidy <err; }
"$HENRY" compile "$data/nan.pt2" -o nan.hnb --target-cpu generic -q
cp -r "$data/nan_eager" eager
echo "with PyTorch"
run nan.hnb -i "$data/nan_x.npy" --compare eager
echo "other inputs"
run nan.hnb -i "$data/nan_bad.npy" --compare eager
run nan.hnb -i "$data/nan_bad.npy" --compare eager --atol inf -q
echo "with another run, of other kernels"
"$HENRY" run "$data/nan.pt2" -i "$data/nan_x.npy" -q --no-fusion --target-cpu generic --debug-tensors save,to=plain
run nan.hnb -i "$data/nan_x.npy" --compare plain -q
run nan.hnb -i "$data/nan_x.npy" --compare plain --json | grep -c '"same": true'
"$HENRY" run nan.hnb -i "$data/nan_bad.npy" --debug-tensors save,to=bad -q
run nan.hnb -i "$data/nan_bad.npy" --compare bad -q
echo "a wrong value in one tensor"
cp -r plain planted
file=$(sed -n 's/.*"when": "after".*"node": "sqrt".*"file": "\([^"]*\)".*/\1/p' planted/manifest.json | head -1)
printf '\0\0\200\100' | dd of="planted/$file" bs=1 seek=$((128 + 4 * 5)) conv=notrunc 2>/dev/null
run nan.hnb -i "$data/nan_x.npy" --compare planted
echo "wrong folders"
run nan.hnb -i "$data/nan_x.npy" --compare nowhere -q
mkdir other && echo '{"format": "of somebody", "tensors": []}' >other/manifest.json
run nan.hnb -i "$data/nan_x.npy" --compare other -q
sed 's/"node": "[a-z_0-9]*"/"node": "else"/' plain/manifest.json >other/manifest.json
run nan.hnb -i "$data/nan_x.npy" --compare other -q
sed 's/"file": "/"file": "..\//' plain/manifest.json >other/manifest.json
run nan.hnb -i "$data/nan_x.npy" --compare other -q
head -c 700 plain/manifest.json >other/manifest.json
run nan.hnb -i "$data/nan_x.npy" --compare other -q
# where PyTorch is, what the script saves is what lies here
if python3 -c 'import torch' 2>/dev/null; then
    python3 "$DATA/../../../tools/save_tensors.py" "$data/nan.pt2" -i "$data/nan_x.npy" -o again >/dev/null
    diff again/manifest.json eager/manifest.json
fi
