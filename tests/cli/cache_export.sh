# A program in one file: from one cache to another. A damaged file is one line and changes nothing.
mkdir -m 700 from to
run() { "$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" --json "$@" | grep -o '"\(graph\|level\)": "[a-z]*"' | tr '\n' ' '; echo; }
fails() { if "$HENRY" "$@" >out 2>err; then echo "no error"; else echo "status $?: $(sed 's/[0-9a-f]\{64\}/KEY/' err)"; fi; }
fails cache export "$DATA/model.pt2" -o file --cache-dir from 2>&1 | sed 's|/[^ ]*/||g'
run --cache-dir from
"$HENRY" cache export "$DATA/model.pt2" -o file --cache-dir from | sed 's/: [0-9]* bytes/: N bytes/'
"$HENRY" cache import file --cache-dir to | sed 's/: [0-9]* bytes/: N bytes/'
"$HENRY" cache import file --cache-dir to --json | grep -v bytes
run --cache-dir to
"$HENRY" cache verify --cache-dir to | sed 's|.*/to: [0-9]*||'
# By keys: the kernel alone, the graph with its kernel.
kernel=$(cd from/kernel && find . -type f | tr -d './') graph=$(cd from/graph && find . -type f | tr -d './')
"$HENRY" cache export "${kernel:0:12}" -o one --cache-dir from | sed 's/: [0-9]* bytes/: N bytes/'
"$HENRY" cache export "$graph" "$kernel" -o two --cache-dir from | sed 's/: [0-9]* bytes/: N bytes/'
fails cache export 00000000 -o x --cache-dir from
fails cache export nowhere.pt2 -o x --cache-dir from
# Another option is another program.
fails cache export "$DATA/model.pt2" --no-fusion -o x --cache-dir from | sed 's|/[^ ]*/||g'
mkdir -m 700 clean
printf 'X' | dd of=file bs=1 seek=2000 conv=notrunc 2>/dev/null
fails cache import file --cache-dir clean
head -c 500 two >cut
fails cache import cut --cache-dir clean
fails cache import "$DATA/model.pt2" --cache-dir clean | sed 's|/[^ ]*/||g'
find clean -type f ! -name CACHEDIR.TAG | wc -l
