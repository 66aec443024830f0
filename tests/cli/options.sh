# Options and variables that other tests do not look at.
input=$DATA/input_0.npy
"$HENRY" run "$DATA/model.pt2" -i "$input" --profile | grep -c 'min ms'
"$HENRY" run "$DATA/model.pt2" -i "$input" --profile --json --repeat 2 | grep -q '"calls": 2' && echo "steps"
"$HENRY" run "$DATA/model.pt2" -i "$input" -q --no-cache --log pass:info 2>&1 | grep -q "pass: info: cse" && echo "messages"
[ -z "$(HENRY_LOG= "$HENRY" run "$DATA/model.pt2" -i "$input" -q 2>&1)" ] && echo "silence"
HENRY_THREADS=2 "$HENRY" run "$DATA/model.pt2" -i "$input" --no-cache -e "$DATA/../../../tests/cli/data/digits_out.npy" -q && echo "two threads"
HENRY_COMPILE_THREADS=1 "$HENRY" run "$DATA/model.pt2" -i "$input" --no-cache -q && echo "one compiler"
if "$HENRY" run "$DATA/model.pt2" -i "$input" --device tpu 2>err; then echo "taken"; fi
cat err
"$HENRY" run "$DATA/model.pt2" -i "$input" --stats stats.json -q && grep -c '"model"' stats.json
# Variables that are no numbers are named and ignored.
for value in many 0 -1 3x 100000 99999999999999999999; do
    HENRY_THREADS=$value "$HENRY" run "$DATA/model.pt2" -i "$input" -q 2>&1
done
HENRY_THREADS= "$HENRY" run "$DATA/model.pt2" -i "$input" -q
HENRY_THREADS=many "$HENRY" run "$DATA/model.pt2" -i "$input" -q --threads 2
for value in many 0; do
    HENRY_COMPILE_THREADS=$value "$HENRY" run "$DATA/model.pt2" -i "$input" -q --no-cache 2>&1
done
# Numbers that are none, and more threads than anybody has.
for option in --repeat --threads --compile-threads; do
    "$HENRY" run "$DATA/model.pt2" -i "$input" "$option" 0 2>&1 && echo "taken"
done
for threads in -1 100000000 99999999999999999999; do
    "$HENRY" run "$DATA/model.pt2" -i "$input" -q --threads $threads 2>&1 && echo "taken"
done
exit 0
