# One kernel for CUDA as a folder: the program in it builds without CUDA and without a warning, finds driver and NVRTC, compiles the
# kernel, launches it, reads back, compares and times. On the stand-in for the driver, whose kernels compute nothing, the results differ.
BUILD=$(dirname "$HENRY")
export LD_LIBRARY_PATH=$BUILD/cuda_standin HENRY_CUBLASLT=$BUILD/cublaslt_standin/libcublasLt.so.13 HENRY_CUDNN=$BUILD/cudnn_standin/libcudnn.so.9
"$HENRY" doctor | grep -q '^ok *cuda ' || { echo "NVRTC is missing: make setup-cuda" >&2; exit 77; }
export HENRY_NVRTC=$("$HENRY" doctor | sed -n 's/^ok *cuda *\([^:]*\):.*/\1/p')
K=$("$HENRY" run "$DATA/model.pt2" -i "$DATA/input_0.npy" --device cuda --profile | sed -n "s/.* \(k_[0-9a-f]*\) .*/\1/p" | head -1)
"$HENRY" repro "$DATA/model.pt2" -i "$DATA/input_0.npy" --device cuda --kernel $K -o one | grep -v operand_ | sort
flags="-O2 -Wall -Wextra -Werror"
# A stand-in that is built for AddressSanitizer can only be loaded by a program that is.
if grep -q __asan_init "$LD_LIBRARY_PATH/libcuda.so.1"; then flags+=" -fsanitize=address" ASAN_OPTIONS=detect_leaks=0; export ASAN_OPTIONS; fi
make -s -C one repro CC="${HENRY_CC:-cc}" CFLAGS="$flags"
cd one
run() { "$@" >out 2>&1 && code=0 || code=$?; sed 's/[0-9][0-9.e+-]*/N/g' out; echo "exit status $code"; }
echo "# kernels of the stand-in write nothing"
run ./repro
echo "# what was expected is there already"
for file in expected_*.bin; do cp $file operand_${file#expected_}; done
run ./repro
echo "# PTX, which the stand-in does not take; an architecture that there is not; a text that does not compile; a file of code"
./repro 1e-4 compute_90 2>&1 || echo "exit status $?"
./repro 1e-4 sm_1 2>&1 | tail -1
cp kernel.cu good.cu
echo "no kernel" >kernel.cu
./repro 2>&1 | tail -1
mv good.cu kernel.cu
printf 'standin\n%s -1 0 1024\n' $K >kernel.cubin
HENRY_NVRTC=/nowhere run ./repro | tail -1
echo "# without a driver"
HENRY_CUDA_STANDIN=devices=0 ./repro 2>&1 || echo "exit status $?"
LD_LIBRARY_PATH= ./repro >out 2>&1 || sed 's/:.*//' out
