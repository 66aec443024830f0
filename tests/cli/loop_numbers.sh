# Loops that take and carry whole numbers, with sizes in their bodies that only the data tells; associative_scan.
data=$DATA/../../../tests/cli/data
# In a build for a sanitizer the products of the module are compiled with other flags than those of the project.
exact=(--rtol 0 --atol 0)
if grep -q __asan_init "$HENRY"; then exact=(); fi
check() {
    local k
    inputs=(-i "$data/$1_in0.npy" -i "$data/$1_in1.npy")
    expected=() same=()
    for ((k = 0; k < $2; k++)); do expected+=(-e "$data/$1_out$k.npy") same+=(-e "$1_module/output_$k.npy"); done
    "$HENRY" run "$data/$1.pt2" "${inputs[@]}" "${expected[@]}" --quiet
    "$HENRY" run "$data/$1.pt2" "${inputs[@]}" "${expected[@]}" --quiet --no-fusion --no-cache
    "$HENRY" compile "$data/$1.pt2" -o "$1.hnb" --quiet
    "$HENRY" run "$1.hnb" "${inputs[@]}" "${expected[@]}" -d "$1_module" --quiet
    "$HENRY" inspect "$1.hnb" | grep -oE "(loop|define) [a-z0-9].* (body [0-9]+|i64)|define .*"
    "$HENRY" compile "$data/$1.pt2" --emit source -q -o "$1"
    make -s -j2 -C "$1" CFLAGS="-O1 -Wall -Wextra -Werror" example
    "$1/example" -w "$1/weights.bin" "${inputs[@]}" "${same[@]}" "${exact[@]}" >"$1_equal"
    grep -c "" "$1_equal"
}
check loop_numbers 12
check combine 13
# a number is carried with all of its bits: 5 + 2**53 + 1
"${HENRY%/*}/edit_pt2" "$data/loop_numbers.pt2" large.pt2 replace_all loop_numbers/models/model.json \
    "Add(Symbol('u0', integer=True), Integer(2))" "Add(Symbol('u0', integer=True), Integer(9007199254740993))"
"$HENRY" run large.pt2 -i "$data/loop_numbers_in0.npy" -i "$data/loop_numbers_in1.npy" | grep output_2
