# One kernel for OpenCL as a folder: the program in it builds without OpenCL and without a warning, has the driver build the kernel, runs it,
# compares and times. Kernels with sizes, and with indices that are checked, too.
"$HENRY" doctor | grep -q '^ok  *opencl' || { echo "no OpenCL device" >&2; exit 77; }
data=$DATA/../../../tests/cli/data
flags="-O2 -Wall -Wextra -Werror"
run() { "$@" >out 2>&1 && code=0 || code=$?; sed 's/[0-9][0-9.e+-]*/N/g; s/ on .*, median/ on DEVICE, median/' out; echo "exit status $code"; }
kernels() { "$HENRY" run "$@" --device opencl --profile | sed -n "s/.* \(k_[0-9a-f]*\) .*/\1/p" | sort -u; }
K=$(kernels "$DATA/model.pt2" -i "$DATA/input_0.npy" | head -1)
"$HENRY" repro "$DATA/model.pt2" -i "$DATA/input_0.npy" --device opencl --kernel $K -o one | grep -v operand_ | sed 's/_[0-9]*\.bin/_N.bin/' | sort -u
grep '^Arguments' one/README.md
make -s -C one repro CC="${HENRY_CC:-cc}" CFLAGS="$flags"
cd one
run ./repro
echo "# another result than was expected"
for file in expected_*.bin; do head -c "$(stat -c %s $file)" /dev/zero >zeros && mv zeros $file; done
run ./repro 1e-4 0
echo "# a device that there is not; a text that does not compile"
./repro 1e-4 99 2>&1 || echo "exit status $?"
echo "no kernel" >kernel.cl
./repro 2>/dev/null || echo "exit status $?"
./repro 2>&1 | tail -1
cd ..
# reproduce DIR MODEL INPUT...: each kernel of the model
reproduce() {
    local dir=$1 k
    shift
    for k in $(kernels "$@"); do
        rm -rf "$dir"
        "$HENRY" repro "$@" --device opencl --kernel $k -o "$dir" >/dev/null
        make -s -C "$dir" repro CC="${HENRY_CC:-cc}" CFLAGS="$flags"
        (cd "$dir" && ./repro | tail -1)
    done
}
echo "# every kernel of a model; one with sizes; one with indices, then with an index that is out of bounds"
reproduce digits "$DATA/model.pt2" -i "$DATA/input_0.npy" | sort -u
reproduce pool $data/pool.pt2 -i $data/pool_in8.npy
grep -o 'sizes\[\] = .*' pool/repro.h
array() { printf "\223NUMPY\1\0\166\0%-117s\n%b" "{'descr': '$1', 'fortran_order': False, 'shape': $2, }" "$3"; }
array '<i8' '(1, 2)' '\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0' >tokens.npy
array '<i4' '(1, 2)' '\0\0\0\0\1\0\0\0' >kinds.npy
array '<i8' '(4,)' '\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0' >rows.npy
model=("$data/embed.pt2" -i tokens.npy -i kinds.npy -i rows.npy)
K=$("$HENRY" run "${model[@]}" --device opencl --profile | sed -n "s/.* \(k_[0-9a-f]*\) (relu).*/\1/p" | head -1)
"$HENRY" repro "${model[@]}" --device opencl --kernel $K -o embed >/dev/null
make -s -C embed repro CC="${HENRY_CC:-cc}" CFLAGS="$flags"
cd embed
./repro | tail -1
tokens=$(sed -n 's/.*"\(operand_[0-9]*.bin\)".*"i64".* tokens.*/\1/p' repro.h)
head -c 16 /dev/zero | tr '\0' '\143' >$tokens
./repro || echo "exit status $?"
