# Passes on text; names of passes that do not exist are refused with the list of those that do.
cat >in.hnir <<'END'
graph @g {
  input user %x : f32[4] "x"
  %a = neg(%x)
  %b = neg(%x)
  %c = add(%a, %b)
  %d = exp(%x)
  output user %c "y"
}
END
"$HENRY" opt -p cse -p dce in.hnir
"$HENRY" opt -p cse in.hnir | "$HENRY" opt -p dce -o out.hnir -
cat out.hnir
if "$HENRY" opt -p polish in.hnir 2>err; then echo "no error"; fi
cut -d';' -f1 err
echo 'graph @g { output user %x "y" }' >bad.hnir
if "$HENRY" opt bad.hnir 2>err; then echo "no error"; fi
cat err
# The time line has a span for each pass.
"$HENRY" opt -p cse -p dce --trace trace.json -o out.hnir in.hnir
grep -o '"name": *"\(cse\|dce\)"' trace.json | tr -d ' '
