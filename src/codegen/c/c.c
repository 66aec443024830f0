/* c.c: the table of C, and units of it. Names of functions in the table are those of snippets.c. */
#include "codegen/c/c.h"

#include "codegen/c/mathlib.h"

static const hn_class_texts ops[HN_OP_COUNT] = {
#define C_OP(name, f32, f64, ints, mask) [HN_OP_##name] = {{f32, f64, ints, ints, mask}},
#include "codegen/c/ops.def"
#undef C_OP
};

#define ACROSS(fn, mask)                                                                           \
    {                                                                                              \
        {                                                                                          \
            "sp_f(" fn "_f($0))", "sp_d(" fn "_d($0))", "sp_i(" fn "_i($0))",                      \
                "sp_l(" fn "_l($0))", mask                                                         \
        }                                                                                          \
    }
#define ACROSS_AT(fn)                                                                              \
    {                                                                                              \
        {                                                                                          \
            "sp_l(" fn "_f($0, $1))", "sp_l(" fn "_d($0, $1))", "sp_l(" fn "_i($0, $1))",          \
                "sp_l(" fn "_l($0, $1))"                                                           \
        }                                                                                          \
    }

static const hn_class_texts across[HN_OP_COUNT] = {
    [HN_OP_SUM] = ACROSS("hsum", "sp_i(hor_m($0))"),
    [HN_OP_PROD] = ACROSS("hprod", "sp_i(hand_m($0))"),
    [HN_OP_AMIN] = ACROSS("hmin", "sp_i(hand_m($0))"),
    [HN_OP_AMAX] = ACROSS("hmax", "sp_i(hor_m($0))"),
    [HN_OP_ANY] = {{NULL, NULL, NULL, NULL, "sp_i(hor_m($0))"}},
    [HN_OP_ALL] = {{NULL, NULL, NULL, NULL, "sp_i(hand_m($0))"}},
    [HN_OP_ARGMIN] = ACROSS_AT("hargmin"),
    [HN_OP_ARGMAX] = ACROSS_AT("hargmax"),
};

/* A vector of checks: $0: array, $1: numbers, $2: extent, $3: what ends the kernel when that is 0.
 * Lane by lane: compilers compare vectors of 64 bit so where the machine has none of that length,
 * and then by way of memory. With a branch, which is foreseen, no address waits for a check. In 32
 * bits there is no branch: a compiler would have to follow one for each lane. */
#define CHECKS(wrap, also)                                                                         \
    "ll $0[VF]; { const ll e = $2; $3LANES { ll x = $1[k]; " wrap "if (OUTSIDE(x, e)" also         \
    ") { err = 1; x = 0; } $0[k] = x; } }"
#define NARROW_CHECKS(wrap, live)                                                                  \
    "int $0[VF]; { const int e = $2; $3vi x = $1; " wrap                                           \
    "const vi q = (vi)(x < sp_i(0)) | (vi)(x >= sp_i(e)); outside |= q" live                       \
    "; *(viu *)$0 = x & ~q; }"
#define WRAP        "x += x < 0 ? e : 0; "
#define NARROW_WRAP "x += (vi)(x < sp_i(0)) & sp_i(e); "
/* One number for all lanes: it becomes an address. */
#define CHECK(wrap)                                                                                \
    "ll $0 = $1[0]; { const ll e = $2; " wrap                                                      \
    "if ($0 < 0 || $0 >= e) { if (e <= 0) return 1; err = 1; $0 = 0; } }"

