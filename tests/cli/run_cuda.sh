# Whole programs for CUDA, on a stand-in for NVIDIA's driver (tests/support/cuda_standin.h), whose kernels compute nothing.
# Compiling needs NVRTC.
export LD_LIBRARY_PATH=$(dirname "$HENRY")/cuda_standin HENRY_CUBLASLT=$(dirname "$HENRY")/cublaslt_standin/libcublasLt.so.13
export HENRY_CUDNN=$(dirname "$HENRY")/cudnn_standin/libcudnn.so.9
model=$DATA/model.pt2 input="-i $DATA/input_0.npy"
"$HENRY" compile "$model" --target sm_90a,sm_80 -o digits.hnb -q 2>err || { grep -qi nvrtc err && cat err >&2 && exit 77; cat err; exit 1; }
"$HENRY" doctor | sed -n 's/  */ /g;/^ok gpu/p'
"$HENRY" run "$model" $input --device cuda -q --stats stats
grep -E '"(device|device_name|host_steps|bytes_to_device|bytes_from_device)"' stats

"$HENRY" run digits.hnb $input --cuda-graphs --repeat 5 -q --stats stats
grep -E "graphs_made|graph_runs" stats

echo "# where time and memory go"
"$HENRY" run digits.hnb $input --timing --load-all | sed -n 's/[0-9.]\{1,\}/N/g;s/  */ /g;/^opening/,$p'

echo "# which device"
for device in cuda cuda:1 cuda:GPU-a1 cuda:GPU-A0112233; do "$HENRY" run digits.hnb $input --device $device -q --stats stats && grep '"device"' stats; done
for device in cuda:2 cuda:GPU-f cuda:GPU-a cuda:x cpu; do "$HENRY" run digits.hnb $input --device $device -q 2>&1 || true; done

echo "# CPU and GPU in one file"
"$HENRY" compile "$model" --target generic,sm_90a -o all.hnb -q
for how in "" "--device cuda:1" "--target sm_90a"; do "$HENRY" run all.hnb $input $how -q --stats stats && grep '"device"' stats; done
"$HENRY" run all.hnb $input --device opencl -q 2>&1 || true
HENRY_CUDA_STANDIN=arch=75 "$HENRY" run all.hnb $input --device cuda -q 2>&1 || true

echo "# what the machine lacks"
for lack in devices=0 arch=75 arch=100; do HENRY_CUDA_STANDIN=$lack "$HENRY" run digits.hnb $input -q 2>&1 || true; done
HENRY_CUDA_STANDIN=arch=86,pools=0 "$HENRY" run digits.hnb $input -q && echo "sm_80 runs on sm_86"

echo "# a driver that fails: each call, once; few can be done without"
calls=0 wrong=0 good=0
while [ $good -lt 20 ] && [ $calls -lt 400 ]; do
    calls=$((calls + 1))
    if HENRY_CUDA_STANDIN=fail=$calls,code=999 "$HENRY" run digits.hnb $input -q 2>err; then good=$((good + 1)) && continue; fi
    good=0
    grep -qE 'cu[A-Za-z]* failed: CUDA_ERROR_UNKNOWN \(999\)|cublasLtMatmul failed|cudnnBackendExecute failed|no memory for' err || { wrong=$((wrong + 1)); cat err; }
done
echo "$wrong wrong"
[ $calls -gt 60 ] || echo "only $calls calls"
echo "# no memory"
HENRY_CUDA_STANDIN=memory=1000 "$HENRY" run digits.hnb $input -q 2>&1 || true
echo "# a limit of memory: less than weights and runs take, or enough"
for limit in 10K 57K 1K,5 0; do "$HENRY" run digits.hnb $input -q --device-memory $limit 2>&1 | sed 's/of [0-9]* bytes on/of N bytes on/; s/; the module has.*; its limit/; its limit/; s/; the device has.*//'; done
"$HENRY" run digits.hnb $input -q --device-memory 1G && echo "enough"
"$HENRY" run all.hnb $input -q --device cpu --device-memory 1G 2>&1 || true
