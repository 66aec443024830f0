# A file of another kind is named, and what to do with it is said. The API: tests/unit/base/test_kind.c.
try() { if "$HENRY" "$@" >out 2>err; then code=0; else code=$?; fi; echo "$code $(cat out err)"; }
printf '\010\010\022\007pytorch:\002\012\000' >m.onnx
printf '\002\000\000\000\000\000\000\000{}' >m.safetensors
printf '\200\002}q\000.' >m.pkl
printf '\223NUMPY\001\000' >m.npy
printf 'version https://git-lfs.github.com/spec/v1\n' >lfs.pt2
mkdir folder
for file in m.onnx m.safetensors m.pkl m.npy lfs.pt2 folder; do try run $file; done
try inspect m.onnx
try compile m.onnx -o x.hnb
"$HENRY" compile "$DATA/model.pt2" -o model.hnb -q
try compile model.hnb -o again.hnb
cp "$DATA/model.pt2" model.pt2
try bundle verify model.pt2
ls again.hnb x.hnb 2>/dev/null || echo "nothing was written"
