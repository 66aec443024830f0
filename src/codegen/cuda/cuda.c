/* cuda.c: the table of CUDA C++, and units of kernels. The text needs no header. */
#include "codegen/cuda/cuda.h"

#include "codegen/cuda/prelude.h"

static const hn_class_texts ops[HN_OP_COUNT] = {
#define CUDA_OP(name, f32, f64, ints, mask) [HN_OP_##name] = {{f32, f64, ints, ints, mask}},
#include "codegen/cuda/ops.def"
#undef CUDA_OP
};

/* Blocks of a cluster are neighbours in the grid. */
static const hn_cluster_words clusters = {
    .head =
        "extern \"C\" __global__ void __cluster_dims__($1, 1, 1) __launch_bounds__($0$2)\nKERNEL(",
    .numbers = "const $0 group = blockIdx.x / $1, thread = threadIdx.x + blockIdx.x % $1 * $2;",
    .barrier = "cluster_wait();",
    .leave = "cluster_leave();",
    .far = "far(&$0[$1], $2)",
};

static const hn_stage_words stages = {
    .begin = "extern __shared__ uint4 memory[];",
    .part = "$0 *const $1 = ($0 *)(memory + $2);",
    .settle = "settle($0, $1);",
    .move = "copy_async($0 + $1, $2 + $3, 16);",
    .await = {"copies_end(), copies_wait();", "copies_end(), copies_wait_but_one();",
              "copies_end(), copies_wait_but_two();"},
};

static const hn_segment_words segments = {
    .numbers = "$0 group = blockIdx.x; const $0 thread = threadIdx.x;",
    .read = "const $0 *$1;",
    .write = "$0 *$1;",
    .read_alone = "const $0 *__restrict__ $1;",
    .write_alone = "$0 *__restrict__ $1;",
    .take = "$0 = $1;",
};

