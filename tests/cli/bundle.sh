# A bundle with its weights needs nothing else; one without them needs the model file.
cp "$DATA/model.pt2" model.pt2
"$HENRY" compile model.pt2 -o whole.hnb | sed 's/[0-9.]\{1,\}/N/g'
"$HENRY" compile model.pt2 -o thin.hnb --weights-beside --quiet
"$HENRY" run model.pt2 -i "$DATA/input_0.npy" -d out --quiet
for bundle in whole thin; do "$HENRY" run $bundle.hnb -i "$DATA/input_0.npy" -e out/output_0.npy --rtol 0 --atol 0 --quiet; done
"$HENRY" run whole.hnb -i "$DATA/input_0.npy" --json | grep -E '"(model|graph|compiled)"'
[ "$(wc -c <whole.hnb)" -gt "$(wc -c <thin.hnb)" ] && echo "the thin one is smaller"
mkdir moved && mv model.pt2 moved/other.pt2
"$HENRY" run whole.hnb -i "$DATA/input_0.npy" -e out/output_0.npy --rtol 0 --atol 0 --quiet
if "$HENRY" run thin.hnb -i "$DATA/input_0.npy" --quiet 2>err; then echo "no error"; fi
wc -l <err
"$HENRY" run thin.hnb --weights-file moved/other.pt2 -i "$DATA/input_0.npy" -e out/output_0.npy --rtol 0 --atol 0 --quiet
"$HENRY" inspect whole.hnb >text
"$HENRY" inspect whole.hnb --json >json
[ -s text ] && [ "$(head -c 1 json)" = "{" ] && echo described
"$HENRY" inspect whole.hnb --object 0 -o object.so
head -c 4 object.so | tail -c 3
echo
if "$HENRY" compile whole.hnb -o again.hnb 2>err; then echo "no error"; fi
cat err
