# A program in the cache needs no compiler; what is not there does, and a compiler that the user names must be there.
mkdir -m 700 from to
mkdir bin
run() { "$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" --json "$@" 2>err | grep -o '"\(graph\|level\)": "[a-z]*"' | tr '\n' ' '; echo; sed 's|/[^ ]*/||g' err; }
run --cache-dir from
"$HENRY" cache export "$DATA/model.pt2" -o file --cache-dir from >/dev/null
"$HENRY" cache import file --cache-dir to >/dev/null
for tool in grep tr sed; do ln -s "$(command -v $tool)" bin/$tool; done
PATH=$PWD/bin
unset HENRY_CC
echo "cached:"
run --cache-dir from
echo "imported:"
run --cache-dir to
"$HENRY" cache why "$DATA/model.pt2" --cache-dir to | sed -E 's/^program [0-9a-f]*/program KEY/'
echo "not cached:"
run --cache-dir to --no-fusion
echo "named:"
HENRY_CC=clang-of-mine run --cache-dir to
