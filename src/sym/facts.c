/* facts.c: the range and the divisor of every node, and narrowing them.
 *
 * A bound INT64_MIN of `lo` and INT64_MAX of `hi` means "none". Arithmetic saturates towards the
 * safe side: a lower bound too large for 64 bits becomes INT64_MAX, which is still a lower
 * bound. */
#include "sym/internal.h"

/* --- arithmetic of ranges --- */

typedef struct bound {
    int64_t value;
    bool infinite;
} bound;

static bound lower(hn_range r) { return (bound){r.lo, r.lo == HN_SYM_MIN}; }
static bound upper(hn_range r) { return (bound){r.hi, r.hi == HN_SYM_MAX}; }

static int64_t corner(bound a, bound b) {
    if (a.value == 0 || b.value == 0) return 0;
    int64_t product;
    if (!a.infinite && !b.infinite && hn_mul_i64(a.value, b.value, &product)) return product;
    return (a.value < 0) == (b.value < 0) ? HN_SYM_MAX : HN_SYM_MIN;
}

static int64_t min4(int64_t a, int64_t b, int64_t c, int64_t d) {
    int64_t x = a < b ? a : b, y = c < d ? c : d;
    return x < y ? x : y;
}

static int64_t max4(int64_t a, int64_t b, int64_t c, int64_t d) {
    int64_t x = a > b ? a : b, y = c > d ? c : d;
    return x > y ? x : y;
}

static hn_range range_mul(hn_range a, hn_range b) {
    int64_t ll = corner(lower(a), lower(b)), lu = corner(lower(a), upper(b));
    int64_t ul = corner(upper(a), lower(b)), uu = corner(upper(a), upper(b));
    return (hn_range){min4(ll, lu, ul, uu), max4(ll, lu, ul, uu)};
}

static int64_t bound_add(int64_t a, int64_t b, int64_t infinity) {
    int64_t sum;
    if (a == infinity || b == infinity) return infinity;
    if (hn_add_i64(a, b, &sum)) return sum;
    return a < 0 ? HN_SYM_MIN : HN_SYM_MAX;
}

hn_range hn_range_add(hn_range a, hn_range b) {
    return (hn_range){bound_add(a.lo, b.lo, HN_SYM_MIN), bound_add(a.hi, b.hi, HN_SYM_MAX)};
}

static hn_range range_neg(hn_range r) {
    return (hn_range){r.hi == HN_SYM_MAX   ? HN_SYM_MIN
                      : r.hi == HN_SYM_MIN ? HN_SYM_MAX
                                           : -r.hi,
                      r.lo == HN_SYM_MIN ? HN_SYM_MAX : -r.lo};
}

static hn_range range_of(const hn_sym *sym, hn_expr e) {
    const hn_sym_node *node = hn_sym_at(sym, e);
    return (hn_range){node->lo, node->hi};
}

hn_range hn_range_scaled(const hn_sym *sym, hn_expr e, int64_t coeff) {
    hn_range r = range_of(sym, e);
    if (coeff == 1) return r;
    hn_range scaled = {corner(coeff > 0 ? lower(r) : upper(r), (bound){coeff, false}),
                       corner(coeff > 0 ? upper(r) : lower(r), (bound){coeff, false})};
    return scaled;
}

/* a // b for 1 <= b.lo */
static hn_range range_floordiv_positive(hn_range a, hn_range b) {
    bool b_open = b.hi == HN_SYM_MAX;
    hn_range q;
    if (a.lo >= 0) q.lo = b_open ? 0 : a.lo / b.hi;
    else q.lo = a.lo == HN_SYM_MIN ? HN_SYM_MIN : hn_floor_div(a.lo, b.lo);
    if (a.hi >= 0) q.hi = a.hi == HN_SYM_MAX ? HN_SYM_MAX : a.hi / b.lo;
    else q.hi = b_open ? -1 : hn_floor_div(a.hi, b.hi);
    /* INT64_MAX // 1 as a finite value reads as "no bound", which is right as well. */
    return q;
}

