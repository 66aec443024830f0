/* opencl.c: the table of OpenCL C, kernels by it, and units of them. */
#include "codegen/opencl/opencl.h"

#include "codegen/opencl/prelude.h"
#include "kernel/plan_gpu.h"

static const hn_class_texts ops[HN_OP_COUNT] = {
#define CL_OP(name, f32, f64, ints, mask) [HN_OP_##name] = {{f32, f64, ints, ints, mask}},
#include "codegen/opencl/ops.def"
#undef CL_OP
};

static const hn_segment_words segments = {
    .numbers = "$0 group = get_group_id(0); const $0 thread = get_local_id(0);",
    .read = "__global const $0 *$1;",
    .write = "__global $0 *$1;",
    .take = "$0 = $1 + $1_at / sizeof *$0;",
};

/* clang-format off */
const hn_language hn_opencl_language = {
    .name = "OpenCL C",
    .segments = &segments,
    .head = "__kernel __attribute__((reqd_work_group_size($0, 1, 1)))\nvoid KERNEL(",
    .read = "__global const $0 *$1, const long $1_at",
    .write = "__global $0 *$1, const long $1_at",
    .scratch = "__global uchar *scratch, const long scratch_at",
    .status = "__global int *status, const long status_at",
    .begin = "$0 += $0_at / sizeof *$0;",
    .size = "const long $0",
    .numbers = "const $0 group = get_group_id(0), thread = get_local_id(0);",
    .shared = "__local $0 $1[$2];",
    .part = "__global $0 *$1 = (__global $0 *)(scratch + $2);",
    .barrier = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    .private_array = "$0 $1[$2];",
    .move = "vstore$4(vload$4(0, $2 + $3), 0, $0 + $1);",
    .shuffle_threads = 1,
    .atomic = {
        [HN_STORE_ADD] = {[HN_DTYPE_I32] = "atomic_add($0 + $1, $2);"},
        [HN_STORE_MIN] = {[HN_DTYPE_I32] = "atomic_min($0 + $1, $2);"},
        [HN_STORE_MAX] = {[HN_DTYPE_I32] = "atomic_max($0 + $1, $2);"},
    },
    .swapped = {
        [HN_DTYPE_F32] = "swapped_f($0 + $1, &$2, $3)", [HN_DTYPE_I32] = "swapped_i($0 + $1, &$2, $3)",
        [HN_DTYPE_F16] = "swapped_us($0 + $1, &$2, $3)", [HN_DTYPE_BF16] = "swapped_us($0 + $1, &$2, $3)", [HN_DTYPE_I16] = "swapped_s($0 + $1, &$2, $3)",
        [HN_DTYPE_I8] = "swapped_c($0 + $1, &$2, $3)", [HN_DTYPE_U8] = "swapped_uc($0 + $1, &$2, $3)", [HN_DTYPE_BOOL] = "swapped_uc($0 + $1, &$2, $3)",
    },
    .unroll = "#pragma unroll $0",
    .index_type = "long",
    .narrow_index_type = "int",
    .index_words = {.suffix = "L", .floordiv = "fdiv", .mod = "fmodl", .min = "imin", .max = "imax"},
    .check = "checked($0, $1, status)",
    .check_wrapped = "checked($0 < 0 ? $0 + $1 : $0, $1, status)",
    .types = {{"float", "double", "int", "long", "int"}},
    .infinity = {{"INFINITY", "(double)INFINITY"}},
    .nan = {{"NAN", "(double)NAN"}},
    .float_suffix = "f",
    .long_suffix = "L",
    .casts = {
        [HN_NUMBER_F32] = {{"$0", "(double)$0", "f_i($0)", "f_l($0)", "($0 != 0)"}},
        [HN_NUMBER_F64] = {{"(float)$0", "$0", "d_i($0)", "d_l($0)", "($0 != 0)"}},
        [HN_NUMBER_I32] = {{"(float)$0", "(double)$0", "$0", "(long)$0", "($0 != 0)"}},
        [HN_NUMBER_I64] = {{"(float)$0", "(double)$0", "(int)$0", "$0", "($0 != 0)"}},
        [HN_NUMBER_BOOL] = {{"(float)$0", "(double)$0", "$0", "(long)$0", "$0"}},
    },
    .random = {
        [HN_RANDOM_UNIFORM] = {{"random_uniform_f($0, $1, $2, $3)", "random_uniform_d($0, $1, $2)"}},
        [HN_RANDOM_NORMAL] = {{"(float)random_normal($0, $1, $2)", "random_normal($0, $1, $2)"}},
        [HN_RANDOM_BITS] = {{NULL, NULL, "(int)random_bits($0, $1, $2)", "random_bits($0, $1, $2)", "((int)random_bits($0, $1, $2) & 1)"}},
    },
    .elements = {
        [HN_DTYPE_F64] = "double", [HN_DTYPE_F32] = "float", [HN_DTYPE_F16] = "ushort", [HN_DTYPE_BF16] = "ushort", [HN_DTYPE_I64] = "long",
        [HN_DTYPE_I32] = "int", [HN_DTYPE_I16] = "short", [HN_DTYPE_I8] = "char", [HN_DTYPE_U8] = "uchar", [HN_DTYPE_BOOL] = "uchar",
    },
    .loads = {[HN_DTYPE_F16] = "h_f($0)", [HN_DTYPE_BF16] = "b_f($0)", [HN_DTYPE_BOOL] = "($0 != 0)"},
    .stores = {[HN_DTYPE_F16] = "f_h($0)", [HN_DTYPE_BF16] = "f_b($0)"},
    .narrow = {
        [HN_DTYPE_F16] = "round_f16($0)", [HN_DTYPE_BF16] = "round_bf16($0)", [HN_DTYPE_I16] = "(short)($0)", [HN_DTYPE_I8] = "(char)($0)",
        [HN_DTYPE_U8] = "(uchar)($0)",
    },
    .bits_of = {
        [HN_DTYPE_F64] = "as_long($0)", [HN_DTYPE_F32] = "as_int($0)", [HN_DTYPE_F16] = "(short)f_h($0)", [HN_DTYPE_BF16] = "(short)f_b($0)",
    },
    .of_bits = {
        [HN_DTYPE_F64] = "as_double($0)", [HN_DTYPE_F32] = "as_float($0)", [HN_DTYPE_F16] = "h_f((ushort)$0)",
        [HN_DTYPE_BF16] = "b_f((ushort)$0)",
    },
    .ops = ops,
};
/* clang-format on */

/* A product that something is added to is rounded first, as on every target. f64 is an extension:
 * named where it is used only, for devices that lack it. */
static void put_pragmas(hn_str text, hn_strbuf *out) {
    hn_strbuf_puts(out, "#pragma OPENCL FP_CONTRACT OFF\n");
    if (strstr(text.ptr, "double"))
        hn_strbuf_puts(out, "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n");
}

hn_status hn_opencl_unit(const hn_kernel_code *const *kernels, uint32_t count,
                         const hn_target *target, hn_strbuf *out) {
    hn_strbuf text, all;
    (void)target; /* all devices get the same */
    hn_strbuf_init(&text);
    hn_strbuf_init(&all);
    for (uint32_t k = 0; k < count; k++) hn_kernel_code_put(kernels[k], &text);
    hn_opencl_prelude(hn_strbuf_str(&text), &all);
    hn_strbuf_append(&all, text.ptr ? text.ptr : "", text.len);
    put_pragmas(hn_strbuf_str(&all), out);
    hn_strbuf_append(out, all.ptr ? all.ptr : "", all.len);
    out->failed |= text.failed || all.failed;
    hn_strbuf_deinit(&text);
    hn_strbuf_deinit(&all);
    return hn_strbuf_status(out);
}
