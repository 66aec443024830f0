# What cannot be written leaves the old file whole, and no temporary files.
echo old >out.hnb
mkdir dir
if "$HENRY" compile "$DATA/model.pt2" -o dir 2>err; then echo "no error"; fi
if "$HENRY" compile "$DATA/model.pt2" -o absent/out.hnb 2>err; then echo "no error"; fi
wc -l <err
if "$HENRY" compile half.pt2 -o out.hnb 2>err; then echo "no error"; fi
cat out.hnb
"$HENRY" compile "$DATA/model.pt2" -o out.hnb --quiet --stats stats.json --trace trace.json
head -c 4 out.hnb | tail -c 3
echo
grep -c '"cache"' stats.json
grep -c '"ph"' trace.json | sed 's/[0-9]\{1,\}/spans/'
ls -A
# A full disk is an error, not silence.
for command in version "inspect $DATA/model.pt2" "cache stats" doctor; do
    # shellcheck disable=SC2086 # words
    if "$HENRY" $command >/dev/full 2>err; then echo "$command: no error"; fi
    cat err
done
