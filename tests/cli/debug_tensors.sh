# The tensor debugger on the command line: a NaN is found by kernel, tensor, index and node; lines, files, filters, the variable.
data=$DATA/../../../tests/cli/data
kernel() { sed 's/k_[0-9a-f]\{16\}/K/g'; }
"$HENRY" compile "$data/nan.pt2" -o nan.hnb --target-cpu generic -q
run() { "$HENRY" run nan.hnb -q -i "$@" 2>&1 | kernel; }
echo "names"
run "$data/nan_x.npy" --debug-tensors names
echo "stats"
run "$data/nan_bad.npy" --debug-tensors stats,arg='sqrt|cat'
HENRY_DEBUG_TENSORS=stats,kernel=matmul,node=linear_1,calls=1 run "$data/nan_bad.npy" -n 2
echo "check"
run "$data/nan_x.npy" --debug-tensors check
run "$data/nan_bad.npy" --debug-tensors check
run "$data/nan_bad.npy" --debug-tensors check,arg='linear*'
run "$data/nan_bad.npy" --debug-tensors off
echo "save"
run "$data/nan_x.npy" --debug-tensors save,to=saved
ls saved
kernel <saved/manifest.json | head -3
run "$data/nan_x.npy" --debug-tensors save,to=saved
run "$data/nan_x.npy" --debug-tensors save
"$HENRY" run nan.hnb -q -i "$data/nan_x.npy" --debug-tensors names,to=lines
wc -l <lines
echo "a bundle without its compiler, and a benchmark"
"$HENRY" bench nan.hnb -n 3 --debug-tensors names,node=cat,calls=2,to=bench.txt >/dev/null
kernel <bench.txt
echo "wrong words"
run "$data/nan_x.npy" --debug-tensors chek
run "$data/nan_x.npy" --debug-tensors stats,kernals=x
HENRY_DEBUG_TENSORS=all run "$data/nan_x.npy"
echo "--check"
run "$data/nan_x.npy" --check nan,inf && echo "finite"
run "$data/nan_bad.npy" --check nan,inf
run "$data/nan_bad.npy" --check nan
run "$data/nan_bad.npy" --check inf || true
run "$data/nan_bad.npy" --check NaN || true
run "$data/nan_bad.npy" --check nan --debug-tensors stats || true
