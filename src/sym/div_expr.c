/* div_expr.c: simplification of a // b and a % b for a symbolic b, and the constructors of both.
 *
 * As for constants, a = b*q + r is taken apart, here by the factors of b, and then
 *   0 <= r < b provable                  -> r // b = 0,  r % b = r
 *   -b <= r < 0 provable                 -> r // b = -1, r % b = r + b
 *   (g*x + y) // (g*d), 0 <= y < g       -> x // d             for d >= 0
 *   (x//y) // b                          -> x // (y*b)         for b >= 0
 *   (x % (b*d)) // b                     -> (x//b) % d         for b, d >= 0
 *   (k*(x%y) + m) % b, b divides k*y     -> (k*x + m) % b
 * A divisor that may be 0 is no obstacle: where it is 0 the expression has no value anyway. */
#include "sym/internal.h"

static bool at_least_zero(const hn_sym *sym, hn_expr e) { return e && hn_sym_at(sym, e)->lo >= 0; }

/* 0 <= r < b */
static bool within(hn_sym *sym, hn_expr r, hn_expr b) {
    return r && b && hn_sym_at(sym, r)->hi >= 0 && hn_sym_nonneg(sym, r) &&
           hn_sym_prove_lt(sym, r, b);
}

/* --- a = b*q + r --- */

/* By the single term of b: q takes every term of a that has its factors and its coefficient. */
static void split_by_term(hn_sym *sym, hn_sum a, int64_t b_coeff, hn_expr b_term, hn_sum_buf *q,
                          hn_sum_buf *r) {
    hn_sum_init(q);
    hn_sum_init(r);
    r->constant = a.constant;
    for (uint32_t k = 0; k < a.count; k++) {
        bool overflows = a.coeffs[k] == INT64_MIN && b_coeff == -1;
        bool divides = !overflows && a.coeffs[k] % b_coeff == 0;
        hn_expr quotient = divides ? hn_term_div(sym, a.terms[k], b_term) : 0;
        if (quotient) hn_sum_add(sym, q, quotient, a.coeffs[k] / b_coeff);
        else hn_sum_push(sym, r, a.terms[k], a.coeffs[k]);
    }
}

/* The term of a sum that leads a polynomial division: most factors, then the latest. */
static uint32_t leading_term(const hn_sym *sym, hn_sum b) {
    uint32_t best = 0, best_count = 0;
    for (uint32_t k = 0; k < b.count; k++) {
        uint32_t count;
        hn_term_factors(sym, b.terms[k], &count);
        if (count >= best_count) {
            best = k;
            best_count = count;
        }
    }
    return best;
}

/* By a sum, like a polynomial. Only a remainder of 0 or one within the divisor is worth the
 * change. */
static bool split_by_sum(hn_sym *sym, hn_expr a, hn_expr b, hn_expr *out_q, hn_expr *out_r) {
    enum { STEPS_MAX = 8 };
    hn_sum b_sum = hn_sym_sum(sym, b);
    uint32_t lead = leading_term(sym, b_sum);
    *out_q = hn_sym_int(sym, 0);
    for (int step = 0; step < STEPS_MAX && a; step++) {
        hn_sum_buf q, r;
        split_by_term(sym, hn_sym_sum(sym, a), b_sum.coeffs[lead], b_sum.terms[lead], &q, &r);
        if (q.count == 0 && q.constant == 0 && !q.failed) break;
        hn_expr part = hn_sum_finish(sym, &q);
        *out_q = hn_sym_add(sym, *out_q, part);
        a = hn_sym_sub(sym, a, hn_sym_mul(sym, part, b));
    }
    *out_r = a;
    if (!a || !*out_q || hn_sym_is_value(sym, *out_q, 0)) return false;
    return hn_sym_is_value(sym, a, 0) || within(sym, a, b);
}

/* a = b*q + r with q != 0. */
static bool split(hn_sym *sym, hn_expr a, hn_expr b, hn_expr *out_q, hn_expr *out_r) {
    int64_t coeff;
    hn_expr term;
    if (!hn_sym_is_monomial(sym, b, &coeff, &term)) return split_by_sum(sym, a, b, out_q, out_r);
    hn_sum_buf q, r;
    split_by_term(sym, hn_sym_sum(sym, a), coeff, term, &q, &r);
    if (q.count == 0 && q.constant == 0) return false;
    *out_q = hn_sum_finish(sym, &q);
    *out_r = hn_sum_finish(sym, &r);
    return *out_q && *out_r;
}

/* a / b when b divides a as a polynomial; 0 otherwise. */
static hn_expr divide_exactly(hn_sym *sym, hn_expr a, hn_expr b) {
    hn_expr q, r;
    if (hn_sym_is_value(sym, b, 1)) return a;
    return a && b && !hn_sym_is_const(sym, b) && split(sym, a, b, &q, &r) &&
                   hn_sym_is_value(sym, r, 0)
               ? q
               : 0;
}

