/* realize.c: giving values memory. */
#include "lower/internal.h"

#include <string.h>

void lower_loop_vars(lower *l, hn_loop *loop, const hn_expr *extents, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) loop->vars[k] = hn_sym_index(l->sym, k, extents[k]);
}

hn_status lower_new_buffer(lower *l, hn_value v, const hn_expr *wanted) {
    const hn_value_info *vi = hn_graph_value(l->g, v);
    hn_expr *strides;
    HN_NEW(l->arena, strides, vi->rank);
    if (wanted) memcpy(strides, wanted, vi->rank * sizeof *strides);
    else if (l->output[v]) hn_value_strides(l->sym, vi, strides);
    else lower_default_strides(l, v, strides);
    const int64_t row = wanted || l->output[v] ? 0 : lower_longer_row(l, v);
    hn_buffer buffer = {.kind = l->output[v] ? HN_BUFFER_OUTPUT : HN_BUFFER_TEMP,
                        .dtype = vi->dtype,
                        .rank = vi->rank,
                        .sizes = vi->sizes,
                        .strides = strides,
                        .value = l->is_branch ? 0 : v,
                        .extent = hn_strided_extent(l->sym, vi->sizes, strides, vi->rank)};
    lower_value *lv = &l->values[v];
    HN_TRY(hn_program_add_buffer(l->p, buffer, &lv->buffer));
    lv->strides = strides;
    lv->offset = l->zero;
    lv->defined = true;
    lv->ops = lv->depth = 0;
    lv->loads = 1;
    lv->costly = false;
    lv->zeros = 0;
    return row ? lower_end_rows(l, v, row) : NULL;
}

/* Elements of a value that are stored, and where. */
typedef struct copying {
    hn_value x;
    hn_buf buffer;
    hn_expr offset;
    const hn_expr *strides;
    uint32_t order[HN_MAX_RANK]; /* dims, as the loop goes */
} copying;

/* A box of them, which the cuts so far have left. */
typedef struct box {
    hn_expr starts[HN_MAX_RANK], extents[HN_MAX_RANK]; /* by the loop's variables */
    lower_cut cut;
} box;

static hn_status copy_box(lower *l, const copying *c, const box *of);

/* The parts of a box that is cut. */
static hn_status copy_parts(lower *l, const copying *c, const box *of, const lower_cut *cut) {
    box part = *of;
    const uint32_t var = cut->var;
    int64_t extent = 0, at = 0;
    (void)hn_sym_is_int(l->sym, of->extents[var], &extent);
    part.cut.parts += cut->count + 1;
    part.cut.ways =
        cut->is_cut[var] ? part.cut.ways + cut->count : part.cut.ways * (cut->count + 1);
    part.cut.is_cut[var] = true;
    for (uint32_t k = 0; k <= cut->count; k++) {
        const int64_t end = k < cut->count ? cut->at[k] : extent;
        part.starts[var] = hn_sym_add(l->sym, of->starts[var], hn_sym_int(l->sym, at));
        part.extents[var] = hn_sym_int(l->sym, end - at);
        HN_TRY(copy_box(l, c, &part));
        at = end;
    }
    return NULL;
}

static hn_status copy_box(lower *l, const copying *c, const box *of) {
    const uint32_t rank = hn_graph_value(l->g, c->x)->rank;
    hn_loop loop = {.kind = HN_LOOP_POINTWISE, .rank = rank};
    hn_expr at[HN_MAX_RANK] = {0};
    lower_cut cut = of->cut;
    lower_body b;
    hn_item item;
    lower_loop_vars(l, &loop, of->extents, rank);
    for (uint32_t k = 0; k < rank; k++)
        at[c->order[k]] = hn_sym_add(l->sym, of->starts[k], loop.vars[k]);
    cut.vars = loop.vars;
    cut.rank = rank;
    lower_body_init(&b, l);
    b.cut = &cut;
    hn_sid value = lower_gen(&b, c->x, at);
    if (b.failed) return b.failed;
    if (cut.count) return copy_parts(l, c, of, &cut);
    loop.body = b.body;
    loop.store = (hn_loop_store){.buffer = c->buffer,
                                 .value = value,
                                 .index = lower_index_linear(l, c->offset, at, c->strides, rank)};
    return hn_program_add_loop(l->p, &loop, l->origin, &item);
}

hn_status lower_copy_loop(lower *l, hn_value x, hn_buf buffer, hn_expr offset,
                          const hn_expr *strides) {
    const hn_value_info *vi = hn_graph_value(l->g, x);
    copying c = {x, buffer, offset, strides, {0}};
    box whole = {.cut = {.ways = 1, .stored_bytes = hn_dtype_facts(vi->dtype)->size_bytes}};
    lower_order(vi->rank, lower_are_last(l, strides, vi->rank), c.order);
    for (uint32_t k = 0; k < vi->rank; k++) {
        whole.extents[k] = vi->sizes[c.order[k]];
        whole.starts[k] = l->zero;
    }
    return copy_box(l, &c, &whole);
}

