# What the machine does at most is measured once, and kept.
"$HENRY" bench --roofline --threads 1 --json >first.json
"$HENRY" bench --roofline --threads 1 --json >second.json
cmp first.json second.json && echo "the same again"
grep -c '"read_gb_s": [0-9.e+]*,$' first.json | sed 's/^[2-4]$/levels/'
grep -q '"bytes": null' first.json && echo "memory"
grep -o '"additions"\|"products_[a-z0-9_]*"' first.json
"$HENRY" bench --roofline --threads 1 | grep -c ' L1$\| memory$\|GB/s$'
"$HENRY" bench --roofline --threads 1 --stats stats.json | grep -c 'GB/s$'
cmp stats.json first.json && echo "the same in a file"
"$HENRY" cache stats --json | grep -A1 '"tuning"' | tr -d ' \n'; echo
# The threads of a run, whoever says so, are those of its ceilings.
HENRY_THREADS=1 "$HENRY" bench --roofline --json | cmp - first.json && echo "one thread"
# What has no effect is refused, and so is nothing to do.
for options in "" "--measure" "--limit 3" "--roofline --repeat 3" "--roofline --profile"; do
    if "$HENRY" bench $options 2>&1; then echo "taken"; fi
done
if "$HENRY" bench --roofline --device opencl:4000 2>err; then echo "taken"; fi
wc -l <err
# Each step of a model beside its limit; of a bundle as well, and of a loop with its rounds.
"$HENRY" bench --roofline "$DATA/model.pt2" --threads 1 --repeat 3 --size s31=2 --json >model.json
"$HENRY" compile "$DATA/model.pt2" -o digits.hnb --threads 1 -q
"$HENRY" bench --roofline digits.hnb --threads 1 --repeat 3 --size s31=2 --json >bundle.json
steps() { grep -E '"(step|name|node|category|calls|is_known|read_bytes|written_bytes|operations|is_bound)":' "$1" | tail -n +3; }
steps model.json >model.steps
steps bundle.json | cmp - model.steps && [ -s model.steps ] && echo "the same work"
grep -c '"is_known": false' model.json || true
grep -cE '"(lost_us|limit_us|of_limit|move_us|compute_us)": [0-9]' model.json | awk '{ print ($1 > 10) ? "limits" : "none" }'
cat >sums.awk <<'EOF2'
# What all steps take and lose is what they take and lose one by one; numbers have six digits. A step that is faster than its
# limit counts with its own time; so the limits and what is lost are together what the steps take.
/"steps"/ { steps = 1 }
/"(us|limit_us|lost_us)":/ { name = $1; value = $2; sub(",", "", value); value += 0; if (name == "\"us\":") own = value
    if (steps && name == "\"limit_us\":" && value > own) value = own
    if (steps) sum[name] += value; else all[name] = value }
END { for (n in all) if ((sum[n] - all[n]) ^ 2 > (1e-3 * all[n] + 1e-3) ^ 2) print n, sum[n], all[n]; print "sums"
    d = all["\"us\":"] - all["\"limit_us\":"] - all["\"lost_us\":"]; if (d ^ 2 < 1e-4) print "no contradiction" }
EOF2
awk -f sums.awk model.json
"$HENRY" bench --roofline digits.hnb --threads 1 --repeat 3 --size s31=2 --limit 2 >text
grep -c 'more steps; --limit N shows more$' text
grep -c '^steps .* us; at the limits of this machine .* us' text
grep -c 'of limit  limit     lost us' text
data=$DATA/../../../tests/cli/data
"$HENRY" bench --roofline "$data/loops.pt2" -i "$data/loops_in0.npy" -i "$data/loops_in1.npy" --threads 1 --repeat 2 --json | grep -q '"calls": [2-9]' && echo "rounds"
"$HENRY" cache stats --json | grep -A1 '"tuning"' | tr -d ' \n'; echo
