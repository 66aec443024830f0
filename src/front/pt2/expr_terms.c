/* expr_terms.c: exact arithmetic, conditions, and the functions of .pt2 expressions by name. */
#include "front/pt2/expr_terms.h"

#include "base/checked.h"
#include "base/compiler.h"
#include "base/json.h"

#include <math.h>

enum { MAX_POWER = 16, MAX_FRACTION = 1 << 20 };

bool hn_pt2_calc_fail(hn_pt2_calc *p, hn_code code, const char *problem, hn_str subject) {
    if (p->code == HN_OK) p->code = code, p->problem = problem, p->subject = subject;
    return false;
}

/* --- exact arithmetic on num/den --- */

hn_pt2_term hn_pt2_term_of(hn_pt2_calc *p, hn_expr value) {
    return (hn_pt2_term){.num = value, .den = hn_sym_int(p->sym, 1)};
}
hn_pt2_term hn_pt2_term_int(hn_pt2_calc *p, int64_t value) {
    return hn_pt2_term_of(p, hn_sym_int(p->sym, value));
}
static bool is_whole(const hn_pt2_calc *p, const hn_pt2_term *t) {
    return hn_sym_is_value(p->sym, t->den, 1);
}

static int64_t gcd(int64_t a, int64_t b) {
    uint64_t x = a < 0 ? -(uint64_t)a : (uint64_t)a, y = b < 0 ? -(uint64_t)b : (uint64_t)b;
    while (y) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x > INT64_MAX ? 1 : (int64_t)x;
}

/* Lowest terms as far as constants go, and a positive constant denominator. */
static hn_pt2_term reduced(hn_pt2_calc *p, hn_expr num, hn_expr den) {
    int64_t below = 0, above = 0;
    if (hn_sym_is_int(p->sym, den, &below) && below != 0 && below != 1) {
        int64_t common = hn_sym_is_int(p->sym, num, &above)
                             ? gcd(above, below)
                             : gcd(hn_sym_divisor(p->sym, num), below);
        if (common < 1) common = 1;
        if (below < 0) common = -common;
        if (common != 1) {
            num = hn_sym_floordiv(p->sym, num, hn_sym_int(p->sym, common));
            /* exact; the least number over -1 latches an overflow */
            den = hn_sym_floordiv(p->sym, den, hn_sym_int(p->sym, common));
        }
    }
    return (hn_pt2_term){.num = num, .den = den};
}

hn_pt2_term hn_pt2_term_add(hn_pt2_calc *p, const hn_pt2_term *a, const hn_pt2_term *b) {
    if (a->den == b->den) return reduced(p, hn_sym_add(p->sym, a->num, b->num), a->den);
    hn_expr num =
        hn_sym_add(p->sym, hn_sym_mul(p->sym, a->num, b->den), hn_sym_mul(p->sym, b->num, a->den));
    return reduced(p, num, hn_sym_mul(p->sym, a->den, b->den));
}

hn_pt2_term hn_pt2_term_negate(hn_pt2_calc *p, const hn_pt2_term *a) {
    return (hn_pt2_term){.num = hn_sym_neg(p->sym, a->num), .den = a->den};
}

hn_pt2_term hn_pt2_term_multiply(hn_pt2_calc *p, const hn_pt2_term *a, const hn_pt2_term *b) {
    return reduced(p, hn_sym_mul(p->sym, a->num, b->num), hn_sym_mul(p->sym, a->den, b->den));
}

bool hn_pt2_term_divide(hn_pt2_calc *p, const hn_pt2_term *a, const hn_pt2_term *b,
                        hn_pt2_term *out) {
    if (hn_sym_is_value(p->sym, b->num, 0))
        return hn_pt2_calc_fail(p, HN_INVALID_ARGUMENT, "division by zero", HN_STR(""));
    *out = reduced(p, hn_sym_mul(p->sym, a->num, b->den), hn_sym_mul(p->sym, a->den, b->num));
    return true;
}

/* floor(a / b); floor(n/d) is n // d whatever the signs. */
bool hn_pt2_term_floordiv(hn_pt2_calc *p, const hn_pt2_term *a, const hn_pt2_term *b,
                          hn_pt2_term *out) {
    hn_pt2_term quotient;
    if (!hn_pt2_term_divide(p, a, b, &quotient)) return false;
    *out = hn_pt2_term_of(p, hn_sym_floordiv(p->sym, quotient.num, quotient.den));
    return true;
}

