# What is in a model file.
"$HENRY" inspect "$DATA/model.pt2" | sed 's|^/.*/examples|examples|'
"$HENRY" inspect "$DATA/model.pt2" --json | grep -E '"(weight_bytes|nodes|type)"'
if "$HENRY" inspect "$DATA/model.pt2" --model absent 2>err; then echo "no error"; fi
sed 's|/.*/||' err
