/* div_const.c: simplification of a // c and a % c for a constant c > 1.
 *
 * Both take `a` apart as c*q + r, which holds for any q with floor division:
 *   (c*q + r) // c = q + r // c          (c*q + r) % c = r % c
 * and then look at r, with K its constant:
 *   lo(r)//c == hi(r)//c                 -> that constant
 *   (g*x + K) // (g*d)                   -> (x + K//g) // d
 *   (g*x + y) // (g*d), y//g constant    -> (x + y//g) // d
 *   (x//y + m) // c                      -> (x + m*y) // (y*c)
 *   (x % (c*d)) // c                     -> (x//c) % d
 *   (k*(x%y) + m) % c, c divides k*y     -> (k*x + m) % c
 *   negative // c                        -> -((-a + c - 1) // c), so that ceilings have one form */
#include "sym/internal.h"

typedef struct parts {
    hn_sum_buf q, r; /* a = c*q + r */
    bool reduced;    /* r is not a */
} parts;

/* Nothing but one term: its exact quotient has no simpler form than term // c. */
static bool is_bare(hn_sum a) { return a.count == 1 && a.coeffs[0] == 1 && a.constant == 0; }

/* c divides coeff * term by the term's known divisor. */
static bool term_exact(const hn_sym *sym, hn_expr term, int64_t coeff, int64_t c) {
    return hn_sym_divisor(sym, term) % (c / hn_gcd(coeff, c)) == 0;
}

/* With `only_r` the quotient is left incomplete. */
static void split(hn_sym *sym, hn_sum a, int64_t c, bool only_r, parts *out) {
    hn_sum_init(&out->q);
    hn_sum_init(&out->r);
    out->q.constant = hn_floor_div(a.constant, c);
    out->r.constant = hn_floor_mod(a.constant, c);
    for (uint32_t k = 0; k < a.count; k++) {
        int64_t coeff = a.coeffs[k], rest = coeff % c;
        hn_sum_push(sym, &out->q, a.terms[k], coeff / c);
        if (rest == 0) continue;
        bool exact = term_exact(sym, a.terms[k], rest, c);
        if (exact && !only_r && !is_bare(a)) {
            int64_t g = hn_gcd(rest, c);
            hn_sum_add(sym, &out->q, hn_sym_floordiv(sym, a.terms[k], hn_sym_int(sym, c / g)),
                       rest / g);
        } else if (!exact || !only_r) {
            hn_sum_push(sym, &out->r, a.terms[k], rest);
        }
    }
    out->reduced = out->r.count < a.count || out->q.count > 0 || out->q.constant != 0;
}

static hn_range buf_range(const hn_sym *sym, const hn_sum_buf *buf) {
    hn_range r = {buf->constant, buf->constant};
    for (uint32_t k = 0; k < buf->count; k++)
        r = hn_range_add(r, hn_range_scaled(sym, buf->terms[k], buf->coeffs[k]));
    return r;
}

/* r // c is one number over the whole range. */
static bool quotient_known(hn_range r, int64_t c, int64_t *out) {
    if (!hn_range_finite(r) || r.lo > r.hi || hn_floor_div(r.lo, c) != hn_floor_div(r.hi, c))
        return false;
    *out = hn_floor_div(r.lo, c);
    return true;
}

static int64_t coeffs_gcd(const hn_sum_buf *r, int64_t c) {
    for (uint32_t k = 0; k < r->count && c != 1; k++) c = hn_gcd(c, r->coeffs[k]);
    return c;
}

/* r = g*x + y with y // g = *out_yq constant. False when y's quotient is not known. */
static bool group(hn_sym *sym, const hn_sum_buf *r, int64_t g, hn_sum_buf *x, hn_sum_buf *y,
                  int64_t *out_yq) {
    hn_sum_init(x);
    hn_sum_init(y);
    y->constant = r->constant;
    for (uint32_t k = 0; k < r->count; k++) {
        bool divisible = r->coeffs[k] % g == 0;
        hn_sum_push(sym, divisible ? x : y, r->terms[k],
                    divisible ? r->coeffs[k] / g : r->coeffs[k]);
    }
    return !x->failed && !y->failed && quotient_known(buf_range(sym, y), g, out_yq);
}

/* Finds a g > 1, g < c, for `group`: the divisors that single coefficients share with c. */
static int64_t group_find(hn_sym *sym, const hn_sum_buf *r, int64_t c, hn_sum_buf *x, hn_sum_buf *y,
                          int64_t *out_yq) {
    enum { TRIES_MAX = 8 };
    int64_t tried = 1, common = coeffs_gcd(r, c);
    if (common > 1 && common < c && group(sym, r, common, x, y, out_yq)) return common;
    for (uint32_t k = 0; k < r->count && k < TRIES_MAX; k++) {
        int64_t g = hn_gcd(r->coeffs[k], c);
        if (g == 1 || g == c || g == tried) continue;
        tried = g;
        if (group(sym, r, g, x, y, out_yq)) return g;
    }
    return 0;
}

/* (x//y + m) // c -> (x + m*y) // (y*c) for the first such term. */
static hn_expr div_nested(hn_sym *sym, const hn_sum_buf *r, int64_t c) {
    for (uint32_t k = 0; k < r->count; k++) {
        if (r->coeffs[k] != 1 || hn_sym_kind(sym, r->terms[k]) != HN_EXPR_FLOORDIV) continue;
        hn_expr x = hn_sym_at(sym, r->terms[k])->args[0], y = hn_sym_at(sym, r->terms[k])->args[1];
        int64_t yc = 0, product;
        bool y_const = hn_sym_is_int(sym, y, &yc) && yc > 0;
        if (!y_const && (r->count > 1 || r->constant != 0)) continue;
        if (y_const && !hn_mul_i64(yc, c, &product)) return 0;
        hn_sum_buf sum;
        hn_sum_init(&sum);
        hn_sum_add(sym, &sum, x, 1);
        for (uint32_t j = 0; j < r->count; j++) {
            if (j == k) continue;
            int64_t coeff;
            if (!hn_mul_i64(r->coeffs[j], yc, &coeff)) return 0;
            hn_sum_add(sym, &sum, r->terms[j], coeff);
        }
        hn_sum_const(&sum, r->constant, y_const ? yc : 0);
        return hn_sym_floordiv(sym, hn_sum_finish(sym, &sum), hn_sym_scale(sym, y, c));
    }
    return 0;
}