bool hn_pt2_term_mod(hn_pt2_calc *p, const hn_pt2_term *a, const hn_pt2_term *b, hn_pt2_term *out) {
    if (!is_whole(p, a) || !is_whole(p, b))
        return hn_pt2_calc_fail(p, HN_UNSUPPORTED, "remainder of fractions", HN_STR(""));
    if (hn_sym_is_value(p->sym, b->num, 0))
        return hn_pt2_calc_fail(p, HN_INVALID_ARGUMENT, "remainder by zero", HN_STR(""));
    *out = hn_pt2_term_of(p, hn_sym_mod(p->sym, a->num, b->num));
    return true;
}

bool hn_pt2_term_power(hn_pt2_calc *p, const hn_pt2_term *base, const hn_pt2_term *exponent,
                       hn_pt2_term *out) {
    int64_t times = 0;
    if (!is_whole(p, exponent) || !hn_sym_is_int(p->sym, exponent->num, &times) ||
        times < -MAX_POWER || times > MAX_POWER)
        return hn_pt2_calc_fail(p, HN_UNSUPPORTED, "exponent is not a small integer", HN_STR(""));
    *out = hn_pt2_term_int(p, 1);
    for (int64_t k = 0; k < (times < 0 ? -times : times); k++)
        *out = hn_pt2_term_multiply(p, out, base);
    hn_pt2_term one = hn_pt2_term_int(p, 1), product = *out;
    return times >= 0 || hn_pt2_term_divide(p, &one, &product, out);
}

/* --- floats --- */

/* The fraction with the smallest denominator that rounds to `x`, by continued fractions. */
static bool fraction_of(double x, int64_t *out_num, int64_t *out_den) {
    int64_t num = 1, den = 0, last_num = 0, last_den = 1;
    double rest = x;
    for (int k = 0; k < 64 && fabs(rest) < 0x1p40; k++) {
        int64_t whole = (int64_t)floor(rest), next_num, next_den;
        if (!hn_mul_i64(whole, num, &next_num) || !hn_add_i64(next_num, last_num, &next_num) ||
            !hn_mul_i64(whole, den, &next_den) || !hn_add_i64(next_den, last_den, &next_den) ||
            next_num > MAX_FRACTION || next_den > MAX_FRACTION)
            return false;
        last_num = num, last_den = den, num = next_num, den = next_den;
        if ((double)num / (double)den == x) {
            *out_num = num, *out_den = den;
            return true;
        }
        rest = 1 / (rest - (double)whole);
    }
    return false;
}

/* A float x next to p/q, times a size n and rounded, has the floor of n*p/q: far from integers that
 * is clear, and where n*p/q is one, a product from above stays above, and one from below rounds up
 * to it when it is nearer than half of the smallest distance of floats. Powers of two as q are
 * exact. */
bool hn_pt2_term_float(hn_pt2_calc *p, hn_str text, hn_pt2_term *out) {
    double x = 0;
    int64_t num = 0, den = 0;
    if (!hn_text_to_double(text, &x) || !(x > 0) || !fraction_of(x, &num, &den))
        return hn_pt2_calc_fail(p, HN_UNSUPPORTED, "a float that is no small fraction,", text);
    double beyond = fma(x, (double)den, -(double)num); /* exact: (x - num/den) * den */
    if (beyond < 0 && -beyond > (double)num * 0x1p-54)
        return hn_pt2_calc_fail(p, HN_UNSUPPORTED, "a float whose multiples round below integers,",
                                text);
    *out = reduced(p, hn_sym_int(p->sym, num), hn_sym_int(p->sym, den));
    out->is_near = (den & (den - 1)) != 0;
    return true;
}

/* --- conditions --- */

bool hn_pt2_term_and(hn_pt2_calc *p, const hn_pt2_term *a, const hn_pt2_term *b, hn_pt2_term *out) {
    hn_pt2_relation *both = NULL;
    uint32_t count = a->count + b->count;
    hn_status status = hn_arena_array(p->env->scratch, count, sizeof *both, &both);
    if (status) {
        hn_status_free(status);
        return hn_pt2_calc_fail(p, HN_OUT_OF_MEMORY, "no memory", HN_STR(""));
    }
    for (uint32_t k = 0; k < count; k++)
        both[k] = k < a->count ? a->relations[k] : b->relations[k - a->count];
    *out = (hn_pt2_term){.is_condition = true, .relations = both, .count = count};
    return true;
}

