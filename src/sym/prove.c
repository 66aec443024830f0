/* prove.c: what follows from ranges, divisors and the bounds of loop variables; minima and maxima.
 *
 * Everything comes down to d >= 0 for one expression d. Beyond its plain range, d is weakened step
 * by step to something that is nowhere larger, until a range decides:
 *   - a loop variable i with a coefficient of known sign becomes 0 or extent - 1. d is affine in
 *     this occurrence of i for any fixed values of the rest, so this is a bound wherever i has a
 *     value at all;
 *   - x % y becomes 0 or y - 1, and x // y gets the bounds of its x;
 *   - c*(x//c) becomes x or x - (c-1), after scaling d;
 *   - other atoms become their constant bounds; a minimum or maximum is split into its cases.
 * The first two commit, the others are tried in turn. `fuel` bounds the steps of one proof and of
 * all that it calls. */
#include "sym/internal.h"

enum { FUEL = 96, NESTING_MAX = 3, ATOMS_MAX = 24 };

static bool search(hn_sym *sym, hn_expr d);

/* d = coeff * atom + rest for one occurrence of `atom` in each term that has it as a factor. */
static bool extract(hn_sym *sym, hn_expr d, hn_expr atom, hn_expr *out_coeff, hn_expr *out_rest) {
    hn_sum sum = hn_sym_sum(sym, d);
    hn_sum_buf coeff, rest;
    hn_sum_init(&coeff);
    hn_sum_init(&rest);
    rest.constant = sum.constant;
    for (uint32_t k = 0; k < sum.count; k++) {
        hn_expr others = hn_term_div(sym, sum.terms[k], atom);
        if (others) hn_sum_add(sym, &coeff, others, sum.coeffs[k]);
        else hn_sum_push(sym, &rest, sum.terms[k], sum.coeffs[k]);
    }
    *out_coeff = hn_sum_finish(sym, &coeff);
    *out_rest = hn_sum_finish(sym, &rest);
    return *out_coeff && *out_rest;
}

/* 1: never negative, -1: never positive, 0: unknown. */
static int sign_of(const hn_sym *sym, hn_expr e) {
    const hn_sym_node *node = hn_sym_at(sym, e);
    return node->lo >= 0 ? 1 : node->hi <= 0 ? -1 : 0;
}

static hn_expr recompose(hn_sym *sym, hn_expr coeff, hn_expr atom, hn_expr rest) {
    return hn_sym_add(sym, rest, hn_sym_mul(sym, coeff, atom));
}

/* The distinct factors of the terms of d. */
static uint32_t atoms_of(const hn_sym *sym, hn_expr d, hn_expr atoms[ATOMS_MAX]) {
    hn_sum sum = hn_sym_sum(sym, d);
    uint32_t n = 0;
    for (uint32_t k = 0; k < sum.count; k++) {
        uint32_t count;
        const hn_expr *factors = hn_term_factors(sym, sum.terms[k], &count);
        for (uint32_t f = 0; f < count; f++) {
            bool known = false;
            for (uint32_t j = 0; j < n && !known; j++) known = atoms[j] == factors[f];
            if (!known && n < ATOMS_MAX) atoms[n++] = factors[f];
        }
    }
    return n;
}

static bool relax_variable(hn_sym *sym, hn_expr *d);

/* A bound of e with its loop variables taken to the end that makes it smallest (or largest). */
static hn_expr bound_of(hn_sym *sym, hn_expr e, bool largest) {
    enum { STEPS_MAX = 8 };
    if (largest) e = hn_sym_neg(sym, e);
    for (int step = 0; step < STEPS_MAX && e && relax_variable(sym, &e);) step++;
    return largest ? hn_sym_neg(sym, e) : e;
}

