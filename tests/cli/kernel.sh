# One source through the compile service: compiled once, then found; errors are the compiler's.
echo 'int f(int x) { return x + 1; }' >f.c
echo 'int f(int x) { return x + ; }' >bad.c
"$HENRY" kernel compile f.c -o f.so --entry f | sed 's/[0-9.]* bytes/N bytes/; s/[0-9.]* ms/N ms/; s/key [0-9a-f]\{64\}/key K/'
"$HENRY" kernel compile f.c -o f.so --entry f | sed 's/[0-9.]* bytes/N bytes/; s/[0-9.]* ms/N ms/; s/key [0-9a-f]\{64\}/key K/'
"$HENRY" kernel compile f.c -o f.so --entry f --flag=-O3 --json | grep '"from"'
if "$HENRY" kernel compile bad.c -o bad.so 2>err; then echo "no error"; fi
grep -o "error: expected expression before ';' token" err || cat err
if "$HENRY" kernel compile f.c -o g.so --entry g 2>err; then echo "no error"; fi
sed 's,[^ ]*/failed/[0-9a-f]*,KEPT,' err
if "$HENRY" kernel compile f.txt -o g.so 2>err; then echo "no error"; fi
cat err
ls
