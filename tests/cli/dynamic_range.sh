# A number that the data says and the model does not allow: the node is named.
data=$DATA/../../../tests/cli/data
{ head -c 128 "$data/data_in1.npy"; printf '\011\0\0\0\0\0\0\0'; } >nine.npy
"$HENRY" run "$data/data.pt2" -i "$data/data_in0.npy" -i nine.npy -i "$data/data_in2.npy" --quiet
