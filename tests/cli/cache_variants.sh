# A decision that the compiler takes by the sizes is guarded; sizes that break it get a program of their own, kept beside the
# first. pool.pt2 pools rows of n elements to 4 windows: all of one length when 4 divides n, as in the model's example (8).
export HENRY_CACHE_CHECK=1
data=$DATA/../../../tests/cli/data
mkdir -m 700 cache other
run() { "$HENRY" run "$data/pool.pt2" -i "$data/pool_in$1.npy" -e "$data/pool_out$1.npy" --json --cache-dir "$2" >json || echo "failed"; echo "$1: $(grep -o '"graph": "[a-z]*"\|"same": [a-z]*' json | tr '\n' ' ')"; }
run 8 cache
run 12 cache
run 9 cache
run 9 cache
run 8 cache
run 12 cache
"$HENRY" cache stats --cache-dir cache | awk '$1 == "graph" { print $2, $3 }'
"$HENRY" cache why "$data/pool.pt2" --cache-dir cache | sed 's/^program [0-9a-f]*/program KEY/'
echo "the other way round:"
run 9 other
run 9 other
run 8 other
run 9 other
echo "sizes that the model forbids:"
for k in 1 2; do "$HENRY" run "$data/pool.pt2" -i "$data/number_in0.npy" --cache-dir cache 2>&1 | tail -1; done
"$HENRY" cache stats --cache-dir cache | awk '$1 == "graph" { print $2, $3 }'
echo "compiled for no sizes, exported with all:"
"$HENRY" compile "$data/pool.pt2" -o pool.hnb --cache-dir other | grep -o '[0-9]* compiled'
"$HENRY" run pool.hnb -i "$data/pool_in8.npy" -e "$data/pool_out8.npy" --quiet
"$HENRY" run pool.hnb -i "$data/pool_in9.npy" --quiet 2>err || sed 's/.*break the constraint/break the constraint/' err
"$HENRY" cache export "$data/pool.pt2" -o file --cache-dir cache | grep -o '[0-9]* graph, .*'
mkdir -m 700 third
run 9 third
"$HENRY" cache import file --cache-dir third | grep -o '[0-9]* graph, .*'
run 8 third
run 9 third
echo "at once:"
mkdir -m 700 fourth
for n in 8 9 8 9; do "$HENRY" run "$data/pool.pt2" -i "$data/pool_in$n.npy" --cache-dir fourth --quiet & done
wait
run 9 fourth
run 8 fourth