/* clang-format off */
const hn_language hn_cuda_language = {
    .name = "CUDA C++",
    .segments = &segments,
    .clusters = &clusters,
    .stages = &stages,
    .head = "extern \"C\" __global__ void __launch_bounds__($0$2)\nKERNEL(",
    .read = "const $0 *$1",
    .write = "$0 *$1",
    .read_alone = "const $0 *__restrict__ $1",
    .write_alone = "$0 *__restrict__ $1",
    .scratch = "unsigned char *__restrict__ scratch",
    .scratch_is_last = true,
    .status = "int *__restrict__ status",
    .size = "const long long $0",
    .numbers = "const $0 group = blockIdx.x, thread = threadIdx.x;",
    .shared = "__shared__ $0 $1[$2];",
    .part = "$0 *$1 = ($0 *)(scratch + $2);",
    .barrier = "__syncthreads();",
    .private_array = "alignas(16) $0 $1[$2];",
    .move = "move($0 + $1, $2 + $3, pack<$5, $4>());",
    .shuffle_threads = 32,
    .shuffle = "__shfl_xor_sync($2, $0, $1)",
    .shuffle_up = "__shfl_up_sync($2, $0, $1)",
    .atomic = {
        [HN_STORE_ADD] = {
            [HN_DTYPE_F64] = "atomicAdd($0 + $1, $2);", [HN_DTYPE_F32] = "atomicAdd($0 + $1, $2);", [HN_DTYPE_I32] = "atomicAdd($0 + $1, $2);",
            [HN_DTYPE_I64] = "atomicAdd((unsigned long long *)$0 + $1, (unsigned long long)$2);",
        },
        [HN_STORE_MIN] = {[HN_DTYPE_I32] = "atomicMin($0 + $1, $2);", [HN_DTYPE_I64] = "atomicMin($0 + $1, $2);"},
        [HN_STORE_MAX] = {[HN_DTYPE_I32] = "atomicMax($0 + $1, $2);", [HN_DTYPE_I64] = "atomicMax($0 + $1, $2);"},
    },
    .swapped = {
        [HN_DTYPE_F64] = "swapped($0 + $1, &$2, $3)", [HN_DTYPE_F32] = "swapped($0 + $1, &$2, $3)", [HN_DTYPE_F16] = "swapped($0 + $1, &$2, $3)",
        [HN_DTYPE_BF16] = "swapped($0 + $1, &$2, $3)", [HN_DTYPE_I64] = "swapped($0 + $1, &$2, $3)", [HN_DTYPE_I32] = "swapped($0 + $1, &$2, $3)",
        [HN_DTYPE_I16] = "swapped($0 + $1, &$2, $3)", [HN_DTYPE_I8] = "swapped_byte($0 + $1, &$2, $3)",
        [HN_DTYPE_U8] = "swapped_byte($0 + $1, &$2, $3)", [HN_DTYPE_BOOL] = "swapped_byte($0 + $1, &$2, $3)",
    },
    .exp_not_positive = "exp2_near_f($0 * 0x1.715476p+0f)",
    .one_plus_erf = "one_plus_erf_f($0)",
    .unroll = "#pragma unroll $0",
    .index_type = "long long",
    .narrow_index_type = "int",
    .index_words = {.suffix = "LL", .floordiv = "floor_div", .mod = "floor_mod", .min = "least", .max = "most"},
    .check = "checked($0, $1, status)",
    .check_wrapped = "checked($0 < 0 ? $0 + $1 : $0, $1, status)",
    .types = {{"float", "double", "int", "long long", "int"}},
    .infinity = {{"inf_f()", "inf_d()"}},
    .nan = {{"nan_f()", "nan_d()"}},
    .float_suffix = "f",
    .long_suffix = "LL",
    .casts = {
        [HN_NUMBER_F32] = {{"$0", "(double)$0", "f_i($0)", "f_l($0)", "($0 != 0)"}},
        [HN_NUMBER_F64] = {{"(float)$0", "$0", "d_i($0)", "d_l($0)", "($0 != 0)"}},
        [HN_NUMBER_I32] = {{"(float)$0", "(double)$0", "$0", "(long long)$0", "($0 != 0)"}},
        [HN_NUMBER_I64] = {{"(float)$0", "(double)$0", "(int)$0", "$0", "($0 != 0)"}},
        [HN_NUMBER_BOOL] = {{"(float)$0", "(double)$0", "$0", "(long long)$0", "$0"}},
    },
    .random = {
        [HN_RANDOM_UNIFORM] = {{"random_uniform_f($0, $1, $2, $3)", "random_uniform_d($0, $1, $2)"}},
        [HN_RANDOM_NORMAL] = {{"(float)random_normal($0, $1, $2)", "random_normal($0, $1, $2)"}},
        [HN_RANDOM_BITS] = {{NULL, NULL, "(int)random_bits($0, $1, $2)", "random_bits($0, $1, $2)", "((int)random_bits($0, $1, $2) & 1)"}},
    },
    .elements = {
        [HN_DTYPE_F64] = "double", [HN_DTYPE_F32] = "float", [HN_DTYPE_F16] = "unsigned short", [HN_DTYPE_BF16] = "unsigned short",
        [HN_DTYPE_I64] = "long long", [HN_DTYPE_I32] = "int", [HN_DTYPE_I16] = "short", [HN_DTYPE_I8] = "signed char",
        [HN_DTYPE_U8] = "unsigned char", [HN_DTYPE_BOOL] = "unsigned char",
    },
    .loads = {[HN_DTYPE_F16] = "h_f($0)", [HN_DTYPE_BF16] = "b_f($0)", [HN_DTYPE_BOOL] = "($0 != 0)"},
    .stores = {[HN_DTYPE_F16] = "f_h($0)", [HN_DTYPE_BF16] = "f_b($0)"},
    .narrow = {
        [HN_DTYPE_F16] = "round_f16($0)", [HN_DTYPE_BF16] = "round_bf16($0)", [HN_DTYPE_I16] = "(short)($0)",
        [HN_DTYPE_I8] = "(signed char)($0)", [HN_DTYPE_U8] = "(unsigned char)($0)",
    },
    .bits_of = {
        [HN_DTYPE_F64] = "__double_as_longlong($0)", [HN_DTYPE_F32] = "__float_as_int($0)", [HN_DTYPE_F16] = "(short)f_h($0)",
        [HN_DTYPE_BF16] = "(short)f_b($0)",
    },
    .of_bits = {
        [HN_DTYPE_F64] = "__longlong_as_double($0)", [HN_DTYPE_F32] = "__int_as_float($0)", [HN_DTYPE_F16] = "h_f((unsigned short)$0)",
        [HN_DTYPE_BF16] = "b_f((unsigned short)$0)",
    },
    .ops = ops,
};
/* clang-format on */

hn_status hn_cuda_unit(const hn_kernel_code *const *kernels, uint32_t count,
                       const hn_target *target, hn_strbuf *out) {
    hn_strbuf text;
    (void)target; /* the compiler is told for which architecture */
    hn_strbuf_init(&text);
    for (uint32_t k = 0; k < count; k++) hn_kernel_code_put(kernels[k], &text);
    hn_cuda_prelude(hn_strbuf_str(&text), out);
    hn_strbuf_append(out, text.ptr ? text.ptr : "", text.len);
    out->failed |= text.failed;
    hn_strbuf_deinit(&text);
    return hn_strbuf_status(out);
}
