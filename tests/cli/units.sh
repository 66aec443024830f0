# How many compilers run at once does not change a bundle: a cache that another machine has filled is hit.
data=$HENRY_TEST_ROOT/tests/cli/data
for model in lstm data; do
    for jobs in 1 2 8; do "$HENRY" compile --no-cache "$data/$model.pt2" -o "$model$jobs.hnb" -j "$jobs" --quiet; done
    "$HENRY" inspect "$model"1.hnb | grep -c '^object' | sed 's/^[2-9]$/several objects/'
    cmp "$model"1.hnb "$model"2.hnb && cmp "$model"1.hnb "$model"8.hnb && echo "$model: the same bytes"
done
