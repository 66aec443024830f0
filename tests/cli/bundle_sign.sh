# Who made a bundle: keys, signatures, and what a reader with a list of trusted keys refuses.
"$HENRY" bundle keygen -o mine
"$HENRY" bundle keygen -o other >/dev/null
stat -c '%a %n' mine.key mine.pub
"$HENRY" compile "$DATA/model.pt2" -o signed.hnb --sign mine.key --quiet
"$HENRY" compile "$DATA/model.pt2" -o plain.hnb --quiet
"$HENRY" compile "$DATA/model.pt2" -o beside.hnb --weights safetensors --quiet
cp plain.hnb later.hnb
"$HENRY" bundle sign later.hnb --key mine.key | sed 's/key [0-9a-f]*$/key N/'
"$HENRY" bundle sign beside.hnb --key mine.key >/dev/null
cmp signed.hnb later.hnb && echo "signed now or later: the same bytes"
run() { "$HENRY" run "$@" -i "$DATA/input_0.npy" --quiet 2>err && echo "ran" || cat err; }
run signed.hnb
for bundle in signed later beside; do run $bundle.hnb --trust mine.pub; done
run signed.hnb --trust other.pub --trust mine.pub
run plain.hnb --trust mine.pub
run signed.hnb --trust other.pub | sed 's/key [0-9a-f]*\.\.\./key N/'
"$HENRY" bundle verify beside.hnb --trust mine.pub
"$HENRY" bundle verify signed.hnb | sed 's/key [0-9a-f]*/key N/'
"$HENRY" bundle verify plain.hnb
"$HENRY" inspect signed.hnb | grep -c '^signed with key'
# A changed byte: in the tables, in the signature, in the code, in the weights.
size=$(wc -c <signed.hnb)
code=$(od -An -tu8 -j 32 -N 8 signed.hnb | tr -d ' ')
for at in 300 150 $((code + 100)) $((size - 1)); do
    cp signed.hnb bad.hnb
    byte=$(od -An -tu1 -j "$at" -N 1 signed.hnb | tr -d ' ')
    printf "\\$(printf %o $(((byte + 1) % 256)))" | dd of=bad.hnb bs=1 seek="$at" conv=notrunc 2>/dev/null
    run bad.hnb --trust mine.pub | sed 's/key [0-9a-f]*\.\.\./key N/; s/object [0-9]*/object N/'
done
printf x | dd of=beside.safetensors bs=1 seek=4000 conv=notrunc 2>/dev/null
run beside.hnb --trust mine.pub
chmod 644 mine.key
if "$HENRY" bundle sign plain.hnb --key mine.key 2>err; then echo "no error"; fi
cat err
if "$HENRY" bundle keygen -o mine 2>err; then echo "no error"; fi
cat err
run "$DATA/model.pt2" --trust mine.pub | sed "s|'.*/|'|"
if "$HENRY" bundle sign plain.hnb 2>err; then echo "no error"; else echo "status $?"; fi
