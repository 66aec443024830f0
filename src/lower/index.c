/* index.c: how views map indices and strides. */
#include "lower/internal.h"

#include "base/hash.h"

/* One step of the walk over two shapes: dims [o0, o1) of the output and [i0, i1) of the input hold
 * the same number of elements. */
typedef struct group {
    uint32_t o0, o1, i0, i1;
} group;

static bool is_one(lower *l, hn_expr e) { return hn_sym_is_value(l->sym, e, 1); }

static bool smaller(lower *l, hn_expr a, hn_expr b) {
    int64_t x, y;
    if (hn_sym_is_int(l->sym, a, &x) && hn_sym_is_int(l->sym, b, &y)) return x < y;
    return hn_sym_prove_lt(l->sym, a, b);
}

/* Finds the next smallest group after (o, i). Falls back to everything that is left when the
 * products cannot be compared. */
static group next_group(lower *l, const hn_expr *out, uint32_t out_rank, uint32_t o,
                        const hn_expr *in, uint32_t in_rank, uint32_t i) {
    group g = {o, o, i, i};
    hn_expr po = l->one, pi = l->one;
    while (g.o1 == g.o0 || g.i1 == g.i0 || po != pi) {
        bool take_out = g.o1 == g.o0 || (g.i1 > g.i0 && g.o1 < out_rank && smaller(l, po, pi));
        if (take_out ? g.o1 >= out_rank : g.i1 >= in_rank) break;
        if (take_out) po = hn_sym_mul(l->sym, po, out[g.o1++]);
        else pi = hn_sym_mul(l->sym, pi, in[g.i1++]);
    }
    if (po != pi || g.o1 == g.o0 || g.i1 == g.i0) return (group){o, out_rank, i, in_rank};
    return g;
}

void lower_index_reshape(lower *l, const hn_expr *out_sizes, uint32_t out_rank,
                         const hn_expr *out_idx, const hn_expr *in_sizes, uint32_t in_rank,
                         hn_expr *in_idx) {
    uint32_t o = 0, i = 0;
    while (o < out_rank || i < in_rank) {
        group g = next_group(l, out_sizes, out_rank, o, in_sizes, in_rank, i);
        hn_expr linear = l->zero;
        for (uint32_t k = g.o0; k < g.o1; k++)
            linear = hn_sym_add(l->sym, hn_sym_mul(l->sym, linear, out_sizes[k]),
                                is_one(l, out_sizes[k]) ? l->zero : out_idx[k]);
        hn_expr stride = l->one;
        for (uint32_t k = g.i1; k-- > g.i0;) {
            /* no element, no index; nothing may be divided by it */
            if (hn_sym_is_value(l->sym, in_sizes[k], 0)) {
                in_idx[k] = l->zero;
                continue;
            }
            hn_expr at = hn_sym_floordiv(l->sym, linear, stride);
            in_idx[k] = is_one(l, in_sizes[k]) ? l->zero
                        : k > g.i0             ? hn_sym_mod(l->sym, at, in_sizes[k])
                                               : at;
            stride = hn_sym_mul(l->sym, stride, in_sizes[k]);
        }
        o = g.o1;
        i = g.i1;
    }
}

/* Whether input dims [i0, i1) are one arithmetic progression; its step is that of the last dim that
 * moves. */
static bool merge_strides(lower *l, const hn_expr *sizes, const hn_expr *strides, uint32_t i0,
                          uint32_t i1, hn_expr *out_step) {
    hn_expr expected = 0;
    *out_step = l->one;
    for (uint32_t k = i1; k-- > i0;) {
        if (is_one(l, sizes[k])) continue;
        if (!expected) *out_step = strides[k];
        else if (expected != strides[k]) return false;
        expected = hn_sym_mul(l->sym, strides[k], sizes[k]);
    }
    return true;
}

bool lower_strides_reshape(lower *l, const hn_expr *in_sizes, const hn_expr *in_strides,
                           uint32_t in_rank, const hn_expr *out_sizes, uint32_t out_rank,
                           hn_expr *out_strides) {
    uint32_t o = 0, i = 0;
    while (o < out_rank || i < in_rank) {
        group g = next_group(l, out_sizes, out_rank, o, in_sizes, in_rank, i);
        hn_expr step;
        if (!merge_strides(l, in_sizes, in_strides, g.i0, g.i1, &step)) return false;
        for (uint32_t k = g.o1; k-- > g.o0;) {
            out_strides[k] = step;
            step = hn_sym_mul(l->sym, step, out_sizes[k]);
        }
        o = g.o1;
        i = g.i1;
    }
    return true;
}

static hn_expr sum_of_products(lower *l, hn_expr offset, const hn_expr *idx, const hn_expr *strides,
                               uint32_t rank) {
    hn_expr linear = offset;
    for (uint32_t d = 0; d < rank; d++)
        linear = hn_sym_add(l->sym, linear, hn_sym_mul(l->sym, idx[d], strides[d]));
    return linear;
}

/* Layers of a model repeat: most sums were asked for before, and a look into a map is cheaper than
 * making one. */
hn_expr lower_index_linear(lower *l, hn_expr offset, const hn_expr *idx, const hn_expr *strides,
                           uint32_t rank) {
    hn_expr key[1 + 2 * HN_MAX_RANK] = {offset};
    uint32_t count = 1;
    for (uint32_t d = 0; d < rank; d++) {
        if (idx[d] == l->zero) continue;
        key[count++] = idx[d];
        key[count++] = strides[d];
    }
    if (count == 1) return offset;
    uint64_t hash = hn_hash64(key, count * sizeof *key, 0), *known = hn_map_get(&l->sums, hash);
    if (known) return (hn_expr)*known;
    hn_expr linear = sum_of_products(l, offset, idx, strides, rank);
    hn_status_free(hn_map_put(&l->sums, hash, linear)); /* without memory it is made again */
    return linear;
}

hn_loop_store lower_store_at(lower *l, hn_value v, const hn_expr *idx, uint32_t rank,
                             hn_sid value) {
    const lower_value *lv = &l->values[v];
    return (hn_loop_store){.buffer = lv->buffer,
                           .value = value,
                           .index = lower_index_linear(l, lv->offset, idx, lv->strides, rank)};
}
