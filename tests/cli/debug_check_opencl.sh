# `henry run --check` on OpenCL: the device writes down what it finds, which is read once; what is told is what the CPU tells.
data=$DATA/../../../tests/cli/data
"$HENRY" doctor | grep -q '^ok  *opencl' || { echo "no OpenCL device" >&2; exit 77; }
run() { "$HENRY" run "$data/nan.pt2" -q --device opencl -i "$data/$1" --check "$2" 2>&1; }
# Kernels and numbers of steps and buffers are those of the device.
told() { sed "s/'k_[0-9a-f]*'/K/; s/step [0-9]*/step N/; s/b[0-9]* (/bN (/"; }
run nan_x.npy nan,inf && echo "finite"
run nan_bad.npy inf && echo "no infinities"
for what in nan nan,inf; do run nan_bad.npy $what | told; done
"$HENRY" run "$data/nan.pt2" -q -i "$data/nan_bad.npy" --check nan 2>&1 | told
