#!/bin/sh
# Checks that each folder includes only what docs/ARCHITECTURE.md allows, and that only printers and
# toolchains know a language. Prints the offenders. tests/include_direction_cases.sh shows that each
# rule can fail.
#
#     tests/include_direction.sh [ROOT]        default: this tree
cd "${1:-$(dirname "$0")/..}" || exit 2
bad=0
checked=0

offends() {
    echo "$1"
    bad=$((bad + 1))
}

# The folders, and the single headers of others, that the files of a folder may include.
allowed() {
    case "$1" in
    base) echo "" ;;
    sym) echo "base" ;;
    ir) echo "base sym" ;;
    front | opt | lower) echo "base sym ir" ;;
    sched) echo "base sym ir" ;;
    kernel) echo "base sym ir sched" ;;
    codegen) echo "base sym ir sched kernel" ;;
    wrapper) echo "base sym ir sched codegen/codegen.h bundle" ;;
    interp) echo "base sym ir sched wrapper ops/cpu/ext.h" ;;
    bundle) echo "base" ;;
    ops) echo "base" ;;
    runtime) echo "base bundle ops" ;;
    tune) echo "base bundle ops runtime ir/dtypes.def" ;;
    picks) echo "base cache tune" ;;
    cache) echo "base" ;;
    toolchain) echo "base bundle cache" ;;
    service) echo "base cache toolchain" ;;
    measure) echo "base cache runtime" ;;
    metrics) echo "base" ;;
    driver) echo "base metrics sym ir front opt lower sched kernel codegen wrapper interp toolchain service cache tune picks bundle ops runtime" ;;
    bisect) echo "base metrics sym ir front opt lower sched kernel codegen wrapper interp toolchain service cache tune picks bundle ops runtime driver" ;;
    report) echo "base measure metrics sym ir front opt lower sched kernel codegen wrapper interp toolchain service cache tune picks bundle ops runtime driver" ;;
    reduce) echo "base metrics sym ir front opt lower sched kernel codegen wrapper interp toolchain service cache tune picks bundle ops runtime driver bisect" ;;
    esac
}
for dir in src/*/; do
    folder=$(basename "$dir")
    ok=" $folder henry $(allowed "$folder") "
    for file in $(find "$dir" -name '*.[ch]'); do
        checked=$((checked + 1))
        for include in $(sed -n 's/^ *#include "\([a-z0-9]*\/[^"]*\)".*/\1/p' "$file"); do
            case "$ok" in *" ${include%%/*} "* | *" $include "*) ;; *) offends "$file includes $include" ;; esac
        done
    done
done

# The files, outside of folder $1, that include something of it.
including() { grep -rlE "#include \"${1#src/}" src tools bench examples 2>/dev/null | grep -v "^$1"; }

