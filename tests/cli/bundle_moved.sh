# A bundle goes to another folder, to another user, onto a disk that cannot be written; other versions are refused.
"$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" -d out --quiet
"$HENRY" compile "$DATA/model.pt2" -o a.hnb --quiet
mkdir -p other/place && mv a.hnb other/place/b.bin
chmod 444 other/place/b.bin && chmod 555 other/place
unset HENRY_CACHE_DIR
run() { "$@" "$HENRY" run "$PWD/other/place/b.bin" -i "$PWD/input.npy" -e "$PWD/expect.npy" --rtol 0 --atol 0 --quiet; }
cp "$DATA/input_0.npy" input.npy && cp out/output_0.npy expect.npy && chmod 644 input.npy expect.npy
(cd / && HOME=/nonexistent PATH=/nonexistent "$HENRY" run "$OLDPWD/other/place/b.bin" -i "$OLDPWD/input.npy" -e "$OLDPWD/expect.npy" --rtol 0 --atol 0 --quiet) && echo "elsewhere"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null && setpriv --reuid 65534 --regid 65534 --clear-groups test -x "$HENRY" -a -r "$PWD/input.npy"; then
    run setpriv --reuid 65534 --regid 65534 --clear-groups
else
    run env
fi && echo "another user"
chmod 755 other/place
patched() { # BYTE OFFSET
    cp -f other/place/b.bin p.hnb && chmod 644 p.hnb
    printf "\\$(printf %o "$1")" | dd of=p.hnb bs=1 seek="$2" conv=notrunc 2>/dev/null
    if "$HENRY" run p.hnb -i "$DATA/input_0.npy" 2>err; then echo "no error"; fi
    sed "s/kernel ABI [0-8] /kernel ABI N /; s/extern ABI [0-8],/extern ABI N,/; s/library [0-9]* and [0-9]*/library N and N/" err
}
patched 2 8
patched 9 64
patched 9 68
patched 0 3
head -c 150 other/place/b.bin >p.hnb
if "$HENRY" run p.hnb -i "$DATA/input_0.npy" 2>err; then echo "no error"; fi
cat err