/* The symbolic bound of an atom from above or below; 0 when it has none (or only itself). */
static hn_expr atom_bound(hn_sym *sym, hn_expr atom, bool is_upper) {
    const hn_sym_node *node = hn_sym_at(sym, atom);
    if (node->kind == HN_EXPR_SYMBOL) {
        hn_expr extent = hn_sym_symbol_extent(sym, atom);
        if (!extent) return 0;
        return is_upper ? hn_sym_add(sym, extent, hn_sym_int(sym, -1)) : hn_sym_int(sym, 0);
    }
    if (node->kind != HN_EXPR_MOD && node->kind != HN_EXPR_FLOORDIV) return 0;
    hn_expr_kind kind = (hn_expr_kind)node->kind;
    hn_expr x = node->args[0], y = node->args[1];
    if (hn_sym_at(sym, y)->lo < 0) return 0;
    if (kind == HN_EXPR_MOD)
        return is_upper ? hn_sym_add(sym, y, hn_sym_int(sym, -1)) : hn_sym_int(sym, 0);
    hn_expr bound = bound_of(sym, x, is_upper);
    return bound && bound != x ? hn_sym_floordiv(sym, bound, y) : 0;
}

/* Weakens *d by one variable or division; false when none can be. */
static bool relax_variable(hn_sym *sym, hn_expr *d) {
    if (sym->fuel == 0) {
        sym->cuts++;
        return false;
    }
    sym->fuel--;
    hn_expr atoms[ATOMS_MAX];
    uint32_t count = atoms_of(sym, *d, atoms);
    /* the latest first: inner loops, and what is made of sizes */
    for (uint32_t k = count; k-- > 0;) {
        hn_expr coeff, rest;
        hn_expr_kind kind = hn_sym_kind(sym, atoms[k]);
        bool bounded =
            kind == HN_EXPR_MOD || kind == HN_EXPR_FLOORDIV || hn_sym_symbol_extent(sym, atoms[k]);
        if (!bounded || !extract(sym, *d, atoms[k], &coeff, &rest)) continue;
        int sign = sign_of(sym, coeff);
        hn_expr bound = sign ? atom_bound(sym, atoms[k], sign < 0) : 0;
        hn_expr weaker = bound && bound != atoms[k] ? recompose(sym, coeff, bound, rest) : 0;
        if (!weaker || weaker == *d) continue;
        *d = weaker;
        return true;
    }
    return false;
}

/* d >= 0 in both cases of a minimum or maximum, or with the one that bounds it. */
static bool try_cases(hn_sym *sym, hn_expr atom, hn_expr coeff, hn_expr rest) {
    const hn_sym_node *node = hn_sym_at(sym, atom);
    hn_expr a = node->args[0], b = node->args[1];
    int sign = sign_of(sym, coeff);
    /* coeff * Min(a, b) >= coeff * a where coeff <= 0, and so on. */
    bool either = node->kind == HN_EXPR_MIN ? sign < 0 : sign > 0;
    bool first = search(sym, recompose(sym, coeff, a, rest));
    if (first == either) return first;
    return search(sym, recompose(sym, coeff, b, rest));
}

/* y*d >= 0 with y*(x//y) weakened to x or x - (y-1); d is an integer, so y*d + y-1 >= 0 is
 * enough. */
static bool try_scaled(hn_sym *sym, hn_expr atom, hn_expr coeff, hn_expr rest) {
    hn_expr x = hn_sym_at(sym, atom)->args[0], y = hn_sym_at(sym, atom)->args[1];
    int sign = sign_of(sym, coeff);
    if (!sign || hn_sym_at(sym, y)->lo < 0) return false;
    hn_expr slack = hn_sym_add(sym, y, hn_sym_int(sym, -1));
    hn_expr product = sign < 0 ? x : hn_sym_sub(sym, x, slack);
    hn_expr scaled = recompose(sym, coeff, product, hn_sym_mul(sym, rest, y));
    return search(sym, hn_sym_add(sym, scaled, slack));
}

/* The atom at its constant bound. With a constant coefficient the range of d has said it
 * already. */
static bool try_constant(hn_sym *sym, hn_expr atom, hn_expr coeff, hn_expr rest) {
    int sign = sign_of(sym, coeff);
    const hn_sym_node *node = hn_sym_at(sym, atom);
    int64_t bound = sign > 0 ? node->lo : node->hi;
    if (!sign || hn_sym_is_const(sym, coeff) || bound == HN_SYM_MIN || bound == HN_SYM_MAX)
        return false;
    return search(sym, recompose(sym, coeff, hn_sym_int(sym, bound), rest));
}

