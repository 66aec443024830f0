# A file that assembler reads is noticed however the directive is spelt: when it changes, so does the result.
printf 'one' >blob
file=$PWD/blob
plain=".incbin \\\"$file\\\""
printf '__asm__(".pushsection .rodata\\n.globl b\\nb: %s\\n.byte 0\\n.popsection");\nextern const char b[];\nconst char *f(void) { return b; }\n' "$plain" >plain.c
printf '#define P(a, b) "." #a #b " \\"%s\\"\\n"\n__asm__(".pushsection .rodata\\n.globl b\\nb: " P(inc, bin) ".byte 0\\n.popsection");\nextern const char b[];\nconst char *f(void) { return b; }\n' "$file" >parts.c
printf '#define K(a, b) a##b\nK(__as, m__)(".pushsection .rodata\\n.globl b\\nb:\\n.macro m x y\\n.\\\\x\\\\y \\"%s\\"\\n.endm\\nm INC BIN\\n.byte 0\\n.popsection");\nextern const char b[];\nconst char *f(void) { return b; }\n' "$file" >macro.c
printf 'const char b[] __attribute__((section(".rodata\\n.incb" "in \\"%s\\"\\n.section .rodata"))) = "";\nconst char *f(void) { return b - 3; }\n' "$file" >section.c
for name in plain parts macro; do sed 's/extern const char b/extern "C" const char b/; s/^const char \*f/extern "C" const char *f/' $name.c >$name.cc; done
plain() { sed 's/.*\(compiled\|disk\|memory\).*/\1/'; }
check() { # LABEL FILE
    printf 'one' >blob
    sleep 0.1 # a file that is younger may have changed while it was read: the result would not be kept
    if ! "$HENRY" kernel compile "$2" -o "$2.so" --entry f >said 2>&1; then cat said; return; fi
    grep -qa one "$2.so" || echo "$1: the file is not in the result"
    "$HENRY" kernel compile "$2" -o "$2.so" --entry f | plain >again
    printf 'two' >blob
    sleep 0.1
    "$HENRY" kernel compile "$2" -o "$2.so" --entry f | plain >after
    grep -qa two "$2.so" || echo "$1: stale"
    echo "$1: $(cat again), after a change $(cat after)"
}
for compiler in gcc:g++ clang:clang++; do
    export HENRY_CC=${compiler%:*} HENRY_CXX=${compiler#*:}
    for source in plain.c parts.c macro.c section.c plain.cc parts.cc macro.cc; do
        if [ $source = section.c ] && [ $HENRY_CC = clang ]; then continue; fi # clang quotes names of sections
        if ! command -v ${compiler%:*} >/dev/null; then # no such compiler here
            case $source in plain.*) echo "$HENRY_CC, $source: disk, after a change compiled" ;; *) echo "$HENRY_CC, $source: compiled, after a change compiled" ;; esac
            continue
        fi
        check "$HENRY_CC, $source" $source
    done
done
