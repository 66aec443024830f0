/* eval.c: walks over an expression: exact evaluation, symbols, substitution. The limits of
 * internal.h bound every walk, also where sub-expressions are shared. */
#include "sym/internal.h"

typedef struct binding {
    const hn_expr *symbols;
    const int64_t *values;
    uint32_t count;
} binding;

static bool eval(const hn_sym *sym, hn_expr e, const binding *at, int64_t *out);

static bool eval_symbol(hn_expr e, const binding *at, int64_t *out) {
    for (uint32_t k = 0; k < at->count; k++)
        if (at->symbols[k] == e) {
            *out = at->values[k];
            return true;
        }
    return false;
}

static bool eval_sum(const hn_sym *sym, const hn_sym_node *node, const binding *at, int64_t *out) {
    int64_t value = node->constant, term;
    for (uint32_t k = 0; k < node->count; k++)
        if (!eval(sym, node->args[k], at, &term) || !hn_mul_i64(node->coeffs[k], term, &term) ||
            !hn_add_i64(value, term, &value))
            return false;
    *out = value;
    return true;
}

static bool eval_product(const hn_sym *sym, const hn_sym_node *node, const binding *at,
                         int64_t *out) {
    int64_t value = 1, factor;
    for (uint32_t k = 0; k < node->count; k++)
        if (!eval(sym, node->args[k], at, &factor) || !hn_mul_i64(value, factor, &value))
            return false;
    *out = value;
    return true;
}

static bool eval_division(hn_expr_kind kind, int64_t a, int64_t b, int64_t *out) {
    if (b == 0 || (a == INT64_MIN && b == -1)) return false;
    *out = kind == HN_EXPR_MOD ? hn_floor_mod(a, b) : hn_floor_div(a, b);
    return true;
}

static bool eval(const hn_sym *sym, hn_expr e, const binding *at, int64_t *out) {
    const hn_sym_node *node = hn_sym_at(sym, e);
    hn_expr_kind kind = (hn_expr_kind)node->kind;
    switch (kind) {
    case HN_EXPR_INVALID: return false;
    case HN_EXPR_CONST: *out = node->constant; return true;
    case HN_EXPR_SYMBOL: return eval_symbol(e, at, out);
    case HN_EXPR_ADD: return eval_sum(sym, node, at, out);
    case HN_EXPR_MUL: return eval_product(sym, node, at, out);
    default: break;
    }
    int64_t a, b;
    if (!eval(sym, node->args[0], at, &a) || !eval(sym, node->args[1], at, &b)) return false;
    if (kind == HN_EXPR_FLOORDIV || kind == HN_EXPR_MOD) return eval_division(kind, a, b, out);
    *out = (kind == HN_EXPR_MIN) == (a < b) ? a : b;
    return true;
}

bool hn_sym_eval(const hn_sym *sym, hn_expr e, const hn_expr *symbols, const int64_t *values,
                 uint32_t count, int64_t *out) {
    return eval(sym, e, &(binding){symbols, values, count}, out);
}

/* --- symbols --- */

bool hn_sym_uses(const hn_sym *sym, hn_expr e, hn_expr symbol) {
    if (e == symbol) return e != 0;
    const hn_sym_node *node = hn_sym_at(sym, e);
    if (!(node->mask & hn_sym_at(sym, symbol)->mask)) return false;
    for (uint32_t k = 0; k < node->count; k++)
        if (hn_sym_uses(sym, node->args[k], symbol)) return true;
    return false;
}

typedef struct collector {
    hn_expr *out;
    uint32_t cap, count;
} collector;

static void collect(const hn_sym *sym, hn_expr e, collector *c) {
    const hn_sym_node *node = hn_sym_at(sym, e);
    if (node->kind == HN_EXPR_SYMBOL) {
        uint32_t *mark = &sym->marks->of_symbol[node->constant];
        if (*mark == sym->marks->stamp) return;
        *mark = sym->marks->stamp;
        if (c->count < c->cap) c->out[c->count] = e;
        c->count++;
    }
    for (uint32_t k = 0; k < node->count; k++)
        if (hn_sym_at(sym, node->args[k])->mask) collect(sym, node->args[k], c);
}

