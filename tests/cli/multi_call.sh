# Products in several forms. Times are made up: which form is the fastest differs with the number of rows. The same forms run in the module, in
# a bundle and in a C project, with the same bits.
model=$(dirname "$DATA")/../../tests/cli/data/multi_call.hnir
$HENRY tune "$model" --hint s0=8 --no-cache --threads 2 -o timed.json -q 2>/dev/null || { cat timed.json; exit 1; }
awk -f "$(dirname "$model")/records.awk" timed.json >records.json

# array ROWS COLUMNS NAME: of numbers of four letters, "123?"
array() {
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': ($1, $2), }" >"$3"
    seq -f '%03.0f?' 0 999 | tr -d '\n' >thousand
    for _ in $(seq 1 $(($1 * $2 / 1000 + 1))); do cat thousand; done | head -c $(($1 * $2 * 4)) >>"$3"
}
# A henry with sanitizers has its operations at another level of optimisation than the project: their last bits may differ.
if grep -q __asan_init "$HENRY"; then exact=no; else exact=yes; fi
content() { tail -c "+$((11 + $(od -An -tu2 -j8 -N2 "$1")))" "$1"; }

$HENRY compile "$model" --tuning records.json --threads 2 -q -o many.hnb
$HENRY compile "$model" --tuning none -q -o own.hnb
$HENRY compile "$model" --tuning records.json --threads 2 --emit source -q -o project
make -s -C project CFLAGS="-O2 -Wall -Wextra -Werror" example
$HENRY inspect many.hnb | grep -A9 '^step 0' | grep '^  '
echo "without records: $($HENRY inspect own.hnb | grep -c '^  variant')"
grep -o 'static const char \*const forms.*' project/model.c
array 40 24 w.npy
for rows in 1 16 31 33 64 128 129 500; do
    array $rows 40 x.npy
    rm -rf own many compiled from_c
    mkdir from_c
    $HENRY run own.hnb --input x.npy --input w.npy -q -d own
    $HENRY run many.hnb --threads 2 --input x.npy --input w.npy -q -d many --expect own/output_0.npy
    $HENRY run "$model" --threads 2 --tuning records.json --input x.npy --input w.npy -q -d compiled
    OMP_NUM_THREADS=2 project/example -w project/weights.bin -i x.npy -i w.npy -o from_c >/dev/null
    cmp -s many/output_0.npy compiled/output_0.npy || echo "$rows rows: the model differs"
    if [ $exact = yes ]; then
        [ "$(content many/output_0.npy | cksum)" = "$(content from_c/out_0.npy | cksum)" ] || echo "$rows rows: the project differs"
    else
        $HENRY run many.hnb --threads 2 --input x.npy --input w.npy -q --expect from_c/out_0.npy || echo "$rows rows: the project differs"
    fi
    echo "$rows rows: $($HENRY run many.hnb --threads 2 --input x.npy --input w.npy --profile 2>/dev/null | sed -n 's/.* as //p')"
done
