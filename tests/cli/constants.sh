# Python numbers of the signature are constants: left out, or given with the recorded value.
data=$DATA/../../../tests/cli/data
run() { "$HENRY" run "$data/constants.pt2" -i "$data/constants_in0.npy" "$@" -q 2>&1 | sed 's|^henry: .*/tests|henry: tests|'; }
run -e "$data/constants_out0.npy" && echo "left out"
run -i "$data/constants_in1.npy" -i "$data/constants_in2.npy" -i "$data/constants_in3.npy" -e "$data/constants_out0.npy" && echo "given"
"$HENRY" inspect "$data/constants.pt2" | sed -n '2,5p'
# npy TYPE BYTES: an array without dimensions
npy() { printf "\x93NUMPY\x01\x00\x46\x00%-69s\n$2" "{'descr': '$1', 'fortran_order': False, 'shape': (), }"; }
npy '<f8' '\0\0\0\0\0\0\340\077' >half.npy
npy '|b1' '\0' >false.npy
npy '<i8' '\4\0\0\0\0\0\0\0' >four.npy
run -i half.npy -i "$data/constants_in2.npy" -i "$data/constants_in3.npy"
run -i "$data/constants_in1.npy" -i false.npy -i "$data/constants_in3.npy"
run -i "$data/constants_in1.npy" -i "$data/constants_in2.npy" -i four.npy
run -i "$data/constants_in3.npy" -i "$data/constants_in2.npy" -i "$data/constants_in3.npy"
