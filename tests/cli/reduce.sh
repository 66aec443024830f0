# What `henry reduce` says before it searches; tests/reduce/run.sh has the searches.
data=$DATA/../../../tests/cli/data
cat >model.hnir <<'END'
graph @m {
  input user %x : f32[7, 4] "x"
  %y = add(%x, %x) : f32[7, 4]
  %z = log(%y) : f32[7, 4]
  output user %z "z"
}
END
printf '#!/bin/sh\n! grep -q "= log" "$1"\n' >judge
chmod +x judge
refused() {
    if "$HENRY" reduce model.hnir "$@" 2>err; then echo "no error"; fi
    sed "s|'[^']*/data/|'|" err
}
# inputs that no run takes are no failure of the model
refused -o small.hnir -i "$data/combine_in1.npy"
refused -o small.hnir -i "$data/loop_numbers_in0.npy"
refused -o none/small.hnir -i "$data/combine_in0.npy"
refused -o . -i "$data/combine_in0.npy"
refused -o small.hnir --test ./judge --rtol 1
refused -o small.hnir --test ./judge --time-limit 9223372036854775
# files of other people stay
echo mine >small.hnir.try.hnir
"$HENRY" reduce model.hnir -o small.hnir -i "$data/combine_in0.npy" --test ./judge | grep -v attempts
cat small.hnir.try.hnir
ls
# the command has the options that the failure may depend on
cat >beyond.hnir <<'END'
graph @m {
  input user %x : f32[3] example [3] hex 0000803f0000004000004040 "x"
  input user %at : i64[1] example [1] hex 6300000000000000 "at"
  %y = sin(%x) : f32[3]
  %z = index(%y, [%at], wrap=false)
  output user %z "z"
}
END
# (AddressSanitizer maps more memory than a machine has)
"$HENRY" reduce beyond.hnir -o small.hnir --target generic --threads 1 --memory-limit 100000G | sed '/attempts/d'
# nothing that it has started is left behind, to a process that takes orphans in
cat >taker.py <<'END'
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
try:
    os.waitpid(-1, os.WNOHANG)
    print("a process is left")
except ChildProcessError:
    print("no process is left")
END
command -v python3 >/dev/null || { echo "no process is left"; exit 0; }
python3 taker.py "$HENRY" reduce beyond.hnir -o small.hnir --target generic --threads 1 --memory-limit 100000G