/* clang-format off */
static const hn_vector_words vectors = {
    .splat = {{"sp_f($0)", "sp_d($0)", "sp_i($0)", "sp_l($0)", "sp_i($0)"}},
    .true_number = "-1",
    .rounded = {{"rounded_f($0)", "rounded_d($0)"}},
    .larger = "larger_f($0, $1)",
    .of_bool = "(-$0)",
    .to_bool = "(vi)(sp_i(0) < $0)",
    .live = "const vi live = lanes_below(n);",
    .only_live = {{"sel_f(live, $0)", "sel_d(live, $0)", "sel_i(live, $0)", "sel_l(live, $0)",
                   "sel_i(live, $0)"}},
    .across = across,
    .indices =
        {
            [HN_ACCESS_UNIFORM] = {{NULL, NULL, "sp_i($0)", "sp_l($0)"}},
            [HN_ACCESS_CONTIGUOUS] = {{NULL, NULL, "(sp_i($0) + IOTA_I)", "(sp_l($0) + IOTA_L)"}},
            [HN_ACCESS_STRIDED] = {{NULL, NULL, "(sp_i($0) + IOTA_I * sp_i($1))",
                                  "(sp_l($0) + IOTA_L * sp_l($1))"}},
            [HN_ACCESS_GATHER] = {{NULL, NULL, "({ vi o; LANES o[k] = $0; o; })",
                                 "({ vl o; LANES o[k] = $0; o; })"}},
        },
    .check = CHECK(""),
    .check_wrapped = CHECK("if ($0 < 0) $0 += e; "),
    .check_quiet = "const ll $0 = bounded($1[0], $2);",
    .checks = {CHECKS("", ""), CHECKS("", " && k < n")},
    .checks_wrapped = {CHECKS(WRAP, ""), CHECKS(WRAP, " && k < n")},
    .narrow_checks = {NARROW_CHECKS("", ""), NARROW_CHECKS("", " & lanes_below(n)")},
    .narrow_checks_wrapped = {NARROW_CHECKS(NARROW_WRAP, ""),
                              NARROW_CHECKS(NARROW_WRAP, " & lanes_below(n)")},
    .no_extent = "if (e <= 0) return 1; ",
    .narrow_begin = "  vi outside = sp_i(0);",
    .narrow_end = "LANES err |= outside[k] != 0;",
    .loads =
        {
            [HN_ACCESS_UNIFORM] = {"lp_@($0 + $1)", "lp_@($0 + $1)"},
            [HN_ACCESS_CONTIGUOUS] = {"ld_@($0 + $1)", "ldn_@($0 + $1, n)"},
            [HN_ACCESS_STRIDED] = {"lds_@($0 + $1, $2)", "ldsn_@($0 + $1, $2, n)"},
            /* words go straight into the lanes: a detour over memory would wait for the stores */
            [HN_ACCESS_GATHER] =
                {"({ v# t; LANES t[k] = $0[$1]; t; })",
                 "({ $2 t[VF] = {0}; for (ll k = 0; k < n; k++) t[k] = $0[$1]; ld_@(t); })"},
        },
    .narrow_gather = {"({ $2 t[VF]; LANES t[k] = $0[$1]; ld_@(t); })",
                      "({ $2 t[VF] = {0}; for (ll k = 0; k < n; k++) t[k] = $0[$1]; ld_@(t); })"},
    .stores =
        {
            [HN_ACCESS_UNIFORM] = {"s1_@($0 + $1, $3);", "s1_@($0 + $1, $3);"},
            [HN_ACCESS_CONTIGUOUS] = {"st_@($0 + $1, $3);", "stn_@($0 + $1, $3, n);"},
            [HN_ACCESS_STRIDED] = {"sts_@($0 + $1, $2, $3, VF);", "sts_@($0 + $1, $2, $3, n);"},
            [HN_ACCESS_GATHER] = {"stg_@($0, ({ vl o; LANES o[k] = $1; o; }), $3, VF);",
                                "stg_@($0, ({ vl o; LANES o[k] = $1; o; }), $3, n);"},
        },
    .streams = "nt_@($0 + $1, $3);",
    .streams_aligned = "na_@($0 + $1, $3);",
    .fence = "nt_fence();",
    .in_order = "for (int k = 0; k < $0; k++) { $1 *q = $2 + $3; const $4 x = lp_@(q), y = ",
    .in_order_end = "; s1_@(q, $0); }",
    .prefetch = {[HN_FETCH_READ] = "__builtin_prefetch($0 + $1);",
                 [HN_FETCH_WRITE] = "__builtin_prefetch($0 + $1, 1);",
                 [HN_FETCH_FAR] = "__builtin_prefetch($0 + $1, 0, 2);"},
    .transpose_square = "tile_@($0 + $1, $2",
    .transpose = "block_@($0 + $1, $2, $3, $4",
    .is_aligned = "((unsigned long long)$0 & (4 * VF - 1)) == 0",
};
/* clang-format on */

/* Iterations count on from segment to segment. */
static const hn_segment_words segments = {
    .head =
        "static int KERNEL_segment(void *const *B, const ll *S, ll first, ll until, void *scratch",
    .calls =
        "int KERNEL(void *const *B, const ll *S, ll first, ll until, void *scratch) {\n"
        "  ll begin = 0;\n"
        "  int err = 0;\n"
        "  for (int k = 0; k < $0 && begin < until; k++, B += $1, S += $2) {\n"
        "    const ll end = S[0], from = first > begin ? first : begin, to = until < end ? until : end;\n"
        "    if (from < to) err |= KERNEL_segment(B, S + 1, from - begin, to - begin, scratch);\n"
        "    begin = end;\n"
        "  }\n"
        "  return err;\n"
        "}\n",
};

