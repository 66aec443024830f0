# A mistyped word is answered with the word that was probably meant.
try() { if "$HENRY" "$@" >out 2>err; then echo "taken"; else echo "$? $(cat err)"; fi; }
try comple
try help urn
try run m --thread 2
try run m -z
try cache cler
try bundle varify x
try kernel compil x.c
try compile m --emit sorce -o x
try compile m --dump-after fuson
echo 'graph @g {' >g.hnir
"$HENRY" compile "$DATA/model.pt2" --dump-after import >g.hnir
try opt -p decompos g.hnir
# Options that would have no effect, and values given twice.
"$HENRY" compile "$DATA/model.pt2" -o m.hnb -q
for option in --no-fusion --cache-dir=x --compile-threads=1 --no-standby --model=m; do try run m.hnb $option; done
try bench m.hnb --no-fusion
try inspect m.hnb --model m
try inspect "$DATA/model.pt2" --object 0 -o x | sed "s|'/.*/|'|"
try run "$DATA/model.pt2" --weights-file w | sed "s|'/.*/|'|"
try run m.hnb --weights w
try run m.hnb --rtol 1
try bench m.hnb --size s31=3 --input x.npy
try compile m --emit c --emit text
try compile m --emit c --stats x.json
try run m.hnb --threads 1 -t 2
try bundle verify m.hnb --key k
try cache clear --entry f
# '-' is standard output where text is written, and refused elsewhere.
"$HENRY" inspect m.hnb -o - | head -1 | cut -d" " -f1,2
"$HENRY" opt -p cse -o - g.hnir | head -1
"$HENRY" compile "$DATA/model.pt2" --emit c -o - | grep -c '^int KERNEL' >/dev/null && echo "kernels"
try compile m -o -
try compile m --emit source -o -
try inspect m.hnb --object 0 -o -
try kernel compile x.c -o -
try cache export m -o -
try bundle keygen -o -
ls -- - 2>/dev/null || echo "no file is called '-'"
# A folder, a size that fits no shape, one kernel, time.
mkdir folder
try run folder
try bench "$DATA/model.pt2" --size s31=-1 | sed "s|'/.*/|'|"
"$HENRY" compile "$DATA/../../../tests/cli/data/constants.pt2" -o x.hnb | grep -o '[0-9]* kernels* '
"$HENRY" run m.hnb -i "$DATA/input_0.npy" -n 3 | sed -n 's/[0-9.]* ms/N ms/gp'
"$HENRY" run m.hnb -i "$DATA/input_0.npy" -n 1 | sed -n 's/[0-9.]* ms/N ms/gp'
"$HENRY" run m.hnb -i "$DATA/input_0.npy" --json | grep -c -e '"generated": [1-9]' -e '"unique": [1-9]'