bool hn_pt2_term_relate(hn_pt2_calc *p, hn_relation relation, const hn_pt2_term *a,
                        const hn_pt2_term *b, hn_pt2_term *out) {
    hn_pt2_relation *one = hn_arena_alloc(p->env->scratch, sizeof *one);
    if (!one) return hn_pt2_calc_fail(p, HN_OUT_OF_MEMORY, "no memory", HN_STR(""));
    bool whole = is_whole(p, a) && is_whole(p, b);
    int64_t below = 0;
    if (!whole && relation != HN_REL_EQ && relation != HN_REL_NE)
        /* a denominator of unknown sign could turn the relation around */
        for (int k = 0; k < 2; k++)
            if (!hn_sym_is_int(p->sym, k ? b->den : a->den, &below) || below < 1)
                return hn_pt2_calc_fail(p, HN_UNSUPPORTED, "comparison of fractions", HN_STR(""));
    *one = (hn_pt2_relation){relation, hn_sym_mul(p->sym, a->num, b->den),
                             hn_sym_mul(p->sym, b->num, a->den)};
    *out = (hn_pt2_term){.is_condition = true, .relations = one, .count = 1};
    return true;
}

bool hn_pt2_term_bool(hn_pt2_calc *p, bool value, hn_pt2_term *out) {
    *out = (hn_pt2_term){.is_condition = true};
    if (value) return true;
    hn_pt2_term zero = hn_pt2_term_int(p, 0), one = hn_pt2_term_int(p, 1);
    return hn_pt2_term_relate(p, HN_REL_EQ, &zero, &one, out);
}

static bool is_false(const hn_pt2_calc *p, const hn_pt2_term *t) {
    return t->count == 1 && t->relations->relation == HN_REL_EQ &&
           hn_sym_is_value(p->sym, t->relations->lhs, 0) &&
           hn_sym_is_value(p->sym, t->relations->rhs, 1);
}

bool hn_pt2_term_or(hn_pt2_calc *p, const hn_pt2_term *a, const hn_pt2_term *b, hn_pt2_term *out) {
    bool a_true = a->count == 0, b_false = is_false(p, b);
    if (!a_true && !b_false && b->count != 0 && !is_false(p, a))
        return hn_pt2_calc_fail(p, HN_UNSUPPORTED, "a condition with 'or'", HN_STR(""));
    *out = a_true || b_false ? *a : *b;
    return true;
}

bool hn_pt2_term_not(hn_pt2_calc *p, const hn_pt2_term *a, hn_pt2_term *out) {
    if (a->count == 0 || is_false(p, a)) return hn_pt2_term_bool(p, a->count != 0, out);
    if (a->count > 1)
        return hn_pt2_calc_fail(p, HN_UNSUPPORTED, "negation of a conjunction", HN_STR(""));
    hn_pt2_relation *one = hn_arena_alloc(p->env->scratch, sizeof *one);
    if (!one) return hn_pt2_calc_fail(p, HN_OUT_OF_MEMORY, "no memory", HN_STR(""));
    *one = *a->relations;
    switch (one->relation) {
    case HN_REL_EQ: one->relation = HN_REL_NE; break;
    case HN_REL_NE: one->relation = HN_REL_EQ; break;
    case HN_REL_LT:
        *one = (hn_pt2_relation){HN_REL_LE, a->relations->rhs, a->relations->lhs};
        break;
    case HN_REL_LE:
        *one = (hn_pt2_relation){HN_REL_LT, a->relations->rhs, a->relations->lhs};
        break;
    }
    *out = (hn_pt2_term){.is_condition = true, .relations = one, .count = 1};
    return true;
}

/* --- functions --- */

