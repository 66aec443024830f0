# while_loop_stack_output: what each round of a loop hands on, side by side; without a round, what it begins with.
data=$DATA/../../../tests/cli/data
inputs=(-i "$data/stacks_in0.npy" -i "$data/stacks_in1.npy")
expected=() same=()
for k in 0 1 2 3 4; do expected+=(-e "$data/stacks_out$k.npy") same+=(-e "module/output_$k.npy"); done
"$HENRY" run "$data/stacks.pt2" "${inputs[@]}" "${expected[@]}" --quiet
"$HENRY" run "$data/stacks.pt2" "${inputs[@]}" "${expected[@]}" --quiet --no-fusion --no-cache
"$HENRY" compile "$data/stacks.pt2" -o stacks.hnb --quiet
"$HENRY" run stacks.hnb "${inputs[@]}" "${expected[@]}" -d module --quiet
"$HENRY" inspect stacks.hnb | grep -oE "loop [a-z0-9_ ]+ body|define .*"
"$HENRY" compile "$data/stacks.pt2" --emit source -q -o project
make -s -j2 -C project CFLAGS="-O1 -Wall -Wextra -Werror" example
project/example -w project/weights.bin "${inputs[@]}" "${same[@]}" >equal
grep -c "" equal
# no round: the values that the loop begins with
"$HENRY" run stacks.hnb -i "$data/stacks_in0.npy" -i "$data/stacks_none.npy" | grep -oE 'output_[0-2] *[a-z0-9]*\[[0-9, ]*\]'
# the rounds run twice, so random numbers in them would not be the same
"${HENRY%/*}/edit_pt2" "$data/stacks.pt2" random.pt2 replace_all stacks/models/model.json "torch.ops.aten.tanh.default" "torch.ops.aten.bernoulli.default"
"$HENRY" compile random.pt2 -o x.hnb 2>&1 | sed "s/.*random numbers/random numbers/" || true
