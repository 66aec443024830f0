# A kernel in several forms: each is compared with the reference, also those that do not run at these sizes, and a wrong one is the worst row.
# henry_planted is the command line with a fault in the second form of each kernel (tests/support/planted.c).
data=$(dirname "$DATA")/../../tests/cli/data
"$HENRY" tune "$data/multi_kernel.hnir" --hint s0=8 --no-cache -o timed.json -q 2>/dev/null
awk -f "$data/records.awk" timed.json >records.json
printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 40), }" >x.npy
head -c 320 /dev/zero | tr '\0' '?' >>x.npy
accuracy() { HENRY_PLANT=$1 "$(dirname "$HENRY")/henry_planted" accuracy "$data/multi_kernel.hnir" --tuning records.json -i x.npy "${@:2}"; }
accuracy none --json >good.json
for key in '"picked": true' '"variant": 0' '"variant": 1'; do echo "$key: $(grep -c "$key" good.json)"; done
sed -n 's/.*"ulp_of_largest": \([^,]*\),/\1/p' good.json | awk '{ bad += !($1 < 64) } END { print (NR > 0), bad + 0 }'
accuracy none | tail -1 | sed 's/;.*//; s/^\([46]\) of \1/all/'
# The sizes pick another form.
accuracy variants --json >bad.json
sed -n '/"steps"/,/"picked"/p' bad.json | grep '"variant"\|"picked"'
sed -n 's/.*"ulp_of_largest": \([^,]*\),/\1/p' bad.json | awk '{ bad += !($1 < 64) } END { print (bad > 0) }'
accuracy variants | sed -n '3s/.*, not/not/p'
