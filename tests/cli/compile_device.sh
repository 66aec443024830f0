# --device of compile: a kind of device in place of targets, or beside targets that are for it.
model=$DATA/model.pt2
for device in cpu cpu:0 opencl "cuda --target sm_80" "cuda:1 --target compute_90"; do
    echo "$device: $("$HENRY" compile "$model" --emit c --device $device | grep -m1 -o -e '^int KERNEL' -e '^__kernel' -e '^extern "C" __global__ void')"
done
"$HENRY" compile "$model" -o both.hnb --device cpu --target generic,x86-64-v3 --quiet
"$HENRY" inspect both.hnb | grep -o '^target [0-9]* cpu [a-z0-9_-]*'
"$HENRY" compile "$model" -o opencl.hnb --device opencl --quiet
"$HENRY" inspect opencl.hnb | grep -o '^target [0-9]* opencl'
echo "# what does not fit"
for how in "cuda --target generic" "cuda --target sm_90a,opencl,sm_80" "cpu --target sm_80" "opencl --target compute_80" "tpu" "cuda --target sm_99"; do
    "$HENRY" compile "$model" -o no.hnb --device $how 2>&1 && echo "taken"
done
"$HENRY" compile "$model" --emit graph --device cpu 2>&1 && echo "taken"
# Without a GPU nobody says which architecture.
CUDA_VISIBLE_DEVICES= "$HENRY" compile "$model" -o no.hnb --device cuda 2>&1 | sed 's/\(compute_120\): .*/\1/'
ls no.hnb 2>/dev/null || echo "nothing was written"
