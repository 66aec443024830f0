# Metric tables: which, where, in what form; several processes at once; rows of a bench.
model=$DATA/model.pt2
tables() { ls | sed -n 's/^metric_table_//p' | tr '\n' ' '; echo; }
echo "# names"
for names in kernel_metdata graph_stats.xml; do "$HENRY" compile "$model" -o a.hnb --metric-tables $names 2>err && echo "no error"; echo "exit $?"; sed 's/there are: .*/there are: .../' err; done
HENRY_METRIC_TABLES=lunch "$HENRY" compile "$model" -o a.hnb 2>err || sed 's/.*HENRY_METRIC_TABLES/HENRY_METRIC_TABLES/; s/there are: .*/there are: .../' err
"$HENRY" help tables | grep -c '^[a-z]'
tables
echo "# files"
"$HENRY" compile "$model" -o a.hnb --quiet --metric-tables graph_stats,kernel_metadata.jsonl
tables
"$HENRY" compile "$model" -o a.hnb --quiet
HENRY_METRIC_TABLES=graph_stats "$HENRY" run "$model" -i "$DATA/input_0.npy" --quiet --metric-dir there/too
ls there/too
echo "# a program that the graph cache has gives rows all the same, and the same ones"
"$HENRY" compile "$model" -o a.hnb --quiet --metric-tables graph_stats
[ "$(sed -n 2p metric_table_graph_stats.csv | cut -d, -f4-)" = "$(sed -n 3p metric_table_graph_stats.csv | cut -d, -f4-)" ] && echo "the same"
"$HENRY" compile "$model" -o a.hnb --json --metric-tables "" | grep '"graph"'
echo "# said once"
"$HENRY" compile "$model" -o a.hnb --metric-tables all --metric-dir all 2>err >out
cat err
HENRY_METRIC_TABLES=all HENRY_METRIC_DIR=named "$HENRY" compile "$model" -o a.hnb 2>&1 >out
HENRY_METRIC_TABLES=all "$HENRY" version 2>&1 >out
HENRY_METRIC_TABLES=all "$HENRY" compile "$model" -o a.hnb --quiet --metric-dir named 2>&1 >out
echo "# several processes at once: one header, whole rows"
for k in 1 2 3 4 5 6; do "$HENRY" compile "$model" -o $k.hnb --quiet --metric-tables pass_stats,kernel_metadata --metric-dir many & done
wait
rows=$(grep -c . many/metric_table_kernel_metadata.csv)
one=$(grep -c . all/metric_table_kernel_metadata.csv)
[ $((rows - 1)) = $((6 * (one - 1))) ] && echo "all rows"
grep -c '^model,' many/metric_table_kernel_metadata.csv
awk -F, 'NR > 1 { print $2 }' many/metric_table_pass_stats.csv | sort -u | wc -l
echo "# no rows: a bundle is compiled already"
"$HENRY" bench a.hnb -n 1 --metric-tables graph_stats --metric-dir none 2>&1 >out | sed 's/;.*//'
[ -e none ] && ls none
echo "# other columns"
echo "a,b" >metric_table_graph_stats.csv
"$HENRY" compile "$model" -o a.hnb --metric-tables graph_stats 2>err >out || sed "s/.*metric table/metric table/" err
printf 'my notes' >metric_table_graph_stats.csv
"$HENRY" compile "$model" -o a.hnb --metric-tables graph_stats 2>err >out || sed "s/.*metric table/metric table/" err
cat metric_table_graph_stats.csv; echo
echo "# a bench"
"$HENRY" bench "$model" -n 3 --metric-tables node_runtimes,slow_fusion --metric-dir bench --json >out 2>err
grep -q '"steps"' out || echo "steps are not in the object: nobody asked for --profile"
awk -F, 'NR == 1 { for (k = 1; k <= NF; k++) if ($k == "calls") c = k } NR > 1 { print $c }' bench/metric_table_node_runtimes.csv | sort -u
[ "$(grep -c . bench/metric_table_node_runtimes.csv)" = $((1 + $("$HENRY" inspect a.hnb --json | tr -d ' \n' | sed 's/.*"steps":\([0-9]*\).*/\1/'))) ] && echo "a row for each step"
echo "# a bench of the models that it compiles: rows of one step begin alike in all tables"
cat >small.hnir <<'END'
graph @small {
  input user %x : f32[64, 100] "x"
  %y = aten._softmax.default(%x, -1, false) : f32[64, 100]
  output user %y "y"
}
END
"$HENRY" bench "$model" small.hnir -n 1 --metric-tables node_runtimes,kernel_metadata --metric-dir joined >out 2>&1
keys() { tail -n +2 joined/metric_table_$1.csv | cut -d, -f1-5 | sort; }
keys node_runtimes >steps && keys kernel_metadata | sed 's/,,/,/' >kernels
wc -l <steps
sed 's/,[^,]*$//' steps | sort -u | wc -l
join -t '|' steps kernels | wc -l
