# Sizes and numbers that only the data tells, and a whole number among the inputs.
data=$DATA/../../../tests/cli/data
inputs=(-i "$data/data_in0.npy" -i "$data/data_in1.npy" -i "$data/data_in2.npy")
expected=()
for k in 0 1 2 3 4 5 6 7; do expected+=(-e "$data/data_out$k.npy"); done
"$HENRY" run "$data/data.pt2" "${inputs[@]}" "${expected[@]}" --quiet
"$HENRY" run "$data/data.pt2" "${inputs[@]}" "${expected[@]}" --quiet --no-fusion --no-cache
"$HENRY" compile "$data/data.pt2" -o data.hnb --quiet
"$HENRY" run data.hnb "${inputs[@]}" "${expected[@]}" --quiet
"$HENRY" compile "$data/data.pt2" --emit text | grep -c "define u"
"$HENRY" run data.hnb -i "$data/data_in0.npy" -i "$data/number_in1.npy" -i "$data/data_in2.npy" --quiet
cp "$data/data_out6.npy" three.npy # 3, the size of x is 5
"$HENRY" run data.hnb -i "$data/data_in0.npy" -i three.npy -i "$data/data_in2.npy" | sed -n 's/^\(output_4 .*\)/\1/p'
"$HENRY" run "$data/number.pt2" -i "$data/number_in0.npy" -i "$data/number_in1.npy" -e "$data/number_out0.npy" -e "$data/number_out1.npy" --quiet
"$HENRY" run "$data/number.pt2" -i "$data/number_in0.npy" -i three.npy