static hn_range range_hull(hn_range a, hn_range b) {
    return (hn_range){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
}

static const hn_range range_all = {HN_SYM_MIN, HN_SYM_MAX};

/* Splits the divisor's range at 0, where the quotient has no value. */
static hn_range range_floordiv(hn_range a, hn_range b) {
    bool has_positive = b.hi >= 1, has_negative = b.lo <= -1;
    hn_range positive = {b.lo < 1 ? 1 : b.lo, b.hi},
             negative = range_neg((hn_range){b.lo, b.hi > -1 ? -1 : b.hi});
    if (has_positive && has_negative)
        return range_hull(range_floordiv_positive(a, positive),
                          range_floordiv_positive(range_neg(a), negative));
    if (has_positive) return range_floordiv_positive(a, positive);
    if (has_negative) return range_floordiv_positive(range_neg(a), negative);
    return range_all;
}

/* a % b has the sign of b and is a multiple of `step`, as is b where it is the constant hi. */
static hn_range range_mod(hn_range a, hn_range b, int64_t step) {
    hn_range r = {b.lo < 0 ? (b.lo == HN_SYM_MIN ? HN_SYM_MIN : b.lo + 1) : 0,
                  b.hi > 0 ? (b.hi == HN_SYM_MAX ? HN_SYM_MAX : b.hi - 1) : 0};
    if (b.lo == b.hi && b.lo > 0 && step > 0 && b.lo % step == 0) r.hi = b.lo - step;
    if (b.lo >= 0 && a.lo >= 0 && a.hi < r.hi) r.hi = a.hi;
    return r;
}

/* --- facts of a node --- */

static hn_range sum_range(const hn_sym *sym, const hn_sym_node *node) {
    hn_range r = {node->constant, node->constant};
    for (uint32_t k = 0; k < node->count; k++)
        r = hn_range_add(r, hn_range_scaled(sym, node->args[k], node->coeffs[k]));
    return r;
}

static int64_t divisor_of(const hn_sym *sym, hn_expr e) { return hn_sym_at(sym, e)->divisor; }

/* A divisor of a * b: the product, or where that overflows the larger of both. */
static int64_t divisor_mul(int64_t a, int64_t b) {
    int64_t product;
    if (a < 0) a = a == INT64_MIN ? INT64_C(1) << 62 : -a;
    return hn_mul_i64(a, b, &product) ? product : (a > b ? a : b);
}

static int64_t sum_divisor(const hn_sym *sym, const hn_sym_node *node) {
    int64_t d = hn_gcd(node->constant, 0);
    for (uint32_t k = 0; k < node->count && d != 1; k++)
        d = hn_gcd(d, divisor_mul(node->coeffs[k], divisor_of(sym, node->args[k])));
    return d;
}

static void product_facts(const hn_sym *sym, const hn_sym_node *node, hn_range *out_range,
                          int64_t *out_divisor) {
    hn_range r = range_of(sym, node->args[0]);
    int64_t d = divisor_of(sym, node->args[0]);
    for (uint32_t k = 1; k < node->count; k++) {
        r = range_mul(r, range_of(sym, node->args[k]));
        d = divisor_mul(d, divisor_of(sym, node->args[k]));
    }
    *out_range = r;
    *out_divisor = d;
}

static int64_t floordiv_divisor(const hn_sym *sym, hn_expr a, hn_expr b) {
    if (!hn_sym_is_const(sym, b)) return 1;
    int64_t c = hn_sym_const(sym, b), d = divisor_of(sym, a);
    if (c == 0 || c == INT64_MIN || d % c != 0) return 1;
    return d / (c < 0 ? -c : c);
}

static void binary_facts(const hn_sym *sym, const hn_sym_node *node, hn_range *out_range,
                         int64_t *out_divisor) {
    hn_expr a = node->args[0], b = node->args[1];
    hn_range ra = range_of(sym, a), rb = range_of(sym, b);
    int64_t common = hn_gcd(divisor_of(sym, a), divisor_of(sym, b));
    *out_divisor = common ? common : 1;
    switch (node->kind) {
    case HN_EXPR_FLOORDIV:
        *out_range = range_floordiv(ra, rb);
        *out_divisor = floordiv_divisor(sym, a, b);
        break;
    case HN_EXPR_MOD: *out_range = range_mod(ra, rb, *out_divisor); break;
    case HN_EXPR_MIN:
        *out_range = (hn_range){ra.lo < rb.lo ? ra.lo : rb.lo, ra.hi < rb.hi ? ra.hi : rb.hi};
        break;
    default:
        *out_range = (hn_range){ra.lo > rb.lo ? ra.lo : rb.lo, ra.hi > rb.hi ? ra.hi : rb.hi};
        break;
    }
}

/* The least common multiple, or the larger number where it overflows: both divide. */
static int64_t divisor_join(int64_t a, int64_t b) {
    if (a <= 1 || b <= 1) return a > b ? a : b;
    int64_t product;
    return hn_mul_i64(a / hn_gcd(a, b), b, &product) ? product : (a > b ? a : b);
}

void hn_sym_facts_compute(const hn_sym *sym, hn_sym_node *node) {
    hn_range r = {node->lo, node->hi};
    int64_t d = node->divisor;
    node->epoch = sym->epoch;
    switch (node->kind) {
    case HN_EXPR_CONST:
        node->lo = node->hi = node->constant;
        node->divisor = hn_gcd(node->constant, 0);
        return;
    case HN_EXPR_ADD:
        r = sum_range(sym, node);
        d = sum_divisor(sym, node);
        break;
    case HN_EXPR_MUL: product_facts(sym, node, &r, &d); break;
    case HN_EXPR_INVALID:
    case HN_EXPR_SYMBOL: return;
    default: binary_facts(sym, node, &r, &d); break;
    }
    /* What was known before stays: it may have been narrowed by hand. */
    if (r.lo > node->lo) node->lo = r.lo;
    if (r.hi < node->hi) node->hi = r.hi;
    node->divisor = divisor_join(node->divisor, d);
}

/* --- asking and narrowing --- */

void hn_sym_range(const hn_sym *sym, hn_expr e, int64_t *out_lo, int64_t *out_hi) {
    const hn_sym_node *node = hn_sym_at(sym, e);
    *out_lo = e ? node->lo : HN_SYM_MIN;
    *out_hi = e ? node->hi : HN_SYM_MAX;
}

int64_t hn_sym_divisor(const hn_sym *sym, hn_expr e) { return divisor_of(sym, e); }

static void range_fail(hn_sym *sym, hn_expr e, int64_t lo, int64_t hi) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_sym_print(sym, e, &text);
    hn_sym_fail(sym, HN_INVALID_ARGUMENT,
                "cannot restrict '%.80s' to %lld..%lld: it is in %lld..%lld",
                text.ptr ? text.ptr : "", (long long)lo, (long long)hi,
                (long long)hn_sym_at(sym, e)->lo, (long long)hn_sym_at(sym, e)->hi);
    hn_strbuf_deinit(&text);
}