/* The node whose loop it is that `v` comes from: views do nothing. In branches the node at hand. */
static uint32_t origin_of(const lower *l, hn_value v) {
    while (!l->is_branch) {
        const hn_node producer = hn_graph_value(l->g, v)->producer;
        const hn_node_info *n = producer ? hn_graph_node(l->g, producer) : NULL;
        if (!n || n->op == HN_OP_FULL) break;
        if (hn_op_facts(n->op)->op_class != HN_OPC_VIEW) return n->origin ? n->origin : l->origin;
        v = n->args[0].as.value;
    }
    return l->origin;
}

hn_status lower_realize(lower *l, hn_value v) {
    lower_value *lv = &l->values[v];
    const uint32_t outer = l->origin;
    if (lv->buffer) return NULL;
    /* The loop is generated while `v` is still an expression. */
    lower_value as_expression = *lv;
    HN_TRY(lower_new_buffer(l, v, NULL));
    lower_value as_memory = *lv;
    *lv = as_expression;
    l->origin = origin_of(l, v);
    hn_status status = lower_copy_loop(l, v, as_memory.buffer, as_memory.offset, as_memory.strides);
    l->origin = outer;
    *lv = as_memory;
    return status;
}

hn_status lower_new_temp(lower *l, hn_dtype dtype, const hn_expr *sizes, uint32_t rank,
                         hn_buf *out) {
    hn_expr *strides, *own;
    HN_NEW(l->arena, strides, rank);
    HN_NEW(l->arena, own, rank);
    memcpy(own, sizes, rank * sizeof *own);
    hn_contiguous_strides(l->sym, own, rank, strides);
    return hn_program_add_buffer(l->p,
                                 (hn_buffer){.kind = HN_BUFFER_TEMP,
                                             .dtype = dtype,
                                             .rank = rank,
                                             .sizes = own,
                                             .strides = strides,
                                             .extent = hn_sym_product(l->sym, own, rank)},
                                 out);
}

static bool is_contiguous(lower *l, hn_value v) {
    const hn_value_info *vi = hn_graph_value(l->g, v);
    hn_expr expected[HN_MAX_RANK];
    hn_contiguous_strides(l->sym, vi->sizes, vi->rank, expected);
    for (uint32_t d = 0; d < vi->rank; d++)
        if (expected[d] != l->values[v].strides[d] && !hn_sym_is_value(l->sym, vi->sizes[d], 1))
            return false;
    return true;
}

hn_status lower_realize_contiguous(lower *l, hn_value v) {
    lower_value *lv = &l->values[v];
    if (!lv->buffer) {
        HN_TRY(lower_realize(l, v));
        if (is_contiguous(l, v)) return NULL;
    } else if (is_contiguous(l, v)) {
        return NULL;
    }
    const hn_value_info *vi = hn_graph_value(l->g, v);
    hn_expr strides[HN_MAX_RANK];
    hn_contiguous_strides(l->sym, vi->sizes, vi->rank, strides);
    return lower_realize_in(l, v, strides);
}

hn_status lower_realize_at_start(lower *l, hn_value v) {
    HN_TRY(lower_realize_contiguous(l, v));
    if (hn_sym_is_value(l->sym, l->values[v].offset, 0)) return NULL;
    return lower_realize_in(l, v, l->values[v].strides);
}

hn_status lower_realize_in(lower *l, hn_value v, const hn_expr *wanted) {
    lower_value *lv = &l->values[v];
    const hn_value_info *vi = hn_graph_value(l->g, v);
    hn_expr *strides;
    HN_NEW(l->arena, strides, vi->rank);
    memcpy(strides, wanted, vi->rank * sizeof *strides);
    hn_buffer buffer = {.kind = HN_BUFFER_TEMP,
                        .dtype = vi->dtype,
                        .rank = vi->rank,
                        .sizes = vi->sizes,
                        .strides = strides,
                        .extent = hn_strided_extent(l->sym, vi->sizes, strides, vi->rank)};
    hn_buf copy;
    HN_TRY(hn_program_add_buffer(l->p, buffer, &copy));
    HN_TRY(lower_copy_loop(l, v, copy, l->zero, strides));
    /* later readers may as well use it; an output in another layout is copied at the end */
    lv->buffer = copy;
    lv->strides = strides;
    lv->offset = l->zero;
    lv->zeros = 0;
    return NULL;
}
