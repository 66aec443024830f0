# Loops with a body: in the module, from a bundle, without fusion, and as C; a size that changes their rounds.
data=$DATA/../../../tests/cli/data
inputs=(-i "$data/loops_in0.npy" -i "$data/loops_in1.npy")
expected=()
for k in 0 1 2 3 4 5 6 7 8 9; do expected+=(-e "$data/loops_out$k.npy"); done
"$HENRY" run "$data/loops.pt2" "${inputs[@]}" "${expected[@]}" --quiet
"$HENRY" run "$data/loops.pt2" "${inputs[@]}" "${expected[@]}" --quiet --no-fusion --no-cache
"$HENRY" compile "$data/loops.pt2" -o loops.hnb --quiet
"$HENRY" run loops.hnb "${inputs[@]}" "${expected[@]}" --quiet
"$HENRY" inspect loops.hnb | grep -oE "(loop|cond) [a-z].* (body|otherwise) [0-9]+"
"$HENRY" compile "$data/loops.pt2" --emit source -q -o project
make -s -j2 -C project CFLAGS="-O0 -Wall -Wextra -Werror" example
"$HENRY" run loops.hnb "${inputs[@]}" -d module -q
project/example -w project/weights.bin "${inputs[@]}" $(for k in 0 1 2 3 4 5 6 7 8 9; do echo "-e module/output_$k.npy"; done) --rtol 0 --atol 0 >equal
grep -c "" equal
