/* one_hot.c: a sum along a dimension of which one element at most is not 0.
 *
 *   sum(where(and(eq(x [m,1], iota [n]), c [m,1]), v [m,1], 0), dims=[1])
 *   ->  where(and(and(x >= 0, x <= n - 1), c), v, 0) + 0
 *
 * So begins the gradient of a cross entropy, with n the size of the vocabulary: for each token the
 * sum of a row that is 0 but for one place. The last 0 is for v = -0.0, to which the sum adds
 * zeros. */
#include "opt/patterns/pattern.h"

enum { MAX_TERMS = 8 };

typedef struct one_hot {
    uint32_t rank, dim;        /* of what is summed up */
    hn_value chosen;           /* the place that is not 0 */
    hn_value terms[MAX_TERMS]; /* conditions besides that */
    uint32_t term_count;
} one_hot;

/* ---- looking ---- */

/* Whether a value that broadcasts to `rank` dims is the same all along `dim`. */
static bool is_same_along(const hn_patterns *p, hn_value v, const one_hot *o) {
    const hn_value_info *info = hn_info(p, v);
    const uint32_t missing = o->rank - info->rank;
    return o->dim < missing || hn_size_is(p->g, info->sizes[o->dim - missing], 1);
}

/* 0, 1, 2 .. along `dim`, to its end. */
static bool is_counter(const hn_patterns *p, hn_value v, const one_hot *o, hn_expr size) {
    const hn_affine *a = hn_facts_affine(&p->facts, v);
    const hn_value_info *info = hn_info(p, v);
    const uint32_t missing = o->rank - info->rank;
    if (!a || o->dim < missing || !hn_size_is(p->g, a->base, 0)) return false;
    for (uint32_t k = 0; k < info->rank; k++)
        if (a->coeff[k] != (k + missing == o->dim) && !hn_size_is(p->g, info->sizes[k], 1))
            return false;
    return a->coeff[o->dim - missing] == 1 &&
           hn_same_sizes(p->g, &info->sizes[o->dim - missing], &size, 1);
}

/* Of `eq`, the side that a counter is compared with; 0: it is no such comparison. Other integers
 * could not hold the size, perhaps. */
static hn_value compared_with(const hn_patterns *p, const hn_node_info *eq, const one_hot *o,
                              hn_expr size) {
    for (int side = 0; side < 2; side++) {
        const hn_value counter = eq->args[side].as.value, other = eq->args[1 - side].as.value;
        const hn_dtype dtype = hn_info(p, counter)->dtype;
        if ((dtype == HN_DTYPE_I64 || dtype == HN_DTYPE_I32) && is_same_along(p, other, o) &&
            is_counter(p, counter, o, size))
            return other;
    }
    return 0;
}

/* Takes a condition apart: one comparison with a counter, and others that are the same along the
 * dimension. */
static bool add_condition(const hn_patterns *p, hn_value v, hn_expr size, one_hot *o) {
    const hn_node_info *both = hn_made_by(p->g, v, HN_OP_AND), *eq = hn_made_by(p->g, v, HN_OP_EQ);
    if (is_same_along(p, v, o)) {
        if (o->term_count == MAX_TERMS) return false;
        o->terms[o->term_count++] = v;
        return true;
    }
    if (both)
        return add_condition(p, both->args[0].as.value, size, o) &&
               add_condition(p, both->args[1].as.value, size, o);
    if (!eq || o->chosen) return false;
    o->chosen = compared_with(p, eq, o, size);
    return o->chosen != 0;
}

static const hn_node_info *find(const hn_patterns *p, const hn_node_info *sum, one_hot *out) {
    const hn_value x = sum->args[0].as.value;
    const hn_node_info *where = hn_made_by(p->g, x, HN_OP_WHERE);
    const hn_value_info *info = hn_info(p, x);
    int64_t dim;
    hn_ref_elem zero;
    *out = (one_hot){.rank = info->rank};
    if (!where || sum->args[1].count != 1 || info->dtype == HN_DTYPE_BOOL ||
        hn_info(p, sum->results[0])->dtype != info->dtype ||
        !hn_sym_is_int(p->g->sym, sum->args[1].as.exprs[0], &dim) || dim < 0 || dim >= info->rank)
        return NULL;
    out->dim = (uint32_t)dim;
    if (!hn_uniform(p->g, where->args[2].as.value, &zero) ||
        (hn_dtype_is_float(info->dtype) ? zero.f != 0 : zero.i != 0) ||
        !is_same_along(p, where->args[1].as.value, out) ||
        !add_condition(p, where->args[0].as.value, info->sizes[dim], out) || !out->chosen)
        return NULL;
    return where;
}

/* ---- building ---- */

static hn_value is_inside(hn_graph *g, const one_hot *o, hn_expr size) {
    const hn_dtype dtype = hn_graph_value(g, o->chosen)->dtype;
    const hn_expr last = hn_sym_sub(g->sym, size, hn_sym_int(g->sym, 1));
    const hn_value least = hn_b_full(g, hn_scalar_i(hn_sym_int(g->sym, 0)), NULL, 0, dtype),
                   most = hn_b_full(g, hn_scalar_i(last), NULL, 0, dtype);
    return hn_b_binary(g, HN_OP_AND, hn_b_binary(g, HN_OP_GE, o->chosen, least),
                       hn_b_binary(g, HN_OP_LE, o->chosen, most));
}

/* Zeros of the sizes of the result, with the dimension kept: they give the sum its sizes, too. */
static hn_value zeros_for(hn_graph *g, const hn_value_info *summed, uint32_t dim) {
    hn_value_info like = *summed;
    hn_expr sizes[HN_MAX_RANK];
    for (uint32_t k = 0; k < summed->rank; k++)
        sizes[k] = k == dim ? hn_sym_int(g->sym, 1) : summed->sizes[k];
    like.sizes = sizes;
    return hn_full_like(g, (hn_ref_elem){.i = 0}, &like);
}

hn_value hn_pattern_one_hot(hn_patterns *p, const hn_node_info *sum) {
    hn_graph *g = p->g;
    one_hot o;
    const hn_node_info *where = find(p, sum, &o);
    if (!where) return 0;
    const hn_value_info summed = *hn_info(p, sum->args[0].as.value),
                        result = *hn_info(p, sum->results[0]);
    const hn_value one = where->args[1].as.value, zeros = zeros_for(g, &summed, o.dim);
    hn_value when = is_inside(g, &o, summed.sizes[o.dim]);
    for (uint32_t k = 0; k < o.term_count; k++) when = hn_b_binary(g, HN_OP_AND, when, o.terms[k]);
    const hn_value y = hn_b_binary(g, HN_OP_ADD, hn_b_where(g, when, one, zeros), zeros);
    p->fired[HN_PATTERN_ONE_HOT]++;
    return hn_v_reshape(g, y, result.sizes, result.rank);
}