/* (x % (c*d)) // c -> (x//c) % d */
static hn_expr div_of_mod(hn_sym *sym, const hn_sum_buf *r, int64_t c) {
    if (r->count != 1 || r->coeffs[0] != 1 || r->constant != 0 ||
        hn_sym_kind(sym, r->terms[0]) != HN_EXPR_MOD)
        return 0;
    hn_expr x = hn_sym_at(sym, r->terms[0])->args[0], y = hn_sym_at(sym, r->terms[0])->args[1];
    int64_t yc;
    if (!hn_sym_is_int(sym, y, &yc) || yc <= 0 || yc % c != 0) return 0;
    return hn_sym_mod(sym, hn_sym_floordiv(sym, x, hn_sym_int(sym, c)), hn_sym_int(sym, yc / c));
}

static hn_expr div_of_negative(hn_sym *sym, const hn_sum_buf *r, int64_t c) {
    hn_sum_buf flipped;
    hn_sum_init(&flipped);
    flipped.constant = c - 1 - r->constant; /* 0 <= r->constant < c */
    for (uint32_t k = 0; k < r->count; k++) {
        if (r->coeffs[k] > 0) return 0;
        hn_sum_push(sym, &flipped, r->terms[k], -r->coeffs[k]); /* |coeff| < c */
    }
    return hn_sym_neg(sym, hn_sym_floordiv(sym, hn_sum_finish(sym, &flipped), hn_sym_int(sym, c)));
}

hn_expr hn_div_const(hn_sym *sym, hn_expr a, int64_t c) {
    parts p;
    int64_t quotient;
    split(sym, hn_sym_sum(sym, a), c, false, &p);
    if (p.r.failed || p.q.failed) return 0;
    if (quotient_known(buf_range(sym, &p.r), c, &quotient)) {
        hn_sum_const(&p.q, quotient, 1);
        return hn_sum_finish(sym, &p.q);
    }
    if (p.reduced) {
        hn_expr rest = hn_sym_floordiv(sym, hn_sum_finish(sym, &p.r), hn_sym_int(sym, c));
        hn_sum_add(sym, &p.q, rest, 1);
        return hn_sum_finish(sym, &p.q);
    }
    hn_sum_buf x, y;
    int64_t g = group_find(sym, &p.r, c, &x, &y, &quotient);
    if (g) {
        hn_sum_const(&x, quotient, 1);
        return hn_sym_floordiv(sym, hn_sum_finish(sym, &x), hn_sym_int(sym, c / g));
    }
    hn_expr e = div_nested(sym, &p.r, c);
    if (!e) e = div_of_mod(sym, &p.r, c);
    return e ? e : div_of_negative(sym, &p.r, c);
}

/* Takes the % y off every term k*(x%y) where c divides k*y. */
static hn_expr mod_of_mods(hn_sym *sym, const hn_sum_buf *r, int64_t c) {
    hn_sum_buf sum;
    bool changed = false;
    hn_sum_init(&sum);
    sum.constant = r->constant;
    for (uint32_t k = 0; k < r->count; k++) {
        hn_expr term = r->terms[k];
        int64_t y, product;
        if (hn_sym_kind(sym, term) == HN_EXPR_MOD &&
            hn_sym_is_int(sym, hn_sym_at(sym, term)->args[1], &y) &&
            hn_mul_i64(y, r->coeffs[k], &product) && product % c == 0) {
            term = hn_sym_at(sym, term)->args[0];
            changed = true;
        }
        hn_sum_add(sym, &sum, term, r->coeffs[k]);
    }
    return changed ? hn_sym_mod(sym, hn_sum_finish(sym, &sum), hn_sym_int(sym, c)) : 0;
}

/* g*((x + yq) % d) + (y - g*yq) */
static hn_expr mod_of_group(hn_sym *sym, hn_sum_buf *x, hn_sum_buf *y, int64_t g, int64_t yq,
                            int64_t d) {
    hn_sum_const(x, yq, 1);
    hn_sum_const(y, g, -yq);
    hn_sum_add(sym, y, hn_sym_mod(sym, hn_sum_finish(sym, x), hn_sym_int(sym, d)), g);
    return hn_sum_finish(sym, y);
}

hn_expr hn_mod_const(hn_sym *sym, hn_expr a, int64_t c) {
    parts p;
    int64_t quotient;
    split(sym, hn_sym_sum(sym, a), c, true, &p);
    if (p.r.failed) return 0;
    if (quotient_known(buf_range(sym, &p.r), c, &quotient)) {
        hn_sum_const(&p.r, c, -quotient);
        return hn_sum_finish(sym, &p.r);
    }
    if (p.reduced) return hn_sym_mod(sym, hn_sum_finish(sym, &p.r), hn_sym_int(sym, c));
    hn_expr e = mod_of_mods(sym, &p.r, c);
    if (e) return e;
    hn_sum_buf x, y;
    int64_t g = group_find(sym, &p.r, c, &x, &y, &quotient);
    return g ? mod_of_group(sym, &x, &y, g, quotient, c / g) : 0;
}
