# Random inputs from the signature; several models take turns.
"$HENRY" bench "$DATA/model.pt2" "$DATA/model.pt2" --repeat 3 --size s31=5 --json >json
grep -c '"median"' json
grep '"f32' json
"$HENRY" bench "$DATA/model.pt2" --repeat 2 | sed 's/ [0-9. ]*  /N /; s|/.*/||' | sed 's/  */ /g'
if "$HENRY" bench "$DATA/model.pt2" --repeat 2 --size s31=99999 2>err; then echo "no error"; fi
wc -l <err
for size in s31 s31= s31=x s99=4; do
    if "$HENRY" bench "$DATA/model.pt2" --repeat 2 --size $size 2>err; then echo "no error"; fi
    cat err
done
# The steps of each model, when asked for.
"$HENRY" bench "$DATA/model.pt2" "$DATA/model.pt2" --repeat 3 --profile --json >json
grep -c '"steps": \[' json
grep -q '"calls": 6' json && echo "every run counts"
"$HENRY" bench "$DATA/model.pt2" --repeat 2 --json | grep -c '"calls"' || true