/* clang-format off */
const hn_language hn_c_language = {
    .name = "C",
    .segments = &segments,
    .exp_not_positive = "exp0_f($0)",
    .vectors = &vectors,
    .head = "int KERNEL(void *const *B, const ll *S, ll first, ll until, void *scratch",
    .fetches = true,
    .numbers = "int err = 0; (void)S; (void)scratch;",
    .read = "const $0 *$1 = B[$2]",
    .write = "$0 *$1 = B[$2]",
    .size = "const ll $0 = S[$1]",
    .end = "return err;",
    .shared = "$0 $1[$2] __attribute__((aligned(64)));",
    .part = "$0 *$1 = ($0 *)((char *)scratch + $2);",
    .unroll = "_Pragma(\"GCC unroll $0\")",
    .index_type = "ll",
    .index_words =
        {.suffix = "LL", .floordiv = "fdiv", .mod = "fmodll", .min = "imin", .max = "imax"},
    .types = {{"vf", "vd", "vi", "vl", "vi"}},
    .infinity = {{"__builtin_inff()", "__builtin_inf()"}},
    .nan = {{"__builtin_nanf(\"\")", "__builtin_nan(\"\")"}},
    .float_suffix = "f",
    .long_suffix = "LL",
    .casts =
        {
            [HN_NUMBER_F32] = {{"$0", "f_d($0)", "f_i($0)", "f_l($0)", "f_m($0)"}},
            [HN_NUMBER_F64] = {{"d_f($0)", "$0", "d_i($0)", "d_l($0)", "d_m($0)"}},
            [HN_NUMBER_I32] = {{"i_f($0)", "i_d($0)", "$0", "i_l($0)", "i_m($0)"}},
            [HN_NUMBER_I64] = {{"l_f($0)", "l_d($0)", "l_i($0)", "$0", "l_m($0)"}},
            [HN_NUMBER_BOOL] = {{"m_f($0)", "m_d($0)", "m_i($0)", "m_l($0)", "$0"}},
        },
#define RANDOM(type, number) "({ " type " r; for (int k = 0; k < VF; k++) r[k] = " number "; r; })"
    .random =
        {
            [HN_RANDOM_UNIFORM] = {{RANDOM("vf", "(float)random_uniform($0[k], $1, $2, $3)"),
                                    RANDOM("vd", "(double)random_uniform($0[k], $1, $2, $3)")}},
            [HN_RANDOM_NORMAL] = {{RANDOM("vf", "(float)random_normal($0[k], $1, $2)"),
                                   RANDOM("vd", "(double)random_normal($0[k], $1, $2)")}},
            [HN_RANDOM_BITS] = {{NULL, NULL, RANDOM("vi", "(int)random_bits($0[k], $1, $2)"),
                                 RANDOM("vl", "(ll)random_bits($0[k], $1, $2)"),
                                 RANDOM("vi", "-(1 & (int)random_bits($0[k], $1, $2))")}},
        },
#undef RANDOM
    .elements =
        {
            [HN_DTYPE_F64] = "double",
            [HN_DTYPE_F32] = "float",
            [HN_DTYPE_F16] = "unsigned short",
            [HN_DTYPE_BF16] = "unsigned short",
            [HN_DTYPE_I64] = "ll",
            [HN_DTYPE_I32] = "int",
            [HN_DTYPE_I16] = "short",
            [HN_DTYPE_I8] = "signed char",
            [HN_DTYPE_U8] = "unsigned char",
            [HN_DTYPE_BOOL] = "unsigned char",
        },
    /* narrow ints are computed in 32 bits and cut to their width */
    .narrow =
        {
            [HN_DTYPE_F16] = "round_f16($0)",
            [HN_DTYPE_BF16] = "round_bf16($0)",
            [HN_DTYPE_I16] = "wrap_i16($0)",
            [HN_DTYPE_I8] = "wrap_i8($0)",
            [HN_DTYPE_U8] = "wrap_u8($0)",
        },
    /* 16-bit floats live in lanes of 32 bits */
    .bits_of =
        {
            [HN_DTYPE_F64] = "(vl)$0",
            [HN_DTYPE_F32] = "(vi)$0",
            [HN_DTYPE_F16] = "wrap_i16(f_h($0))",
            [HN_DTYPE_BF16] = "((vi)round_bf16($0) >> 16)",
        },
    .of_bits = {[HN_DTYPE_F64] = "(vd)$0",
                [HN_DTYPE_F32] = "(vf)$0",
                [HN_DTYPE_F16] = "h_f($0)",
                [HN_DTYPE_BF16] = "(vf)($0 << 16)"},
    .ops = ops,
};
/* clang-format on */

hn_status hn_c_unit(const hn_kernel_code *const *kernels, uint32_t count, const hn_target *target,
                    hn_strbuf *out) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    for (uint32_t k = 0; k < count; k++) hn_kernel_code_put(kernels[k], &text);
    hn_c_prelude(hn_strbuf_str(&text), target->vector_bytes / 4, out);
    hn_strbuf_append(out, text.ptr ? text.ptr : "", text.len);
    hn_status status = hn_strbuf_status(&text);
    hn_strbuf_deinit(&text);
    return status ? status : hn_strbuf_status(out);
}
