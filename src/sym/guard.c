/* guard.c: hints, and the relations that a program checks at each call. */
#include "sym/internal.h"

/* What a symbol without a hint is taken for when a guard must decide. */
enum { FALLBACK_HINT = 8192 };

void hn_sym_set_hint(hn_sym *sym, hn_expr symbol, int64_t value) {
    if (hn_sym_kind(sym, symbol) != HN_EXPR_SYMBOL) return;
    hn_sym_symbol_info *info = &sym->symbols[hn_sym_const(sym, symbol)];
    info->hint = value;
    info->has_hint = true;
}

bool hn_sym_has_hint(const hn_sym *sym, hn_expr symbol, int64_t *out_value) {
    if (hn_sym_kind(sym, symbol) != HN_EXPR_SYMBOL) return false;
    const hn_sym_symbol_info *info = &sym->symbols[hn_sym_const(sym, symbol)];
    *out_value = info->hint;
    return info->has_hint;
}

void hn_sym_drop_hint(hn_sym *sym, hn_expr symbol) {
    if (hn_sym_kind(sym, symbol) != HN_EXPR_SYMBOL) return;
    sym->symbols[hn_sym_const(sym, symbol)].has_hint = false;
}

static int64_t add_saturating(int64_t a, int64_t b) {
    int64_t sum;
    if (hn_add_i64(a, b, &sum)) return sum;
    return a < 0 ? INT64_MIN : INT64_MAX;
}

static int64_t mul_saturating(int64_t a, int64_t b) {
    int64_t product;
    if (hn_mul_i64(a, b, &product)) return product;
    return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}

static int64_t symbol_hint(const hn_sym *sym, const hn_sym_node *node, int64_t fallback) {
    const hn_sym_symbol_info *info = &sym->symbols[node->constant];
    if (info->has_hint) return info->hint;
    if (info->extent) {
        int64_t extent = hn_sym_hint(sym, info->extent, fallback);
        return extent > 1 ? (extent - 1) / 2 : 0;
    }
    return fallback < node->lo ? node->lo : fallback > node->hi ? node->hi : fallback;
}

static int64_t division_hint(hn_expr_kind kind, int64_t a, int64_t b, int64_t fallback) {
    if (b == 0) return fallback;
    if (b == -1) return kind == HN_EXPR_MOD ? 0 : mul_saturating(a, -1);
    return kind == HN_EXPR_MOD ? hn_floor_mod(a, b) : hn_floor_div(a, b);
}

static int64_t sum_hint(const hn_sym *sym, const hn_sym_node *node, int64_t fallback) {
    int64_t value = node->constant;
    for (uint32_t k = 0; k < node->count; k++)
        value = add_saturating(
            value, mul_saturating(node->coeffs[k], hn_sym_hint(sym, node->args[k], fallback)));
    return value;
}

static int64_t product_hint(const hn_sym *sym, const hn_sym_node *node, int64_t fallback) {
    int64_t value = 1;
    for (uint32_t k = 0; k < node->count; k++)
        value = mul_saturating(value, hn_sym_hint(sym, node->args[k], fallback));
    return value;
}

int64_t hn_sym_hint(const hn_sym *sym, hn_expr e, int64_t fallback) {
    const hn_sym_node *node = hn_sym_at(sym, e);
    hn_expr_kind kind = (hn_expr_kind)node->kind;
    switch (kind) {
    case HN_EXPR_INVALID: return fallback;
    case HN_EXPR_CONST: return node->constant;
    case HN_EXPR_SYMBOL: return symbol_hint(sym, node, fallback);
    case HN_EXPR_ADD: return sum_hint(sym, node, fallback);
    case HN_EXPR_MUL: return product_hint(sym, node, fallback);
    default: break;
    }
    int64_t a = hn_sym_hint(sym, node->args[0], fallback),
            b = hn_sym_hint(sym, node->args[1], fallback);
    if (kind == HN_EXPR_MIN) return a < b ? a : b;
    if (kind == HN_EXPR_MAX) return a > b ? a : b;
    return division_hint(kind, a, b, fallback);
}

