# Every counter of a warm run reads as after the cold one. What may differ: times, memory of the process, and the fields that
# say where the program came from.
data=$DATA/../../../tests/cli/data
fields() { grep -o '"[a-z_]*": [^{[]*' "$1" | grep -v '"\(import\|opt\|lower\|sched\|codegen\|count\|compile\|bundle\|load\|first_run\|run\|total\|device_open\|kernels_load\|libraries_load\|resolve\|libraries_start\|operations_choose\|operations_first\|weights_upload\)": \|peak_memory\|"time_saved_ms"\|"graph"\|"level"\|"compiled"\|"cached"\|"graph_cache_[a-z_]*"\|"kernels_\(compiled\|cached\|remote\)"\|"jobs"\|"compile_ns"\|"time_saved_ns"' | tr -d ,; }
for model in "$DATA/model.pt2 $DATA/input_0.npy" "$data/pool.pt2 $data/pool_in9.npy" "$data/tune_bn_a.pt2 $data/tune_bn_in.npy"; do
    set -- $model
    "$HENRY" run "$1" -i "$2" --json >cold
    "$HENRY" run "$1" -i "$2" --json --stats warm.json >warm
    grep -o '"graph": "[a-z]*"' cold warm
    fields cold >cold.fields
    fields warm >warm.fields
    [ "$(wc -l <cold.fields)" -gt 15 ] || echo "too few fields"
    diff cold.fields warm.fields && cmp warm warm.json && echo same
done
grep -c . warm.fields
