# A model is tuned once: the second time nothing is timed, and other commands take what was found. A file of records decides, and one that
# says otherwise gives another program with the same results.
cat >model.hnir <<'EOF'
graph {
  input user %x : f32[300, 40] "x"
  input user %a : f32[140, 150] "a"
  input user %b : f32[150, 140] "b"
  %s = sum(%x, dims=[0], keepdim=false) at "total" "m.py:1"
  %t = permute(%a, dims=[1, 0])
  %c = add(%t, %b) at "joined" "m.py:2"
  output user %s "s"
  output user %c "c"
}
EOF
last() { tail -1 "$1" | sed 's/[0-9]* timed runs, [0-9.]* s/N runs/'; }
"$HENRY" tune model.hnir --threads 1 >once
last once
"$HENRY" tune model.hnir --threads 1 -o tuning.json >again
grep -c '(the cache)' again
tail -2 again | sed 's/0.0 s/0 s/'
grep -o '"kernel":"[a-z]*"' tuning.json
"$HENRY" tune model.hnir --threads 1 --device cpu | tail -1 | sed 's/0.0 s/0 s/'
grep -cE '"how":"(timed|descent)"' tuning.json
# The program is there; a bundle has the records.
"$HENRY" run model.hnir --threads 1 2>&1 | cut -c1-25 || true
"$HENRY" compile model.hnir --threads 1 -o tuned.hnb --json | grep '"graph"'
"$HENRY" inspect tuned.hnb | grep -c "^tuning"
"$HENRY" compile model.hnir --threads 1 --tune -o tuned.hnb --json | grep '"graph"'
"$HENRY" cache why model.hnir --threads 1 | sed 's/program [0-9a-f]*/program KEY/; s/([0-9a-f]*)/(DIGEST)/'
"$HENRY" cache why model.hnir --threads 2 | grep 'total.*another device' | sed 's/([0-9a-f]*)/(DIGEST)/'
# Another form for the same work.
grep joined tuning.json | grep -o '"form":"[^"]*","parameters":"[^"]*"' | head -2 | cut -d'"' -f4,8 --output-delimiter=' ' >forms
number=0
while read -r form; do
    number=$((number + 1))
    sed "/joined/"'!d;s/"pick":"[^"]*"/"pick":"'"$form"'"/' tuning.json >$number.json
    "$HENRY" compile model.hnir --threads 1 --tuning $number.json --emit c >$number.c
    "$HENRY" compile model.hnir --threads 1 --tuning $number.json -o $number.hnb -q
    "$HENRY" inspect $number.hnb | grep -cF "tuning 'joined' {}: $form,"
done <forms
cmp -s 1.c 2.c || echo "two forms"
"$HENRY" compile model.hnir --threads 1 --tuning none -o plain.hnb -q
"$HENRY" inspect plain.hnb | grep -c "^tuning" || true
# A bundle with several forms of its kernels, without a compiler: the tables and the records are others.
"$HENRY" compile model.hnir --threads 1 --tuning none --forms 3 -o shipped.hnb -q
HENRY_CC=none PATH=/nonexistent "$HENRY" tune shipped.hnb --threads 1 --budget 5s -o chosen.hnb --no-cache >chosen 2>&1 || cat chosen
grep -c 'us' chosen
tail -2 chosen | sed 's/[0-9]* timed runs, [0-9.]* s/N runs/'
"$HENRY" inspect chosen.hnb | grep -c '^tuning.*, timed'
"$HENRY" bundle verify chosen.hnb
"$HENRY" bench shipped.hnb chosen.hnb --repeat 3 >/dev/null && echo "both run"
HENRY_CC=none "$HENRY" tune chosen.hnb --threads 1 --budget 5s --json | grep -c '"pick"'
# What is wrong.
"$HENRY" compile model.hnir --tuning missing.json -o x.hnb 2>&1 | cut -c1-40 || true
"$HENRY" tune model.hnir --target aarch64 2>&1 | cut -c1-95 || true
for line in "tune model.hnir --device opencl:1" "tune model.hnir --device gpu" "tune model.hnir --deterministic" "tune model.hnir --tuning none" "tune tuned.hnb" "tune shipped.hnb --hint s0=4" "tune shipped.hnb -o -" "run model.hnir --budget 1s" \
    "run model.hnir --radius 2" "tune model.hnir --radius 9" \
    "run model.hnir --tune --budget soon" "run model.hnir --tune --tuning none" "run model.hnir --tune --deterministic" "run tuned.hnb --tune"; do
    # shellcheck disable=SC2086 # words
    "$HENRY" $line 2>&1 | sed "s/; see .*//" || true
done
echo '{"record":9}' >damaged.json
"$HENRY" compile model.hnir --threads 1 --tuning damaged.json -o x.hnb -q 2>&1 | cut -c1-60
