# Several files and languages at once: what comes out lies beside them or in a directory, a failure fails its file only.
plain() { sed 's/[0-9.]* bytes/N bytes/; s/[0-9.]* ms/N ms/; s/key [0-9a-f]\{64\}/key K/'; }
mkdir src
echo '#define STEP 2' >src/step.h
echo 'int f(int x) { return x + 1; }' >src/f.c
printf '#include <vector>\n#include "step.h"\nextern "C" int g(int x) { std::vector<int> v(x); return (int)v.size() + STEP; }\n' >src/g.cc
echo 'extern "C" int h(int x) { return x * nothing; }' >src/h.cpp
sleep 0.2 # a header that is younger may have changed while it was read: the result would not be kept
"$HENRY" kernel compile src/f.c src/g.cc -j 2 | plain
"$HENRY" kernel compile src/f.c src/g.cc -o out/ -j 1 | plain
if "$HENRY" kernel compile src/f.c src/h.cpp -o out --compile-threads=2 2>err | plain; then :; fi
grep -o "src/h.cpp:1:[0-9]*: error: 'nothing' was not declared" err || cat err
"$HENRY" kernel compile src/f.c src/g.cc --json -o out | grep -c '"object"'
# A Python module is called as the file, or as the target says; two files must not become one.
echo 'extern "C" int twice(int x) { return 2 * x; }' >demo.cc
"$HENRY" kernel compile demo.cc --language python --entry 'i32 twice(i32)' | plain
"$HENRY" kernel compile demo.cc --language python --entry 'i32 twice(i32)' --target module=other | plain
cp demo.cc demo.cpp
if "$HENRY" kernel compile demo.cc demo.cpp 2>err | plain; then :; fi
cat err
if "$HENRY" kernel compile demo.cc --entry twice --entry thrice 2>err; then echo "no error"; fi
sed 's,[^ ]*/failed/[0-9a-f]*,KEPT,' err
if "$HENRY" kernel compile demo.cc --language cobol 2>err; then echo "no error"; fi
cat err
ls src out
