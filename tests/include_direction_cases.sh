#!/bin/sh
# Each rule of tests/include_direction.sh is broken once, in a small tree; the script must name the file.
script=$(cd "$(dirname "$0")" && pwd)/include_direction.sh
work=$(mktemp -d "${TMPDIR:-/tmp}/henry-include-XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# A tree that breaks no rule.
begin() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree" && cd "$work/tree" || exit 2
    mkdir -p src/base src/sched src/kernel src/codegen/c src/codegen/opencl src/toolchain src/driver src/front/pt2 src/runtime/device tools
    echo '#include "codegen/c/c.h"' >src/codegen/targets.c
    echo '#include "codegen/c/c.h"' >src/codegen/c/print.c
    echo 'hn_status hn_c_probe(void);' >src/toolchain/c.h
    echo '#include "codegen/codegen.h"' >src/driver/compile.c
    printf '#include "base/library.h"\n#include "runtime/device/rows.h"\nx(HN_DEVICE_CPU);\n' >src/runtime/device/cpu.c
    printf '#include "runtime/device/device.h"\nx(HN_DEVICE_KIND_COUNT);\n' >src/runtime/load.c
    cat >src/kernel/print.c <<'EOF'
#include "kernel/form.h" /* "for (;;)" in a comment counts as little as "const float *" here: */
/* hn_strbuf_puts(out, "return x;\n");
 * "__global" */
const char *words[] = {"for ", "if ", " {\n", "expected a float", "; thread ", "read\n", "step %lld"};
EOF
}

# $1: what the case is; $2: what the script must print; "" when nothing breaks a rule
expect() {
    out=$(sh "$script" "$work/tree" 2>&1)
    code=$?
    case "$2" in "") want=0 ;; *) want=1 ;; esac
    if [ "$code" = "$want" ] && echo "$out" | grep -qF "$2"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$1: ended with $code and said: $out"
    fi
}

# $1: file; $2: its text; $3: what is found
breaks() {
    begin
    printf '%s\n' "$2" >"$1"
    expect "$1: $2" "$3"
}

begin
expect "a tree that breaks no rule" ""

breaks src/base/a.c '#include "sched/sched.h"' "src/base/a.c includes sched/sched.h"
breaks src/driver/a.c '#include "pt2/pt2.h"' "src/driver/a.c includes pt2/pt2.h"
breaks src/driver/a.c '#include "front/pt2/pt2.h"' "src/driver/a.c includes front/pt2/"
breaks src/driver/a.c '#include "codegen/c/c.h"' "src/driver/a.c includes codegen/c/"
breaks src/codegen/walk.c '#include "codegen/opencl/opencl.h"' "src/codegen/walk.c includes codegen/opencl/"
breaks src/codegen/opencl/a.c '#include "codegen/c/c.h"' "src/codegen/opencl/a.c includes codegen/c/"
breaks tools/a.c '#include "codegen/opencl/opencl.h"' "tools/a.c includes codegen/opencl/"
breaks src/driver/a.c 'hn_status s = hn_c_unit(p);' "src/driver/a.c names hn_c_"
breaks src/runtime/a.c 'pthread_create(&t, NULL, run, NULL);' "src/runtime/a.c calls pthread_create"
breaks src/driver/a.c '#include "base/cuda.h"' "src/driver/a.c calls CUDA's driver"
breaks src/runtime/load.c 'd->cuda.cuMemFree(p);' "src/runtime/load.c calls CUDA's driver"
breaks src/codegen/walk.c 'put(&hn_opencl_language);' "src/codegen/walk.c names hn_opencl_"

breaks src/runtime/a.c '#include "runtime/device/rows.h"' 'src/runtime/a.c includes "runtime/device/rows.h"'
breaks src/driver/a.c '#include "runtime/device/device.h"' "src/driver/a.c includes runtime/device/"
breaks src/runtime/a.c 'x(HN_DEVICE_OPENCL);' "src/runtime/a.c knows a device: HN_DEVICE_OPENCL"
breaks src/runtime/a.c 'x(HNB_TARGET_CPU);' "src/runtime/a.c knows a device: HNB_TARGET_CPU"
breaks src/runtime/a.c 'x(HNB_OBJECT_PTX);' "src/runtime/a.c knows a device: HNB_OBJECT_PTX"
breaks src/runtime/a.c '#include "base/library.h"' "src/runtime/a.c knows a device: #include"
breaks src/runtime/a.c '#include <sys/mman.h>' "src/runtime/a.c knows a device: <sys/mman.h>"

breaks src/driver/a.c '#include "base/opencl.h"' "src/driver/a.c calls OpenCL"
breaks src/driver/a.c 'cl->clFinish(queue);' "src/driver/a.c calls OpenCL"
breaks src/driver/a.c 'if (is_named("opencl")) return;' "src/driver/a.c names OpenCL"
breaks src/codegen/opencl/a.c '#include <CL/cl.h>' "src/codegen/opencl/a.c calls OpenCL"

# Text of a language, a case for each kind of it.
text() { breaks "src/$1/a.c" "puts(\"$2\");" "src/$1/a.c has text of a language"; }
text kernel '__global'
text kernel '#pragma unroll'
text sched 'const float *b0'
text kernel 'int i = 0'
text kernel 'x = y;\n'
text kernel '}  x();'
text sched 'for (long'
text kernel 'if (thread < 1) {'
text kernel 'return'
text kernel 'get_local_id(0)'
text kernel 'barrier(3)'
text kernel 'CLK_LOCAL_MEM_FENCE'

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