static bool try_atom(hn_sym *sym, hn_expr d, hn_expr atom) {
    hn_expr coeff, rest;
    if (!extract(sym, d, atom, &coeff, &rest)) return false;
    hn_expr_kind kind = hn_sym_kind(sym, atom);
    if (kind == HN_EXPR_MIN || kind == HN_EXPR_MAX) return try_cases(sym, atom, coeff, rest);
    if (kind == HN_EXPR_FLOORDIV && try_scaled(sym, atom, coeff, rest)) return true;
    return try_constant(sym, atom, coeff, rest);
}

static bool search(hn_sym *sym, hn_expr d) {
    do {
        if (!d) return false;
        if (hn_sym_at(sym, d)->lo >= 0) return true;
        if (hn_sym_at(sym, d)->hi < 0) return false;
    } while (relax_variable(sym, &d));
    hn_expr atoms[ATOMS_MAX];
    uint32_t count = atoms_of(sym, d, atoms);
    for (uint32_t k = count; k-- > 0 && sym->fuel > 0;)
        if (try_atom(sym, d, atoms[k])) return true;
    return false;
}

bool hn_sym_nonneg(hn_sym *sym, hn_expr d) {
    enum { YES = 1, NO = 2 };
    if (!d || sym->failed) return false;
    if (hn_sym_at(sym, d)->lo >= 0) return true;
    if (hn_sym_at(sym, d)->hi < 0) return false;
    uint32_t known = hn_sym_memo_get(sym, HN_MEMO_NONNEG, d, 0);
    if (known) return known == YES;
    if (sym->proof_depth >= NESTING_MAX) {
        sym->cuts++;
        return false;
    }
    if (sym->proof_depth == 0) sym->fuel = FUEL;
    uint32_t cuts = sym->cuts;
    sym->proof_depth++;
    sym->trial++;
    bool holds = search(sym, d);
    sym->trial--;
    sym->proof_depth--;
    hn_sym_memo_put(sym, HN_MEMO_NONNEG, d, 0, holds ? YES : NO, cuts);
    return holds;
}

/* --- relations --- */

static hn_expr difference(hn_sym *sym, hn_expr a, hn_expr b) {
    sym->trial++;
    hn_expr d = hn_sym_sub(sym, a, b);
    sym->trial--;
    return d;
}

bool hn_sym_prove_le(hn_sym *sym, hn_expr a, hn_expr b) {
    if (!a || !b) return false;
    if (a == b || hn_sym_at(sym, a)->hi <= hn_sym_at(sym, b)->lo) return true;
    return hn_sym_nonneg(sym, difference(sym, b, a));
}

bool hn_sym_prove_lt(hn_sym *sym, hn_expr a, hn_expr b) {
    if (!a || !b || a == b) return false;
    if (hn_sym_at(sym, a)->hi < hn_sym_at(sym, b)->lo) return true;
    hn_expr d = difference(sym, b, a);
    if (!d) return false;
    sym->trial++;
    hn_expr less_one = hn_sym_add(sym, d, hn_sym_int(sym, -1));
    sym->trial--;
    return hn_sym_nonneg(sym, less_one);
}

bool hn_sym_prove_eq(hn_sym *sym, hn_expr a, hn_expr b) {
    if (!a || !b) return false;
    if (a == b) return true;
    hn_expr d = difference(sym, a, b);
    if (!d) return false;
    if (hn_sym_is_const(sym, d)) return hn_sym_const(sym, d) == 0;
    return hn_sym_nonneg(sym, d) && hn_sym_nonneg(sym, difference(sym, b, a));
}

/* d = constant + a multiple of g, and g does not divide the constant. */
static bool residue_not_zero(const hn_sym *sym, hn_expr d) {
    hn_sum sum = hn_sym_sum(sym, d);
    int64_t g = 0;
    for (uint32_t k = 0; k < sum.count; k++) {
        int64_t part;
        if (!hn_mul_i64(sum.coeffs[k], hn_sym_divisor(sym, sum.terms[k]), &part))
            part = sum.coeffs[k];
        g = hn_gcd(g, part);
    }
    return g != 0 && sum.constant % g != 0;
}

bool hn_sym_prove_ne(hn_sym *sym, hn_expr a, hn_expr b) {
    if (!a || !b || a == b) return false;
    hn_expr d = difference(sym, a, b);
    if (!d) return false;
    const hn_sym_node *node = hn_sym_at(sym, d);
    if (node->lo > 0 || node->hi < 0 || residue_not_zero(sym, d)) return true;
    return hn_sym_prove_lt(sym, a, b) || hn_sym_prove_lt(sym, b, a);
}

