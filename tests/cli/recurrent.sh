# Recurrent layers in the raw dialect: a file that records the states of an LSTM with a dimension more than they have, and layers
# without a batch. Sizes of the outputs are those that PyTorch gives.
data=$DATA/../../../tests/cli/data
for model in lstm gru; do
    "$HENRY" run "$data/$model.pt2" -i "$data/${model}_in0.npy" -e "$data/${model}_out0.npy" -e "$data/${model}_out1.npy" --quiet && echo "$model is right"
done