static bool fn_same(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    (void)p, (void)n;
    *out = a[0];
    return true;
}
static bool fn_add(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    *out = a[0];
    for (uint32_t k = 1; k < n; k++) *out = hn_pt2_term_add(p, out, &a[k]);
    return true;
}
static bool fn_mul(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    *out = a[0];
    bool is_near = a[0].is_near;
    for (uint32_t k = 1; k < n; k++) {
        if ((is_near || a[k].is_near) &&
            (n != 2 || a[1].is_near == a[0].is_near || !is_whole(p, &a[is_near])))
            return hn_pt2_calc_fail(p, HN_UNSUPPORTED, "product of floats", HN_STR(""));
        is_near |= a[k].is_near;
        *out = hn_pt2_term_multiply(p, out, &a[k]);
    }
    out->is_near = is_near;
    return true;
}
static bool fn_pow(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    return (void)n, hn_pt2_term_power(p, &a[0], &a[1], out);
}
static bool fn_divide(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    return (void)n, hn_pt2_term_divide(p, &a[0], &a[1], out);
}
static bool fn_floordiv(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    return (void)n, hn_pt2_term_floordiv(p, &a[0], &a[1], out);
}
static bool fn_floor(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    hn_pt2_term one = hn_pt2_term_int(p, 1);
    return (void)n, hn_pt2_term_floordiv(p, &a[0], &one, out);
}
/* -floor(-x) */
static bool fn_ceil(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    (void)n;
    hn_pt2_term below = hn_pt2_term_negate(p, a), one = hn_pt2_term_int(p, 1), floored;
    if (!hn_pt2_term_floordiv(p, &below, &one, &floored)) return false;
    *out = hn_pt2_term_negate(p, &floored);
    return true;
}
static bool fn_ceildiv(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    hn_pt2_term quotient;
    (void)n;
    return hn_pt2_term_divide(p, &a[0], &a[1], &quotient) && fn_ceil(p, &quotient, 1, out);
}
static bool fn_trunc(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    hn_expr zero = hn_sym_int(p->sym, 0);
    if (!is_whole(p, a) &&
        !(hn_sym_prove_le(p->sym, zero, a->num) && hn_sym_prove_lt(p->sym, zero, a->den)))
        return hn_pt2_calc_fail(p, HN_UNSUPPORTED, "truncation of a fraction of unknown sign",
                                HN_STR(""));
    return fn_floor(p, a, n, out);
}
static bool fn_mod(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    return (void)n, hn_pt2_term_mod(p, &a[0], &a[1], out);
}
static bool fn_modular_indexing(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n,
                                hn_pt2_term *out) {
    hn_pt2_term quotient;
    (void)n;
    return hn_pt2_term_floordiv(p, &a[0], &a[1], &quotient) &&
           hn_pt2_term_mod(p, &quotient, &a[2], out);
}
static bool extreme(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, bool max, hn_pt2_term *out) {
    *out = a[0];
    for (uint32_t k = 0; k < n; k++) {
        if (!is_whole(p, &a[k]))
            return hn_pt2_calc_fail(p, HN_UNSUPPORTED, "minimum or maximum of fractions",
                                    HN_STR(""));
        if (k) out->num = (max ? hn_sym_max : hn_sym_min)(p->sym, out->num, a[k].num);
    }
    return true;
}
static bool fn_max(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    return extreme(p, a, n, true, out);
}
static bool fn_min(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    return extreme(p, a, n, false, out);
}
static bool fn_abs(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    hn_pt2_term both[2] = {a[0], hn_pt2_term_negate(p, a)};
    return (void)n, extreme(p, both, 2, true, out);
}
static bool shift(hn_pt2_calc *p, const hn_pt2_term *a, bool left, hn_pt2_term *out) {
    int64_t by = 0;
    if (!hn_sym_is_int(p->sym, a[1].num, &by) || by < 0 || by > 62)
        return hn_pt2_calc_fail(p, HN_UNSUPPORTED, "shift by other than 0 to 62", HN_STR(""));
    hn_pt2_term factor = hn_pt2_term_int(p, (int64_t)1 << by);
    if (!left) return hn_pt2_term_floordiv(p, &a[0], &factor, out);
    *out = hn_pt2_term_multiply(p, &a[0], &factor);
    return true;
}
static bool fn_shl(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    return (void)n, shift(p, a, true, out);
}
static bool fn_shr(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    return (void)n, shift(p, a, false, out);
}
static bool fn_eq(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    return (void)n, hn_pt2_term_relate(p, HN_REL_EQ, &a[0], &a[1], out);
}
static bool fn_ne(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    return (void)n, hn_pt2_term_relate(p, HN_REL_NE, &a[0], &a[1], out);
}
static bool fn_lt(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    return (void)n, hn_pt2_term_relate(p, HN_REL_LT, &a[0], &a[1], out);
}
static bool fn_le(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    return (void)n, hn_pt2_term_relate(p, HN_REL_LE, &a[0], &a[1], out);
}
static bool fn_gt(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    return (void)n, hn_pt2_term_relate(p, HN_REL_LT, &a[1], &a[0], out);
}
static bool fn_ge(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    return (void)n, hn_pt2_term_relate(p, HN_REL_LE, &a[1], &a[0], out);
}
static bool fn_and(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    *out = (hn_pt2_term){.is_condition = true};
    for (uint32_t k = 0; k < n; k++) {
        hn_pt2_term sum;
        if (!hn_pt2_term_and(p, out, &a[k], &sum)) return false;
        *out = sum;
    }
    return true;
}
static bool fn_or(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    if (!hn_pt2_term_bool(p, false, out)) return false;
    for (uint32_t k = 0; k < n; k++) {
        hn_pt2_term so_far = *out;
        if (!hn_pt2_term_or(p, &so_far, &a[k], out)) return false;
    }
    return true;
}
static bool fn_not(hn_pt2_calc *p, const hn_pt2_term *a, uint32_t n, hn_pt2_term *out) {
    return (void)n, hn_pt2_term_not(p, a, out);
}

