# The second run comes from the cache; a damaged entry is found, put aside and made again.
run() { "$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" --json "$@" | grep -o '"graph": "[a-z]*"'; }
export HENRY_CACHE_DIR=$PWD/cache
mkdir -m 700 cache
run --no-cache
"$HENRY" cache stats | grep -c ' 0 entries'
run
run
run --no-fusion
run --threads 1
run --threads 1
run --cache-dir "$PWD/other"
"$HENRY" cache verify | sed 's|.*/cache: [0-9]*||'
for entry in $(find cache/graph -type f); do printf 'X' | dd of="$entry" bs=1 seek=300 conv=notrunc 2>/dev/null; done
if "$HENRY" cache verify >out 2>err; then echo "nothing found"; fi
sed 's|.*/cache: [0-9]*||' out
cat err
run
run
run --threads 1
"$HENRY" cache gc --max-bytes 1 --json | grep -c removed
"$HENRY" cache stats | grep -c ' 0 entries'
"$HENRY" cache clear | sed 's|.*/cache:||'
run
# Sizes as people write them.
"$HENRY" cache gc --max-size 1G | sed 's|.*/cache:||'
"$HENRY" cache gc --max-size=1KiB --json | grep -c removed
if "$HENRY" cache gc --max-size 1.5G 2>err; then echo "taken"; fi
cat err
