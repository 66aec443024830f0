/* interp_elementwise.c: the scalar functions of the element-wise rows, and the loop that applies
 * them.
 *
 * Choices where ops.def and C leave room:
 * - Ints wrap at the width of their dtype. div, floordiv, remainder and fmod by an int 0 give 0;
 *   the smallest int divided by -1 wraps to itself.
 * - pow on ints with an exponent below 0: 1 stays 1, -1 gives 1 or -1 by parity, everything else
 *   gives 0.
 * - shl by a count outside [0, width) gives 0; shr by such a count fills with the sign (0 or -1).
 * - floordiv on floats follows eager PyTorch's steps, each rounded in float (double for f64),
 *   because its result depends on those roundings; it is the one row not computed in double.
 * - min and max of zeros of both signs give either zero. sign and relu of -0 give 0.
 * - cast from float to int truncates toward zero to int64 for i64 and to int32 for the narrower
 *   dtypes, then wraps to the dtype's width; NaN and values that the int64 (int32) cannot hold
 *   become its smallest value first. That is what (T)x does in C on x86 (cvttsd2si, cvttps2dq) and
 *   what eager PyTorch gives there: NaN is INT32_MIN in i32 and 0 in i16, i8 and u8.
 * - cast from int to float rounds once, also for integers beyond 2^53.
 * - bool arithmetic is on 0 and 1, and what comes out != 0 is true: add is or, mul is and. */
#include "base/checked.h"
#include "base/compiler.h"
#include "ir/interp_impl.h"

#include <inttypes.h>

/* --- floats --- */

static double neg_f(double x) { return -x; }
static double sign_f(double x) { return (x > 0) - (x < 0); }
static double rsqrt_f(double x) { return 1 / sqrt(x); }
static double reciprocal_f(double x) { return 1 / x; }
static double sigmoid_f(double x) { return 1 / (1 + exp(-x)); }
static double relu_f(double x) { return x > 0 || isnan(x) ? x : 0; }
static double lgamma_f(double x) {
    int sign; /* lgamma itself writes a global */
    return lgamma_r(x, &sign);
}

static double add_f(double x, double y) { return x + y; }
static double sub_f(double x, double y) { return x - y; }
static double mul_f(double x, double y) { return x * y; }
static double div_f(double x, double y) { return x / y; }
static double min_f(double x, double y) { return isnan(x) || x < y ? x : y; }
static double max_f(double x, double y) { return isnan(x) || x > y ? x : y; }

