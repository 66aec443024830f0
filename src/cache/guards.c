/* guards.c: the canonical form of guards: writing it, reading it, the value of its expressions. See variants_internal.h. */
#include "cache/variants_internal.h"

#include "base/checked.h"

#include <stdlib.h>

enum {
    DEPTH_MAX = 200,
    EXPR_BYTES_MAX = 1 << 16, /* a shared operand is written each time: what grows beyond this is not worth a table */
    OP_SUB = HN_VOP_COUNT,    /* the difference of two sides; in canonical form only */
};

/* ---- writing expressions ---- */

static void put_u32(hn_strbuf *out, uint32_t value) { hn_strbuf_append(out, (const char *)&value, sizeof value); }
static void put_i64(hn_strbuf *out, int64_t value) { hn_strbuf_append(out, (const char *)&value, sizeof value); }

static hn_status put_node(const hn_variant_guards *g, uint32_t node, uint32_t depth, hn_strbuf *out);

static hn_status put_symbol(const hn_variant_guards *g, uint32_t symbol, uint32_t depth, hn_strbuf *out) {
    if (symbol >= g->symbol_count) return HN_ERROR(HN_INVALID_ARGUMENT, "a guard uses symbol %u of %u", symbol, g->symbol_count);
    const hn_vsymbol *s = &g->symbols[symbol];
    put_u32(out, s->input);
    put_u32(out, s->tensor);
    put_u32(out, s->dim);
    put_i64(out, s->coeff);
    if (s->rest) return put_node(g, s->rest, depth + 1, out);
    hn_strbuf_putc(out, HN_VOP_NONE);
    return NULL;
}

static hn_status put_node(const hn_variant_guards *g, uint32_t node, uint32_t depth, hn_strbuf *out) {
    const hn_vnode *n = &g->nodes[node];
    if (node >= g->node_count || !node || depth > DEPTH_MAX || out->len > EXPR_BYTES_MAX)
        return HN_ERROR(HN_INVALID_ARGUMENT, "a guard is too deep, too long or uses node %u of %u", node, g->node_count);
    hn_strbuf_putc(out, (char)n->op);
    if (n->op == HN_VOP_SYMBOL) return put_symbol(g, n->a, depth, out);
    if (n->op == HN_VOP_CONST) {
        put_i64(out, n->b);
        return NULL;
    }
    bool is_known = n->op >= HN_VOP_ADD && n->op < HN_VOP_COUNT;
    if (!is_known || n->a >= node || n->b < 0 || n->b >= (int64_t)node)
        return HN_ERROR(HN_INVALID_ARGUMENT, "a guard has a node of kind %u that cannot be read", n->op);
    HN_TRY(put_node(g, n->a, depth + 1, out));
    return put_node(g, (uint32_t)n->b, depth + 1, out);
}

/* Whether a symbol that only the data tells is in the expression. Nodes before `node` suffice: there are few. */
static bool uses_data(const hn_variant_guards *g, uint32_t node, uint32_t depth) {
    if (!node || node >= g->node_count || depth > DEPTH_MAX) return false;
    const hn_vnode *n = &g->nodes[node];
    if (n->op == HN_VOP_SYMBOL) return n->a < g->symbol_count && g->symbols[n->a].input == HN_VINPUT_NONE;
    if (n->op < HN_VOP_ADD) return false;
    return uses_data(g, n->a, depth + 1) || (n->b > 0 && uses_data(g, (uint32_t)n->b, depth + 1));
}

/* ---- from guards to conditions ---- */

typedef struct condition {
    hn_str expr; /* in the arena */
    hn_guard_bounds bounds;
} condition;

typedef struct conditions {
    const hn_variant_guards *guards;
    hn_arena arena;
    condition *items;
    uint32_t count, cap;
} conditions;

static bool is_const(const hn_variant_guards *g, uint32_t node, int64_t *out) {
    if (!node || node >= g->node_count || g->nodes[node].op != HN_VOP_CONST) return false;
    *out = g->nodes[node].b;
    return true;
}

/* x REL c; `flipped`: c REL x. */
static hn_guard_bounds bounds_of(uint32_t relation, int64_t c, bool flipped) {
    if (relation == HN_VREL_EQ || relation == HN_VREL_NE) return (hn_guard_bounds){c, c, relation == HN_VREL_NE};
    bool strict = relation == HN_VREL_LT;
    const hn_guard_bounds never = {1, 0, false};
    if (flipped) return strict && c == INT64_MAX ? never : (hn_guard_bounds){c + strict, INT64_MAX, false};
    return strict && c == INT64_MIN ? never : (hn_guard_bounds){INT64_MIN, c - strict, false};
}

