/* sum.c: sums, the canonical form that everything else is built on.
 *
 * A sum is a constant and terms with coefficients, ascending by id. Finishing one also undoes
 * divisions:
 *   c*(e//c) + e%c            -> e
 *   c*((e//c)%d) + e%c        -> e%(c*d)       for c, d >= 0
 *   c*(e//c)                  -> e             where c is known to divide e
 * each with any common factor, constant or symbolic. */
#include "sym/internal.h"

/* --- the buffer --- */

void hn_sum_init(hn_sum_buf *buf) {
    buf->constant = 0;
    buf->count = 0;
    buf->cap = HN_SUM_INLINE;
    buf->sorted = true;
    buf->failed = false;
    buf->terms = buf->inline_terms;
    buf->coeffs = buf->inline_coeffs;
}

static hn_status spill(hn_sym *sym, hn_sum_buf *buf, uint32_t need) {
    uint32_t cap = buf->cap;
    while (cap < need) cap *= 2;
    hn_expr *terms;
    int64_t *coeffs;
    HN_NEW(sym->arena, terms, cap);
    HN_NEW(sym->arena, coeffs, cap);
    memcpy(terms, buf->terms, buf->count * sizeof(*terms));
    memcpy(coeffs, buf->coeffs, buf->count * sizeof(*coeffs));
    buf->terms = terms;
    buf->coeffs = coeffs;
    buf->cap = cap;
    return NULL;
}

static bool room(hn_sym *sym, hn_sum_buf *buf, uint32_t more) {
    if (HN_LIKELY(buf->count + more <= buf->cap)) return true;
    hn_status status = spill(sym, buf, buf->count + more);
    if (status) hn_sym_fail_status(sym, status);
    if (status) buf->failed = true;
    return !status;
}

void hn_sum_const(hn_sum_buf *buf, int64_t value, int64_t scale) {
    int64_t product;
    if (!hn_mul_i64(value, scale, &product) || !hn_add_i64(buf->constant, product, &buf->constant))
        buf->failed = true;
}

void hn_sum_push(hn_sym *sym, hn_sum_buf *buf, hn_expr term, int64_t coeff) {
    if (!coeff || !room(sym, buf, 1)) return;
    if (buf->count > 0 && buf->terms[buf->count - 1] >= term) buf->sorted = false;
    buf->terms[buf->count] = term;
    buf->coeffs[buf->count++] = coeff;
}

void hn_sum_add(hn_sym *sym, hn_sum_buf *buf, hn_expr e, int64_t scale) {
    if (!e) {
        buf->failed = true;
        return;
    }
    hn_sum sum = hn_sym_sum(sym, e);
    hn_sum_const(buf, sum.constant, scale);
    if (!scale || !room(sym, buf, sum.count)) return;
    if (buf->count > 0 && sum.count > 0 && buf->terms[buf->count - 1] >= sum.terms[0])
        buf->sorted = false;
    for (uint32_t k = 0; k < sum.count; k++) {
        buf->terms[buf->count + k] = sum.terms[k];
        if (!hn_mul_i64(sum.coeffs[k], scale, &buf->coeffs[buf->count + k])) buf->failed = true;
    }
    buf->count += sum.count;
}

/* Insertion sort while small; Shell's gaps keep the rare long sum from being quadratic. */
static void terms_sort(hn_sum_buf *buf) {
    static const uint32_t gaps[] = {1750, 701, 301, 132, 57, 23, 10, 4, 1};
    for (size_t g = buf->count < 12 ? HN_COUNT_OF(gaps) - 1 : 0; g < HN_COUNT_OF(gaps); g++) {
        uint32_t gap = gaps[g];
        for (uint32_t i = gap; i < buf->count; i++) {
            hn_expr term = buf->terms[i];
            int64_t coeff = buf->coeffs[i];
            uint32_t j = i;
            for (; j >= gap && buf->terms[j - gap] > term; j -= gap) {
                buf->terms[j] = buf->terms[j - gap];
                buf->coeffs[j] = buf->coeffs[j - gap];
            }
            buf->terms[j] = term;
            buf->coeffs[j] = coeff;
        }
    }
}

static void normalize(hn_sum_buf *buf) {
    if (buf->sorted || buf->failed) return;
    terms_sort(buf);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < buf->count;) {
        hn_expr term = buf->terms[i];
        int64_t coeff = buf->coeffs[i++];
        for (; i < buf->count && buf->terms[i] == term; i++)
            if (!hn_add_i64(coeff, buf->coeffs[i], &coeff)) buf->failed = true;
        if (!coeff) continue;
        buf->terms[kept] = term;
        buf->coeffs[kept++] = coeff;
    }
    buf->count = kept;
    buf->sorted = true;
}