/* --- common factors --- */

/* a = g*x + y and b = g*d, with y = 0 or 0 <= y < g (and then d >= 0). */
typedef struct grouping {
    hn_expr g, x, y, d;
} grouping;

static bool group(hn_sym *sym, hn_sum a, hn_expr b, int64_t g_coeff, hn_expr g_term,
                  grouping *out) {
    hn_sum_buf x, y;
    split_by_term(sym, a, g_coeff, g_term, &x, &y);
    out->g = hn_sym_scale(sym, g_term, g_coeff);
    out->x = hn_sum_finish(sym, &x);
    out->y = hn_sum_finish(sym, &y);
    int64_t b_coeff;
    hn_expr b_term;
    if (!hn_sym_is_monomial(sym, b, &b_coeff, &b_term) || !out->g || !out->x || !out->y)
        return false;
    out->d = hn_sym_scale(sym, hn_term_div(sym, b_term, g_term), b_coeff / g_coeff);
    if (!out->d) return false;
    return hn_sym_is_value(sym, out->y, 0) ||
           (at_least_zero(sym, out->d) && within(sym, out->y, out->g));
}

/* Tries what each term of a shares with b. */
static bool group_find(hn_sym *sym, hn_expr a, hn_expr b, grouping *out) {
    enum { TRIES_MAX = 8 };
    int64_t b_coeff;
    hn_expr b_term;
    if (!hn_sym_is_monomial(sym, b, &b_coeff, &b_term)) return false;
    hn_sum sum = hn_sym_sum(sym, a);
    for (uint32_t k = 0; k < sum.count && k < TRIES_MAX; k++) {
        int64_t g_coeff = hn_gcd(sum.coeffs[k], b_coeff);
        hn_expr g_term = hn_term_gcd(sym, sum.terms[k], b_term);
        bool trivial = !g_term || (g_coeff == 1 && hn_sym_is_const(sym, g_term));
        if (trivial || (g_coeff == b_coeff && g_term == b_term)) continue;
        /* A purely numeric g needs a term to stand on. */
        if (group(sym, sum, b, g_coeff, g_term, out)) return true;
    }
    return false;
}

/* --- rules --- */

/* (x//y) // b -> x // (y*b) and (x % (b*d)) // b -> (x//b) % d */
static hn_expr div_of_division(hn_sym *sym, hn_expr a, hn_expr b) {
    const hn_sym_node *node = hn_sym_at(sym, a);
    if (node->kind != HN_EXPR_FLOORDIV && node->kind != HN_EXPR_MOD) return 0;
    if (!at_least_zero(sym, b)) return 0;
    hn_expr_kind kind = (hn_expr_kind)node->kind;
    hn_expr x = node->args[0], y = node->args[1];
    if (kind == HN_EXPR_FLOORDIV) return hn_sym_floordiv(sym, x, hn_sym_mul(sym, y, b));
    hn_expr d = divide_exactly(sym, y, b);
    if (!at_least_zero(sym, d)) return 0;
    return hn_sym_mod(sym, hn_sym_floordiv(sym, x, b), d);
}

/* b = -(...) has its sign moved to the other side. */
static bool is_negated(const hn_sym *sym, hn_expr b) {
    int64_t coeff;
    hn_expr term;
    return hn_sym_is_monomial(sym, b, &coeff, &term) && coeff < 0;
}

/* -b <= a < 0; a divisor that is not negative is at least 1. */
static bool just_below_zero(hn_sym *sym, hn_expr a, hn_expr b) {
    if (hn_sym_at(sym, a)->hi >= 0) return false;
    return (hn_sym_at(sym, a)->lo == -1 && at_least_zero(sym, b)) ||
           hn_sym_nonneg(sym, hn_sym_add(sym, a, b));
}

hn_expr hn_div_expr(hn_sym *sym, hn_expr a, hn_expr b) {
    hn_expr q, r;
    grouping s;
    if (a == b) return hn_sym_int(sym, 1);
    if (is_negated(sym, b)) return hn_sym_floordiv(sym, hn_sym_neg(sym, a), hn_sym_neg(sym, b));
    if (split(sym, a, b, &q, &r)) return hn_sym_add(sym, q, hn_sym_floordiv(sym, r, b));
    if (within(sym, a, b)) return hn_sym_int(sym, 0);
    if (just_below_zero(sym, a, b)) return hn_sym_int(sym, -1);
    if (group_find(sym, a, b, &s)) return hn_sym_floordiv(sym, s.x, s.d);
    return div_of_division(sym, a, b);
}

