# One kernel or operation as a folder that needs a C compiler only. The kernel with a wrong constant in it (tests/support/planted.c) differs there, too.
K=$("$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" --profile | sed -n "s/.* \(k_[0-9a-f]*\) .*/\1/p" | head -1)
"$HENRY" repro "$DATA/model.pt2" -i "$DATA/input_0.npy" --kernel $K -o one | sort
CC=${HENRY_CC:-cc}
sed -i "s|^CC = .*|CC = $CC|; s|-w |-Wall -Wextra -Werror |" one/Makefile
make -s -C one | sed 's/difference [0-9.e+-]*, .*/difference N/; s/^[0-9.]* us.*/N us/; s/operand [0-9]*/operand N/'
# Operations of the library, with their sources. -O0: the compiler takes most of the time.
call() {
    "$HENRY" repro "$1" -i "$2" --kernel $3 -o "call_$3" --threads 2 >/dev/null
    make -s -j2 -C "call_$3" CC="$CC" CFLAGS=-O0 | sed 's/difference [0-9.e+-]*, .*/difference N/; s/^[0-9.]* us on 2 threads.*/N us/; s/operand [0-9]*/operand N/'
}
call "$DATA/model.pt2" "$DATA/input_0.npy" conv
call "$DATA/model.pt2" "$DATA/input_0.npy" matmul
head -c "$(stat -c %s call_matmul/expected_0.bin)" /dev/zero >zeros && mv zeros call_matmul/expected_0.bin
(cd call_matmul && ./repro | tail -1)
# What it is not.
"$HENRY" repro "$DATA/model.pt2" -i "$DATA/input_0.npy" --kernel nothing -o two 2>&1 || echo "exit status $?"
"$HENRY" repro "$DATA/model.pt2" -i "$DATA/input_0.npy" 2>&1 || echo "exit status $?"
# A folder with somebody's file in it stays as it is.
mkdir mine
echo mine >mine/main.c
"$HENRY" repro "$DATA/model.pt2" -i "$DATA/input_0.npy" -k $K -o mine >out 2>&1 || echo "exit status $?"
ls mine
MODEL=${HENRY_TEST_MODELS:-$DATA/../../../../shared}/models/gpt2_tiny
[ -d "$MODEL" ] || { echo "no folder '$MODEL' with a model" >&2; exit 78; }
call "$MODEL/model.pt2" "$MODEL/input_0.npy" attention
for fault in none kernel; do
    echo "--- $fault"
    HENRY_PLANT=$fault "$(dirname "$HENRY")/henry_planted" bisect "$MODEL/model.pt2" -i "$MODEL/input_0.npy" --threads 2 >text || true
    step=$(sed -n 's/^kernel: step \([0-9]*\),.*/\1/p' text)
    HENRY_PLANT=$fault "$(dirname "$HENRY")/henry_planted" repro "$MODEL/model.pt2" -i "$MODEL/input_0.npy" --threads 2 -k "${step:-0}" -o $fault >out
    make -s -C $fault CC="$CC" >text 2>&1 || true
    grep -c 'elements differ' text || true
    grep -x 'equal\|DIFFERENT' text
done
