# Every command explains itself; the overview names them all.
names=$("$HENRY" --help | sed -n 's/^  \([a-z]*\) .*/\1/p')
echo "$names"
for command in $names; do
    "$HENRY" "$command" --help | head -1
    "$HENRY" help "$command" >/dev/null
done