/* --- guards --- */

static bool prove(hn_sym *sym, hn_relation relation, hn_expr lhs, hn_expr rhs) {
    switch (relation) {
    case HN_REL_EQ: return hn_sym_prove_eq(sym, lhs, rhs);
    case HN_REL_NE: return hn_sym_prove_ne(sym, lhs, rhs);
    case HN_REL_LT: return hn_sym_prove_lt(sym, lhs, rhs);
    case HN_REL_LE: return hn_sym_prove_le(sym, lhs, rhs);
    }
    return false;
}

static hn_guard negated(hn_guard guard) {
    switch (guard.relation) {
    case HN_REL_EQ: return (hn_guard){HN_REL_NE, guard.lhs, guard.rhs, guard.reason};
    case HN_REL_NE: return (hn_guard){HN_REL_EQ, guard.lhs, guard.rhs, guard.reason};
    case HN_REL_LT: return (hn_guard){HN_REL_LE, guard.rhs, guard.lhs, guard.reason};
    case HN_REL_LE: break;
    }
    return (hn_guard){HN_REL_LT, guard.rhs, guard.lhs, guard.reason};
}

/* EQ and NE are symmetric: one key for both orders. Ids are below 2^30. */
static uint64_t guard_key(hn_guard guard) {
    hn_expr a = guard.lhs, b = guard.rhs;
    bool symmetric = guard.relation == HN_REL_EQ || guard.relation == HN_REL_NE;
    if (symmetric && a > b) {
        a = guard.rhs;
        b = guard.lhs;
    }
    return (uint64_t)guard.relation << 62 | (uint64_t)a << 31 | b;
}

static hn_status guard_record(hn_sym *sym, hn_guard guard) {
    uint64_t key = guard_key(guard);
    if (hn_map_get(&sym->guard_keys, key)) return NULL;
    const char *reason = guard.reason ? guard.reason : "";
    guard.reason = hn_arena_strndup(sym->arena, reason, strlen(reason));
    if (!guard.reason) return HN_ERROR(HN_OUT_OF_MEMORY, "cannot record a guard");
    if (sym->guard_count == sym->guard_cap)
        HN_TRY(hn_arena_grow(sym->arena, &sym->guards, &sym->guard_cap, sym->guard_count,
                             sym->guard_count + 1, sizeof(*sym->guards)));
    HN_TRY(hn_map_put(&sym->guard_keys, key, sym->guard_count));
    sym->guards[sym->guard_count++] = guard;
    return NULL;
}

/* lhs == rhs where only one symbol is unknown, and once: 4 == 2*s0 + 2 says that s0 is 1. */
static void learn_value(hn_sym *sym, hn_guard guard) {
    hn_sum sum = hn_sym_sum(sym, hn_sym_sub(sym, guard.lhs, guard.rhs));
    if (sum.count != 1 || hn_sym_kind(sym, sum.terms[0]) != HN_EXPR_SYMBOL) return;
    int64_t coeff = sum.coeffs[0];
    if (sum.constant == INT64_MIN || sum.constant % coeff != 0) return;
    int64_t value = -sum.constant / coeff;
    const hn_sym_node *node = hn_sym_at(sym, sum.terms[0]);
    if (value >= node->lo && value <= node->hi)
        hn_sym_assume_range(sym, sum.terms[0], value, value);
}

/* A recorded relation between a symbol and a constant is a fact from here on. Only facts about the
 * bare symbol are drawn: the guard's own expressions keep what they were built from. */
