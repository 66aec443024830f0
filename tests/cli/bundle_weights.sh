# Weights inside, in the model file, or in a safetensors file beside the bundle.
for where in inside pt2 safetensors; do "$HENRY" compile "$DATA/model.pt2" -o $where.hnb --weights $where --quiet; done
ls *.hnb *.safetensors
"$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" -d out --quiet
for where in inside pt2 safetensors; do "$HENRY" run $where.hnb -i "$DATA/input_0.npy" -e out/output_0.npy --rtol 0 --atol 0 --quiet; done
"$HENRY" inspect safetensors.hnb | grep '^weights file'
"$HENRY" inspect safetensors.hnb --verify >/dev/null && echo verified
# The format: a length, and a header that is JSON, both together a multiple of 64.
length=$(od -An -tu8 -N 8 safetensors.safetensors | tr -d ' ')
echo $(((length + 8) % 64))
head -c $((length + 8)) safetensors.safetensors | tail -c "$length" | tr '{' '\n' | grep -c '^"dtype":"F32","shape":\[[0-9,]*\],"data_offsets":\[[0-9]*,[0-9]*\]'
# It moves with the bundle, or is named; another one is refused.
mkdir moved && mv safetensors.hnb safetensors.safetensors moved
"$HENRY" run moved/safetensors.hnb -i "$DATA/input_0.npy" -e out/output_0.npy --rtol 0 --atol 0 --quiet && echo "moved together"
# Beside the bundle goes first, also where the present folder has a file of that name, and where the recorded path has one.
echo other >safetensors.safetensors
cp "$DATA/model.pt2" m.pt2 && "$HENRY" compile "$PWD/m.pt2" -o m.hnb --weights pt2 -q
cp m.pt2 m.hnb moved && echo changed >>m.pt2
for name in safetensors m; do "$HENRY" run moved/$name.hnb -i "$DATA/input_0.npy" -e out/output_0.npy -q && echo "$name: beside"; done
mv moved/m.pt2 right.pt2 && echo other >moved/m.pt2 && mv right.pt2 m.pt2
"$HENRY" run moved/m.hnb -i "$DATA/input_0.npy" -e out/output_0.npy -q && echo "the recorded place has the right one"
rm safetensors.safetensors
mv moved/safetensors.safetensors w
if "$HENRY" run moved/safetensors.hnb -i "$DATA/input_0.npy" 2>err; then echo "no error"; fi
cat err
"$HENRY" run moved/safetensors.hnb --weights-file w -i "$DATA/input_0.npy" -e out/output_0.npy --rtol 0 --atol 0 --quiet && echo "named"
printf x | dd of=w bs=1 seek=$((length + 100)) conv=notrunc 2>/dev/null
if "$HENRY" run moved/safetensors.hnb --weights-file w -i "$DATA/input_0.npy" 2>err; then echo "no error"; fi
cat err
if "$HENRY" compile "$DATA/model.pt2" -o x.hnb --weights elsewhere 2>err; then echo "no error"; else echo "status $?"; fi
cat err
