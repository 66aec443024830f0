# Checksums: always on a compilation, on request everywhere.
exec 2>&1
cp "$DATA/model.pt2" m.pt2
chmod u+w m.pt2
"$HENRY" inspect --verify m.pt2 | tail -1
"$HENRY" run --verify m.pt2 -i "$DATA/input_0.npy" -q && echo "run"
"$HENRY" compile --verify m.pt2 -o m.hnb -q && "$HENRY" run --verify m.hnb -i "$DATA/input_0.npy" -q && echo "bundle"
for where in inside pt2 safetensors; do
    "$HENRY" compile m.pt2 -o $where.hnb --weights $where -q
    "$HENRY" run --verify $where.hnb -i "$DATA/input_0.npy" -q && "$HENRY" bundle verify $where.hnb
done
# A byte of a weight changes, and size and time of the file do not. The program is in the cache, and the system's own time of
# the last change tells that the file has to be verified again.
flip() { # FILE OFFSET
    touch -r "$1" time
    printf '\252' | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
    touch -r time "$1"
}
at=$(grep -abo weight_4 m.pt2 | head -1 | cut -d: -f1)
flip m.pt2 $((at + 9001))
"$HENRY" run m.pt2 -i "$DATA/input_0.npy" --json || true
for verb in "run -i $DATA/input_0.npy -q" "compile -o x.hnb" "inspect" "bench -i $DATA/input_0.npy"; do "$HENRY" $verb m.pt2 --verify || true; done
"$HENRY" run m.pt2 -i "$DATA/input_0.npy" --no-cache || true
[ ! -e x.hnb ] && echo "no bundle"
# The weights of a bundle lie at its end.
flip m.hnb $(($(wc -c <m.hnb) - 30000))
for verb in "run -i $DATA/input_0.npy" inspect; do "$HENRY" $verb m.hnb --verify || true; done
# A file of weights needs checksums only where there are some.
"${HENRY%/*}/edit_pt2" "$DATA/model.pt2" bare.pt2 no_checksums
"$HENRY" compile bare.pt2 -o bare.hnb --weights safetensors -q
"$HENRY" run bare.hnb -i "$DATA/input_0.npy" -e "$DATA/../../../tests/cli/data/digits_out.npy" -q && ls bare.*