static void guard_learn(hn_sym *sym, hn_guard guard) {
    if (guard.relation == HN_REL_EQ) {
        learn_value(sym, guard);
        return;
    }
    bool left = hn_sym_kind(sym, guard.lhs) == HN_EXPR_SYMBOL;
    hn_expr symbol = left ? guard.lhs : guard.rhs;
    int64_t value;
    if (hn_sym_kind(sym, symbol) != HN_EXPR_SYMBOL ||
        !hn_sym_is_int(sym, left ? guard.rhs : guard.lhs, &value))
        return;
    int64_t lo = HN_SYM_MIN, hi = HN_SYM_MAX;
    int64_t strict = guard.relation == HN_REL_LT;
    if (guard.relation == HN_REL_NE) return;
    if (left && !hn_sub_i64(value, strict, &hi)) return;
    if (!left && !hn_add_i64(value, strict, &lo)) return;
    /* A requirement that never holds is for the program to report, at its call. */
    const hn_sym_node *node = hn_sym_at(sym, symbol);
    if (hi >= node->lo && lo <= node->hi) hn_sym_assume_range(sym, symbol, lo, hi);
}

static void guard_add(hn_sym *sym, hn_guard guard) {
    hn_status status = guard_record(sym, guard);
    if (status) hn_sym_fail_status(sym, status);
    else guard_learn(sym, guard);
}

void hn_sym_require(hn_sym *sym, hn_relation relation, hn_expr lhs, hn_expr rhs,
                    const char *reason) {
    if (!lhs || !rhs || sym->failed || prove(sym, relation, lhs, rhs)) return;
    guard_add(sym, (hn_guard){relation, lhs, rhs, reason});
}

bool hn_relation_holds(hn_relation relation, int64_t lhs, int64_t rhs) {
    switch (relation) {
    case HN_REL_EQ: return lhs == rhs;
    case HN_REL_NE: return lhs != rhs;
    case HN_REL_LT: return lhs < rhs;
    case HN_REL_LE: return lhs <= rhs;
    }
    return false;
}

bool hn_sym_guard(hn_sym *sym, hn_relation relation, hn_expr lhs, hn_expr rhs, const char *reason) {
    if (!lhs || !rhs || sym->failed) return false;
    hn_guard guard = {relation, lhs, rhs, reason}, opposite = negated(guard);
    if (prove(sym, relation, lhs, rhs)) return true;
    if (prove(sym, opposite.relation, opposite.lhs, opposite.rhs)) return false;
    /* What was decided before stays decided, whatever the hints say by now. */
    if (hn_map_get(&sym->guard_keys, guard_key(guard))) return true;
    if (hn_map_get(&sym->guard_keys, guard_key(opposite))) return false;
    bool result = hn_relation_holds(relation, hn_sym_hint(sym, lhs, FALLBACK_HINT),
                                    hn_sym_hint(sym, rhs, FALLBACK_HINT));
    guard_add(sym, result ? guard : opposite);
    return result;
}

/* Whether a = k * b for some number k. */
static bool is_multiple(hn_sum a, hn_sum b) {
    if (a.count != b.count || !b.count) return false;
    for (uint32_t i = 0; i < a.count; i++) {
        int64_t x, y;
        if (a.terms[i] != b.terms[i] || !hn_mul_i64(a.coeffs[i], b.coeffs[0], &x) ||
            !hn_mul_i64(b.coeffs[i], a.coeffs[0], &y) || x != y)
            return false;
    }
    int64_t x, y;
    return hn_mul_i64(a.constant, b.coeffs[0], &x) && hn_mul_i64(b.constant, a.coeffs[0], &y) &&
           x == y;
}

bool hn_sym_guarded_eq(hn_sym *sym, hn_expr a, hn_expr b) {
    if (!a || !b || sym->failed) return false;
    if (hn_map_get(&sym->guard_keys,
                   guard_key((hn_guard){.relation = HN_REL_EQ, .lhs = a, .rhs = b})))
        return true;
    for (uint32_t i = 0; i < sym->guard_count; i++) {
        if (sym->guards[i].relation != HN_REL_EQ) continue;
        hn_expr d = hn_sym_sub(sym, a, b),
                zero = hn_sym_sub(sym, sym->guards[i].lhs, sym->guards[i].rhs);
        if (d && zero && is_multiple(hn_sym_sum(sym, d), hn_sym_sum(sym, zero))) return true;
    }
    return false;
}

const hn_guard *hn_sym_guards(const hn_sym *sym, uint32_t *out_count) {
    *out_count = sym->guard_count;
    return sym->guards;
}