/* Room for a mark per symbol; false without memory. */
static bool marks_begin(const hn_sym *sym) {
    hn_sym_marks *marks = sym->marks;
    if (marks->cap < sym->symbol_count) {
        uint32_t *fresh =
            hn_arena_alloc(sym->arena, 2 * (size_t)sym->symbol_count * sizeof(*fresh));
        if (!fresh) return false;
        *marks = (hn_sym_marks){.cap = 2 * sym->symbol_count, .of_symbol = fresh};
    }
    if (++marks->stamp == 0) {
        memset(marks->of_symbol, 0, marks->cap * sizeof(*marks->of_symbol));
        marks->stamp = 1;
    }
    return true;
}

uint32_t hn_sym_symbols(const hn_sym *sym, hn_expr e, hn_expr *out, uint32_t cap) {
    collector c = {.out = out, .cap = cap};
    if (marks_begin(sym)) collect(sym, e, &c);
    return c.count;
}

/* --- substitution --- */

typedef struct substitution {
    const hn_expr *from, *to;
    uint32_t count;
    uint64_t mask; /* of all `from` */
} substitution;

static hn_expr subst(hn_sym *sym, hn_expr e, const substitution *s);

static hn_expr subst_sum(hn_sym *sym, hn_expr e, const substitution *s) {
    hn_sum sum = hn_sym_sum(sym, e);
    hn_sum_buf buf;
    hn_sum_init(&buf);
    buf.constant = sum.constant;
    for (uint32_t k = 0; k < sum.count; k++)
        hn_sum_add(sym, &buf, subst(sym, sum.terms[k], s), sum.coeffs[k]);
    return hn_sum_finish(sym, &buf);
}

static hn_expr subst_product(hn_sym *sym, hn_expr e, const substitution *s) {
    uint32_t count;
    const hn_expr *args = hn_sym_args(sym, e, &count);
    hn_expr product = subst(sym, args[0], s);
    for (uint32_t k = 1; k < count; k++) product = hn_sym_mul(sym, product, subst(sym, args[k], s));
    return product;
}

static hn_expr subst(hn_sym *sym, hn_expr e, const substitution *s) {
    const hn_sym_node *node = hn_sym_at(sym, e);
    if (!(node->mask & s->mask)) return e;
    hn_expr_kind kind = (hn_expr_kind)node->kind;
    if (kind == HN_EXPR_SYMBOL) {
        for (uint32_t k = 0; k < s->count; k++)
            if (s->from[k] == e) return s->to[k];
        return e;
    }
    if (kind == HN_EXPR_ADD) return subst_sum(sym, e, s);
    if (kind == HN_EXPR_MUL) return subst_product(sym, e, s);
    const hn_expr *args = node->args;
    hn_expr a = subst(sym, args[0], s), b = subst(sym, args[1], s);
    if (a == args[0] && b == args[1]) return e;
    switch (kind) {
    case HN_EXPR_FLOORDIV: return hn_sym_floordiv(sym, a, b);
    case HN_EXPR_MOD: return hn_sym_mod(sym, a, b);
    case HN_EXPR_MIN: return hn_sym_min(sym, a, b);
    default: return hn_sym_max(sym, a, b);
    }
}

hn_expr hn_sym_subst(hn_sym *sym, hn_expr e, const hn_expr *from, const hn_expr *to,
                     uint32_t count) {
    if (!e || sym->failed) return 0;
    substitution s = {from, to, count, 0};
    for (uint32_t k = 0; k < count; k++) s.mask |= hn_sym_at(sym, from[k])->mask;
    return subst(sym, e, &s);
}
