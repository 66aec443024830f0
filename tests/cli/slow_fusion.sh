# A fusion that does not pay is a row of slow_fusion: a compiler that does not optimise the first unit makes one. All columns
# of the tables that a bench gives rows to have a value.
cat >cc <<END
#!/bin/sh
case \$1 in --version) exec gcc --version ;; esac
if mkdir "$PWD/first" 2>/dev/null; then exec gcc "\$@" -O0; fi
exec gcc "\$@"
END
chmod 700 cc
export HENRY_CC=$PWD/cc
cat >model.hnir <<'END'
graph @soft {
  input user %x : f32[512, 512] "x"
  %y = aten._softmax.default(%x, -1, false) : f32[512, 512] at "soft" "m.py:1"
  output user %y "y"
}
END
"$HENRY" bench model.hnir -n 20 --threads 1 --metric-tables node_runtimes,slow_fusion --metric-dir . >/dev/null 2>err
for table in node_runtimes slow_fusion; do
    echo "# $table: $(($(grep -c . metric_table_$table.csv) - 1)) rows; columns without a value:"
    awk -F, 'NR == 1 { n = split($0, names, ",") } NR > 1 { for (k = 1; k <= n; k++) if ($k != "") has[k] = 1 }
        END { for (k = 1; k <= n; k++) if (!has[k]) print names[k] }' metric_table_$table.csv
done
column() { awk -F, -v name="$1" 'NR == 1 { for (k = 1; k <= NF; k++) if ($k == name) c = k } NR == 2 { print $c }' metric_table_slow_fusion.csv; }
column origins
[ "$(column kernels | wc -w)" = 4 ] && [ "$(column kernels | cut -d' ' -f1)" = "$(column kernel1_name)" ] &&
    [ "$(column kernels | cut -d' ' -f2)" = "$(column kernel2_name)" ] && echo "four kernels, the first two apart"
awk -v f="$(column fused_kernel_latency)" -v k="$(column kernels_latency)" -v a="$(column kernel1_latency)" -v b="$(column kernel2_latency)" \
    -v r="$(column slow_down_ratio)" 'BEGIN { if (f > k && a + b < k && r > 1 && (f / k - r) ^ 2 < 1e-9) print "latencies that fit" }'
