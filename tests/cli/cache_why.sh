# Which field of the key differs.
echo 'int f(int x) { return x + 1; }' >f.c
if "$HENRY" cache why f.c --cache-dir "$PWD/empty" 2>err; then echo "no error"; fi
cat err
"$HENRY" kernel compile f.c -o f.so --entry f >/dev/null
"$HENRY" cache why f.c --entry f
"$HENRY" cache why f.c --entry f --flag=-O3
