/* dims.c: iteration spaces: refining, re-indexing and merging their dimensions. */
#include "sched/internal.h"

#include <string.h>

hn_expr dims_numel(sched *s, const dims *d) { return hn_sym_product(s->sym, d->items, d->count); }

dims dims_part(const dims *d, uint32_t first, uint32_t count) {
    dims out = {.count = count};
    memcpy(out.items, &d->items[first], count * sizeof *out.items);
    return out;
}

hn_expr dims_quotient(sched *s, hn_expr a, hn_expr b) {
    if (hn_sym_is_value(s->sym, b, 0) || hn_sym_is_value(s->sym, a, 0)) return 0;
    hn_expr q = hn_sym_floordiv(s->sym, a, b);
    return q && hn_sym_mul(s->sym, q, b) == a ? q : 0;
}

bool dims_refine_prefix(sched *s, const dims *a, const dims *b, dims *out, dims *rest) {
    hn_expr one = hn_sym_int(s->sym, 1), x = one, y = one;
    uint32_t i = 0, j = 0;
    *out = (dims){0};
    for (;;) {
        if (y == one && j == b->count) break;
        if (y == one) y = b->items[j++];
        if (x == one && i == a->count) return false;
        if (x == one) x = a->items[i++];
        if (out->count == MAX_DIMS) return false;
        hn_expr q;
        if (x == y) {
            out->items[out->count++] = x;
            x = y = one;
        } else if ((q = dims_quotient(s, x, y))) {
            out->items[out->count++] = y;
            x = q;
            y = one;
        } else if ((q = dims_quotient(s, y, x))) {
            out->items[out->count++] = x;
            y = q;
            x = one;
        } else {
            return false;
        }
    }
    *rest = (dims){0};
    if (x != one) rest->items[rest->count++] = x;
    while (i < a->count) rest->items[rest->count++] = a->items[i++];
    return out->count + rest->count <= MAX_DIMS;
}

bool dims_refine(sched *s, const dims *a, const dims *b, dims *out) {
    dims rest;
    return dims_refine_prefix(s, a, b, out, &rest) && rest.count == 0;
}

dims loop_dims(sched *s, const hn_loop *loop) {
    dims d = {.count = loop->rank + loop->red_rank};
    for (uint32_t k = 0; k < d.count; k++) d.items[k] = hn_sym_symbol_extent(s->sym, loop->vars[k]);
    return d;
}

void loop_subst(sched *s, hn_loop *loop, const hn_expr *from, const hn_expr *to, uint32_t count) {
    for (hn_sid k = 1; k < loop->body.count; k++) {
        hn_sop *op = &loop->body.items[k];
        if (op->index && op->kind != HN_SOP_INDIRECT)
            op->index = hn_sym_subst(s->sym, op->index, from, to, count);
    }
    loop->store.index = hn_sym_subst(s->sym, loop->store.index, from, to, count);
    if (loop->indices.buffer)
        loop->indices.index = hn_sym_subst(s->sym, loop->indices.index, from, to, count);
}

bool loop_revar(sched *s, hn_loop *loop, const dims *to, uint32_t to_rank) {
    hn_expr fresh[HN_MAX_RANK], replacement[HN_MAX_RANK];
    uint32_t k = 0, total = loop->rank + loop->red_rank;
    for (uint32_t d = 0; d < to->count; d++) fresh[d] = hn_sym_index(s->sym, d, to->items[d]);
    for (uint32_t d = 0; d < total; d++) {
        if (d == loop->rank && k != to_rank) return false;
        hn_expr extent = hn_sym_symbol_extent(s->sym, loop->vars[d]);
        hn_expr product = hn_sym_int(s->sym, 1), linear = hn_sym_int(s->sym, 0);
        do {
            if (k == to->count) return false;
            linear = hn_sym_add(s->sym, hn_sym_mul(s->sym, linear, to->items[k]), fresh[k]);
            product = hn_sym_mul(s->sym, product, to->items[k++]);
        } while (product != extent);
        replacement[d] = linear;
    }
    if (k != to->count || (total == loop->rank && to_rank != to->count)) return false;
    loop_subst(s, loop, loop->vars, replacement, total);
    memcpy(loop->vars, fresh, to->count * sizeof *fresh);
    loop->red_rank = to->count - to_rank;
    loop->rank = to_rank;
    return true;
}