/* --- minimum and maximum --- */

enum { LEAVES_MAX = 12 };

/* The order of operands: small expressions first, symbols by name. It does not depend on ids, so a
 * text that is read in another context prints the same. */
static bool leaf_before(const hn_sym *sym, hn_expr a, hn_expr b) {
    const hn_sym_node *na = hn_sym_at(sym, a), *nb = hn_sym_at(sym, b);
    if (na->size != nb->size) return na->size < nb->size;
    if (na->kind != nb->kind) return na->kind < nb->kind;
    if (na->kind == HN_EXPR_SYMBOL) {
        hn_str x = hn_sym_symbol_name(sym, a), y = hn_sym_symbol_name(sym, b);
        if (x.len != y.len) return x.len < y.len;
        return memcmp(x.ptr, y.ptr, x.len) < 0;
    }
    return na->digest != nb->digest ? na->digest < nb->digest : a < b;
}

/* The operands of a nest of the same kind, in order; false when there are too many. */
static bool leaves_add(const hn_sym *sym, hn_expr_kind kind, hn_expr e, hn_expr leaves[LEAVES_MAX],
                       uint32_t *count) {
    const hn_sym_node *node = hn_sym_at(sym, e);
    if (node->kind == kind)
        return leaves_add(sym, kind, node->args[0], leaves, count) &&
               leaves_add(sym, kind, node->args[1], leaves, count);
    uint32_t at = *count;
    for (uint32_t k = 0; k < *count; k++)
        if (leaves[k] == e) return true;
    if (at == LEAVES_MAX) return false;
    for (; at > 0 && leaf_before(sym, e, leaves[at - 1]); at--) leaves[at] = leaves[at - 1];
    leaves[at] = e;
    ++*count;
    return true;
}

/* Drops every leaf that another one makes superfluous. */
static uint32_t leaves_prune(hn_sym *sym, bool is_min, hn_expr *leaves, uint32_t count) {
    bool dropped[LEAVES_MAX] = {false};
    uint32_t kept = 0;
    for (uint32_t j = 0; j < count; j++)
        for (uint32_t i = 0; i < count && !dropped[j]; i++)
            if (i != j && !dropped[i])
                dropped[j] = is_min ? hn_sym_prove_le(sym, leaves[i], leaves[j])
                                    : hn_sym_prove_le(sym, leaves[j], leaves[i]);
    for (uint32_t j = 0; j < count; j++)
        if (!dropped[j]) leaves[kept++] = leaves[j];
    return kept;
}

static hn_expr extremum(hn_sym *sym, bool is_min, hn_expr a, hn_expr b) {
    hn_expr_kind kind = is_min ? HN_EXPR_MIN : HN_EXPR_MAX;
    if (!a || !b || sym->failed) return 0;
    if (a == b) return a;
    const hn_sym_node *na = hn_sym_at(sym, a), *nb = hn_sym_at(sym, b);
    if (na->hi <= nb->lo) return is_min ? a : b;
    if (nb->hi <= na->lo) return is_min ? b : a;
    hn_memo_op op = is_min ? HN_MEMO_MIN : HN_MEMO_MAX;
    hn_expr first = a < b ? a : b, second = a < b ? b : a;
    hn_expr e = hn_sym_memo_get(sym, op, first, second), leaves[LEAVES_MAX];
    if (e) return e;
    uint32_t count = 0, cuts = sym->cuts;
    if (!leaves_add(sym, kind, first, leaves, &count) ||
        !leaves_add(sym, kind, second, leaves, &count))
        return hn_sym_intern2(sym, kind, first, second);
    count = leaves_prune(sym, is_min, leaves, count);
    e = leaves[0];
    for (uint32_t k = 1; k < count; k++) e = hn_sym_intern2(sym, kind, e, leaves[k]);
    hn_sym_memo_put(sym, op, first, second, e, cuts);
    return e;
}

hn_expr hn_sym_min(hn_sym *sym, hn_expr a, hn_expr b) { return extremum(sym, true, a, b); }
hn_expr hn_sym_max(hn_sym *sym, hn_expr a, hn_expr b) { return extremum(sym, false, a, b); }
