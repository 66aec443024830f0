/* mul.c: products. Sums are multiplied out while that stays small, so a product has symbols,
 * divisions, minima and maxima for factors, ascending by id, and its constant is the coefficient in
 * a sum. Where multiplying out would be too big the sums stay as factors (HN_NODE_HAS_SUM). */
#include "sym/internal.h"

const hn_expr *hn_term_factors(const hn_sym *sym, hn_expr term, uint32_t *out_count) {
    const hn_sym_node *node = hn_sym_at(sym, term);
    if (node->kind == HN_EXPR_MUL) {
        *out_count = node->count;
        return node->args;
    }
    *out_count = node->kind == HN_EXPR_CONST ? 0 : 1; /* the only constant here is 1 */
    return &node->self;
}

static hn_expr product_of(hn_sym *sym, const hn_expr *factors, uint32_t count) {
    if (count == 0) return hn_sym_int(sym, 1);
    if (count == 1) return factors[0];
    return hn_sym_intern(sym, HN_EXPR_MUL, 0, factors, NULL, count);
}

hn_expr hn_term_mul(hn_sym *sym, hn_expr a, hn_expr b) {
    if (!a || !b) return 0;
    uint32_t a_count, b_count, i = 0, j = 0, n = 0;
    const hn_expr *af = hn_term_factors(sym, a, &a_count), *bf = hn_term_factors(sym, b, &b_count);
    hn_expr factors[2 * HN_SYM_FACTORS_MAX];
    while (i < a_count || j < b_count)
        factors[n++] = j == b_count || (i < a_count && af[i] <= bf[j]) ? af[i++] : bf[j++];
    return product_of(sym, factors, n);
}

hn_expr hn_term_div(hn_sym *sym, hn_expr term, hn_expr part) {
    if (!term || !part) return 0;
    uint32_t count, part_count, j = 0, n = 0;
    const hn_expr *factors = hn_term_factors(sym, term, &count),
                  *pf = hn_term_factors(sym, part, &part_count);
    hn_expr kept[HN_SYM_FACTORS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        if (j < part_count && factors[i] == pf[j]) j++;
        else kept[n++] = factors[i];
    }
    return j == part_count ? product_of(sym, kept, n) : 0;
}

hn_expr hn_term_gcd(hn_sym *sym, hn_expr a, hn_expr b) {
    if (!a || !b) return 0;
    uint32_t a_count, b_count, i = 0, j = 0, n = 0;
    const hn_expr *af = hn_term_factors(sym, a, &a_count), *bf = hn_term_factors(sym, b, &b_count);
    hn_expr common[HN_SYM_FACTORS_MAX];
    while (i < a_count && j < b_count) {
        if (af[i] == bf[j]) {
            common[n++] = af[i++];
            j++;
        } else if (af[i] < bf[j]) {
            i++;
        } else {
            j++;
        }
    }
    return product_of(sym, common, n);
}

static bool sum_has_sums(const hn_sym *sym, hn_sum sum) {
    for (uint32_t k = 0; k < sum.count; k++)
        if (hn_sym_at(sym, sum.terms[k])->flags & HN_NODE_HAS_SUM) return true;
    return false;
}

/* coeff * term * b, multiplied out. */
static hn_expr mul_term_sum(hn_sym *sym, int64_t coeff, hn_expr term, hn_sum b) {
    hn_sum_buf buf;
    hn_sum_init(&buf);
    int64_t product;
    for (uint32_t k = 0; k < b.count; k++) {
        if (!hn_mul_i64(coeff, b.coeffs[k], &product)) buf.failed = true;
        hn_sum_add(sym, &buf, hn_term_mul(sym, term, b.terms[k]), buf.failed ? 0 : product);
    }
    if (!hn_mul_i64(coeff, b.constant, &product)) buf.failed = true;
    if (!buf.failed) hn_sum_push(sym, &buf, term, product);
    return hn_sum_finish(sym, &buf);
}