/* ToFloat is exact on every size that exists, and its quotient is floored back. */
static const hn_pt2_function functions[] = {
    {"Integer", 1, 1, false, fn_same, false},
    {"Rational", 2, 2, false, fn_divide, false},
    {"Add", 1, HN_PT2_MAX_ARGS, false, fn_add, false},
    {"Mul", 1, HN_PT2_MAX_ARGS, false, fn_mul, true},
    {"Pow", 2, 2, false, fn_pow, false},
    {"PowByNatural", 2, 2, false, fn_pow, false},
    {"FloorDiv", 2, 2, false, fn_floordiv, false},
    {"CleanDiv", 2, 2, false, fn_floordiv, false},
    {"CeilDiv", 2, 2, false, fn_ceildiv, false},
    {"IntTrueDiv", 2, 2, false, fn_divide, false},
    {"FloatTrueDiv", 2, 2, false, fn_divide, false},
    {"floor", 1, 1, false, fn_floor, true},
    {"FloorToInt", 1, 1, false, fn_floor, true},
    {"ceiling", 1, 1, false, fn_ceil, false},
    {"CeilToInt", 1, 1, false, fn_ceil, false},
    {"TruncToInt", 1, 1, false, fn_trunc, true},
    {"ToFloat", 1, 1, false, fn_same, false},
    {"Identity", 1, 1, false, fn_same, false},
    {"Mod", 2, 2, false, fn_mod, false},
    {"PythonMod", 2, 2, false, fn_mod, false},
    {"ModularIndexing", 3, 3, false, fn_modular_indexing, false},
    {"Max", 1, HN_PT2_MAX_ARGS, false, fn_max, false},
    {"max", 1, HN_PT2_MAX_ARGS, false, fn_max, false},
    {"Min", 1, HN_PT2_MAX_ARGS, false, fn_min, false},
    {"min", 1, HN_PT2_MAX_ARGS, false, fn_min, false},
    {"Abs", 1, 1, false, fn_abs, false},
    {"abs", 1, 1, false, fn_abs, false},
    {"LShift", 2, 2, false, fn_shl, false},
    {"RShift", 2, 2, false, fn_shr, false},
    {"Equality", 2, 2, false, fn_eq, false},
    {"Eq", 2, 2, false, fn_eq, false},
    {"Unequality", 2, 2, false, fn_ne, false},
    {"Ne", 2, 2, false, fn_ne, false},
    {"StrictLessThan", 2, 2, false, fn_lt, false},
    {"Lt", 2, 2, false, fn_lt, false},
    {"LessThan", 2, 2, false, fn_le, false},
    {"Le", 2, 2, false, fn_le, false},
    {"StrictGreaterThan", 2, 2, false, fn_gt, false},
    {"Gt", 2, 2, false, fn_gt, false},
    {"GreaterThan", 2, 2, false, fn_ge, false},
    {"Ge", 2, 2, false, fn_ge, false},
    {"And", 1, HN_PT2_MAX_ARGS, true, fn_and, false},
    {"Or", 1, HN_PT2_MAX_ARGS, true, fn_or, false},
    {"Not", 1, 1, true, fn_not, false},
};

const hn_pt2_function *hn_pt2_function_find(hn_str name) {
    for (size_t k = 0; k < HN_COUNT_OF(functions); k++)
        if (hn_str_eq(name, hn_str_of(functions[k].name))) return &functions[k];
    return NULL;
}
