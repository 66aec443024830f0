# What depends on weights alone: a program of its own in the bundle, which runs when that is opened.
data=$(dirname "$DATA")/../../tests/cli/data
in="$data/low_rank_in0.npy" want="$data/low_rank_out0.npy"
run() { "$HENRY" run "$@" -i "$in" -e "$want" --quiet && echo "the same"; }
value() { tr -d ' \n' <"$1" | sed -n "s/.*\"$2\":\([0-9]*\).*/\1/p"; }
for size in "" "--computed-weights 0" "--computed-weights 1K" "--computed-weights 64K"; do
    "$HENRY" compile "$data/low_rank.pt2" -o m.hnb --json $size >m.json
    echo "${size:-default}: version $("$HENRY" inspect m.hnb | sed -n 's/bundle version \([0-9]*\).*/\1/p'), values $(value m.json weights_computed_once), bytes $(value m.json weights_computed_bytes)"
    run m.hnb
done
"$HENRY" compile "$data/low_rank.pt2" -o m.hnb --quiet
"$HENRY" inspect m.hnb | grep -A2 '^program of weights'
"$HENRY" inspect m.hnb | grep -c '^storage .* computed, output 0 of the program of weights, 25600 bytes'
"$HENRY" inspect m.hnb --json | tr -d ' \n' | grep -o '"weights_program":{"sources":\[[0-9,]*\]'
"$HENRY" inspect m.hnb --verify >/dev/null && echo verified
# A program from the graph cache, weights in a file beside it, and code for several CPUs.
"$HENRY" compile "$data/low_rank.pt2" -o again.hnb --quiet && cmp m.hnb again.hnb && run again.hnb
for where in inside pt2 safetensors; do "$HENRY" compile "$data/low_rank.pt2" -o $where.hnb --weights $where --quiet && run $where.hnb; done
"$HENRY" compile "$data/low_rank.pt2" -o levels.hnb --target x86-64-v3,generic --quiet && run levels.hnb && run levels.hnb --target generic
# Any CPU's and GPU's: a C project has the results.
"$HENRY" compile "$data/low_rank.pt2" --emit source -q -o project
(cd project && make -s >make.log 2>&1 && ./example -i "$in" -e "$want" >/dev/null && echo "the project is right")
[ "$(stat -c %s project/weights.bin)" -lt 26000 ] && echo "the project has no other weights"
# As it is after the pass.
"$HENRY" compile "$data/low_rank.pt2" --dump-after weights --no-cache | grep -c 'weights graph'
"$HENRY" compile "$data/low_rank.pt2" -o x.hnb --computed-weights lots 2>err || cat err