/* --- undoing divisions --- */

/* The place of `term` in a normalized buffer with exactly this coefficient; -1 when it is not
 * there. */
static int32_t find(const hn_sum_buf *buf, hn_expr term, int64_t coeff) {
    for (uint32_t k = 0; k < buf->count; k++)
        if (buf->terms[k] == term) return buf->coeffs[k] == coeff ? (int32_t)k : -1;
    return -1;
}

/* Puts scale * e in place of the terms i and j (j < 0: only i). On overflow all stays as it was. */
static bool replace(hn_sym *sym, hn_sum_buf *buf, uint32_t i, int32_t j, hn_expr e, int64_t scale) {
    hn_sum_buf next;
    hn_sum_init(&next);
    next.constant = buf->constant;
    for (uint32_t k = 0; k < buf->count; k++)
        if (k != i && (int32_t)k != j) hn_sum_push(sym, &next, buf->terms[k], buf->coeffs[k]);
    hn_sum_add(sym, &next, e, scale);
    normalize(&next);
    if (next.failed || !room(sym, buf, next.count > buf->count ? next.count - buf->count : 0))
        return false;
    memcpy(buf->terms, next.terms, next.count * sizeof(*next.terms));
    memcpy(buf->coeffs, next.coeffs, next.count * sizeof(*next.coeffs));
    buf->constant = next.constant;
    buf->count = next.count;
    return true;
}

/* c*(e//c) -> e where c divides e. `factor` is the e//c among the factors of term i. */
static bool undo_exact(hn_sym *sym, hn_sum_buf *buf, uint32_t i, hn_expr factor) {
    hn_expr a = hn_sym_at(sym, factor)->args[0], b = hn_sym_at(sym, factor)->args[1];
    if (!hn_sym_is_const(sym, b)) return false;
    int64_t c = hn_sym_const(sym, b);
    if (c <= 0 || hn_sym_divisor(sym, a) % c != 0 || buf->coeffs[i] % c != 0) return false;
    hn_expr others = hn_term_div(sym, buf->terms[i], factor);
    return replace(sym, buf, i, -1, hn_sym_mul(sym, others, a), buf->coeffs[i] / c);
}

/* Looks for `product`, times the coefficient of term i, among the other terms. */
static int32_t find_partner(const hn_sym *sym, const hn_sum_buf *buf, uint32_t i, hn_expr product) {
    int64_t c, want;
    hn_expr term;
    if (!product || !hn_sym_is_monomial(sym, product, &c, &term) ||
        !hn_mul_i64(c, buf->coeffs[i], &want))
        return -1;
    int32_t j = find(buf, term, want);
    return j == (int32_t)i ? -1 : j;
}

/* c*((e//c)%d) + e%c -> e%(c*d): `low` is e%c in term i, `q` is e//c. */
static bool undo_mod_mod(hn_sym *sym, hn_sum_buf *buf, uint32_t i, hn_expr low, hn_expr q,
                         hn_expr others) {
    hn_expr e = hn_sym_at(sym, low)->args[0], c = hn_sym_at(sym, low)->args[1];
    if (hn_sym_at(sym, c)->lo < 0) return false;
    hn_expr scale = hn_sym_mul(sym, others, c);
    for (uint32_t t = 0; t < buf->count; t++) {
        if (t == i || !(hn_sym_at(sym, buf->terms[t])->flags & HN_NODE_HAS_MOD)) continue;
        uint32_t count;
        const hn_expr *factors = hn_term_factors(sym, buf->terms[t], &count);
        for (uint32_t f = 0; f < count; f++) {
            const hn_sym_node *high = hn_sym_at(sym, factors[f]);
            if (high->kind != HN_EXPR_MOD || high->args[0] != q ||
                hn_sym_at(sym, high->args[1])->lo < 0)
                continue;
            hn_expr d = high->args[1];
            if (find_partner(sym, buf, i, hn_sym_mul(sym, scale, factors[f])) != (int32_t)t)
                continue;
            hn_expr joined = hn_sym_mul(sym, others, hn_sym_mod(sym, e, hn_sym_mul(sym, c, d)));
            return replace(sym, buf, i, (int32_t)t, joined, buf->coeffs[i]);
        }
    }
    return false;
}

