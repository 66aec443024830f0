/* test_math.c: every element-wise op in every dtype on OpenCL, over edge values and random ones,
 * against the reference interpreter's scalar functions; and what must equal the CPU's kernels bit
 * for bit, against kernels of a level that does not contract products and sums.
 *
 *     opencl_test_math [TEST]      HENRY_TEST_SHOW=1: prints the largest error of each op */
#include "codegen/walk.h"
#include "opencl/fixture.h"

#include "base/compiler.h"
#include "ir/interp.h"
#include "unit/codegen/compile_fixture.h"

#include <float.h>

/* ---- the table ---- */

/* The error that an op may have, in ulps of the exact result. What has no row is exact: its results
 * are the nearest numbers. For OpenCL's own functions the bounds are those of its specification
 * (7.4 of OpenCL 1.2); lgamma has none there. */
typedef struct bound {
    hn_op op;
    double f32, f64;
    double flushed; /* f32: a result below this may be 0 instead */
    double least;   /* and errors count in ulps of this at least: beside zeros of the function */
} bound;

static const bound bounds[] = {
    /* polynomials of codegen/math.def; f64: OpenCL's */
    {HN_OP_EXP, .f32 = 2, .f64 = 3, .flushed = 0x1p-125},
    {HN_OP_LOG, .f32 = 2, .f64 = 3},
    {HN_OP_TANH, .f32 = 6.75, .f64 = 5},
    {HN_OP_ERF, .f32 = 7, .f64 = 16},
    {HN_OP_SIN, .f32 = 4, .f64 = 4, .least = 0x1p-10},
    {HN_OP_COS, .f32 = 4, .f64 = 4, .least = 0x1p-10},
    {HN_OP_SIGMOID, .f32 = 3, .f64 = 4, .flushed = 0x1p-125},
    {HN_OP_RSQRT, .f32 = 1.5, .f64 = 1.5}, /* two roundings */
    {HN_OP_REMAINDER, .f32 = 1, .f64 = 1}, /* fmod is exact, the sum behind it rounds */
    /* series of codegen/math.def in f64, on OpenCL's functions */
    {HN_OP_ERFINV, .f32 = 1, .f64 = 64},
    {HN_OP_DIGAMMA, .f32 = 1, .f64 = 256, .least = 1},
    {HN_OP_ZETA, .f32 = 1, .f64 = 256},
    /* OpenCL's */
    {HN_OP_EXP2, .f32 = 3, .f64 = 3},
    {HN_OP_EXPM1, .f32 = 3, .f64 = 3},
    {HN_OP_LOG2, .f32 = 3, .f64 = 3},
    {HN_OP_LOG10, .f32 = 3, .f64 = 3},
    {HN_OP_LOG1P, .f32 = 2, .f64 = 2},
    {HN_OP_TAN, .f32 = 5, .f64 = 5},
    {HN_OP_ASIN, .f32 = 4, .f64 = 4},
    {HN_OP_ACOS, .f32 = 4, .f64 = 4},
    {HN_OP_ATAN, .f32 = 5, .f64 = 5},
    {HN_OP_SINH, .f32 = 4, .f64 = 4},
    {HN_OP_COSH, .f32 = 4, .f64 = 4},
    {HN_OP_ASINH, .f32 = 4, .f64 = 4},
    {HN_OP_ACOSH, .f32 = 4, .f64 = 4},
    {HN_OP_ATANH, .f32 = 5, .f64 = 5},
    {HN_OP_ERFC, .f32 = 16, .f64 = 16},
    {HN_OP_LGAMMA, .f32 = 16, .f64 = 16, .least = 1},
    {HN_OP_POW, .f32 = 16, .f64 = 16},
    {HN_OP_ATAN2, .f32 = 6, .f64 = 6},
    {HN_OP_HYPOT, .f32 = 4, .f64 = 4},
};

static const bound *bound_of(hn_op op) {
    static const bound exact = {0};
    for (size_t k = 0; k < HN_COUNT_OF(bounds); k++)
        if (bounds[k].op == op) return &bounds[k];
    return &exact;
}

/* The reference leaves the sign of a zero open; the inverse of erf, as the CPU's, gives 0 for
 * -0. */
