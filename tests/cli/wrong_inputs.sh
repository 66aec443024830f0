# Inputs that do not fit: the message names the input and what it takes.
npy() { printf '\x93NUMPY\x01\x00\x46\x00%-69s\n' "{'descr': '$1', 'fortran_order': False, 'shape': ($2), }"; head -c "$3" /dev/zero; }
npy '<f8' '2, 1, 8, 8' 1024 >f64.npy
npy '<f4' '2, 1, 8, 9' 576 >wide.npy
npy '<f4' '2, 64' 512 >flat.npy
for file in f64 wide flat; do
    if "$HENRY" run "$DATA/model.pt2" -i $file.npy -d out 2>err; then echo "no error"; fi
    cat err
done
if "$HENRY" run "$DATA/model.pt2" 2>err; then echo "no error"; fi
cat err
if "$HENRY" run "$DATA/model.pt2" -i f64.npy -i f64.npy 2>err; then echo "no error"; fi
cat err
if "$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" --target sm_95 2>err; then echo "no error"; fi
sed "s|$DATA/||" err
ls # no output folder