/* Whether `e` walks dims a (outer) and b (inner) as one: e = c * (a * extent(b) + b) + rest. */
static bool index_merges(sched *s, hn_expr e, hn_expr a, hn_expr b) {
    hn_expr ca, cb, rest;
    if (!hn_sym_uses(s->sym, e, a) && !hn_sym_uses(s->sym, e, b)) return true;
    if (!hn_sym_affine(s->sym, e, b, &cb, &rest) || !hn_sym_affine(s->sym, rest, a, &ca, &rest))
        return false;
    return ca == hn_sym_mul(s->sym, cb, hn_sym_symbol_extent(s->sym, b));
}

bool loop_merges(sched *s, const hn_loop *loop, hn_expr a, hn_expr b) {
    for (hn_sid k = 1; k < loop->body.count; k++) {
        const hn_sop *op = &loop->body.items[k];
        if (op->index && op->kind != HN_SOP_INDIRECT && !index_merges(s, op->index, a, b))
            return false;
    }
    return index_merges(s, loop->store.index, a, b) &&
           (!loop->indices.buffer || index_merges(s, loop->indices.index, a, b));
}

/* Removes dim d of the loop after its variable has been substituted away. */
static void drop_dim(hn_loop *loop, uint32_t d) {
    uint32_t total = loop->rank + loop->red_rank;
    memmove(&loop->vars[d], &loop->vars[d + 1], (total - d - 1) * sizeof *loop->vars);
    if (d < loop->rank) loop->rank--;
    else loop->red_rank--;
}

static void drop_ones(sched *s, hn_loop *loop) {
    hn_expr zero = hn_sym_int(s->sym, 0);
    for (uint32_t d = loop->rank + loop->red_rank; d-- > 0;) {
        if (!hn_sym_is_value(s->sym, hn_sym_symbol_extent(s->sym, loop->vars[d]), 1)) continue;
        loop_subst(s, loop, &loop->vars[d], &zero, 1);
        drop_dim(loop, d);
    }
}

static void merge_dims(sched *s, hn_loop *loop) {
    for (uint32_t d = loop->rank + loop->red_rank; d-- > 1;) {
        hn_expr a = loop->vars[d - 1], b = loop->vars[d];
        if (d == loop->rank || !loop_merges(s, loop, a, b)) continue;
        hn_expr extent =
            hn_sym_mul(s->sym, hn_sym_symbol_extent(s->sym, a), hn_sym_symbol_extent(s->sym, b));
        hn_expr merged = hn_sym_index(s->sym, d - 1, extent);
        hn_expr from[2] = {a, b}, to[2] = {hn_sym_int(s->sym, 0), merged};
        loop_subst(s, loop, from, to, 2);
        loop->vars[d - 1] = merged;
        drop_dim(loop, d);
    }
}

/* Gives the variables the ordinals of their positions. */
static void renumber(sched *s, hn_loop *loop) {
    hn_expr fresh[HN_MAX_RANK];
    uint32_t total = loop->rank + loop->red_rank;
    for (uint32_t d = 0; d < total; d++)
        fresh[d] = hn_sym_index(s->sym, d, hn_sym_symbol_extent(s->sym, loop->vars[d]));
    if (memcmp(fresh, loop->vars, total * sizeof *fresh) == 0) return;
    loop_subst(s, loop, loop->vars, fresh, total);
    memcpy(loop->vars, fresh, total * sizeof *fresh);
}

void loop_normalize(sched *s, hn_loop *loop) {
    drop_ones(s, loop);
    renumber(s, loop); /* so that a merged variable cannot meet an older one of its name */
    merge_dims(s, loop);
    renumber(s, loop);
}