static hn_expr mul_sums(hn_sym *sym, hn_sum a, hn_sum b) {
    hn_sum_buf buf;
    hn_sum_init(&buf);
    for (uint32_t i = 0; i < a.count; i++)
        for (uint32_t j = 0; j < b.count; j++) {
            int64_t product;
            if (!hn_mul_i64(a.coeffs[i], b.coeffs[j], &product)) buf.failed = true;
            hn_sum_add(sym, &buf, hn_term_mul(sym, a.terms[i], b.terms[j]),
                       buf.failed ? 0 : product);
        }
    for (uint32_t i = 0; i < a.count; i++) {
        int64_t product;
        if (!hn_mul_i64(a.coeffs[i], b.constant, &product)) buf.failed = true;
        if (!buf.failed) hn_sum_push(sym, &buf, a.terms[i], product);
    }
    for (uint32_t j = 0; j < b.count; j++) {
        int64_t product;
        if (!hn_mul_i64(b.coeffs[j], a.constant, &product)) buf.failed = true;
        if (!buf.failed) hn_sum_push(sym, &buf, b.terms[j], product);
    }
    hn_sum_const(&buf, a.constant, b.constant);
    return hn_sum_finish(sym, &buf);
}

/* The product of two sums that stay factors. */
static hn_expr mul_opaque(hn_sym *sym, hn_expr a, hn_expr b) {
    int64_t ca, cb, coeff;
    if (!hn_sym_is_monomial(sym, a, &ca, &a)) ca = 1;
    if (!hn_sym_is_monomial(sym, b, &cb, &b)) cb = 1;
    if (!hn_mul_i64(ca, cb, &coeff))
        return hn_sym_fail(sym, HN_UNSUPPORTED, "a symbolic product overflows 64 bits");
    return hn_sym_scale(sym, hn_term_mul(sym, a, b), coeff);
}

static hn_expr mul_any(hn_sym *sym, hn_expr a, hn_expr b) {
    hn_sum sa = hn_sym_sum(sym, a), sb = hn_sym_sum(sym, b);
    bool a_single = sa.count == 1 && sa.constant == 0, b_single = sb.count == 1 && sb.constant == 0;
    bool a_sums = sum_has_sums(sym, sa), b_sums = sum_has_sums(sym, sb);
    if (a_single && (!a_sums || b_single)) return mul_term_sum(sym, sa.coeffs[0], sa.terms[0], sb);
    if (b_single && !b_sums) return mul_term_sum(sym, sb.coeffs[0], sb.terms[0], sa);
    uint64_t terms = (uint64_t)(sa.count + 1) * (sb.count + 1);
    if (!a_sums && !b_sums && terms <= HN_SYM_DISTRIBUTE_MAX) return mul_sums(sym, sa, sb);
    return mul_opaque(sym, a, b);
}

hn_expr hn_sym_mul(hn_sym *sym, hn_expr a, hn_expr b) {
    if (!a || !b || sym->failed) return 0;
    if (hn_sym_is_const(sym, a)) return hn_sym_scale(sym, b, hn_sym_const(sym, a));
    if (hn_sym_is_const(sym, b)) return hn_sym_scale(sym, a, hn_sym_const(sym, b));
    hn_expr first = a < b ? a : b, second = a < b ? b : a;
    hn_expr known = hn_sym_memo_get(sym, HN_MEMO_MUL, first, second);
    if (known) return known;
    uint32_t cuts = sym->cuts;
    hn_expr product = mul_any(sym, first, second);
    hn_sym_memo_put(sym, HN_MEMO_MUL, first, second, product, cuts);
    return product;
}

hn_expr hn_sym_product(hn_sym *sym, const hn_expr *factors, uint32_t count) {
    hn_expr product = hn_sym_int(sym, 1);
    for (uint32_t k = 0; k < count; k++) product = hn_sym_mul(sym, product, factors[k]);
    return product;
}
