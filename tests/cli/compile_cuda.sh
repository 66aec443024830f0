# Bundles for NVIDIA's GPUs: machine code for several architectures, PTX. Without a GPU; needs NVRTC.
data=${DATA%/examples/*}/tests/cli/data
"$HENRY" doctor | grep -q '^ok *cuda ' || { echo "NVRTC is missing: make setup-cuda" >&2; exit 77; }
"$HENRY" compile "$data/data.pt2" -o data.hnb --device cuda --target sm_80,compute_80,sm_90a --quiet
"$HENRY" inspect data.hnb >text
# The best first; each has a kernel for each step.
grep -o '^target [0-9]* cuda [a-z0-9_]*' text
grep -o '^object .*\(cubin\|ptx\) for [a-z0-9_]*' text | sed 's/.* \([a-z]* for\)/\1/' | sort -u
echo "kernels $(grep -c '^step .* kernel k_[0-9a-f]*(.*) on cuda' text) of $(grep -c '^step .* kernel' text)"
echo "without code: $(grep '^kernel ' text | grep -vc 'sm_90a object .* sm_80 object .* compute_80 object')"
grep -e '^operations' text
"$HENRY" inspect data.hnb --verify >/dev/null && echo verified
"$HENRY" compile "$data/mutate.pt2" --emit c --target sm_90a | grep -m1 -o '^extern "C" __global__ void __launch_bounds__'
# Several kinds of device: a program for each, with the same code as alone.
"$HENRY" compile "$data/data.pt2" -o all.hnb --target sm_80,opencl,generic,sm_90a --quiet
"$HENRY" compile "$data/data.pt2" -o gpu.hnb --target sm_80,sm_90a --quiet
"$HENRY" inspect all.hnb --verify >all && grep '^programs' all
for target in sm_80 sm_90a; do grep -h "^object .* cubin for $target" all; done | sed 's/object [0-9]*//' >inside
for target in sm_80 sm_90a; do "$HENRY" inspect gpu.hnb | grep "^object .* cubin for $target"; done | sed 's/object [0-9]*//' | cmp - inside && echo "the same code"
# A C project for GPUs has the text of kernels and their machine code.
"$HENRY" compile "$data/data.pt2" --emit source -q -o dir --target sm_90a,compute_80
ls dir | grep -E '^(device|kernels|nvrtc)' | sed 's/kernels_[0-9]*/kernels_N/' | sort -u | tr '\n' ' '
echo
"$HENRY" cache why data.hnb --target generic | grep -o "field 'target' was 'sm_90a"
