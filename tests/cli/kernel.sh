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
# The user's file is named, the diagnosis is one line and the command that repeats it another.
mkdir dir
cp bad.c "dir/my bad.c"
if "$HENRY" kernel compile "dir/my bad.c" -o bad.so 2>err; then echo "no error"; fi
wc -l <err
sed "s/'[^ ]*' ended/'CC' ended/; s/again: .*/again: COMMAND/; s/before ';'.*/before ';'/" err
# Optimised by default, and how is told.
"$HENRY" kernel compile f.c -o f.so --flag=-O1 | sed 's/.*bytes, \(-O[0-9]*\),.*/\1/'
"$HENRY" kernel compile f.c -o f.so --json | tr -d ' \n' | grep -o '"flags":[^]]*.'
"$HENRY" kernel compile f.c -o f.so --flag=-O2 | sed 's/.*bytes, \(-O[0-9]*, [a-z]*\),.*/\1/'
# Names of targets are those of models.
for target in x86-64-v3 cpu:x86-64-v3 avx512 generic host native; do
    "$HENRY" kernel compile f.c -o f.so --target $target | grep -c 'f.so: '
done
if "$HENRY" kernel compile f.c -o f.so --target x86-64-v9 2>err; then echo "no error"; fi
grep -o "cannot compile for target item 'x86-64-v9'" err || cat err
if "$HENRY" kernel compile f.txt -o g.so 2>err; then echo "no error"; fi
cat err
ls