/* `factor` is an e%c among the factors of term i. */
static bool undo_mod(hn_sym *sym, hn_sum_buf *buf, uint32_t i, hn_expr factor) {
    hn_expr e = hn_sym_at(sym, factor)->args[0], c = hn_sym_at(sym, factor)->args[1];
    hn_expr others = hn_term_div(sym, buf->terms[i], factor);
    hn_expr q = hn_sym_floordiv(sym, e, c);
    if (!others || !q) return false;
    int32_t j = find_partner(sym, buf, i, hn_sym_mul(sym, others, hn_sym_mul(sym, q, c)));
    if (j >= 0) return replace(sym, buf, i, j, hn_sym_mul(sym, others, e), buf->coeffs[i]);
    return undo_mod_mod(sym, buf, i, factor, q, others);
}

static bool undo_term(hn_sym *sym, hn_sum_buf *buf, uint32_t i, bool has_partner) {
    uint32_t count;
    const hn_expr *factors = hn_term_factors(sym, buf->terms[i], &count);
    for (uint32_t f = 0; f < count; f++) {
        hn_expr_kind kind = hn_sym_kind(sym, factors[f]);
        if (kind == HN_EXPR_FLOORDIV && undo_exact(sym, buf, i, factors[f])) return true;
        if (kind == HN_EXPR_MOD && has_partner && undo_mod(sym, buf, i, factors[f])) return true;
    }
    return false;
}

/* One step of undoing; false when there is nothing to undo. */
static bool undo_once(hn_sym *sym, hn_sum_buf *buf) {
    uint32_t flagged = 0;
    for (uint32_t i = 0; i < buf->count; i++) flagged += hn_sym_at(sym, buf->terms[i])->flags != 0;
    for (uint32_t i = 0; i < buf->count; i++)
        if (hn_sym_at(sym, buf->terms[i])->flags && undo_term(sym, buf, i, flagged > 1))
            return true;
    return false;
}

static bool wants_undo(const hn_sym *sym, const hn_sum_buf *buf) {
    uint8_t flags = 0;
    for (uint32_t i = 0; i < buf->count; i++) flags |= hn_sym_at(sym, buf->terms[i])->flags;
    return (flags & (HN_NODE_HAS_DIV | HN_NODE_HAS_MOD)) != 0;
}

/* Every step takes a division away, so this ends; the limits are for nesting and for hostile
 * lengths. */
static void undo_divisions(hn_sym *sym, hn_sum_buf *buf) {
    enum { STEPS_MAX = 64, NESTING_MAX = 3, LENGTH_MAX = 256 };
    if (buf->count > LENGTH_MAX) return;
    if (sym->recombine_depth >= NESTING_MAX) {
        sym->cuts++;
        return;
    }
    sym->recombine_depth++;
    sym->trial++;
    for (int step = 0; step < STEPS_MAX && !buf->failed && undo_once(sym, buf);) step++;
    sym->trial--;
    sym->recombine_depth--;
}

/* --- finishing --- */

hn_expr hn_sum_finish(hn_sym *sym, hn_sum_buf *buf) {
    normalize(buf);
    if (!buf->failed && wants_undo(sym, buf)) undo_divisions(sym, buf);
    if (buf->failed)
        return sym->failed ? 0
                           : hn_sym_fail(sym, HN_UNSUPPORTED, "a symbolic sum overflows 64 bits");
    if (buf->count == 0) return hn_sym_int(sym, buf->constant);
    if (buf->count == 1 && buf->coeffs[0] == 1 && buf->constant == 0) return buf->terms[0];
    return hn_sym_intern(sym, HN_EXPR_ADD, buf->constant, buf->terms, buf->coeffs, buf->count);
}

/* --- constructors --- */

/* e + value: the terms are canonical already. */
static hn_expr add_const(hn_sym *sym, hn_expr e, int64_t value) {
    hn_sum sum = hn_sym_sum(sym, e);
    int64_t constant;
    if (!hn_add_i64(sum.constant, value, &constant))
        return hn_sym_fail(sym, HN_UNSUPPORTED, "a symbolic sum overflows 64 bits");
    if (sum.count == 0) return hn_sym_int(sym, constant);
    if (sum.count == 1 && sum.coeffs[0] == 1 && constant == 0) return sum.terms[0];
    return hn_sym_intern(sym, HN_EXPR_ADD, constant, sum.terms, sum.coeffs, sum.count);
}