static hn_status take_text(conditions *c, hn_strbuf *text, hn_str *out) {
    HN_TRY(hn_strbuf_status(text));
    if (text->len > EXPR_BYTES_MAX) return HN_ERROR(HN_INVALID_ARGUMENT, "a guard is too long");
    out->ptr = hn_arena_strndup(&c->arena, text->ptr, text->len);
    out->len = text->len;
    return out->ptr ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a guard");
}

/* lhs - rhs; of an equation the smaller bytes come first. */
static hn_status put_difference(const hn_variant_guards *g, const hn_vguard *guard, hn_strbuf *text) {
    hn_strbuf lhs, rhs;
    hn_strbuf_init(&lhs);
    hn_strbuf_init(&rhs);
    hn_status status = put_node(g, guard->lhs, 0, &lhs);
    if (!status) status = put_node(g, guard->rhs, 0, &rhs);
    bool symmetric = guard->relation == HN_VREL_EQ || guard->relation == HN_VREL_NE;
    hn_str a = hn_strbuf_str(&lhs), b = hn_strbuf_str(&rhs);
    size_t common = a.len < b.len ? a.len : b.len;
    int order = memcmp(a.ptr, b.ptr, common);
    if (symmetric && (order > 0 || (order == 0 && a.len > b.len))) {
        hn_str c = a;
        a = b;
        b = c;
    }
    hn_strbuf_putc(text, OP_SUB);
    hn_strbuf_append(text, a.ptr, a.len);
    hn_strbuf_append(text, b.ptr, b.len);
    hn_strbuf_deinit(&lhs);
    hn_strbuf_deinit(&rhs);
    return status;
}

