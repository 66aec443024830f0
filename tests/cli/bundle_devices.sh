# One bundle for CPUs and other kinds of device: a program for each, one copy of the weights.
model=$DATA/model.pt2 input="-i $DATA/input_0.npy"
"$HENRY" compile "$model" -o cpu.hnb --target generic,x86-64-v3 --quiet
"$HENRY" run cpu.hnb $input --target generic -d out --quiet
for weights in inside pt2 safetensors; do
    "$HENRY" compile "$model" -o $weights.hnb --weights $weights --target opencl,x86-64-v3,generic --quiet
    "$HENRY" inspect $weights.hnb --verify >text && grep '^programs: ' text
    # Without a device named the CPU runs it.
    for how in "" "--device cpu" "--target generic" "--target x86-64-v3"; do
        "$HENRY" run $weights.hnb $input $how -e out/output_0.npy --quiet --stats stats && grep -o '"device": "[a-z:0-9]*"' stats
    done
    if "$HENRY" doctor | grep -q '^ok  *opencl'; then
        "$HENRY" run $weights.hnb $input --device opencl -e out/output_0.npy --quiet
        "$HENRY" run $weights.hnb $input --target opencl -e out/output_0.npy --quiet
    fi
done
grep -e '^bundle version' -e '^program ' -e '^target .* opencl' text | sed 's/, [0-9]* bytes of code//'
"$HENRY" inspect cpu.hnb | grep '^bundle version'
bytes() { "$HENRY" inspect "$1" | sed -n 's/.* weights \([0-9]*\) bytes embedded.*/\1/p'; }
[ "$(bytes inside.hnb)" -le "$(bytes cpu.hnb)" ] && echo "one copy of the weights"
"$HENRY" inspect inside.hnb --json | tr -d ' \n' | grep -o '"device":"cpu","programs":\[{"device":"opencl","targets":\[{"kind":"opencl"'
last=$("$HENRY" inspect inside.hnb | sed -n 's/^object \([0-9]*\) .*/\1/p' | tail -1) # of OpenCL
"$HENRY" inspect inside.hnb --object "$last" -o object && od -An -tx1 -N4 object | tr -d ' ' | grep -qv 7f454c46 && echo "the last object is no ELF"
echo "# what it does not have"
for how in "--device cuda" "--target sm_90a" "--device opencl --target generic"; do "$HENRY" run inside.hnb $input $how 2>&1 || true; done
"$HENRY" run cpu.hnb $input --device opencl 2>&1 || true
"$HENRY" compile "$model" -o dir --emit source --target generic,opencl 2>&1 | sed 's/.*: a source/a source/'
echo "# signed"
"$HENRY" bundle keygen -o k >/dev/null
for weights in inside pt2 safetensors; do
    "$HENRY" bundle sign $weights.hnb --key k.key >/dev/null
    "$HENRY" run $weights.hnb $input --trust k.pub -e out/output_0.npy --quiet && echo "runs"
done
echo "# damaged: cut off, or with another byte, at many places"
size=$(stat -c %s inside.hnb) accepted=0
for k in $(seq 1 40); do
    at=$((size * k / 41))
    head -c $at inside.hnb >cut.hnb
    cp inside.hnb bad.hnb && chmod +w bad.hnb
    printf 'Henry' | dd of=bad.hnb bs=1 seek=$at conv=notrunc status=none
    for file in cut bad; do "$HENRY" inspect $file.hnb --verify >/dev/null 2>&1 && accepted=$((accepted + 1)); done
done
echo "$accepted accepted"
echo "# the cache has each program"
"$HENRY" compile "$model" -o again.hnb --weights pt2 --target generic,x86-64-v3,opencl --quiet --stats stats && grep -o '"graph": "[a-z]*"' stats
"$HENRY" compile "$model" -o one.hnb --weights pt2 --target opencl --quiet --stats stats && grep -o '"graph": "[a-z]*"' stats
cmp again.hnb pt2.hnb >/dev/null || cmp <("$HENRY" inspect again.hnb | grep -v '^signed') <("$HENRY" inspect pt2.hnb | grep -v '^signed') && echo "the same"
for target in generic opencl; do "$HENRY" cache why again.hnb --target $target | grep -o "field 'target' was '[a-z0-9-]*" || echo "$target: no target differs"; done
"$HENRY" cache export "$model" --target x86-64-v3,generic,opencl -o export | grep -o '2 graph'
