# Forms of kernels by name, and programs with several of them, on a stand-in for NVIDIA's driver (tests/support/cuda_standin.h), whose kernels
# compute nothing. Compiling needs NVRTC.
export LD_LIBRARY_PATH=$(dirname "$HENRY")/cuda_standin
cat >model.hnir <<'EOF'
graph {
  symbol size s0 in [1, 4096] hint 64
  input user %x : f32[s0, 512] "x"
  %y = aten._softmax.default(%x, -1, false) : f32[s0, 512] at "softmax" "m.py:1"
  output user %y "y"
}
EOF
"$HENRY" compile model.hnir --target sm_90a --forms 4 -o shipped.hnb -q 2>err || { grep -qi nvrtc err && cat err >&2 && exit 77; cat err; exit 1; }
"$HENRY" inspect shipped.hnb | grep -c "  variant"
for form in persistent looped 'rows threads=128 rows=4' tiles; do
    "$HENRY" compile model.hnir --target sm_90a --form "softmax=$form" -o "form.hnb" -q 2>&1 || continue
    "$HENRY" inspect form.hnb | grep -o "softmax' {[^}]*}: [a-z-]* threads=[0-9]* rows=[0-9]*.*forced" | sed 's/threads=.*,/.../'
    "$HENRY" bench form.hnb --size s0=64 --repeat 2 >/dev/null && echo "it runs"
done
echo "# tuned where it runs"
"$HENRY" tune shipped.hnb --budget 3s -o tuned.hnb | tail -2 | sed 's/;.*//'
"$HENRY" inspect tuned.hnb | grep -q "^tuning 'softmax' {\"s0\":64}.*, timed" && echo "the export's size is recorded"
for size in 1 64 4096; do "$HENRY" bench tuned.hnb --size s0=$size --repeat 2 >/dev/null && echo "$size rows run"; done
