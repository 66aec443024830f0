# The modes of the memory planner give the same results, also when inputs are given up, and the plan
# has a picture. A model without inputs to give up says so.
"$HENRY" run "$DATA/model.pt2" --input "$DATA/input_0.npy" -d want -q
plan() {
    "$HENRY" compile "$DATA/model.pt2" -o m.hnb -q "$@"
}
for mode in none intermediates outputs combined; do
    plan --pool $mode --memory-plan $mode.json --donate 0
    "$HENRY" run m.hnb --input "$DATA/input_0.npy" --expect want/output_0.npy | sed -n 's/^ *\(equals\).*/\1/p'
    "$HENRY" run m.hnb --input "$DATA/input_0.npy" --expect want/output_0.npy --donate 0 | sed -n 's/^ *\(equals\).*/\1/p'
done
"$HENRY" compile "$DATA/model.pt2" -o m.hnb --memory-plan plan.svg | sed 's/[0-9][0-9.]*/N/g; /m.hnb/d'
head -2 plan.svg | sed 's/[0-9][0-9.]*/N/g'
grep -c '<title>b' plan.svg | sed 's/^[1-9].*/boxes/'
tail -1 plan.svg
head -1 combined.json | sed 's/[0-9][0-9.]*/N/g'
if plan --donate lunch 2>err; then echo "no error"; fi
sed "s|'[^']*model.pt2'|MODEL|" err
if plan --pool lunch 2>err; then echo "no error"; fi
cat err
if "$HENRY" run m.hnb --input "$DATA/input_0.npy" --donate 0 --repeat 2 2>err; then echo "no error"; fi
cat err
if plan --target x86-64-v3,opencl --memory-plan two.json 2>err; then echo "no error"; fi
sed "s|'[^']*model.pt2'|MODEL|" err
if plan --memory-plan - 2>err; then echo "no error"; fi
cat err
