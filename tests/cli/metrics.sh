# Counters of a compilation: a program from the graph cache counts what its compilation had counted.
counters() { sed -n '/"nodes_imported"/,/}/p' "$1"; }
value() { sed -n "s/^ *\"$2\": \([0-9]*\).*/\1/p" "$1"; }
for run in cold warm; do "$HENRY" compile "$DATA/model.pt2" -o $run.hnb --json >$run.json; done
if [ -n "$(counters cold.json)" ] && [ "$(counters cold.json)" = "$(counters warm.json)" ]; then echo "the same counters"; else diff cold.json warm.json; fi
for name in compilations graph_cache_hits graph_cache_misses kernels_compiled kernels_cached jobs nodes_imported kernels_generated kernels_extern bytes_read bytes_written; do
    echo "$name $(value cold.json $name) $(value warm.json $name)"
done
# Times, and what was not cached: 0 or not.
"$HENRY" compile "$DATA/model.pt2" -o off.hnb --no-cache --json >off.json
for name in compile_ns time_saved_ns cache_bypasses; do
    echo "$name $(for run in cold warm off; do [ "$(value $run.json $name)" = 0 ] && echo 0 || echo some; done | tr '\n' ' ')"
done
# What each step moves and is made of lies in the program.
records() { "$HENRY" inspect "$1" --json | tr -d ' \n' | grep -o '"records":\[[^]]*\].*"objects"'; }
[ "$(records cold.hnb)" = "$(records warm.hnb)" ] && records cold.hnb | grep -o '"category":"[a-z]*"' | sort | uniq -c | tr -s ' '
records warm.hnb | grep -c '"form":"[a-z, ]*".*"loads":[1-9]'
