# Kernels have the form that --form or HENRY_FORM names: the program is another one with the same results, also of the cache; or the command
# says what forms there are.
cat >model.hnir <<'EOF'
graph {
  input user %x : f32[7, 4000] "x"
  input user %z : f32[90, 48] "z"
  %y = aten._softmax.default(%x, -1, false) : f32[7, 4000] at "softmax_1" "m.py:1"
  %s = sum(%z, dims=[0], keepdim=false) at "total" "m.py:2"
  output user %y "y"
  output user %s "s"
}
EOF
"$HENRY" compile model.hnir --threads 1 -o plain.hnb -q
"$HENRY" inspect plain.hnb | grep "^tuning" || echo "nothing forced"
"$HENRY" compile model.hnir --threads 1 -o forced.hnb -q --form 'softmax=pipelined;total=strips width=256'
"$HENRY" inspect forced.hnb | grep "^tuning" | sed 's/ grain=[0-9]*//'
HENRY_FORM='softmax=pipelined;total=strips width=256' "$HENRY" compile model.hnir --threads 1 -o variable.hnb --json | grep '"graph"'
cmp forced.hnb variable.hnb && echo "the variable does the same"
"$HENRY" accuracy model.hnir --threads 1 --form 'softmax=pipelined;total=strips' | tail -1 | sed "s/; the references took.*//"
"$HENRY" compile model.hnir --threads 1 -o x.hnb -q --form 'layer_norm=rows' 2>&1
for form in softmax=looped total=tiles 'softmax=rows vectors=3' softmax; do
    "$HENRY" compile model.hnir --threads 1 -o x.hnb --form "$form" 2>&1 || echo "status $?"
done
"$HENRY" run plain.hnb --form softmax=rows 2>&1 | sed "s/; see .*//" || true
