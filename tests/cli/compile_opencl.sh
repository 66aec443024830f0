# A bundle for OpenCL: kernels on the device, operations on the host. With and without a driver: the text is always in the bundle.
data=${DATA%/examples/*}/tests/cli/data
"$HENRY" compile "$data/data.pt2" -o data.hnb --target opencl --quiet
"$HENRY" inspect data.hnb >text
grep -o '^target 0 opencl opencl' text
grep -e '^workspace' -e '^operations' text
# The step before an operation is a wait, and what it reads is memory of the host.
grep -B1 -A1 '^step [0-9]* wait' text | sed 's/step [0-9]*/step/; s/ ; .*//; s/ \[.*//'
echo "kernels $(grep -c '^step .* kernel k_[0-9a-f]*(.*) on opencl .*grid .* block' text) of $(grep -c '^step .* kernel' text)"
"$HENRY" inspect data.hnb --json | tr -d ' \n' | grep -o -e '{"kind":"opencl","name":"opencl","needs":\[\]}' -e '"transfers":{[^}]*}'
"$HENRY" compile "$data/mutate.pt2" --emit text --target opencl | grep -e '^operations' -e '^workspace'
# The old name of the option.
"$HENRY" compile "$data/data.pt2" --emit c --target-cpu opencl | grep -m1 -o '^__kernel'
# Kinds of device in one file: bundle_devices.sh. There is no C project of a program for OpenCL.
if "$HENRY" compile "$data/data.pt2" --emit source -o dir --target opencl 2>err; then echo "no error"; fi
sed 's/.*: a source/a source/' err
# The bundle tells what it was compiled for.
"$HENRY" cache why data.hnb --target generic | grep -o "field 'target' was 'opencl"
