# Each kernel beside its reference: all are compared, and none is off by more than rounding.
"$HENRY" accuracy "$DATA/model.pt2" --input "$DATA/input_0.npy" --limit 1 >text
sed 's/[0-9.e+-]\{1,\} s$/N s/; 3,4d' text | sed 's/and [0-9]* with/and N with/; s/^[0-9]* of [0-9]*/N of N/'
"$HENRY" accuracy "$DATA/model.pt2" --json >result.json
grep -E '"(compared|not_compared)"' result.json | sed 's/: [1-9][0-9]*/: N/'
sed -n 's/.*"ulp_of_largest": \([^,]*\),/\1/p' result.json | awk '{ bad += !($1 < 64) } END { print (NR > 0), bad + 0 }'
# What cannot be is told.
"$HENRY" compile "$DATA/model.pt2" -o m.hnb --quiet
"$HENRY" accuracy m.hnb 2>&1 || true
"$HENRY" accuracy "$DATA/model.pt2" -i "$DATA/input_0.npy" --size s0=4 2>&1 | sed 's/;.*//' || true