static double remainder_f(double x, double y) {
    double r = fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static double floordiv_f(double x, double y) {
    if (y == 0) return x / y;
    double r = fmod(x, y), q = (x - r) / y;
    if (r != 0 && (r < 0) != (y < 0)) q -= 1;
    if (q == 0) return copysign(0, x / y);
    double down = floor(q);
    return q - down > 0.5 ? down + 1 : down;
}

/* The same steps rounded to float. */
static float floordiv_single(float x, float y) {
    if (y == 0) return x / y;
    float r = fmodf(x, y), q = (x - r) / y;
    if (r != 0 && (r < 0) != (y < 0)) q -= 1;
    if (q == 0) return copysignf(0, x / y);
    float down = floorf(q);
    return q - down > 0.5f ? down + 1 : down;
}

static bool isnan_f(double x) { return isnan(x); }
static bool isinf_f(double x) { return isinf(x); }
static bool eq_f(double x, double y) { return x == y; }
static bool ne_f(double x, double y) { return x != y; }
static bool lt_f(double x, double y) { return x < y; }
static bool le_f(double x, double y) { return x <= y; }
static bool gt_f(double x, double y) { return x > y; }
static bool ge_f(double x, double y) { return x >= y; }

/* --- ints; `bits` is the width of the dtype, 1 for bool. Results are wrapped by the caller. --- */

static int64_t wrap(uint64_t x) { return (int64_t)x; }

static int64_t neg_i(int64_t x, HN_UNUSED unsigned bits) { return wrap(-(uint64_t)x); }
static int64_t abs_i(int64_t x, unsigned bits) { return x < 0 ? neg_i(x, bits) : x; }
static int64_t sign_i(int64_t x, HN_UNUSED unsigned bits) { return (x > 0) - (x < 0); }
static int64_t same_i(int64_t x, HN_UNUSED unsigned bits) { return x; }
static int64_t relu_i(int64_t x, HN_UNUSED unsigned bits) { return x > 0 ? x : 0; }
static int64_t not_i(int64_t x, unsigned bits) { return bits == 1 ? !x : ~x; }

static int64_t add_i(int64_t x, int64_t y, HN_UNUSED unsigned bits) {
    return wrap((uint64_t)x + (uint64_t)y);
}
static int64_t sub_i(int64_t x, int64_t y, HN_UNUSED unsigned bits) {
    return wrap((uint64_t)x - (uint64_t)y);
}
static int64_t mul_i(int64_t x, int64_t y, HN_UNUSED unsigned bits) {
    return wrap((uint64_t)x * (uint64_t)y);
}
static int64_t min_i(int64_t x, int64_t y, HN_UNUSED unsigned bits) { return x < y ? x : y; }
static int64_t max_i(int64_t x, int64_t y, HN_UNUSED unsigned bits) { return x > y ? x : y; }
static int64_t and_i(int64_t x, int64_t y, HN_UNUSED unsigned bits) { return x & y; }
static int64_t or_i(int64_t x, int64_t y, HN_UNUSED unsigned bits) { return x | y; }
static int64_t xor_i(int64_t x, int64_t y, HN_UNUSED unsigned bits) { return x ^ y; }

/* -1 apart: the one divisor that can overflow. */
static int64_t div_i(int64_t x, int64_t y, unsigned bits) {
    return y == 0 ? 0 : y == -1 ? neg_i(x, bits) : x / y;
}
static int64_t floordiv_i(int64_t x, int64_t y, unsigned bits) {
    return y == 0 ? 0 : y == -1 ? neg_i(x, bits) : hn_floor_div(x, y);
}
static int64_t remainder_i(int64_t x, int64_t y, HN_UNUSED unsigned bits) {
    return y == 0 || y == -1 ? 0 : hn_floor_mod(x, y);
}
static int64_t fmod_i(int64_t x, int64_t y, HN_UNUSED unsigned bits) {
    return y == 0 || y == -1 ? 0 : x % y;
}

static int64_t pow_i(int64_t x, int64_t y, HN_UNUSED unsigned bits) {
    if (y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
    uint64_t result = 1, base = (uint64_t)x;
    for (; y > 0; y >>= 1, base *= base)
        if (y & 1) result *= base;
    return wrap(result);
}

static int64_t gcd_i(int64_t x, int64_t y, unsigned bits) {
    while (x) {
        int64_t rest = fmod_i(y, x, bits);
        y = x;
        x = rest;
    }
    return y;
}

static int64_t shl_i(int64_t x, int64_t y, unsigned bits) {
    return y < 0 || y >= bits ? 0 : wrap((uint64_t)x << y);
}
static int64_t shr_i(int64_t x, int64_t y, unsigned bits) {
    return y < 0 || y >= bits ? -(x < 0) : x >> y;
}

static bool never_i(HN_UNUSED int64_t x) { return false; }
static bool eq_i(int64_t x, int64_t y) { return x == y; }
static bool ne_i(int64_t x, int64_t y) { return x != y; }
static bool lt_i(int64_t x, int64_t y) { return x < y; }
static bool le_i(int64_t x, int64_t y) { return x <= y; }
static bool gt_i(int64_t x, int64_t y) { return x > y; }
static bool ge_i(int64_t x, int64_t y) { return x >= y; }

/* --- the table --- */

/* The members that the row's class uses; NULL: the row has no meaning for such dtypes. */
typedef struct row {
    double (*unary_f)(double);
    int64_t (*unary_i)(int64_t, unsigned);
    double (*binary_f)(double, double);
    /* instead of binary_f below f64, where float roundings are the meaning */
    float (*binary_single)(float, float);
    int64_t (*binary_i)(int64_t, int64_t, unsigned);
    bool (*predicate_f)(double);
    bool (*predicate_i)(int64_t);
    bool (*compare_f)(double, double);
    bool (*compare_i)(int64_t, int64_t);
} row;

#define UNARY(f, i)                                                                                \
    { .unary_f = f, .unary_i = i }
#define BINARY(f, i)                                                                               \
    { .binary_f = f, .binary_i = i }
#define COMPARE(f, i)                                                                              \
    { .compare_f = f, .compare_i = i }

static const row rows[HN_OP_COUNT] = {
    [HN_OP_NEG] = UNARY(neg_f, neg_i),
    [HN_OP_ABS] = UNARY(fabs, abs_i),
    [HN_OP_SIGN] = UNARY(sign_f, sign_i),
    [HN_OP_FLOOR] = UNARY(floor, same_i),
    [HN_OP_CEIL] = UNARY(ceil, same_i),
    [HN_OP_TRUNC] = UNARY(trunc, same_i),
    [HN_OP_ROUND] = UNARY(rint, same_i),
    [HN_OP_SQRT] = UNARY(sqrt, NULL),
    [HN_OP_RSQRT] = UNARY(rsqrt_f, NULL),
    [HN_OP_RECIPROCAL] = UNARY(reciprocal_f, NULL),
    [HN_OP_EXP] = UNARY(exp, NULL),
    [HN_OP_EXP2] = UNARY(exp2, NULL),
    [HN_OP_EXPM1] = UNARY(expm1, NULL),
    [HN_OP_LOG] = UNARY(log, NULL),
    [HN_OP_LOG2] = UNARY(log2, NULL),
    [HN_OP_LOG10] = UNARY(log10, NULL),
    [HN_OP_LOG1P] = UNARY(log1p, NULL),
    [HN_OP_SIN] = UNARY(sin, NULL),
    [HN_OP_COS] = UNARY(cos, NULL),
    [HN_OP_TAN] = UNARY(tan, NULL),
    [HN_OP_ASIN] = UNARY(asin, NULL),
    [HN_OP_ACOS] = UNARY(acos, NULL),
    [HN_OP_ATAN] = UNARY(atan, NULL),
    [HN_OP_SINH] = UNARY(sinh, NULL),
    [HN_OP_COSH] = UNARY(cosh, NULL),
    [HN_OP_TANH] = UNARY(tanh, NULL),
    [HN_OP_ASINH] = UNARY(asinh, NULL),
    [HN_OP_ACOSH] = UNARY(acosh, NULL),
    [HN_OP_ATANH] = UNARY(atanh, NULL),
    [HN_OP_ERF] = UNARY(erf, NULL),
    [HN_OP_ERFC] = UNARY(erfc, NULL),
    [HN_OP_ERFINV] = UNARY(hn_ref_erfinv, NULL),
    [HN_OP_LGAMMA] = UNARY(lgamma_f, NULL),
    [HN_OP_DIGAMMA] = UNARY(hn_ref_digamma, NULL),
    [HN_OP_SIGMOID] = UNARY(sigmoid_f, NULL),
    [HN_OP_RELU] = UNARY(relu_f, relu_i),
    [HN_OP_NOT] = UNARY(NULL, not_i),
    [HN_OP_ISNAN] = {.predicate_f = isnan_f, .predicate_i = never_i},
    [HN_OP_ISINF] = {.predicate_f = isinf_f, .predicate_i = never_i},
    [HN_OP_ADD] = BINARY(add_f, add_i),
    [HN_OP_SUB] = BINARY(sub_f, sub_i),
    [HN_OP_MUL] = BINARY(mul_f, mul_i),
    [HN_OP_DIV] = BINARY(div_f, div_i),
    [HN_OP_FLOORDIV] = {.binary_f = floordiv_f,
                        .binary_single = floordiv_single,
                        .binary_i = floordiv_i},
    [HN_OP_REMAINDER] = BINARY(remainder_f, remainder_i),
    [HN_OP_FMOD] = BINARY(fmod, fmod_i),
    [HN_OP_POW] = BINARY(pow, pow_i),
    [HN_OP_MIN] = BINARY(min_f, min_i),
    [HN_OP_MAX] = BINARY(max_f, max_i),
    [HN_OP_FMIN] = BINARY(fmin, min_i),
    [HN_OP_FMAX] = BINARY(fmax, max_i),
    [HN_OP_ATAN2] = BINARY(atan2, NULL),
    [HN_OP_HYPOT] = BINARY(hypot, NULL),
    [HN_OP_COPYSIGN] = BINARY(copysign, NULL),
    [HN_OP_AND] = BINARY(NULL, and_i),
    [HN_OP_OR] = BINARY(NULL, or_i),
    [HN_OP_XOR] = BINARY(NULL, xor_i),
    [HN_OP_SHL] = BINARY(NULL, shl_i),
    [HN_OP_SHR] = BINARY(NULL, shr_i),
    [HN_OP_GCD] = BINARY(NULL, gcd_i),
    [HN_OP_ZETA] = BINARY(hn_ref_zeta, NULL),
    [HN_OP_EQ] = COMPARE(eq_f, eq_i),
    [HN_OP_NE] = COMPARE(ne_f, ne_i),
    [HN_OP_LT] = COMPARE(lt_f, lt_i),
    [HN_OP_LE] = COMPARE(le_f, le_i),
    [HN_OP_GT] = COMPARE(gt_f, gt_i),
    [HN_OP_GE] = COMPARE(ge_f, ge_i),
    /* where and cast are classes of their own: see hn_ref_apply. */
};

/* --- casts --- */

/* Integers beyond 2^53 keep a sticky bit far below any narrower mantissa, so that the later
 * rounding to f32, f16 or bf16 is the only one. */
static double int_to_double(int64_t value, hn_dtype to) {
    uint64_t magnitude = value < 0 ? -(uint64_t)value : (uint64_t)value;
    if (to == HN_DTYPE_F64 || magnitude >> 53 == 0) return (double)value;
    uint64_t lost = magnitude & 0x7ff;
    magnitude = (magnitude & ~(uint64_t)0x7ff) | (lost ? 0x800 : 0);
    return value < 0 ? -(double)magnitude : (double)magnitude;
}

static int64_t double_to_int(double value, hn_dtype to) {
    value = trunc(value);
    /* NaN fails both */
    if (to == HN_DTYPE_I64) return value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : INT64_MIN;
    return value >= INT32_MIN && value <= INT32_MAX ? (int64_t)value : INT32_MIN;
}

hn_ref_elem hn_ref_cast(hn_ref_elem e, hn_dtype from, hn_dtype to) {
    bool from_float = hn_dtype_is_float(from), to_float = hn_dtype_is_float(to);
    if (to == HN_DTYPE_BOOL) return (hn_ref_elem){.i = from_float ? e.f != 0 : e.i != 0};
    if (to_float)
        return (hn_ref_elem){.f = hn_ref_round_f(to, from_float ? e.f : int_to_double(e.i, to))};
    return (hn_ref_elem){.i = hn_ref_narrow_i(to, from_float ? double_to_int(e.f, to) : e.i)};
}

/* The bits of a float as an integer of its width. */
static int64_t bits_of(double f, hn_dtype dtype) {
    float single = (float)f;
    int32_t word;
    int64_t wide;
    switch (dtype) {
    case HN_DTYPE_F16: return (int16_t)hn_f64_to_f16(f);
    case HN_DTYPE_BF16: return (int16_t)hn_f64_to_bf16(f);
    case HN_DTYPE_F32: memcpy(&word, &single, sizeof word); return word;
    default: memcpy(&wide, &f, sizeof wide); return wide;
    }
}

static double of_bits(int64_t bits, hn_dtype dtype) {
    int32_t word = (int32_t)bits;
    float single;
    double wide;
    switch (dtype) {
    case HN_DTYPE_F16: return (double)hn_f16_to_f32((uint16_t)bits);
    case HN_DTYPE_BF16: return (double)hn_bf16_to_f32((uint16_t)bits);
    case HN_DTYPE_F32: memcpy(&single, &word, sizeof single); return (double)single;
    default: memcpy(&wide, &bits, sizeof wide); return wide;
    }
}

/* --- one element --- */

static bool apply_float(hn_op op, hn_dtype dtype, const hn_ref_elem *args, hn_ref_elem *out) {
    const row *r = &rows[op];
    if (r->predicate_f) out->i = r->predicate_f(args[0].f);
    else if (r->compare_f) out->i = r->compare_f(args[0].f, args[1].f);
    else if (r->unary_f) out->f = hn_ref_round_f(dtype, r->unary_f(args[0].f));
    else if (r->binary_single && dtype != HN_DTYPE_F64)
        out->f =
            hn_ref_round_f(dtype, (double)r->binary_single((float)args[0].f, (float)args[1].f));
    else if (r->binary_f) out->f = hn_ref_round_f(dtype, r->binary_f(args[0].f, args[1].f));
    else return false;
    return true;
}

static bool apply_int(hn_op op, hn_dtype dtype, const hn_ref_elem *args, hn_ref_elem *out) {
    const row *r = &rows[op];
    unsigned bits = dtype == HN_DTYPE_BOOL ? 1 : hn_dtype_facts(dtype)->size_bytes * 8u;
    if (r->predicate_i) out->i = r->predicate_i(args[0].i);
    else if (r->compare_i) out->i = r->compare_i(args[0].i, args[1].i);
    else if (r->unary_i) out->i = hn_ref_narrow_i(dtype, r->unary_i(args[0].i, bits));
    else if (r->binary_i) out->i = hn_ref_narrow_i(dtype, r->binary_i(args[0].i, args[1].i, bits));
    else return false;
    return true;
}

bool hn_ref_apply(hn_op op, hn_dtype operand, hn_dtype result, const hn_ref_elem *args,
                  hn_ref_elem *out) {
    if (op >= HN_OP_COUNT) return false;
    hn_op_class op_class = hn_op_facts(op)->op_class;
    if (op_class == HN_OPC_SELECT) {
        *out = args[0].i ? args[1] : args[2];
        return true;
    }
    if (op == HN_OP_BITCAST) {
        *out = hn_dtype_is_float(operand) ? (hn_ref_elem){.i = bits_of(args[0].f, operand)}
                                          : (hn_ref_elem){.f = of_bits(args[0].i, result)};
        return true;
    }
    if (op_class == HN_OPC_CAST) {
        *out = hn_ref_cast(args[0], operand, result);
        return true;
    }
    return hn_dtype_is_float(operand) ? apply_float(op, operand, args, out)
                                      : apply_int(op, operand, args, out);
}

/* --- whole tensors --- */

hn_status hn_ref_broadcast(const hn_ref_tensor *const *xs, uint32_t count, uint32_t *out_rank,
                           int64_t *out_sizes) {
    uint32_t rank = 0;
    for (uint32_t k = 0; k < count; k++) rank = xs[k]->rank > rank ? xs[k]->rank : rank;
    for (uint32_t d = 0; d < rank; d++) out_sizes[d] = 1;
    for (uint32_t k = 0; k < count; k++) {
        int64_t *sizes = out_sizes + (rank - xs[k]->rank);
        for (uint32_t d = 0; d < xs[k]->rank; d++) {
            if (xs[k]->sizes[d] == 1) continue;
            if (sizes[d] != 1 && sizes[d] != xs[k]->sizes[d])
                return HN_ERROR(HN_INTERNAL, "sizes %" PRId64 " and %" PRId64 " do not broadcast",
                                sizes[d], xs[k]->sizes[d]);
            sizes[d] = xs[k]->sizes[d];
        }
    }
    *out_rank = rank;
    return NULL;
}

bool hn_ref_broadcasts_to(const hn_ref_tensor *x, uint32_t rank, const int64_t *sizes) {
    if (x->rank > rank) return false;
    for (uint32_t d = 0; d < x->rank; d++)
        if (x->sizes[d] != 1 && x->sizes[d] != sizes[rank - x->rank + d]) return false;
    return true;
}

/* Operands of the class, in argument order, and the dtype that they share. */
static hn_status operands_read(hn_ref_run *run, hn_op_class op_class, const hn_ref_tensor *xs[3],
                               uint32_t *out_count, hn_dtype *out_dtype) {
    bool select = op_class == HN_OPC_SELECT;
    uint32_t count = 0;
    if (select) HN_TRY(hn_ref_arg_tensor(run, "cond", &xs[count++]));
    if (select) HN_TRY(hn_ref_need_dtype(xs[0], HN_DTYPE_BOOL, "cond"));
    HN_TRY(hn_ref_arg_tensor(run, "x", &xs[count++]));
    *out_dtype = xs[count - 1]->dtype;
    if (select || op_class == HN_OPC_BINARY || op_class == HN_OPC_COMPARE) {
        HN_TRY(hn_ref_arg_tensor(run, "y", &xs[count++]));
        HN_TRY(hn_ref_need_dtype(xs[count - 1], *out_dtype, "y"));
    }
    *out_count = count;
    return NULL;
}

static hn_status result_dtype(hn_ref_run *run, hn_op_class op_class, hn_dtype operand,
                              hn_dtype *out) {
    *out = op_class == HN_OPC_COMPARE || op_class == HN_OPC_PREDICATE ? HN_DTYPE_BOOL : operand;
    return op_class == HN_OPC_CAST ? hn_ref_arg_dtype(run, "dtype", out) : NULL;
}

hn_status hn_ref_run_elementwise(hn_ref_run *run) {
    hn_op op = run->node->op;
    hn_op_class op_class = hn_op_facts(op)->op_class;
    const hn_ref_tensor *xs[3];
    hn_dtype operand, result;
    uint32_t count, rank;
    int64_t sizes[HN_MAX_RANK], coord[HN_MAX_RANK] = {0};
    hn_ref_tensor *out;
    HN_TRY(operands_read(run, op_class, xs, &count, &operand));
    HN_TRY(result_dtype(run, op_class, operand, &result));
    HN_TRY(hn_ref_broadcast(xs, count, &rank, sizes));
    HN_TRY(hn_ref_result(run, 0, result, rank, sizes, &out));
    for (int64_t n = 0; n < out->numel; n++, hn_ref_next(coord, sizes, rank)) {
        hn_ref_elem args[3] = {0}, value = {0};
        for (uint32_t k = 0; k < count; k++)
            args[k] = hn_ref_get(xs[k], hn_ref_offset_broadcast(xs[k], coord, rank));
        if (!hn_ref_apply(op, operand, result, args, &value))
            return HN_ERROR(HN_UNSUPPORTED, "'%s' has no meaning for %s", hn_op_facts(op)->name,
                            hn_dtype_facts(operand)->name);
        hn_ref_set(out, n, value);
    }
    return NULL;
}
