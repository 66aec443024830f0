# The program in forms for people.
"$HENRY" compile "$DATA/model.pt2" --emit c | grep -c '^' | sed 's/[0-9]\{2,\}/many lines/'
"$HENRY" compile "$DATA/model.pt2" --emit text -o text && [ -s text ] && echo text
"$HENRY" compile "$DATA/model.pt2" -o bundle.hnb -q
"$HENRY" inspect bundle.hnb | cmp - text && echo "as inspect prints the bundle"
"$HENRY" compile "$DATA/model.pt2" --emit json | grep -o '^{"version":'
"$HENRY" compile "$DATA/model.pt2" --dump-after import | head -1
"$HENRY" compile "$DATA/model.pt2" --dump-after decompose -o graph.hnir
"$HENRY" opt graph.hnir >again.hnir && cmp graph.hnir again.hnir && echo "a dump reads back"
# The program as wrapper IR: without memory, and with its plan, which options of the plan change.
"$HENRY" compile "$DATA/model.pt2" --dump-after wrapper -o wrapper.hnw
head -1 wrapper.hnw
grep -c '^  extern conv' wrapper.hnw
grep -c '^  allocate' wrapper.hnw || true
"$HENRY" compile "$DATA/model.pt2" --dump-after plan --pool combined --donate 0 >plan.hnw
grep '^# pool' plan.hnw | sed 's/: .*/: BYTES/; s/[0-9][0-9.]* bytes/N bytes/g; s/ratio .*/ratio N/'
grep '^wrapper' plan.hnw
grep -c '^  input "input" donated' plan.hnw
grep -o '^  allocate b2$' plan.hnw
if "$HENRY" compile "$DATA/model.pt2" --dump-after lunch 2>err; then echo "no error"; fi
cat err
