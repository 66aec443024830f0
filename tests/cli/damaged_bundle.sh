# A byte changed anywhere in the program part of a bundle is found; nothing is run.
"$HENRY" compile "$DATA/model.pt2" -o good.hnb --weights-beside --quiet
size=$(wc -c <good.hnb)
for at in 0 9 40 100 $((size / 3)) $((size / 2)) $((size - 1)); do
    cp good.hnb bad.hnb
    byte=$(od -An -tu1 -j "$at" -N 1 good.hnb | tr -d ' ')
    printf "\\$(printf %o $(((byte + 1) % 256)))" | dd of=bad.hnb bs=1 seek="$at" conv=notrunc 2>/dev/null
    if "$HENRY" run bad.hnb -i "$DATA/input_0.npy" >out 2>err; then echo "byte $at: accepted"; fi
    [ ! -s out ] && [ "$(wc -l <err)" = 1 ] || echo "byte $at: $(cat out err)"
done
head -c $((size - 100)) good.hnb >short.hnb
if "$HENRY" run short.hnb -i "$DATA/input_0.npy" 2>err; then echo "accepted a short file"; fi
echo done
