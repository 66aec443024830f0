# One bundle for several feature levels of CPUs: built on any of them, it runs the best that the machine has.
"$HENRY" compile "$DATA/model.pt2" -o all.hnb --target x86-64,avx2,x86-64-v4,avx2 --quiet
"$HENRY" inspect all.hnb | sed -n 's/^\(target .*\), [0-9]* bytes of code/\1/p'
"$HENRY" inspect all.hnb | grep -c '^object'
"$HENRY" inspect all.hnb --json >json
for key in targets needs launches grain digest args code symbol; do grep -q "\"$key\"" json || echo "no $key"; done
"$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" -d out --quiet
"$HENRY" run all.hnb -i "$DATA/input_0.npy" -e out/output_0.npy --rtol 0 --atol 0 --quiet && echo "the best level"
"$HENRY" run all.hnb -i "$DATA/input_0.npy" -e out/output_0.npy --target-cpu generic --quiet && echo "the lowest level"
"$HENRY" run all.hnb -i "$DATA/input_0.npy" -e out/output_0.npy --target-cpu cpu:x86-64 --quiet && echo "the same by another name"
if "$HENRY" run all.hnb -i "$DATA/input_0.npy" --target-cpu x86-64-v9 2>err; then echo "no error"; fi
cat err
# A level that the machine lacks is built all the same, and refused with the reason.
"$HENRY" compile "$DATA/model.pt2" -o v4.hnb --target-cpu x86-64-v4 --quiet
if grep -qw avx512f /proc/cpuinfo; then
    "$HENRY" run v4.hnb -i "$DATA/input_0.npy" -e out/output_0.npy --quiet
elif "$HENRY" run v4.hnb -i "$DATA/input_0.npy" 2>err; then
    echo "no error"
else
    grep -q "'x86-64-v4' needs 'avx512f', which this CPU lacks; compile the model for it" err || cat err
fi
if "$HENRY" compile "$DATA/model.pt2" -o x.hnb --target generic,pentium 2>err; then echo "no error"; fi
sed 's/.*unknown/unknown/' err
if "$HENRY" compile "$DATA/model.pt2" -o dir --emit source --target generic,avx2 2>err; then echo "no error"; fi
sed 's/.*: a source/a source/' err
