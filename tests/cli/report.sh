# A report of a model, of its bundle, of a trace, and of reports; what cannot be one is told. tests/report looks at the pages.
"$HENRY" report "$DATA/model.pt2" -i "$DATA/input_0.npy" -o model.html 2>err
sed 's/[0-9.]* MB, made in [0-9]* ms/N/' err
"$HENRY" compile "$DATA/model.pt2" -o m.hnb -q
"$HENRY" report m.hnb -o bundle.html -q
"$HENRY" run m.hnb -i "$DATA/input_0.npy" --profile --trace trace.json -q 2>/dev/null || "$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" --profile --trace trace.json -q
"$HENRY" report trace.json -o trace.html -q
"$HENRY" report --compare model.html m.hnb -o changes.html -q
for page in model bundle trace changes; do echo "$page $(head -1 $page.html) $(grep -c 'class="henry-report">{' $page.html)"; done
# the object: which parts each kind has
keys() { "$HENRY" report "$@" --json | tr '{' '\n' | sed -n 's/^"henry_report":\([0-9]*\),"kind":"\([a-z]*\)".*/version \1 \2/p'; }
for file in "$DATA/model.pt2" m.hnb trace.json model.html; do keys "$file"; done
has() { "$HENRY" report "$1" --json >object.json; for key in compilation metrics nodes program kernels fusions run roofline trace; do grep -q "\"$key\":" object.json && printf '%s ' $key; done; echo; }
has "$DATA/model.pt2"
has m.hnb
has trace.json
# steps have records and times, and counters are those of the compilation
"$HENRY" report "$DATA/model.pt2" --repeat 3 --json >object.json
sed 's/"roofline":.*"nodes"//' object.json | grep -o '"calls":[0-9]*' | sort | uniq -c | awk '{ print ($1 > 3), $2 }'
"$HENRY" compile "$DATA/model.pt2" -o m.hnb --json >stats.json
for name in bytes_read kernels_generated; do
    [ "$(sed -n "s/^ *\"$name\": \([0-9]*\).*/\1/p" stats.json)" = "$(grep -o "\"name\":\"$name\"[^}]*\"value\":[0-9]*" object.json | sed 's/.*://')" ] && echo "the same $name"
done
# a page can be made from the object again
"$HENRY" report object.json -o again.html -q
"$HENRY" report again.html --json | sed 's/\\u003c/</g' | cmp - object.json && echo "the same object"
# the wrong way
refuse() { if "$HENRY" report "$@" >out 2>err; then echo "no error"; fi; sed "s|$DATA|DATA|; s/;.*//" err | head -2; }
refuse "$DATA/model.pt2"
refuse "$DATA/model.pt2" --json -o -
refuse "$DATA/model.pt2" -o x.html --repeat 12
refuse m.hnb -o x.html --no-fusion
refuse trace.json -o x.html --target generic
refuse nothing.pt2 -o x.html
refuse "$DATA/model.pt2" -o x.html -i "$DATA/labels.npy"
echo '{"henry_report":7,"kind":"model"}' >later.json
refuse later.json -o x.html
echo '{"traceEvents":[oops]}' >bad.json
refuse bad.json -o x.html
echo '{"henry_report":1,"kind":"trace","environment":[NaN]}' >nan.json
refuse nan.json -o x.html
head -c 2000 model.html >cut.html
refuse --compare cut.html m.hnb -o x.html
[ -e x.html ] && echo "there is a page"
true
