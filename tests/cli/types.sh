# Types that .npy lacks travel as float32.
data=$DATA/../../../tests/cli/data
"$HENRY" run "$data/bf16.pt2" -i "$data/bf16_x.npy" -i "$data/bf16_y.npy" -e "$data/bf16_out0.npy" -e "$data/bf16_out1.npy" --rtol 0 --atol 0 -d out --quiet
cmp out/output_0.npy "$data/bf16_out0.npy"
"$HENRY" run "$data/bf16.pt2" -i "$data/bf16_x.npy" -i "$data/bf16_y.npy"
