/* dynamic.c: what only the data tells. A symbol is defined by an item between the loops: those
 * before it make the number, those behind it may have sizes that depend on it.
 *
 * NONZERO is three items: a reduction that counts (and fuses with what makes the mask), the
 * definition of the count, and the runtime's operation that writes the coordinates into a result of
 * exactly that size. */
#include "lower/internal.h"

static hn_status define(lower *l, hn_expr symbol, hn_buf number) {
    if (hn_sym_kind(l->sym, symbol) != HN_EXPR_SYMBOL ||
        hn_sym_symbol_kind(l->sym, symbol) != HN_SYMBOL_DATA)
        return HN_ERROR(
            HN_UNSUPPORTED,
            "a number that depends on data is recorded as something else than one symbol");
    hn_item_info item = {
        .kind = HN_ITEM_DEFINE, .origin = l->origin, .cond = number, .symbol = symbol};
    return hn_program_add_item(l->p, item);
}

static hn_status new_scalar(lower *l, hn_buffer_kind kind, hn_dtype dtype, hn_buf *out) {
    hn_buffer buffer = {.kind = kind, .dtype = dtype, .extent = l->one};
    return hn_program_add_buffer(l->p, buffer, out);
}

static hn_sid load(lower_body *b, hn_value v, const hn_expr *at, hn_dtype as) {
    hn_sid x = lower_gen(b, v, at);
    if (!x || b->body.items[x].dtype == as) return x;
    return lower_gen_sop(b, (hn_sop){.kind = HN_SOP_CAST, .dtype = as, .args = {x}});
}

/* The number of elements that are not 0, as one i64. */
static hn_status count_loop(lower *l, hn_value x, hn_buf *out) {
    const hn_value_info *xi = hn_graph_value(l->g, x);
    hn_loop loop = {.kind = HN_LOOP_REDUCE, .reduce_op = HN_OP_SUM, .red_rank = xi->rank};
    lower_loop_vars(l, &loop, xi->sizes, xi->rank);
    lower_body b;
    lower_body_init(&b, l);
    hn_sid truth = load(&b, x, loop.vars, HN_DTYPE_BOOL);
    hn_sid value =
        lower_gen_sop(&b, (hn_sop){.kind = HN_SOP_CAST, .dtype = HN_DTYPE_I64, .args = {truth}});
    if (b.failed) return b.failed;
    loop.body = b.body;
    HN_TRY(new_scalar(l, HN_BUFFER_TEMP, HN_DTYPE_I64, out));
    loop.store = (hn_loop_store){.buffer = *out, .value = value, .index = l->zero};
    hn_item item;
    return hn_program_add_loop(l->p, &loop, l->origin, &item);
}

/* x as bools, row-major. A buffer beside x when x is something else. */
static hn_status mask_of(lower *l, hn_value x, hn_buf *out, hn_expr *out_offset) {
    const hn_value_info *xi = hn_graph_value(l->g, x);
    *out_offset = l->zero;
    if (xi->dtype == HN_DTYPE_BOOL) {
        HN_TRY(lower_realize_contiguous(l, x));
        *out = l->values[x].buffer;
        *out_offset = l->values[x].offset;
        return NULL;
    }
    HN_TRY(lower_new_temp(l, HN_DTYPE_BOOL, xi->sizes, xi->rank, out));
    const hn_expr *strides = l->p->buffers.items[*out].strides;
    hn_loop loop = {.kind = HN_LOOP_POINTWISE, .rank = xi->rank};
    lower_loop_vars(l, &loop, xi->sizes, xi->rank);
    lower_body b;
    lower_body_init(&b, l);
    hn_sid value = load(&b, x, loop.vars, HN_DTYPE_BOOL);
    if (b.failed) return b.failed;
    loop.body = b.body;
    loop.store =
        (hn_loop_store){.buffer = *out,
                        .value = value,
                        .index = lower_index_linear(l, l->zero, loop.vars, strides, xi->rank)};
    hn_item item;
    return hn_program_add_loop(l->p, &loop, l->origin, &item);
}

hn_status lower_nonzero(lower *l, const hn_node_info *n) {
    hn_value x = n->args[0].as.value, v = n->results[0];
    const hn_value_info *xi = hn_graph_value(l->g, x);
    hn_expr total = hn_graph_value(l->g, v)->sizes[0], offset;
    hn_buf count, mask;
    HN_TRY(lower_realize(l, x)); /* read twice */
    HN_TRY(mask_of(l, x, &mask, &offset));
    HN_TRY(count_loop(l, x, &count));
    HN_TRY(define(l, total, count));
    hn_expr row_major[2];
    hn_contiguous_strides(l->sym, hn_graph_value(l->g, v)->sizes, 2, row_major);
    HN_TRY(lower_new_buffer(l, v, row_major)); /* an output in another layout is copied */
    hn_extern e = {
        .kind = HN_EXTERN_NONZERO, .operand_count = 2, .param_count = HN_NONZERO_PARAM_COUNT};
    e.operands[0] = (struct hn_extern_operand){
        .buffer = l->values[v].buffer, .offset_elems = l->values[v].offset, .written = true};
    e.operands[1] = (struct hn_extern_operand){.buffer = mask, .offset_elems = offset};
    for (uint32_t d = 0; d < HN_NONZERO_RANK_MAX; d++)
        e.params[HN_NONZERO_SIZES + d] = d < xi->rank ? xi->sizes[d] : l->one;
    e.params[HN_NONZERO_COUNT] = total;
    e.params[HN_NONZERO_RANK] = hn_sym_int(l->sym, xi->rank);
    hn_item item;
    return hn_program_add_extern(l->p, &e, l->origin, &item);
}

/* A number in memory of its own dtype. */
static hn_status copy_number(lower *l, hn_value x, hn_value v) {
    const hn_value_info *vi = hn_graph_value(l->g, v);
    hn_expr at[HN_MAX_RANK];
    hn_loop loop = {.kind = HN_LOOP_POINTWISE};
    lower_body b;
    lower_body_init(&b, l);
    for (uint32_t d = 0; d < HN_MAX_RANK; d++) at[d] = l->zero;
    hn_sid value = load(&b, x, at, vi->dtype);
    if (b.failed) return b.failed;
    loop.body = b.body;
    lower_value made = {.defined = true, .offset = l->zero, .loads = 1};
    bool leaves = l->output[v] && vi->kind != HN_VALUE_SYM_INT; /* an int leaves as the symbol */
    HN_TRY(new_scalar(l, leaves ? HN_BUFFER_OUTPUT : HN_BUFFER_TEMP, vi->dtype, &made.buffer));
    l->values[v] = made;
    loop.store = (hn_loop_store){.buffer = made.buffer, .value = value, .index = l->zero};
    hn_item item;
    return hn_program_add_loop(l->p, &loop, l->origin, &item);
}

hn_status lower_item(lower *l, const hn_node_info *n) {
    hn_value x = n->args[0].as.value, v = n->results[0];
    const hn_value_info *vi = hn_graph_value(l->g, v);
    /* an element of something larger, or of another dtype, becomes one of its own */
    HN_TRY(copy_number(l, x, v));
    return vi->kind == HN_VALUE_SYM_INT ? define(l, vi->expr, l->values[v].buffer) : NULL;
}
