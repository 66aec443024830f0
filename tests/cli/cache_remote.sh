# Two caches on disk that share a Redis: the second machine compiles nothing. Without the server everything goes on.
command -v redis-server >/dev/null || { echo "redis-server is not installed" >&2; exit 77; }
redis-server --port 0 --unixsocket "$PWD/socket" --save '' --appendonly no --dir "$PWD" >/dev/null &
server=$!
trap 'kill -9 $server 2>/dev/null || true' EXIT
for _ in $(seq 100); do [ -S socket ] && break; sleep 0.05; done
export HENRY_REDIS_URL="unix://$PWD/socket"
mkdir -m 700 a b c d e
"$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" --no-cache --output-dir want >/dev/null
run() { "$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" -e want/output_0.npy --json "$@" >json || echo "wrong result"; grep -o '"\(graph\|level\)": "[a-z]*"\|"\(compiled\|hits\|puts\|failures\)": [0-9][0-9]*' json | tr '\n' ' '; echo; }
run --cache-dir a
run --cache-dir b
run --cache-dir b
# Another path is the same program; other options are another one, with the same kernels.
cp "$DATA/model.pt2" copy.pt2
run --cache-dir c
"$HENRY" run copy.pt2 -i "$DATA/input_0.npy" --json --cache-dir c | grep -o '"graph": "[a-z]*"'
"$HENRY" run copy.pt2 -i "$DATA/input_0.npy" --json --threads 3 --cache-dir c | grep -o '"\(graph\|level\)": "[a-z]*"\|"\(compiled\|remote\)": [0-9][0-9]*' | tr '\n' ' '
echo
"$HENRY" cache stats --cache-dir c | grep -o 'answers within'
"$HENRY" cache stats --cache-dir c --json | grep -o '"usable": [a-z]*'
echo "counters:"
remote() { run "$@" >/dev/null; grep -o '"\(graph_cache_remote_hits\|kernels_remote\)": [0-9]*' json | tr '\n' ' '; echo; }
remote --cache-dir a
remote --cache-dir e
remote --cache-dir e --threads 4
echo "off:"
run --cache-dir d --remote ''
run --no-cache
rm -r d && mkdir -m 700 d
disown $server
kill -9 $server
echo "dead:"
run --cache-dir d 2>err
grep -c 'going on without remote cache' err
run --cache-dir d 2>err
wc -l <err
"$HENRY" cache stats --cache-dir d | grep -o 'cannot be used'
echo "nonsense:"
run --cache-dir d --remote http://x 2>err
sed 's/.*warning: //' err
