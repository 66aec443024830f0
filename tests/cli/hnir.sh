# A graph as text is a model: the imported graph with its weights, printed, gives the same numbers as the model, and a graph that was
# written by hand runs with the inputs that stand in it.
"$HENRY" compile "$DATA/model.pt2" --emit graph -o digits.hnir
"$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" --output-dir want -q
"$HENRY" run digits.hnir -i "$DATA/input_0.npy" --output-dir got -q
cmp want/output_0.npy got/output_0.npy && echo "the same numbers"
"$HENRY" run digits.hnir 2>&1 | cut -c1-40 || true
"$HENRY" compile digits.hnir --emit graph -o again.hnir
"$HENRY" compile again.hnir --emit graph | cmp - again.hnir && echo "the same text"

cat >tiny.hnir <<'END'
# y = relu(x @ w)
graph @tiny {
  storage 1 : 16 bytes hex 0000803f000000400000404000008040
  input user %x : f32[2, 2] strides [1, 2] example [2, 2] hex 0000803f000000400000404000008040 "x"
  input user %n : i64[3] example [3] hex 010000000000000002000000000000000300000000000000 "n"
  input user %b : bf16[1] example [1] hex 803f "b"
  input parameter %w : f32[2, 2] storage 1 offset 0 "w"
  %y = aten.matmul.default(%x, %w) : f32[2, 2] at "matmul" "m.py:3"
  %z = aten.relu.default(%y) : f32[2, 2]
  %m = aten.neg.default(%n) : i64[3]
  %c = aten.neg.default(%b) : bf16[1]
  output user %z "z"
  output user %m "m"
  output user %c "c"
}
END
"$HENRY" run tiny.hnir | grep output
"$HENRY" inspect tiny.hnir
"$HENRY" inspect tiny.hnir --json | grep format
"$HENRY" compile tiny.hnir -o tiny.hnb -q && "$HENRY" run tiny.hnb 2>&1 | cut -c1-40 || true
"$HENRY" accuracy tiny.hnir | grep compared | sed 's/;.*//'
"$HENRY" bisect tiny.hnir
"$HENRY" bench tiny.hnir --repeat 2 | tail -1 | awk '{ print $NF }'
# a text that changes is another program
sed 's/aten.relu/aten.neg/' tiny.hnir >other.hnir && mv other.hnir tiny.hnir
"$HENRY" run tiny.hnir | grep output_0
sed 's/aten.neg.default(%y)/aten.nag.default(%y)/' tiny.hnir >wrong.hnir
"$HENRY" run wrong.hnir 2>&1 || true
# values that no tensor of the recorded layout can have
cat >expanded.hnir <<'END'
graph {
  input user %x : f32[2, 2] strides [0, 1] example [2, 2] hex 0000803f000000400000404000008040 "x"
  %y = add(%x, %x) : f32[2, 2]
  output user %y "y"
}
END
"$HENRY" run expanded.hnir 2>&1 || true
# nothing is compiled for a graph
for option in '--pool none' '--target generic' --verify; do
    "$HENRY" compile tiny.hnir --emit graph $option 2>&1 && echo "taken"
done

# Its weights can go into a file beside the bundle, but the bundle cannot refer to the text.
"$HENRY" compile digits.hnir -o beside.hnb --weights safetensors -q
"$HENRY" inspect beside.hnb | grep -o '^weights file.*' | sed 's/[0-9][0-9]*/N/g'
"$HENRY" run beside.hnb -i "$DATA/input_0.npy" -e want/output_0.npy --rtol 0 --atol 0 -q && echo "weights beside"
if "$HENRY" compile digits.hnir -o x.hnb --weights pt2 2>err; then echo "no error"; fi
cat err
# What is printed before memory is planned takes no options of the plan.
for what in "--emit c" "--dump-after sched" --explain-fusion; do
    # shellcheck disable=SC2086 # a list of words
    for option in "--pool combined" "--donate 0"; do "$HENRY" compile tiny.hnir $what $option 2>&1 && echo "no error"; done
done
exit 0
