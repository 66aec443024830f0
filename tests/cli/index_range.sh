# An index out of bounds: the message names the node that has the index, the input, the value and what is valid.
data=$DATA/../../../tests/cli/data
# npy FILE TYPE SHAPE BYTES
npy() { { printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '$2', 'fortran_order': False, 'shape': ($3), }"; printf "$4"; } >"$1"; }
zero='\0\0\0\0'
npy tokens.npy '<i8' '1, 2' "\12$zero\0\0\0\3$zero\0\0\0"
npy kinds.npy '<i4' '1, 2' "\2\0\0\0$zero"
npy rows.npy '<i8' '4,' "$zero$zero\6\0\0\0$zero\371\377\377\377\377\377\377\377\1\0\0\0$zero"
npy bad_tokens.npy '<i8' '1, 2' "\3$zero\0\0\0\77\102\17\0$zero"
npy bad_kinds.npy '<i4' '1, 2' "\2\0\0\0\377\377\377\377"
npy bad_rows.npy '<i8' '4,' "$zero$zero\6\0\0\0$zero\370\377\377\377\377\377\377\377\1\0\0\0$zero"
run() { if "$HENRY" run "$@" -q 2>err; then echo "right"; else cat err; fi; }
"$HENRY" compile "$data/embed.pt2" -o embed.hnb --target-cpu generic,x86-64-v3 -q
for program in "$data/embed.pt2" embed.hnb; do
    run "$program" -i tokens.npy -i kinds.npy -i rows.npy
    run "$program" -i bad_tokens.npy -i kinds.npy -i rows.npy
    run "$program" -i tokens.npy -i bad_kinds.npy -i rows.npy
    run "$program" -i tokens.npy -i kinds.npy -i bad_rows.npy
done
run embed.hnb -i bad_tokens.npy -i kinds.npy -i rows.npy --target-cpu generic
run "$data/embed.pt2" -i tokens.npy -i bad_kinds.npy -i rows.npy --no-fusion