/* The bound of the only term of `node` (positive coefficient) that follows from a bound of the
 * sum. */
static int64_t bound_solve(int64_t limit, const hn_sym_node *node, bool is_upper) {
    int64_t none = is_upper ? HN_SYM_MAX : HN_SYM_MIN, rest;
    if (limit == none || !hn_sub_i64(limit, node->constant, &rest) || rest == INT64_MIN)
        return none;
    int64_t c = node->coeffs[0];
    return is_upper ? hn_floor_div(rest, c) : -hn_floor_div(-rest, c);
}

void hn_sym_assume_range(hn_sym *sym, hn_expr e, int64_t lo, int64_t hi) {
    if (!e || sym->failed) return;
    hn_sym_node *node = &sym->nodes[e];
    if (lo < node->lo) lo = node->lo;
    if (hi > node->hi) hi = node->hi;
    if (lo > hi) {
        range_fail(sym, e, lo, hi);
        return;
    }
    if (lo == node->lo && hi == node->hi) return;
    node->lo = lo;
    node->hi = hi;
    sym->epoch++;
    if (node->kind == HN_EXPR_ADD && node->count == 1 && node->coeffs[0] > 0)
        hn_sym_assume_range(sym, node->args[0], bound_solve(lo, node, false),
                            bound_solve(hi, node, true));
}

void hn_sym_assume_divisor(hn_sym *sym, hn_expr e, int64_t divisor) {
    if (!e || sym->failed || divisor <= 1 || hn_sym_is_const(sym, e)) return;
    hn_sym_node *node = &sym->nodes[e];
    int64_t joined = divisor_join(node->divisor, divisor);
    if (joined == node->divisor) return;
    node->divisor = joined;
    sym->epoch++;
}

uint32_t hn_sym_epoch(const hn_sym *sym) { return sym->epoch; }
