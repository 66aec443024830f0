# The tensor debugger of an emitted project: it finds a NaN by kernel, tensor and index, and is not there unless it is built in.
data=$DATA/../../../tests/cli/data
"$HENRY" compile "$data/nan.pt2" --emit source --target-cpu generic -q -o p
build() { make -s -j2 -C p CFLAGS="-O1 -Wall -Wextra -Werror" "$@" example; }
run() { HENRY_DEBUG_TENSORS=$1 p/example -w p/weights.bin -i "$data/$2" 2>&1 >/dev/null | sed 's/k_[0-9a-f]\{16\}/K/g'; }
build DEBUG=1
echo "names"
run names nan_x.npy
echo "stats"
run stats,kernel='k_*' nan_bad.npy
run stats,node=linear_1 nan_x.npy
echo "check"
run check nan_x.npy
run check nan_bad.npy
run check,inf=ok,node='linear*' nan_bad.npy
echo "what it cannot"
run save,to=there nan_x.npy
run off nan_x.npy
echo "without it"
build
run check nan_bad.npy
if nm p/libmodel.a 2>/dev/null | grep debug_begin; then echo "the debugger is there"; fi
"$HENRY" run "$data/nan.pt2" -i "$data/nan_x.npy" -d . -q --target-cpu generic
p/example -w p/weights.bin -i "$data/nan_x.npy" -e output_0.npy -e output_1.npy --rtol 0 --atol 0 >/dev/null && echo "equal"
# sizes that only the data tells, branches, changed buffers; types that .npy lacks
"$HENRY" compile "$data/data.pt2" --emit source --target-cpu generic -q -o p
build DEBUG=1
HENRY_DEBUG_TENSORS=stats p/example -w p/weights.bin -i "$data/data_in0.npy" -i "$data/data_in1.npy" -i "$data/data_in2.npy" 2>lines | grep -c output
grep -c '^call 1 ' lines
"$HENRY" compile "$data/bf16.pt2" --emit source --target-cpu generic -q -o p
build DEBUG=1
HENRY_DEBUG_TENSORS=stats p/example -w p/weights.bin -i "$data/bf16_x.npy" -i "$data/bf16_y.npy" 2>&1 >/dev/null | grep -o 'before b1.*'
