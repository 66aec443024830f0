# What a message says to run again does run again, and writes nothing where it is run.
export PATH=$(dirname "$HENRY"):$PATH
again() { # LANGUAGE SUFFIX TARGET...
    mkdir -p here
    if "$HENRY" kernel compile "bad$2" --language "$1" "${@:3}" -o /dev/null 2>err; then echo "no error"; fi
    grep -q 'cannot find' err && { echo "$1: repeated, nothing written"; return; } # no such compiler here
    sed -n 's/.*to run it again: //p' err >command
    if (cd here && bash ../command >../said 2>&1); then echo "$1: no error when repeated"; fi
    grep -q 'nothing' said || cat err said
    [ -z "$(ls here)" ] && echo "$1: repeated, nothing written"
}
echo 'int f(int x) { return x * nothing; }' >bad.c
cp bad.c bad.cc
echo 'extern "C" __global__ void f(int *p) { *p = nothing; }' >bad.cu
again c .c
again c++ .cc
again cuda .cu --target sm_90 --entry f
again nvcc .cu --target sm_90
again nvcc .cu --target compute_90
# An entry that is not there.
echo 'extern "C" int f(int x) { return x; }' >bad.cc
sed 's/extern "C"//' bad.cc >bad.c
echo 'extern "C" __global__ void f(int *p) { *p = 1; }' >bad.cu
again c .c --entry nothing
again c++ .cc --entry nothing
again cuda .cu --target sm_90 --entry nothing
again nvcc .cu --target sm_90 --entry nothing
# A variable that the compiler reads and a job may not set stands before the command.
LD_LIBRARY_PATH="/no such/folder" again c .c --entry nothing
sed -n 's/.*to run it again: \(.* henry\) kernel.*/\1/p' err
