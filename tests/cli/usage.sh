# Wrong usage: one line on standard error, nothing on standard output, exit status 2.
try() {
    if "$HENRY" "$@" >out 2>err; then code=0; else code=$?; fi
    [ ! -s out ] || echo "output: $(cat out)"
    [ "$(wc -l <err)" = 1 ] || echo "not one line: $(cat err)"
    echo "$code $(cat err)"
}
try fly
try run
try run a b
try run --fly a
try run a --input
try run a --threads many
try run a --rtol -1
try run a --json=yes
try compile "$DATA/model.pt2"
try compile a -o b --emit smoke
try compile a --emit c --explain-fusion
try cache
try cache shine
try cache why
try cache stats extra
try cache export
try cache export a
try cache import
try cache import a b
try kernel run a
try kernel compile a.c b.c -o nowhere
try opt
try inspect "$DATA/model.pt2" --object 1 -o x | sed "s|'/.*/|'|"
if "$HENRY" >out 2>err; then code=0; else code=$?; fi
echo "$code $(wc -c <out) $(head -1 err)"
