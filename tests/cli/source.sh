# A C project from a model: it builds with flags of the user's own, without Henry, and computes what PyTorch did.
data=$DATA/../../../tests/cli/data
"$HENRY" compile "$DATA/model.pt2" --emit source -q -o digits
ls digits
# build FOLDER: no warnings; the sanitizers see everything but the kernels
build() { make -s -j2 -C "$1" CFLAGS="-O0 -g -Wall -Wextra -fsanitize=address,undefined" LDFLAGS="-fsanitize=address,undefined" example 2>&1; }
run() { ASAN_OPTIONS=detect_leaks=1 OMP_NUM_THREADS=2 "$@" 2>&1; }
build digits
grep -o 'HN_EXT_[ES][A-Z]*=0x[0-9a-f]*' digits/Makefile
cd digits
run ./example -i "$DATA/input_0.npy" -e "$data/digits_out.npy" -o . -n 3 | sed 's/: [0-9.]* ms/: some ms/; s/sum.*/.../'
"$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" -e out_0.npy -q && echo "henry reads what it wrote"
./example --help
head -c 1000 weights.bin >cut.bin
if run ./example -w cut.bin; then echo "cut weights were taken"; fi
cd ..
# Sizes that only the data tells, a branch, a changing buffer, a number among the inputs. Only what differs is built again.
again() {
    "$HENRY" compile "$data/$1.pt2" --emit source -q -o digits
    build digits
}
again data
files=""
for k in 0 1 2; do files="$files -i $data/data_in$k.npy"; done
for k in 0 1 2 3 4 5 6 7; do files="$files -e $data/data_out$k.npy"; done
run digits/example -w digits/weights.bin $files | sed 's/ sum.*//'
again number
run digits/example -w digits/weights.bin -i "$data/number_in0.npy" -i "$data/number_in1.npy" -e "$data/number_out0.npy" -e "$data/number_out1.npy" | sed 's/ sum.*//'
if run digits/example -w digits/weights.bin; then echo "the number was not missed"; fi
again mutate
run digits/example -w digits/weights.bin -i "$data/mutate_x.npy"
run digits/example -w digits/weights.bin -i "$data/mutate_x.npy" -n 2 | head -2
"$HENRY" run "$data/mutate.pt2" -i "$data/mutate_x.npy" -d changed -q
run digits/example -w digits/weights.bin -i "$data/mutate_x.npy" -o . >/dev/null
for f in mutated_x.npy mutated_total.npy; do cmp <(tail -c 12 $f) <(tail -c 12 changed/$f); done
again bf16
run digits/example -w digits/weights.bin -i "$data/bf16_x.npy" -i "$data/bf16_y.npy" -e "$data/bf16_out0.npy" -e "$data/bf16_out1.npy" | sed 's/ sum.*//'
if "$HENRY" compile "$DATA/model.pt2" --emit source 2>err; then echo "no folder needed"; fi
cat err
if "$HENRY" compile "$DATA/model.pt2" --target aarch64 -o other.hnb 2>err; then echo "compiled for another machine"; fi
sed 's/.*: programs/programs/' err
# A project has the inner loops of its target, and those of convolutions only where it has one: written again for another model,
# they are made anew.
"$HENRY" compile "$data/lstm.pt2" --emit source --target-cpu generic -q -o plain
ls plain/lib/ops/cpu/kernels_*.c
grep -o 'HN_EXT_[EOSW][A-Z0-9_]*\(=0x[0-9a-f]*\)\?' plain/Makefile
build plain
run plain/example -w plain/weights.bin -i "$data/lstm_in0.npy" -e "$data/lstm_out0.npy" -e "$data/lstm_out1.npy" | sed 's/ sum.*//'
"$HENRY" compile "$data/tune_bn_a.pt2" --emit source --target-cpu generic -q -o plain
grep -o 'HN_EXT_[EOSW][A-Z0-9_]*\(=0x[0-9a-f]*\)\?' plain/Makefile
build plain
run plain/example -w plain/weights.bin -i "$data/tune_bn_in.npy" -e "$data/tune_bn_a_out.npy" | sed 's/ sum.*//'
