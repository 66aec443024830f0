# What is in memory before a run does not matter to a program that is right.
"$HENRY" run "$DATA/model.pt2" --input "$DATA/input_0.npy" -d want -q
for pool in none combined; do
    for fill in off once zero nan; do
        "$HENRY" run "$DATA/model.pt2" --pool $pool --pool-fill $fill --input "$DATA/input_0.npy" --repeat 2 --expect want/output_0.npy |
            sed -n 's/^ *\(equals\).*/\1/p'
    done
done
if "$HENRY" run "$DATA/model.pt2" --input "$DATA/input_0.npy" --pool-fill lunch 2>err; then echo "no error"; fi
sed "s|'[^']*model.pt2'|MODEL|" err
