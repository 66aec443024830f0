# A line of progress is for terminals that can draw it again.
command -v script >/dev/null || { echo "no script(1)" >&2; exit 77; }
script -qec true /dev/null >/dev/null 2>&1 || { echo "no terminal can be made: is /dev/pts mounted?" >&2; exit 78; }
echo 'int f(int x) { return x + 1; }' >f.c
cat >slow <<'END'
#!/bin/sh
case "$*" in *--version* | *-print* | *-v* | *-###*) ;; *) sleep 1 ;; esac
exec gcc "$@"
END
chmod +x slow
for kind in xterm dumb; do
    TERM=$kind HENRY_CC=$PWD/slow script -qec "'$HENRY' kernel compile f.c -o $kind.so --no-cache" $kind >/dev/null
    if grep -q 'hits' $kind; then echo "$kind: a line"; else echo "$kind: none"; fi
done