/* Takes the % y off every term k*(x%y) where b divides k*y. */
static hn_expr mod_of_mods(hn_sym *sym, hn_expr a, hn_expr b) {
    hn_sum sum = hn_sym_sum(sym, a);
    hn_sum_buf buf;
    bool changed = false;
    hn_sum_init(&buf);
    buf.constant = sum.constant;
    for (uint32_t k = 0; k < sum.count; k++) {
        hn_expr term = sum.terms[k];
        const hn_sym_node *node = hn_sym_at(sym, term);
        if (node->kind == HN_EXPR_MOD) {
            hn_expr x = node->args[0], y = node->args[1];
            if (divide_exactly(sym, hn_sym_scale(sym, y, sum.coeffs[k]), b)) {
                term = x;
                changed = true;
            }
        }
        hn_sum_add(sym, &buf, term, sum.coeffs[k]);
    }
    return changed ? hn_sym_mod(sym, hn_sum_finish(sym, &buf), b) : 0;
}

hn_expr hn_mod_expr(hn_sym *sym, hn_expr a, hn_expr b) {
    hn_expr q, r;
    grouping s;
    if (a == b) return hn_sym_int(sym, 0);
    if (is_negated(sym, b))
        return hn_sym_neg(sym, hn_sym_mod(sym, hn_sym_neg(sym, a), hn_sym_neg(sym, b)));
    if (split(sym, a, b, &q, &r)) return hn_sym_mod(sym, r, b);
    if (within(sym, a, b)) return a;
    if (just_below_zero(sym, a, b)) return hn_sym_add(sym, a, b);
    hn_expr e = mod_of_mods(sym, a, b);
    if (e) return e;
    if (!group_find(sym, a, b, &s)) return 0;
    return hn_sym_add(sym, hn_sym_mul(sym, s.g, hn_sym_mod(sym, s.x, s.d)), s.y);
}

/* --- constructors --- */

/* Both constant, or the divisor 0, 1 or -1. False: go on. */
static bool fold(hn_sym *sym, bool is_mod, hn_expr a, hn_expr b, hn_expr *out) {
    int64_t c, value;
    if (!hn_sym_is_int(sym, b, &c)) {
        *out = a;
        return hn_sym_is_value(sym, a, 0);
    }
    if (c == 0) {
        *out = hn_sym_fail(sym, HN_INVALID_ARGUMENT, "cannot divide a symbolic expression by zero");
        return true;
    }
    if (c == 1 || c == -1) {
        *out = is_mod ? hn_sym_int(sym, 0) : c == 1 ? a : hn_sym_neg(sym, a);
        return true;
    }
    if (!hn_sym_is_int(sym, a, &value)) return false;
    *out = hn_sym_int(sym, is_mod ? hn_floor_mod(value, c) : hn_floor_div(value, c));
    return true;
}

static hn_expr simplify(hn_sym *sym, bool is_mod, hn_expr a, hn_expr b) {
    int64_t c;
    if (!hn_sym_is_int(sym, b, &c)) return is_mod ? hn_mod_expr(sym, a, b) : hn_div_expr(sym, a, b);
    if (c > 0) return is_mod ? hn_mod_const(sym, a, c) : hn_div_const(sym, a, c);
    if (c == INT64_MIN) return 0;
    hn_expr flipped = hn_sym_neg(sym, a), positive = hn_sym_int(sym, -c);
    if (!flipped) return 0;
    return is_mod ? hn_sym_neg(sym, hn_sym_mod(sym, flipped, positive))
                  : hn_sym_floordiv(sym, flipped, positive);
}

static hn_expr divide(hn_sym *sym, bool is_mod, hn_expr a, hn_expr b) {
    hn_expr e;
    if (!a || !b || sym->failed) return 0;
    if (fold(sym, is_mod, a, b, &e)) return e;
    hn_memo_op op = is_mod ? HN_MEMO_MOD : HN_MEMO_FLOORDIV;
    e = hn_sym_memo_get(sym, op, a, b);
    if (e) return e;
    uint32_t cuts = sym->cuts;
    sym->trial++;
    e = simplify(sym, is_mod, a, b);
    sym->trial--;
    if (!e) e = hn_sym_intern2(sym, is_mod ? HN_EXPR_MOD : HN_EXPR_FLOORDIV, a, b);
    hn_sym_memo_put(sym, op, a, b, e, cuts);
    return e;
}

hn_expr hn_sym_floordiv(hn_sym *sym, hn_expr a, hn_expr b) { return divide(sym, false, a, b); }
hn_expr hn_sym_mod(hn_sym *sym, hn_expr a, hn_expr b) { return divide(sym, true, a, b); }

hn_expr hn_sym_ceildiv(hn_sym *sym, hn_expr a, hn_expr b) {
    if (!a || !b || sym->failed) return 0;
    if (!at_least_zero(sym, b)) return hn_sym_neg(sym, hn_sym_floordiv(sym, hn_sym_neg(sym, a), b));
    return hn_sym_floordiv(sym, hn_sym_add(sym, a, hn_sym_add(sym, b, hn_sym_int(sym, -1))), b);
}