# An importer is named by the table of importers alone. Tests may use the parts of one.
for dir in src/front/*/; do
    for file in $(including "$dir"); do
        checked=$((checked + 1))
        [ "$file" = src/front/importer.c ] || offends "$file includes ${dir#src/}, which only src/front/importer.c may name"
    done
done

# A driver of OpenCL is called by a row of a table or by what is for OpenCL alone; besides these, tables of names and kinds name it.
calls_opencl() {
    case "$1" in src/base/opencl* | src/toolchain/opencl_row.c | src/runtime/device/opencl*) return 0 ;; *) return 1 ;; esac
}
# The same of NVIDIA's driver; `henry doctor` asks it for its devices.
calls_cuda() {
    case "$1" in src/base/cuda* | src/runtime/device/cuda* | src/codegen/targets.c | tools/henry/doctor.c | bench/gpu_turns.c) return 0 ;; *) return 1 ;; esac
}
names_opencl() {
    case "$1" in
    src/codegen/opencl/* | src/codegen/targets.c | src/base/device.[ch] | src/bundle/format.h | src/bundle/names.c) return 0 ;;
    src/toolchain/rows.h | src/toolchain/flags.[ch] | src/toolchain/flags.def | src/runtime/device/rows.h | src/runtime/device/devices.c) return 0 ;;
    include/henry/* | tools/henry/* | src/bisect/repro.c) return 0 ;;
    *) calls_opencl "$1" ;;
    esac
}

# A printer is named by the table of targets alone: its headers, and its functions. Names of a
# toolchain, and of what calls OpenCL, may begin like those of the printer of their language.
for dir in src/codegen/*/; do
    [ -d "$dir" ] || continue
    for file in $(including "$dir"); do
        checked=$((checked + 1))
        [ "$file" = src/codegen/targets.c ] || offends "$file includes ${dir#src/}, which only src/codegen/targets.c may name"
    done
    prefix=hn_$(basename "$dir")_
    for file in $(grep -rlE "\b$prefix" src tools bench examples --include='*.[ch]' 2>/dev/null); do
        [ "$prefix" = hn_opencl_ ] && calls_opencl "$file" && continue
        [ "$prefix" = hn_cuda_ ] && calls_cuda "$file" && continue
        case "$file" in "$dir"* | src/codegen/targets.c | src/toolchain/*) checked=$((checked + 1)) ;; *) offends "$file names $prefix..., which only src/codegen/targets.c may" ;; esac
    done
done

# Only the rows of the table of devices know devices: the rest of the runtime includes the table, and
# names no kind of device, target or object, and nothing that a row is made of. Tests may, and a
# benchmark that gives the driver what a row has given it.
for file in $(grep -rlE '#include "runtime/device/' src tools bench examples 2>/dev/null | grep -v -e '^src/runtime/device/' -e '^bench/gpu_turns\.c$'); do
    checked=$((checked + 1))
    found=$(grep -oE '"runtime/device/[^"]*"' "$file" | grep -v '"runtime/device/device.h"' | head -1)
    [ -z "$found" ] || offends "$file includes $found, which only src/runtime/device/ may"
    case "$file" in src/runtime/* | src/measure/* | src/tune/*) ;; *) offends "$file includes runtime/device/, which only the runtime and what measures devices may" ;; esac
done
device='\bHN_DEVICE_[A-Z]+\b|\bHNB_TARGET_[A-Z]+\b|\bHNB_OBJECT_(ELF|CUBIN|PTX|OPENCL)\b|#include "(base/library.h|base/cpu.h|runtime/cpu.h)"|<(dlfcn|sys/mman)\.h>'
for file in $(find src/runtime -name '*.[ch]' 2>/dev/null | grep -v -e '^src/runtime/device/' -e '^src/runtime/cpu\.[ch]$'); do
    checked=$((checked + 1))
    found=$(grep -oE "$device" "$file" | head -1)
    [ -z "$found" ] || offends "$file knows a device: $found"
done

code_of() { sed -e 's|/\*.*\*/||' -e '/\/\*/,/\*\//d' "$1"; }
opencl_call='base/opencl|CL/cl\.h|\bcl[A-Z][A-Za-z]+\b'
for file in $(grep -rliE "opencl|$opencl_call" src include tools bench examples --include='*.[ch]' --include='*.def' 2>/dev/null); do
    checked=$((checked + 1))
    if code_of "$file" | grep -qE "$opencl_call"; then
        calls_opencl "$file" || offends "$file calls OpenCL, which only its rows of tables may"
    elif code_of "$file" | grep -qi opencl; then
        names_opencl "$file" || offends "$file names OpenCL, which only its rows and tables of names may"
    fi
done

for file in $(grep -rlE '"base/cuda\.h"|\bcu[A-Z][A-Za-z]+\(' src include tools bench examples --include='*.[ch]' 2>/dev/null); do
    checked=$((checked + 1))
    code_of "$file" | grep -qE '"base/cuda\.h"|\bcu[A-Z][A-Za-z]+\(' && ! calls_cuda "$file" && offends "$file calls CUDA's driver, which only its rows of tables may"
done

# Threads of the library take no signal of the host's.
for file in $(grep -rlE '\bpthread_create\(' src --include='*.[ch]'); do
    checked=$((checked + 1))
    [ "$file" = src/base/thread.c ] || offends "$file calls pthread_create, which only src/base/thread.c may"
done

# No text of a language where kernels are decided. In strings:
#   words that begin with two underscores    __global, __attribute__, __builtin_...
#   lines of the preprocessor                #include, #pragma
#   types, with a name or a star behind      "const float *", "long i"
#   an end of a statement                    ";\n", and ";" at the end
#   what has a parenthesis in C's family     "for (", "if (", "while (", "return "
#   OpenCL's functions and macros            get_group_id, barrier(, CLK_..., FP_CONTRACT
# Comments may quote what they like.
language='__[a-z]|#(include|define|pragma|if)|\b(const|void|float|double|int|long|char|short|uchar|ushort|size_t|u?int[0-9]+_t)( +[a-z*$%]| *\*)|;\\n|;"|\b(for|if|while|switch) ?\(|\breturn\b|\bget_(group|local|global)_id|\bbarrier\(|CLK_|FP_CONTRACT'
strings_of() { sed -e 's|/\*.*\*/||' -e '/\/\*/,/\*\//d' -e '/^ *#include/d' "$1" | grep -oE '"([^"\\]|\\.)*"'; }
for file in $(find src/kernel src/sched -name '*.[ch]'); do
    checked=$((checked + 1))
    found=$(strings_of "$file" | grep -E "$language" | head -3)
    [ -z "$found" ] || offends "$file has text of a language: $(echo "$found" | tr '\n' ' ')"
done

echo "$((checked - bad)) passed, $bad failed"
[ "$bad" = 0 ]