/* buf = a + scale * b, merging the two ascending lists. */
static void merge(hn_sym *sym, hn_sum_buf *buf, hn_sum a, hn_sum b, int64_t scale) {
    hn_sum_init(buf);
    hn_sum_const(buf, a.constant, 1);
    hn_sum_const(buf, b.constant, scale);
    if (!room(sym, buf, a.count + b.count)) return;
    uint32_t i = 0, j = 0, n = 0;
    while (i < a.count || j < b.count) {
        bool from_a = j == b.count || (i < a.count && a.terms[i] <= b.terms[j]);
        bool from_b = i == a.count || (j < b.count && b.terms[j] <= a.terms[i]);
        int64_t coeff = from_a ? a.coeffs[i] : 0, other = 0;
        hn_expr term = from_a ? a.terms[i] : b.terms[j];
        if (from_b &&
            (!hn_mul_i64(b.coeffs[j], scale, &other) || !hn_add_i64(coeff, other, &coeff)))
            buf->failed = true;
        i += from_a;
        j += from_b;
        buf->terms[n] = term;
        buf->coeffs[n] = coeff;
        n += coeff != 0;
    }
    buf->count = n;
}

static hn_expr add_scaled(hn_sym *sym, hn_expr a, hn_expr b, int64_t scale) {
    hn_sum_buf buf;
    merge(sym, &buf, hn_sym_sum(sym, a), hn_sym_sum(sym, b), scale);
    return hn_sum_finish(sym, &buf);
}

hn_expr hn_sym_add(hn_sym *sym, hn_expr a, hn_expr b) {
    if (!a || !b || sym->failed) return 0;
    if (hn_sym_is_const(sym, b)) return add_const(sym, a, hn_sym_const(sym, b));
    if (hn_sym_is_const(sym, a)) return add_const(sym, b, hn_sym_const(sym, a));
    hn_expr first = a < b ? a : b, second = a < b ? b : a;
    hn_expr known = hn_sym_memo_get(sym, HN_MEMO_ADD, first, second);
    if (known) return known;
    uint32_t cuts = sym->cuts;
    hn_expr sum = add_scaled(sym, first, second, 1);
    hn_sym_memo_put(sym, HN_MEMO_ADD, first, second, sum, cuts);
    return sum;
}

hn_expr hn_sym_sub(hn_sym *sym, hn_expr a, hn_expr b) {
    int64_t value;
    if (!a || !b || sym->failed) return 0;
    if (a == b) return hn_sym_int(sym, 0);
    if (hn_sym_is_int(sym, b, &value) && value != INT64_MIN) return add_const(sym, a, -value);
    return add_scaled(sym, a, b, -1);
}

hn_expr hn_sym_scale(hn_sym *sym, hn_expr e, int64_t factor) {
    if (!e || sym->failed) return 0;
    if (factor == 1) return e;
    hn_sum_buf buf;
    hn_sum_init(&buf);
    if (factor != 0) hn_sum_add(sym, &buf, e, factor);
    return hn_sum_finish(sym, &buf);
}

hn_expr hn_sym_neg(hn_sym *sym, hn_expr a) { return hn_sym_scale(sym, a, -1); }

bool hn_sym_is_monomial(const hn_sym *sym, hn_expr e, int64_t *out_coeff, hn_expr *out_term) {
    hn_sum sum = hn_sym_sum(sym, e);
    if (sum.count != 1 || sum.constant != 0) return false;
    *out_coeff = sum.coeffs[0];
    *out_term = sum.terms[0];
    return true;
}

/* --- affine --- */

bool hn_sym_affine(hn_sym *sym, hn_expr e, hn_expr symbol, hn_expr *out_coeff, hn_expr *out_rest) {
    if (!e || !symbol || sym->failed) return false;
    hn_sum sum = hn_sym_sum(sym, e);
    hn_sum_buf coeff, rest;
    hn_sum_init(&coeff);
    hn_sum_init(&rest);
    rest.constant = sum.constant;
    for (uint32_t k = 0; k < sum.count; k++) {
        if (!hn_sym_uses(sym, sum.terms[k], symbol)) {
            hn_sum_push(sym, &rest, sum.terms[k], sum.coeffs[k]);
            continue;
        }
        hn_expr others = hn_term_div(sym, sum.terms[k], symbol);
        if (!others || hn_sym_uses(sym, others, symbol)) return false;
        hn_sum_add(sym, &coeff, others, sum.coeffs[k]);
    }
    *out_coeff = hn_sum_finish(sym, &coeff);
    *out_rest = hn_sum_finish(sym, &rest);
    return *out_coeff && *out_rest;
}
