# Kernels in several forms. Times are made up: which form is the fastest differs with the number of rows. The same forms run in the module, in
# a bundle and in a C project, with the same bits, and give what one form for all sizes gives.
model=$(dirname "$DATA")/../../tests/cli/data/multi_kernel.hnir
$HENRY tune "$model" --hint s0=8 --no-cache -o timed.json -q 2>/dev/null || { cat timed.json; exit 1; }

awk -f "$(dirname "$model")/records.awk" timed.json >records.json

# array ROWS: x.npy, of so many rows of numbers of four letters, "123?"
array() {
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': ($1, 40), }" >x.npy
    seq -f '%03.0f?' 0 999 | tr -d '\n' >thousand
    for _ in $(seq 1 $(($1 * 40 / 1000 + 1))); do cat thousand; done | head -c $(($1 * 160)) >>x.npy
}
content() { tail -c "+$((11 + $(od -An -tu2 -j8 -N2 "$1")))" "$1"; }

$HENRY compile "$model" --tuning records.json -q -o many.hnb
$HENRY compile "$model" --tuning none --hint s0=8 -q -o one.hnb
$HENRY compile "$model" --tuning records.json --emit source -q -o project
make -s -C project CFLAGS="-O2 -Wall -Wextra -Werror" example
$HENRY inspect many.hnb >text
echo "$(grep -c ' in [23] variants' text) kernels of several forms, $(grep -c '^  for s0 33\.\.128: ' text) other for 33 to 128 rows, $(grep -c '^  for s0 129\.\.: ' text) for more"
echo "one form: $($HENRY inspect one.hnb | grep -c variants)"
echo "in C: $(grep -c 'the form of k_' project/model.c)"
for rows in 1 2 31 32 33 64 128 129 500; do
    array $rows
    rm -rf want many compiled from_c
    mkdir from_c
    $HENRY run one.hnb --input x.npy -q -d want
    $HENRY run many.hnb --input x.npy -q -d many --expect want/output_0.npy --expect want/output_1.npy
    $HENRY run "$model" --tuning records.json --input x.npy -q -d compiled
    OMP_NUM_THREADS=2 project/example -w project/weights.bin -i x.npy -o from_c >/dev/null
    for k in 0 1; do
        cmp -s many/output_$k.npy compiled/output_$k.npy || echo "$rows rows: output $k of the model differs"
        [ "$(content many/output_$k.npy | cksum)" = "$(content from_c/out_$k.npy | cksum)" ] || echo "$rows rows: output $k of the project differs"
    done
    echo "$rows rows: $($HENRY run many.hnb --input x.npy --profile 2>/dev/null | grep -c ' as [a-z]') steps say their form"
done
