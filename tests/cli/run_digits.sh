# The whole way: arrays in, arrays out, compared with what PyTorch answered.
expected=$DATA/../../../tests/cli/data/digits_out.npy
"$HENRY" run "$DATA/model.pt2" --input "$DATA/input_0.npy" --output-dir out --expect "$expected" --rtol 1e-4 --atol 1e-5 >text
sed 's|min.*||; s|equals .*/|equals |; s|  largest.*||' text
ls out
"$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" -e out/output_0.npy --rtol 0 --atol 0 --quiet
"$HENRY" run "$DATA/model.pt2" --input="$DATA/input_0.npy" --json >result.json
sed '/"compilations"/,/"steps"/ s/: [0-9]*/: N/; s/[0-9]\{1,\}\.[0-9]\{1,\}/N/; s/\(_bytes": \|"objects": \|"generated": \|"unique": \|"compiled": \|"cached": \|"extern": \)[0-9]*/\1N/; s|"model": ".*/examples|"model": "examples|' result.json