static bool zeros_are_equal(hn_op op) {
    return op == HN_OP_MIN || op == HN_OP_MAX || op == HN_OP_FMIN || op == HN_OP_FMAX ||
           op == HN_OP_RELU || op == HN_OP_ERFINV;
}

/* ---- values ---- */

static const double float_edges[] = {0,
                                     -0.0,
                                     1,
                                     -1,
                                     0.5,
                                     -0.5,
                                     1.5,
                                     2.5,
                                     -2.5,
                                     3,
                                     -3,
                                     7,
                                     0.1,
                                     -0.1,
                                     1e-3,
                                     10,
                                     -10,
                                     88,
                                     88.72283172607422,
                                     89.5,
                                     -87,
                                     -87.4,
                                     -104,
                                     100,
                                     1e10,
                                     -1e10,
                                     8192,
                                     8193,
                                     3.14159274,
                                     1.57079637,
                                     1e-30,
                                     FLT_MIN,
                                     0x1p-149,
                                     -0x1p-149,
                                     FLT_MAX,
                                     -FLT_MAX,
                                     INFINITY,
                                     -INFINITY,
                                     NAN,
                                     0.99999994,
                                     1.0000001,
                                     0x1p31,
                                     -0x1p31,
                                     0x1p63,
                                     65504,
                                     65520,
                                     6e-8,
                                     255.5,
                                     -129};
static const int64_t int_edges[] = {0,
                                    1,
                                    -1,
                                    2,
                                    -2,
                                    3,
                                    -3,
                                    7,
                                    -7,
                                    8,
                                    15,
                                    16,
                                    31,
                                    32,
                                    33,
                                    63,
                                    64,
                                    65,
                                    100,
                                    -100,
                                    127,
                                    -128,
                                    128,
                                    255,
                                    256,
                                    -256,
                                    32767,
                                    -32768,
                                    INT32_MAX,
                                    INT32_MIN,
                                    INT32_MIN + 1,
                                    INT64_MAX,
                                    INT64_MIN,
                                    INT64_MIN + 1};
enum { FLOATS = HN_COUNT_OF(float_edges), INTS = HN_COUNT_OF(int_edges), COUNT = 6000 };