static hn_status condition_of(conditions *c, const hn_vguard *guard, condition *out) {
    const hn_variant_guards *g = c->guards;
    int64_t value = 0;
    hn_strbuf text;
    hn_status status;
    hn_strbuf_init(&text);
    if (is_const(g, guard->rhs, &value)) {
        out->bounds = bounds_of(guard->relation, value, false);
        status = put_node(g, guard->lhs, 0, &text);
    } else if (is_const(g, guard->lhs, &value)) {
        out->bounds = bounds_of(guard->relation, value, true);
        status = put_node(g, guard->rhs, 0, &text);
    } else {
        out->bounds = bounds_of(guard->relation, 0, false);
        status = put_difference(g, guard, &text);
    }
    if (!status) status = take_text(c, &text, &out->expr);
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status add_condition(conditions *c, const hn_vguard *guard) {
    condition made;
    HN_TRY(condition_of(c, guard, &made));
    for (uint32_t k = 0; k < c->count; k++) { /* intervals of one expression become one */
        condition *old = &c->items[k];
        if (old->bounds.outside || made.bounds.outside || !hn_str_eq(old->expr, made.expr)) continue;
        if (made.bounds.lo > old->bounds.lo) old->bounds.lo = made.bounds.lo;
        if (made.bounds.hi < old->bounds.hi) old->bounds.hi = made.bounds.hi;
        return NULL;
    }
    HN_PUSH(&c->arena, c, made);
    return NULL;
}

static int by_bytes(const void *a, const void *b) {
    const condition *x = a, *y = b;
    size_t common = x->expr.len < y->expr.len ? x->expr.len : y->expr.len;
    int order = memcmp(x->expr.ptr, y->expr.ptr, common);
    if (order) return order;
    if (x->expr.len != y->expr.len) return x->expr.len < y->expr.len ? -1 : 1;
    if (x->bounds.outside != y->bounds.outside) return x->bounds.outside ? 1 : -1;
    return (x->bounds.lo > y->bounds.lo) - (x->bounds.lo < y->bounds.lo);
}

static hn_status gather(conditions *c) {
    const hn_variant_guards *g = c->guards;
    for (uint32_t k = 0; k < g->guard_count; k++) {
        const hn_vguard *guard = &g->guards[k];
        if (guard->relation >= HN_VREL_COUNT) return HN_ERROR(HN_INVALID_ARGUMENT, "a guard has relation %u", guard->relation);
        if (uses_data(g, guard->lhs, 0) || uses_data(g, guard->rhs, 0)) continue;
        HN_TRY(add_condition(c, guard));
    }
    if (c->count) qsort(c->items, c->count, sizeof *c->items, by_bytes);
    return NULL;
}

hn_status hn_variant_canonical(const hn_variant_guards *guards, hn_strbuf *out) {
    conditions c = {.guards = guards};
    hn_arena_init(&c.arena);
    hn_status status = gather(&c);
    if (!status) hn_guards_begin(guards->input_count, guards->tensor_count, c.count, out);
    for (uint32_t k = 0; !status && k < c.count; k++) hn_guards_put(out, c.items[k].expr, &c.items[k].bounds);
    hn_arena_deinit(&c.arena);
    return status ? status : hn_strbuf_status(out);
}

void hn_guards_begin(uint32_t input_count, uint32_t tensor_count, uint32_t cond_count, hn_strbuf *out) {
    put_u32(out, input_count);
    put_u32(out, tensor_count);
    put_u32(out, cond_count);
}

void hn_guards_put(hn_strbuf *out, hn_str expr, const hn_guard_bounds *bounds) {
    put_u32(out, (uint32_t)expr.len);
    hn_strbuf_append(out, expr.ptr, expr.len);
    put_u32(out, bounds->outside);
    put_i64(out, bounds->lo);
    put_i64(out, bounds->hi);
}

/* ---- reading ---- */

static bool take(hn_str *rest, void *out, size_t len) {
    if (rest->len < len) return false;
    memcpy(out, rest->ptr, len);
    *rest = (hn_str){rest->ptr + len, rest->len - len};
    return true;
}

hn_status hn_guards_open(hn_str canonical, hn_guards_reader *out) {
    out->rest = canonical;
    if (take(&out->rest, &out->input_count, 4) && take(&out->rest, &out->tensor_count, 4) && take(&out->rest, &out->count, 4)) return NULL;
    return HN_ERROR(HN_CORRUPT, "guards are cut short");
}

hn_status hn_guards_next(hn_guards_reader *reader, hn_str *out_expr, hn_guard_bounds *out_bounds) {
    uint32_t len, outside;
    hn_str *rest = &reader->rest;
    if (!take(rest, &len, sizeof len) || len > rest->len) return HN_ERROR(HN_CORRUPT, "guards are cut short");
    *out_expr = (hn_str){rest->ptr, len};
    *rest = (hn_str){rest->ptr + len, rest->len - len};
    if (!take(rest, &outside, sizeof outside) || !take(rest, &out_bounds->lo, 8) || !take(rest, &out_bounds->hi, 8))
        return HN_ERROR(HN_CORRUPT, "guards are cut short");
    out_bounds->outside = outside != 0;
    return NULL;
}

typedef struct symbol_place {
    uint32_t input, tensor, dim;
    int64_t coeff;
} symbol_place;

static bool take_symbol(hn_str *rest, symbol_place *out) {
    return take(rest, &out->input, 4) && take(rest, &out->tensor, 4) && take(rest, &out->dim, 4) && take(rest, &out->coeff, 8);
}

static bool size_of(const hn_guard_inputs *inputs, const symbol_place *s, int64_t *out) {
    uint32_t index = inputs->tensors_only ? s->tensor : s->input;
    if (index >= inputs->count) return false;
    const hn_variant_input *in = &inputs->items[index];
    if (s->dim == HN_VDIM_VALUE ? !in->has_value : s->dim >= in->rank) return false;
    *out = s->dim == HN_VDIM_VALUE ? in->value : in->sizes[s->dim];
    return true;
}

static bool eval(hn_str *rest, const hn_guard_inputs *inputs, uint32_t depth, int64_t *out);

static bool eval_symbol(hn_str *rest, const hn_guard_inputs *inputs, uint32_t depth, int64_t *out) {
    symbol_place s;
    int64_t size, minus = 0, quotient;
    if (!take_symbol(rest, &s) || !s.coeff || !rest->len || !size_of(inputs, &s, &size)) return false;
    if (*rest->ptr == HN_VOP_NONE)
        *rest = (hn_str){rest->ptr + 1, rest->len - 1};
    else if (!eval(rest, inputs, depth + 1, &minus))
        return false;
    if (!hn_sub_i64(size, minus, &size) || !hn_floor_div_i64(size, s.coeff, &quotient) || hn_floor_mod(size, s.coeff) != 0) return false;
    *out = quotient;
    return true;
}

static bool eval(hn_str *rest, const hn_guard_inputs *inputs, uint32_t depth, int64_t *out) {
    uint8_t op;
    int64_t x, y;
    if (depth > DEPTH_MAX || !take(rest, &op, 1)) return false;
    if (op == HN_VOP_CONST) return take(rest, out, sizeof *out);
    if (op == HN_VOP_SYMBOL) return eval_symbol(rest, inputs, depth, out);
    if (!eval(rest, inputs, depth + 1, &x) || !eval(rest, inputs, depth + 1, &y)) return false;
    switch (op) {
    case HN_VOP_ADD: return hn_add_i64(x, y, out);
    case OP_SUB: return hn_sub_i64(x, y, out);
    case HN_VOP_MUL: return hn_mul_i64(x, y, out);
    case HN_VOP_FLOORDIV: return hn_floor_div_i64(x, y, out);
    case HN_VOP_MOD: return y != 0 && y != -1 ? (*out = hn_floor_mod(x, y), true) : y == -1 && (*out = 0, true);
    case HN_VOP_MIN: return *out = x < y ? x : y, true;
    case HN_VOP_MAX: return *out = x > y ? x : y, true;
    default: return false;
    }
}

bool hn_guards_eval(hn_str expr, const hn_guard_inputs *inputs, int64_t *out) {
    return eval(&expr, inputs, 0, out) && !expr.len;
}

/* ---- for people ---- */

static bool print(hn_str *rest, uint32_t depth, hn_strbuf *out);

static bool print_symbol(hn_str *rest, uint32_t depth, hn_strbuf *out) {
    symbol_place s;
    if (!take_symbol(rest, &s) || !rest->len) return false;
    bool has_rest = *rest->ptr != HN_VOP_NONE, is_plain = s.coeff == 1 && !has_rest;
    if (!is_plain) hn_strbuf_putc(out, '(');
    hn_strbuf_printf(out, "input %u", s.input);
    if (s.dim != HN_VDIM_VALUE) hn_strbuf_printf(out, " dimension %u", s.dim);
    if (!has_rest) *rest = (hn_str){rest->ptr + 1, rest->len - 1};
    if (has_rest) hn_strbuf_puts(out, " - ");
    if (has_rest && !print(rest, depth + 1, out)) return false;
    if (!is_plain) hn_strbuf_putc(out, ')');
    if (s.coeff != 1) hn_strbuf_printf(out, "/%lld", (long long)s.coeff);
    return true;
}

static bool print(hn_str *rest, uint32_t depth, hn_strbuf *out) {
    static const char *const signs[] = {[HN_VOP_ADD] = " + ",  [HN_VOP_MUL] = " * ",  [HN_VOP_FLOORDIV] = " // ", [HN_VOP_MOD] = " % ",
                                        [HN_VOP_MIN] = " min ", [HN_VOP_MAX] = " max ", [OP_SUB] = " - "};
    uint8_t op;
    int64_t value;
    if (depth > DEPTH_MAX || !take(rest, &op, 1)) return false;
    if (op == HN_VOP_SYMBOL) return print_symbol(rest, depth, out);
    if (op == HN_VOP_CONST) {
        if (!take(rest, &value, sizeof value)) return false;
        hn_strbuf_i64(out, value);
        return true;
    }
    if (op < HN_VOP_ADD || op > OP_SUB) return false;
    if (depth) hn_strbuf_putc(out, '(');
    if (!print(rest, depth + 1, out)) return false;
    hn_strbuf_puts(out, signs[op]);
    if (!print(rest, depth + 1, out)) return false;
    if (depth) hn_strbuf_putc(out, ')');
    return true;
}

static void print_bounds(const hn_guard_bounds *b, hn_strbuf *out) {
    if (b->lo == b->hi) hn_strbuf_printf(out, " %s %lld", b->outside ? "!=" : "==", (long long)b->lo);
    else if (b->hi == INT64_MAX) hn_strbuf_printf(out, " >= %lld", (long long)b->lo);
    else if (b->lo == INT64_MIN) hn_strbuf_printf(out, " <= %lld", (long long)b->hi);
    else hn_strbuf_printf(out, " in %lld..%lld", (long long)b->lo, (long long)b->hi);
}

hn_status hn_variant_describe(hn_str canonical, hn_strbuf *out) {
    hn_guards_reader reader;
    hn_guard_bounds bounds;
    hn_str expr;
    HN_TRY(hn_guards_open(canonical, &reader));
    if (!reader.count) hn_strbuf_puts(out, "any size");
    for (uint32_t k = 0; k < reader.count; k++) {
        HN_TRY(hn_guards_next(&reader, &expr, &bounds));
        if (k) hn_strbuf_puts(out, ", ");
        if (!print(&expr, 0, out)) return HN_ERROR(HN_CORRUPT, "guards cannot be read");
        print_bounds(&bounds, out);
    }
    return hn_strbuf_status(out);
}
