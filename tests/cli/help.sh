# Every command explains itself; the overview names them all.
"$HENRY" --help | sed -n 's/^  \([a-z]*\) .*/\1/p'
for command in run compile inspect bench opt cache kernel doctor version; do
    "$HENRY" "$command" --help | head -1
    "$HENRY" help "$command" >/dev/null
done