static uint64_t state = 1;
static uint64_t next_random(void) {
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Of every exponent, and as often of a moderate one. */
static double random_float(hn_dtype dtype) {
    uint64_t bits = next_random();
    if (bits & 1) return (double)(int64_t)(bits >> 8 & 0xFFFFF) / 0x1p16 - 8;
    if (dtype == HN_DTYPE_F64) return ldexp((double)(int64_t)bits, (int)(bits >> 1 & 1023) - 575);
    uint32_t word = (uint32_t)(bits >> 16);
    float f;
    memcpy(&f, &word, sizeof f);
    return (double)f;
}

/* Pairs of all edge values, then random ones. */
static void fill(hn_ref_tensor *x, hn_ref_tensor *y) {
    for (int k = 0; k < COUNT; k++) {
        bool is_float = hn_dtype_is_float(x->dtype);
        int edges = is_float ? FLOATS : INTS, at = k / edges, other = k % edges;
        bool random = at >= edges;
        if (is_float) {
            x->data.f[k] = random ? random_float(x->dtype) : float_edges[at];
            y->data.f[k] = random ? random_float(x->dtype) : float_edges[other];
        } else {
            x->data.i[k] =
                random ? (int64_t)(next_random() >> (next_random() & 63)) : int_edges[at];
            y->data.i[k] =
                random ? (int64_t)(next_random() >> (next_random() & 63)) : int_edges[other];
            if (x->dtype == HN_DTYPE_BOOL) x->data.i[k] &= 1, y->data.i[k] &= 1;
        }
    }
}

/* Values of a dtype, as tensors (rounded to it) and as memory. */
typedef struct operands {
    hn_ref_tensor x, y;
    void *x_bytes, *y_bytes;
} operands;

static hn_status make_operands(hn_arena *arena, hn_dtype dtype, operands *o) {
    const int64_t sizes[] = {COUNT};
    HN_TRY(hn_ref_tensor_init(arena, dtype, 1, sizes, &o->x));
    HN_TRY(hn_ref_tensor_init(arena, dtype, 1, sizes, &o->y));
    fill(&o->x, &o->y);
    HN_TRY(hn_arena_array(arena, COUNT, hn_dtype_facts(dtype)->size_bytes, &o->x_bytes));
    HN_TRY(hn_arena_array(arena, COUNT, hn_dtype_facts(dtype)->size_bytes, &o->y_bytes));
    hn_ref_tensor_store(&o->x, o->x_bytes);
    hn_ref_tensor_store(&o->y, o->y_bytes);
    HN_TRY(hn_ref_tensor_load(arena, dtype, 1, sizes, NULL, o->x_bytes, &o->x));
    return hn_ref_tensor_load(arena, dtype, 1, sizes, NULL, o->y_bytes, &o->y);
}

/* ---- comparing ---- */

static double ulp_at(hn_dtype dtype, double value) {
    int exponent, digits = dtype == HN_DTYPE_F64   ? 53
                           : dtype == HN_DTYPE_F32 ? 24
                           : dtype == HN_DTYPE_F16 ? 11
                                                   : 8;
    int least = dtype == HN_DTYPE_F64 ? -1021 : dtype == HN_DTYPE_F16 ? -13 : -125;
    frexp(value, &exponent);
    return ldexp(1, (exponent < least ? least : exponent) - digits);
}

/* In ulps. The next number behind the largest one is infinity. */
static double error_of(const bound *b, hn_dtype dtype, double want, double got) {
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : INFINITY;
    if (want == got) return 0;
    double largest = dtype == HN_DTYPE_F64    ? DBL_MAX
                     : dtype == HN_DTYPE_F16  ? 65504
                     : dtype == HN_DTYPE_BF16 ? 0x1.FEp127
                                              : (double)FLT_MAX;
    if (isinf(want)) return fabs(got) == largest && got * want > 0 ? 1 : INFINITY;
    if (isinf(got)) return fabs(want) == largest && got * want > 0 ? 1 : INFINITY;
    if (dtype != HN_DTYPE_F64 && fabs(want) < b->flushed && got == 0) return 0;
    return fabs(want - got) / ulp_at(dtype, fmax(fabs(want), b->least));
}

static double bound_in(const bound *b, hn_dtype dtype) {
    if (dtype == HN_DTYPE_F64) return b->f64;
    if (dtype == HN_DTYPE_F32) return b->f32;
    return b->f32 > 0 ? 1 : 0; /* some ulps of f32 are less than one of these */
}

/* Of one op in one dtype. */
typedef struct judged {
    double worst;
    double x, y;
} judged;

static void judge(judged *j, double error, const operands *o, int k) {
    if (!(error > j->worst)) return;
    bool is_float = hn_dtype_is_float(o->x.dtype);
    *j = (judged){error, is_float ? o->x.data.f[k] : (double)o->x.data.i[k],
                  is_float ? o->y.data.f[k] : (double)o->y.data.i[k]};
}

static void report(const char *what, hn_dtype dtype, const judged *j, double most) {
    if (getenv("HENRY_TEST_SHOW"))
        fprintf(stderr, "%s %s: %.3f ulp, bound %g, at %a, %a\n", what, hn_dtype_facts(dtype)->name,
                j->worst, most, j->x, j->y);
    if (!(j->worst <= most))
        HN_TEST_FAIL("%s of %s is off by %g ulp at %a, %a; bound %g", what,
                     hn_dtype_facts(dtype)->name, j->worst, j->x, j->y, most);
}

/* ---- ops ---- */

static bool is_tested(hn_op op) {
    hn_op_class c = hn_op_facts(op)->op_class;
    return c == HN_OPC_UNARY || c == HN_OPC_BINARY || c == HN_OPC_COMPARE ||
           c == HN_OPC_PREDICATE || c == HN_OPC_SELECT;
}

static hn_dtype result_of(hn_op op, hn_dtype operand) {
    hn_op_class c = hn_op_facts(op)->op_class;
    return c == HN_OPC_COMPARE || c == HN_OPC_PREDICATE ? HN_DTYPE_BOOL : operand;
}

/* Results of a WHERE are chosen by x < y. */
static bool reference(hn_op op, hn_dtype dtype, const operands *o, int k, hn_ref_elem *out) {
    bool is_float = hn_dtype_is_float(dtype);
    hn_ref_elem x =
        is_float ? (hn_ref_elem){.f = o->x.data.f[k]} : (hn_ref_elem){.i = o->x.data.i[k]};
    hn_ref_elem y =
        is_float ? (hn_ref_elem){.f = o->y.data.f[k]} : (hn_ref_elem){.i = o->y.data.i[k]};
    hn_ref_elem args[3] = {x, y};
    if (op == HN_OP_WHERE) args[0].i = is_float ? x.f < y.f : x.i < y.i, args[1] = x, args[2] = y;
    return hn_ref_apply(op, dtype, result_of(op, dtype), args, out);
}

/* The ops of a dtype, all in one kernel: result k is elements [k * COUNT, (k + 1) * COUNT) of the
 * output of its dtype. */
typedef struct op_list {
    hn_op ops[HN_OP_COUNT];
    uint32_t count;
} op_list;

/* Arithmetic on bools is more than loop IR allows, and the reference does it. */
static bool has_text(hn_op op, hn_dtype dtype) {
    hn_target target = {0};
    EXPECT_OK(kernel_target(&target));
    return dtype != HN_DTYPE_BOOL || target.kind->words->ops[op].of[HN_NUMBER_BOOL];
}

static void list_ops(hn_dtype dtype, const operands *o, op_list *list) {
    hn_ref_elem ignored;
    list->count = 0;
    for (uint32_t op = 1; op < HN_OP_COUNT; op++)
        if (is_tested((hn_op)op) && has_text((hn_op)op, dtype) &&
            reference((hn_op)op, dtype, o, 0, &ignored))
            list->ops[list->count++] = (hn_op)op;
}

static hn_fid emit_op(hn_form *f, hn_op op, hn_dtype dtype, hn_fid x, hn_fid y) {
    if (op == HN_OP_WHERE)
        return elem(f, op, dtype, elem(f, HN_OP_LT, HN_DTYPE_BOOL, x, y, 0), x, y);
    hn_op_class c = hn_op_facts(op)->op_class;
    return elem(f, op, result_of(op, dtype), x, c == HN_OPC_UNARY || c == HN_OPC_PREDICATE ? 0 : y,
                0);
}

static hn_status run_ops(fixture *x, const op_list *list, hn_dtype dtype, const operands *o,
                         hn_buf *out_values, hn_buf *out_flags) {
    hn_form *f;
    hn_expr at;
    hn_buf in = add_input(x, dtype, COUNT, o->x_bytes),
           other = add_input(x, dtype, COUNT, o->y_bytes);
    *out_values = add_output(x, dtype, COUNT * (int64_t)list->count);
    *out_flags = add_output(x, HN_DTYPE_BOOL, COUNT * (int64_t)list->count);
    HN_TRY(begin_elements(x, 64, num(x, COUNT), &f, &at));
    hn_fid a = load(f, hn_form_argument(f, in, 0, false), at),
           b = load(f, hn_form_argument(f, other, 0, false), at);
    for (uint32_t k = 0; k < list->count; k++) {
        hn_buf to = result_of(list->ops[k], dtype) == dtype ? *out_values : *out_flags;
        hn_expr place = hn_sym_add(x->sym, at, num(x, COUNT * (int64_t)k));
        hn_form_store(f, hn_form_argument(f, to, 0, true), place,
                      emit_op(f, list->ops[k], dtype, a, b), HN_STORE_SET);
    }
    HN_TRY(end_elements(f));
    return run_form(x, f);
}

static void check_float(hn_op op, hn_dtype dtype, const operands *o, const double *got) {
    const bound *b = bound_of(op);
    judged j = {0};
    for (int k = 0; k < COUNT; k++) {
        hn_ref_elem want;
        reference(op, dtype, o, k, &want);
        double error = error_of(b, dtype, want.f, got[k]);
        if (want.f == 0 && got[k] == 0 && !zeros_are_equal(op) &&
            signbit(want.f) != signbit(got[k]))
            error = INFINITY;
        judge(&j, error, o, k);
    }
    report(hn_op_facts(op)->name, dtype, &j, bound_in(b, dtype));
}

static void check_int(hn_op op, hn_dtype dtype, const operands *o, const int64_t *got) {
    judged j = {0};
    for (int k = 0; k < COUNT; k++) {
        hn_ref_elem want;
        reference(op, dtype, o, k, &want);
        if (want.i != got[k]) judge(&j, INFINITY, o, k);
    }
    report(hn_op_facts(op)->name, dtype, &j, 0);
}

static hn_status check_ops(fixture *x, hn_dtype dtype) {
    operands o;
    op_list list;
    hn_buf values, flags;
    hn_ref_tensor value_tensor, flag_tensor;
    HN_TRY(make_operands(&x->arena, dtype, &o));
    list_ops(dtype, &o, &list);
    HN_TRY(run_ops(x, &list, dtype, &o, &values, &flags));
    const int64_t sizes[] = {COUNT * (int64_t)list.count};
    HN_TRY(hn_ref_tensor_load(&x->arena, dtype, 1, sizes, NULL, x->memory[values].bytes,
                              &value_tensor));
    HN_TRY(hn_ref_tensor_load(&x->arena, HN_DTYPE_BOOL, 1, sizes, NULL, x->memory[flags].bytes,
                              &flag_tensor));
    for (uint32_t k = 0; k < list.count; k++) {
        bool is_flag = result_of(list.ops[k], dtype) != dtype;
        if (!is_flag && hn_dtype_is_float(dtype))
            check_float(list.ops[k], dtype, &o, value_tensor.data.f + COUNT * k);
        else
            check_int(list.ops[k], dtype, &o,
                      (is_flag ? flag_tensor : value_tensor).data.i + COUNT * k);
    }
    return NULL;
}

TEST(every_op_in_every_dtype) {
    for (uint32_t d = 1; d < HN_DTYPE_COUNT; d++) {
        fixture x;
        EXPECT_OK(fixture_init(&x));
        EXPECT_OK(check_ops(&x, (hn_dtype)d));
        fixture_deinit(&x);
    }
}

/* ---- casts ---- */

static hn_status run_casts(fixture *x, hn_dtype from, const operands *o,
                           hn_buf out[HN_DTYPE_COUNT]) {
    hn_form *f;
    hn_expr at;
    hn_buf in = add_input(x, from, COUNT, o->x_bytes);
    for (uint32_t to = 1; to < HN_DTYPE_COUNT; to++) out[to] = add_output(x, (hn_dtype)to, COUNT);
    HN_TRY(begin_elements(x, 64, num(x, COUNT), &f, &at));
    hn_fid a = load(f, hn_form_argument(f, in, 0, false), at);
    for (uint32_t to = 1; to < HN_DTYPE_COUNT; to++)
        hn_form_store(f, hn_form_argument(f, out[to], 0, true), at, cast(f, (hn_dtype)to, a),
                      HN_STORE_SET);
    HN_TRY(end_elements(f));
    return run_form(x, f);
}

/* To 16 bits by way of f32, as the CPU's kernels: a value may be rounded twice. */
static bool rounds_twice(hn_dtype from, hn_dtype to) {
    return (from == HN_DTYPE_F64 || from == HN_DTYPE_I64 || from == HN_DTYPE_I32) &&
           (to == HN_DTYPE_F16 || to == HN_DTYPE_BF16);
}

static hn_status check_cast(fixture *x, const operands *o, hn_dtype to, hn_buf out) {
    const int64_t sizes[] = {COUNT};
    hn_ref_tensor got;
    hn_dtype from = o->x.dtype;
    judged j = {0};
    HN_TRY(hn_ref_tensor_load(&x->arena, to, 1, sizes, NULL, x->memory[out].bytes, &got));
    for (int k = 0; k < COUNT; k++) {
        hn_ref_elem arg = hn_dtype_is_float(from) ? (hn_ref_elem){.f = o->x.data.f[k]}
                                                  : (hn_ref_elem){.i = o->x.data.i[k]},
                    want;
        hn_ref_apply(HN_OP_CAST, from, to, &arg, &want);
        double error = hn_dtype_is_float(to)     ? error_of(&(bound){0}, to, want.f, got.data.f[k])
                       : want.i == got.data.i[k] ? 0
                                                 : INFINITY;
        judge(&j, error, o, k);
    }
    char what[32];
    snprintf(what, sizeof what, "cast to %s", hn_dtype_facts(to)->name);
    report(what, from, &j, rounds_twice(from, to) ? 1 : 0);
    return NULL;
}

static hn_status check_casts(fixture *x, hn_dtype from) {
    operands o;
    hn_buf out[HN_DTYPE_COUNT];
    HN_TRY(make_operands(&x->arena, from, &o));
    HN_TRY(run_casts(x, from, &o, out));
    for (uint32_t to = 1; to < HN_DTYPE_COUNT; to++)
        HN_TRY(check_cast(x, &o, (hn_dtype)to, out[to]));
    return NULL;
}

TEST(every_cast) {
    for (uint32_t d = 1; d < HN_DTYPE_COUNT; d++) {
        fixture x;
        EXPECT_OK(fixture_init(&x));
        EXPECT_OK(check_casts(&x, (hn_dtype)d));
        fixture_deinit(&x);
    }
}

/* ---- bits equal to the CPU's ---- */

enum { SWEEP = 1 << 16, SWEEP_STRIDE = 65521 };

/* In terms of %x and %z. The last one is contracted to one operation where that is allowed. Those behind
 * DIV have fewer instructions in CUDA C++, and other bits. */
static const struct {
    const char *text;
    hn_op op;
} same_as_cpu[] = {
    {"sqrt(%x)", HN_OP_SQRT},   {"add(%x, %z)", HN_OP_ADD},  {"sub(%x, %z)", HN_OP_SUB},
    {"mul(%x, %z)", HN_OP_MUL}, {"div(%x, %z)", HN_OP_DIV},  {"exp(%x)", HN_OP_EXP},
    {"log(%x)", HN_OP_LOG},     {"tanh(%x)", HN_OP_TANH},    {"erf(%x)", HN_OP_ERF},
    {"sin(%q)", HN_OP_SIN},     {"cos(%q)", HN_OP_COS},      {"sigmoid(%x)", HN_OP_SIGMOID},
    {"rsqrt(%x)", HN_OP_RSQRT}, {"sub(%p, %x)", HN_OP_NONE},
};
enum { SAME = HN_COUNT_OF(same_as_cpu), SAME_ON_CUDA = 5 };

static hn_status run_on_cpu(const float *x, const float *z, float *out) {
    hn_strbuf text;
    hn_module *module = NULL;
    hn_tensor *in[2] = {NULL}, *results[SAME] = {NULL};
    const int64_t sizes[] = {SWEEP};
    hn_strbuf_init(&text);
    hn_strbuf_printf(
        &text, "graph @g {\n  input user %%x : f32[%d] \"x\"\n  input user %%z : f32[%d] \"z\"\n",
        SWEEP, SWEEP);
    hn_strbuf_puts(
        &text,
        "  %p = mul(%x, %z)\n  %c = full(value=8192.0, sizes=[], dtype=f32)\n  %q = fmod(%x, %c)\n");
    for (int k = 0; k < SAME; k++)
        hn_strbuf_printf(&text, "  %%y%d = %s\n", k, same_as_cpu[k].text);
    for (int k = 0; k < SAME; k++) hn_strbuf_printf(&text, "  output user %%y%d \"y%d\"\n", k, k);
    hn_strbuf_puts(&text, "}\n");
    hn_status status = compile_text(hn_strbuf_str(&text), "generic", 1, &module);
    hn_strbuf_deinit(&text);
    if (!status)
        status =
            hn_tensor_create(&(hn_tensor_desc){.type = HN_F32, .rank = 1, .sizes = sizes}, &in[0]);
    if (!status)
        status =
            hn_tensor_create(&(hn_tensor_desc){.type = HN_F32, .rank = 1, .sizes = sizes}, &in[1]);
    if (!status) hn_tensor_copy_in(in[0], x), hn_tensor_copy_in(in[1], z);
    for (int k = 0; k < SAME && !status; k++)
        status = hn_tensor_create(&(hn_tensor_desc){.type = HN_F32, .rank = 1, .sizes = sizes},
                                  &results[k]);
    if (!status) status = hn_module_run(module, in, 2, results, SAME);
    for (int k = 0; k < SAME && !status; k++)
        hn_tensor_copy_out(results[k], out + (size_t)k * SWEEP);
    for (int k = 0; k < SAME; k++) hn_tensor_release(results[k]);
    hn_tensor_release(in[0]);
    hn_tensor_release(in[1]);
    hn_module_release(module);
    return status;
}

static hn_status run_on_opencl(fixture *x, float *in, float *other, hn_buf *out) {
    hn_form *f;
    hn_expr at;
    hn_buf a = add_input(x, HN_DTYPE_F32, SWEEP, in), b = add_input(x, HN_DTYPE_F32, SWEEP, other);
    *out = add_output(x, HN_DTYPE_F32, (int64_t)SWEEP * SAME);
    HN_TRY(begin_elements(x, 256, num(x, SWEEP), &f, &at));
    hn_fid v = load(f, hn_form_argument(f, a, 0, false), at),
           w = load(f, hn_form_argument(f, b, 0, false), at);
    hn_fid p = elem(f, HN_OP_MUL, HN_DTYPE_F32, v, w, 0);
    hn_fid c =
        hn_form_value(f, (hn_sop){.kind = HN_SOP_CONST, .dtype = HN_DTYPE_F32, .imm.f = 8192});
    hn_fid q = elem(f, HN_OP_FMOD, HN_DTYPE_F32, v, c, 0);
    for (int k = 0; k < SAME; k++) {
        hn_op op = same_as_cpu[k].op;
        /* beyond 8192 they are OpenCL's own */
        hn_fid arg = op == HN_OP_SIN || op == HN_OP_COS ? q : v;
        hn_fid value =
            op ? emit_op(f, op, HN_DTYPE_F32, arg, w) : elem(f, HN_OP_SUB, HN_DTYPE_F32, p, v, 0);
        hn_form_store(f, hn_form_argument(f, *out, 0, true),
                      hn_sym_add(x->sym, at, num(x, (int64_t)SWEEP * k)), value, HN_STORE_SET);
    }
    HN_TRY(end_elements(f));
    return run_form(x, f);
}

static bool same_bits(float a, float b) {
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

static void compare_bits(const char *text, const float *x, const float *z, const float *want,
                         const float *got) {
    int wrong = 0, first = 0;
    for (int k = SWEEP; k-- > 0;)
        if (!same_bits(want[k], got[k])) wrong++, first = k;
    if (wrong)
        HN_TEST_FAIL("%s: %d of %d differ, the first at %a, %a: %a, expected %a", text, wrong,
                     SWEEP, (double)x[first], (double)z[first], (double)got[first],
                     (double)want[first]);
}

TEST(bits_are_those_of_the_cpu) {
    fixture x;
    hn_buf out = 0;
    float *in = malloc(SWEEP * sizeof *in), *other = malloc(SWEEP * sizeof *in),
          *want = malloc(sizeof *in * SWEEP * SAME);
    EXPECT_OK(fixture_init(&x));
    for (uint32_t k = 0; k < SWEEP; k++) {
        memcpy(&in[k], &(uint32_t){k * SWEEP_STRIDE}, sizeof *in);
        other[k] = (float)random_float(HN_DTYPE_F32);
    }
    EXPECT_OK(run_on_cpu(in, other, want));
    EXPECT_OK(run_on_opencl(&x, in, other, &out));
    const bool is_cuda = strcmp(opencl_host_target(), "opencl") != 0;
    for (int k = 0; k < (is_cuda ? SAME_ON_CUDA : SAME) && out; k++)
        compare_bits(same_as_cpu[k].text, in, other, want + (size_t)k * SWEEP,
                     (const float *)x.memory[out].bytes + (size_t)k * SWEEP);
    fixture_deinit(&x);
    free(in), free(other), free(want);
}

/* Where a quotient of polynomials is above 1. */
static float *make_large(void) {
    float *in = malloc(SWEEP * sizeof *in);
    for (int k = 0; k < SWEEP; k++)
        in[k] = (k & 1 ? -1 : 1) * (3 + 3 * (float)k / SWEEP) * (k < SWEEP / 2 ? 1 : (float)k);
    in[0] = INFINITY, in[1] = -INFINITY, in[2] = FLT_MAX, in[3] = -FLT_MAX, in[4] = NAN;
    return in;
}

TEST(erf_ends_at_one) {
    fixture x;
    hn_form *f = NULL;
    hn_expr at = 0;
    float *in = make_large();
    int wrong = 0;
    EXPECT_OK(fixture_init(&x));
    hn_buf a = add_input(&x, HN_DTYPE_F32, SWEEP, in), b = add_output(&x, HN_DTYPE_F32, SWEEP);
    EXPECT_OK(begin_elements(&x, 256, num(&x, SWEEP), &f, &at));
    hn_fid y =
        elem(f, HN_OP_ERF, HN_DTYPE_F32, load(f, hn_form_argument(f, a, 0, false), at), 0, 0);
    hn_form_store(f, hn_form_argument(f, b, 0, true), at, y, HN_STORE_SET);
    EXPECT_OK(end_elements(f));
    EXPECT_OK(run_form(&x, f));
    const float *out = (const float *)x.memory[b].bytes;
    for (int k = 0; k < SWEEP; k++) {
        const float size = fabsf(out[k]);
        const bool right = isnan(in[k])          ? isnan(out[k])
                           : fabsf(in[k]) > 4.1f ? size == 1
                                                 : size > 0.9999f && size <= 1;
        wrong += !right || (!isnan(in[k]) && !signbit(in[k]) != !signbit(out[k]));
    }
    EXPECT_INT(wrong, 0);
    fixture_deinit(&x);
    free(in);
}

/* One function in CUDA C++, two ops elsewhere: both with the error of the sum. CUDA's is near where
 * little is left of 1, too. */
TEST(one_plus_erf_is_near_where_it_is_small) {
    fixture x;
    hn_form *f = NULL;
    hn_expr at = 0;
    int wrong = 0;
    float *in = malloc(SWEEP * sizeof *in);
    const bool is_cuda = strcmp(opencl_host_target(), "opencl") != 0;
    for (int k = 0; k < SWEEP; k++) in[k] = 9 * ((float)k / (SWEEP / 2) - 1);
    in[0] = INFINITY, in[1] = -INFINITY, in[2] = FLT_MAX, in[3] = -FLT_MAX, in[4] = NAN;
    EXPECT_OK(fixture_init(&x));
    hn_buf a = add_input(&x, HN_DTYPE_F32, SWEEP, in), b = add_output(&x, HN_DTYPE_F32, SWEEP);
    EXPECT_OK(begin_elements(&x, 256, num(&x, SWEEP), &f, &at));
    hn_fid v = load(f, hn_form_argument(f, a, 0, false), at),
           one =
               hn_form_value(f, (hn_sop){.kind = HN_SOP_CONST, .dtype = HN_DTYPE_F32, .imm.f = 1});
    hn_fid y = elem(f, HN_OP_ADD, HN_DTYPE_F32, elem(f, HN_OP_ERF, HN_DTYPE_F32, v, 0, 0), one, 0);
    hn_form_store(f, hn_form_argument(f, b, 0, true), at, y, HN_STORE_SET);
    EXPECT_OK(end_elements(f));
    EXPECT_OK(run_form(&x, f));
    const float *out = (const float *)x.memory[b].bytes;
    for (int k = 0; k < SWEEP; k++) {
        const double want = erfc(-(double)in[k]), error = fabs((double)out[k] - want);
        const double part = is_cuda && in[k] > -2.12f ? 1.4e-5 : 1;
        const double most = fmin(5e-7, is_cuda ? part * want + 1e-8 : 1);
        wrong += isnan(in[k]) ? !isnan(out[k]) : !(error <= most);
    }
    EXPECT_INT(wrong, 0);
    fixture_deinit(&x);
    free(in);
}

int main(int argc, char **argv) { return opencl_test_main(argc, argv); }
