/* scatter.c: lowering of scatters and index_put: each element of a tensor is put where an index from
 * data says, into a copy of another tensor.
 *
 * Most are loops (HN_LOOP_SCATTER). Two kinds are not. A scatter of one element into each row of a
 * constant is a select. And where results must have the same bits each time, threads that share out
 * a loop each look at all indices (kernel/gpu_scatter.c): where there are many, that takes far
 * longer than sorting them. Then the places of elements, or of whole rows, and their values are
 * stored, places are sorted, and an operation combines the values of each place in their order
 * (HN_EXTERN_COMBINE_SORTED). */
#include "lower/internal.h"

#include "ir/check.h"

#include <math.h>
#include <string.h>

_Static_assert((int)HN_STORE_SET == HN_COMBINE_SET && (int)HN_STORE_ADD == HN_COMBINE_ADD &&
                   (int)HN_STORE_MUL == HN_COMBINE_MUL && (int)HN_STORE_MIN == HN_COMBINE_MIN &&
                   (int)HN_STORE_MAX == HN_COMBINE_MAX,
               "modes of loops and of calls have the same numbers");

static hn_store_mode store_mode(hn_str mode) {
    if (hn_str_eq(mode, HN_STR("add"))) return HN_STORE_ADD;
    if (hn_str_eq(mode, HN_STR("mul"))) return HN_STORE_MUL;
    if (hn_str_eq(mode, HN_STR("min"))) return HN_STORE_MIN;
    if (hn_str_eq(mode, HN_STR("max"))) return HN_STORE_MAX;
    return HN_STORE_SET;
}

/* A fresh copy of x as the memory of v; in place, where nothing else wants x. */
static hn_status copy_into(lower *l, hn_value x, hn_value v) {
    if (l->in_place && l->in_place[v] && l->values[x].buffer) {
        l->values[v] = l->values[x];
        return NULL;
    }
    HN_TRY(lower_new_buffer(l, v, NULL));
    lower_value lv = l->values[v];
    return lower_copy_loop(l, x, lv.buffer, lv.offset, lv.strides);
}

/* Into each row along `dim` of a constant goes one element: the gradient of a cross entropy, or
 * one-hot vectors. */
static bool is_select(const lower *l, const hn_node_info *n) {
    const hn_value x = n->args[0].as.value;
    const hn_value_info *xi = hn_graph_value(l->g, x),
                        *ii = hn_graph_value(l->g, n->args[1].as.value);
    const uint32_t dim = (uint32_t)lower_int(l, &n->args[3]);
    const hn_str mode = n->args[4].as.s;
    const bool adds = hn_str_eq(mode, HN_STR("add")) && xi->dtype != HN_DTYPE_BOOL;
    if (!xi->rank || l->values[x].buffer || l->values[x].loads ||
        (!adds && !hn_str_eq(mode, HN_STR("set"))) || !hn_sym_is_value(l->sym, ii->sizes[dim], 1))
        return false;
    for (uint32_t d = 0; d < xi->rank; d++)
        if (d != dim && !hn_sizes_agree(l->g, ii->sizes[d], xi->sizes[d])) return false;
    return true;
}

/* The indices are checked in a loop of their own, whatever is read of the result; then they are
 * compared with the position, where it is read. */
static hn_status lower_select(lower *l, const hn_node_info *n) {
    const hn_value index = n->args[1].as.value;
    const hn_value_info *ii = hn_graph_value(l->g, index),
                        *xi = hn_graph_value(l->g, n->args[0].as.value);
    lower_value *lv = &l->values[n->results[0]];
    hn_loop loop = {.kind = HN_LOOP_POINTWISE, .rank = ii->rank};
    lower_loop_vars(l, &loop, ii->sizes, ii->rank);
    lower_body b;
    lower_body_init(&b, l);
    const hn_expr at = lower_gen_indirect(&b, n, lower_gen(&b, index, loop.vars),
                                          xi->sizes[lower_int(l, &n->args[3])], false);
    const hn_sid value =
        lower_gen_sop(&b, (hn_sop){.kind = HN_SOP_INDEX, .dtype = HN_DTYPE_I64, .index = at});
    if (b.failed) return b.failed;
    HN_TRY(lower_new_temp(l, HN_DTYPE_I64, ii->sizes, ii->rank, &lv->chosen));
    const hn_expr *strides = l->p->buffers.items[lv->chosen].strides;
    loop.body = b.body;
    loop.store =
        (hn_loop_store){.buffer = lv->chosen,
                        .value = value,
                        .index = lower_index_linear(l, l->zero, loop.vars, strides, ii->rank)};
    hn_item item;
    HN_TRY(hn_program_add_loop(l->p, &loop, l->origin, &item));
    l->p->scatters_selected++;
    return lower_expression(l, n);
}

/* ---- what is put ---- */

typedef struct scattered {
    const hn_node_info *node;
    hn_value x, v;   /* into a copy of x, which v is */
    hn_value values; /* where they come from */
    hn_store_mode mode;
    uint32_t rank;
    hn_expr extents[HN_MAX_RANK]; /* of the elements that are put */
    /* elements that differ in other dimensions never have the same place */
    bool may_meet[HN_MAX_RANK];
    uint32_t
        row_rank; /* how many of the last dimensions no index decides: of rows; 0: of scatter */
    /* The place in v, and the value, of the element `vars`. */
    void (*place)(lower_body *b, const struct scattered *p, const hn_expr *vars, hn_expr *out);
    hn_sid (*value)(lower_body *b, const struct scattered *p, const hn_expr *vars);
} scattered;

static hn_status put_by_loop(lower *l, const scattered *p) {
    hn_expr at[HN_MAX_RANK];
    HN_TRY(copy_into(l, p->x, p->v));
    hn_loop loop = {.kind = HN_LOOP_SCATTER, .rank = p->rank};
    lower_loop_vars(l, &loop, p->extents, p->rank);
    lower_body b;
    lower_body_init(&b, l);
    p->place(&b, p, loop.vars, at);
    const hn_sid value = p->value(&b, p, loop.vars);
    if (b.failed) return b.failed;
    loop.body = b.body;
    loop.store = lower_store_at(l, p->v, at, hn_graph_value(l->g, p->x)->rank, value);
    loop.store.mode = p->mode;
    hn_item item;
    return hn_program_add_loop(l->p, &loop, l->origin, &item);
}

/* ---- by sorting ---- */

/* Measured on an H200: a look at an index, of threads that share out a scatter (8,192 indices of
 * 1,024 columns, 0.94 ms; gpu_scatter.c, which compares layouts with each other, expects less); for
 * each place to sort, and for each element to combine; all launches. */
static const double look_ns = 100, sorted_ns = 0.15, combined_ns = 0.01, launches_ns = 60e3;

/* Rows of fewer elements are sorted element by element: a lane of combine_rows.cu has columns, so
 * that most would be idle. And what a size counts as that has no hint. */
enum { COLUMNS_MIN = 16, UNKNOWN = 1024 };

static double hint_of(const lower *l, const hn_expr *sizes, uint32_t count) {
    double product = 1;
    for (uint32_t d = 0; d < count; d++) product *= (double)hn_sym_hint(l->sym, sizes[d], UNKNOWN);
    return product;
}

/* How many of the last dimensions are the columns of rows that are put as a whole. */
static uint32_t column_rank(const lower *l, const scattered *p) {
    const hn_expr *columns = p->extents + p->rank - p->row_rank;
    return hint_of(l, columns, p->row_rank) >= COLUMNS_MIN ? p->row_rank : 0;
}

static bool pays_to_sort(const lower *l, const scattered *p) {
    const uint32_t places_rank = p->rank - column_rank(l, p);
    const double places = hint_of(l, p->extents, places_rank);
    double looks = 1;
    for (uint32_t d = 0; d < p->rank; d++)
        if (p->may_meet[d]) looks *= hint_of(l, &p->extents[d], 1);
    return looks * look_ns >
           launches_ns + places * sorted_ns + hint_of(l, p->extents, p->rank) * combined_ns;
}

/* Whole numbers come out the same in whatever order they are combined. */
static bool order_counts(const scattered *p, hn_dtype dtype) {
    return p->mode == HN_STORE_SET || hn_dtype_is_float(dtype);
}

/* A sort on a GPU numbers elements with 32 bits; where the count is known in the run only, it fails
 * there. */
static bool fits_sort(const lower *l, const scattered *p) {
    int64_t count;
    const uint32_t rank = p->rank - column_rank(l, p);
    return !hn_sym_is_int(l->sym, hn_sym_product(l->sym, p->extents, rank), &count) ||
           count <= UINT32_MAX;
}

static bool is_sorted(lower *l, const scattered *p) {
    return l->deterministic && l->operations && l->operations->sorts_scatters && fits_sort(l, p) &&
           !(l->in_place && l->in_place[p->v]) && /* the combination writes other memory */
           order_counts(p, hn_graph_value(l->g, p->v)->dtype) && pays_to_sort(l, p) &&
           hn_limit_allows(l->limit, "places of a scatter are sorted (scatter.c)", p->node->origin,
                           0);
}

/* The place of an element, or of a row with `columns` dimensions: its number in v, row-major. */
static hn_sid place_of(lower_body *b, const scattered *p, const hn_expr *vars, uint32_t columns,
                       hn_dtype dtype) {
    lower *l = b->l;
    const hn_value_info *vi = hn_graph_value(l->g, p->v);
    const uint32_t rank = vi->rank - columns;
    hn_expr at[HN_MAX_RANK], strides[HN_MAX_RANK];
    p->place(b, p, vars, at);
    hn_contiguous_strides(l->sym, vi->sizes, rank, strides);
    const hn_sid place =
        lower_gen_sop(b, (hn_sop){.kind = HN_SOP_INDEX,
                                  .dtype = HN_DTYPE_I64,
                                  .index = lower_index_linear(l, l->zero, at, strides, rank)});
    if (dtype == HN_DTYPE_I64) return place;
    return lower_gen_sop(b, (hn_sop){.kind = HN_SOP_CAST, .dtype = dtype, .args = {place}});
}

/* A new list of places, of rows with `columns` dimensions, or of values. */
static hn_status list_of(lower *l, const scattered *p, hn_dtype dtype, bool is_of_places,
                         uint32_t columns, hn_buf *out) {
    const uint32_t rank = p->rank - (is_of_places ? columns : 0);
    HN_TRY(lower_new_temp(l, dtype, p->extents, rank, out));
    hn_loop loop = {.kind = HN_LOOP_POINTWISE, .rank = rank};
    lower_loop_vars(l, &loop, p->extents, rank);
    lower_body b;
    lower_body_init(&b, l);
    const hn_sid value =
        is_of_places ? place_of(&b, p, loop.vars, columns, dtype) : p->value(&b, p, loop.vars);
    if (b.failed) return b.failed;
    loop.body = b.body;
    loop.store =
        (hn_loop_store){.buffer = *out,
                        .value = value,
                        .index = lower_index_linear(l, l->zero, loop.vars,
                                                    l->p->buffers.items[*out].strides, rank)};
    hn_item item;
    return hn_program_add_loop(l->p, &loop, l->origin, &item);
}

/* The values as they are, where they are memory side by side; else a new list. */
static hn_status values_of(lower *l, const scattered *p, hn_buf *out) {
    const hn_value_info *vi = hn_graph_value(l->g, p->values);
    bool is_whole = vi->rank == p->rank;
    for (uint32_t d = 0; d < vi->rank && is_whole; d++)
        is_whole = hn_sizes_agree(l->g, vi->sizes[d], p->extents[d]);
    if (!is_whole) return list_of(l, p, vi->dtype, false, 0, out);
    HN_TRY(lower_realize_at_start(l, p->values));
    *out = l->values[p->values].buffer;
    return NULL;
}

static hn_status add_call(lower *l, hn_extern_kind kind, const hn_buf *buffers, uint32_t written,
                          uint32_t operands, const hn_expr *params, uint32_t param_count) {
    hn_extern e = {.kind = kind, .operand_count = operands, .param_count = param_count};
    for (uint32_t k = 0; k < operands; k++)
        if (buffers[k])
            e.operands[k] = (struct hn_extern_operand){
                .buffer = buffers[k], .offset_elems = l->zero, .written = k < written};
    memcpy(e.params, params, param_count * sizeof *params);
    hn_item item;
    return hn_program_add_extern(l->p, &e, l->origin, &item);
}

/* Places of a sort of 32 bits take half as long. */
static hn_dtype dtype_of_places(const lower *l, hn_expr places) {
    int64_t count;
    return hn_sym_is_int(l->sym, places, &count) && count <= INT32_MAX ? HN_DTYPE_I32
                                                                       : HN_DTYPE_I64;
}

static hn_status sort_places(lower *l, hn_expr count, hn_buf place, hn_buf sorted, hn_buf order) {
    const hn_expr params[HN_SORT_PARAM_COUNT] = {
        [HN_SORT_OUTER] = l->one,       [HN_SORT_N] = count,
        [HN_SORT_INNER] = l->one,       [HN_SORT_K] = count,
        [HN_SORT_DESCENDING] = l->zero, [HN_SORT_STABLE] = l->one};
    return add_call(l, HN_EXTERN_SORT, (const hn_buf[]){sorted, order, place}, 2, 3, params,
                    HN_SORT_PARAM_COUNT);
}

static bool is_zero(const lower *l, hn_value x) {
    const hn_node producer = hn_graph_value(l->g, x)->producer;
    const hn_node_info *n = producer ? hn_graph_node(l->g, producer) : NULL;
    if (!n || n->op != HN_OP_FULL) return false;
    const hn_arg *value = &n->args[0];
    return value->kind == HN_ARG_INT     ? hn_sym_is_value(l->sym, value->as.expr, 0)
           : value->kind == HN_ARG_FLOAT ? value->as.f == 0 && !signbit(value->as.f)
                                         : false;
}

static hn_status put_by_sorting(lower *l, const scattered *p) {
    const hn_value_info *vi = hn_graph_value(l->g, p->v);
    const uint32_t columns = column_rank(l, p), list_rank = p->rank - columns;
    const hn_expr count = hn_sym_product(l->sym, p->extents, list_rank),
                  places = hn_sym_product(l->sym, vi->sizes, vi->rank - columns);
    const hn_dtype dtype = dtype_of_places(l, places);
    hn_buf place, value, sorted, order, x = 0;
    hn_expr row_major[HN_MAX_RANK];
    if (!is_zero(l, p->x)) {
        HN_TRY(lower_realize_at_start(l, p->x));
        x = l->values[p->x].buffer;
    }
    HN_TRY(list_of(l, p, dtype, true, columns, &place));
    HN_TRY(values_of(l, p, &value));
    HN_TRY(lower_new_temp(l, dtype, p->extents, list_rank, &sorted));
    HN_TRY(lower_new_temp(l, HN_DTYPE_I64, p->extents, list_rank, &order));
    HN_TRY(sort_places(l, count, place, sorted, order));
    hn_contiguous_strides(l->sym, vi->sizes, vi->rank, row_major);
    HN_TRY(lower_new_buffer(l, p->v, row_major)); /* an output in another layout is copied */
    const hn_expr params[HN_COMBINE_PARAM_COUNT] = {
        [HN_COMBINE_PLACES] = places,
        [HN_COMBINE_COLUMNS] = hn_sym_product(l->sym, p->extents + list_rank, columns),
        [HN_COMBINE_N] = count,
        [HN_COMBINE_MODE] = hn_sym_int(l->sym, (int64_t)p->mode)};
    const hn_buf operands[] = {l->values[p->v].buffer, sorted, order, value, x};
    return add_call(l, HN_EXTERN_COMBINE_SORTED, operands, 1, 5, params, HN_COMBINE_PARAM_COUNT);
}

static hn_status put(lower *l, const scattered *p) {
    return is_sorted(l, p) ? put_by_sorting(l, p) : put_by_loop(l, p);
}

/* ---- scatter ---- */

static void scatter_place(lower_body *b, const scattered *p, const hn_expr *vars, hn_expr *out) {
    const hn_node_info *n = p->node;
    const hn_value_info *xi = hn_graph_value(b->l->g, p->x);
    const uint32_t dim = (uint32_t)lower_int(b->l, &n->args[3]);
    const hn_sid index = lower_gen(b, n->args[1].as.value, vars);
    memcpy(out, vars, HN_MAX_RANK * sizeof *out);
    if (xi->rank) out[dim] = lower_gen_indirect(b, n, index, xi->sizes[dim], false);
}

static hn_sid scatter_value(lower_body *b, const scattered *p, const hn_expr *vars) {
    return lower_gen(b, p->values, vars);
}

hn_status lower_scatter(lower *l, const hn_node_info *n) {
    const hn_value_info *ii = hn_graph_value(l->g, n->args[1].as.value);
    scattered p = {.node = n,
                   .x = n->args[0].as.value,
                   .v = n->results[0],
                   .values = n->args[2].as.value,
                   .mode = store_mode(n->args[4].as.s),
                   .rank = ii->rank,
                   .place = scatter_place,
                   .value = scatter_value};
    if (is_select(l, n)) return lower_select(l, n);
    memcpy(p.extents, ii->sizes, ii->rank * sizeof *p.extents);
    if (ii->rank) p.may_meet[lower_int(l, &n->args[3])] = true;
    return put(l, &p);
}

/* ---- index_put ---- */

static uint32_t rank_of_indices(const lower *l, const hn_arg *indices) {
    return indices->count ? hn_graph_value(l->g, indices->as.values[0])->rank : 0;
}

static void index_put_place(lower_body *b, const scattered *p, const hn_expr *vars, hn_expr *out) {
    const hn_node_info *n = p->node;
    const hn_arg *indices = &n->args[1];
    const hn_value_info *xi = hn_graph_value(b->l->g, p->x);
    for (uint32_t k = 0; k < indices->count; k++) {
        const hn_sid index = lower_gen(b, indices->as.values[k], vars);
        out[k] = lower_gen_indirect(b, n, index, xi->sizes[k], n->args[4].as.b);
    }
    for (uint32_t d = indices->count; d < xi->rank; d++)
        out[d] = vars[rank_of_indices(b->l, indices) + d - indices->count];
}

/* Values repeat along dimensions that they do not have, or have once. */
static hn_sid index_put_value(lower_body *b, const scattered *p, const hn_expr *vars) {
    const hn_value_info *vi = hn_graph_value(b->l->g, p->values);
    hn_expr at[HN_MAX_RANK];
    for (uint32_t d = 0; d < vi->rank; d++)
        at[d] =
            hn_sym_is_value(b->l->sym, vi->sizes[d], 1) ? b->l->zero : vars[p->rank - vi->rank + d];
    return lower_gen(b, p->values, at);
}

hn_status lower_index_put(lower *l, const hn_node_info *n) {
    const hn_arg *indices = &n->args[1];
    const hn_value_info *xi = hn_graph_value(l->g, n->args[0].as.value);
    const uint32_t index_rank = rank_of_indices(l, indices);
    scattered p = {.node = n,
                   .x = n->args[0].as.value,
                   .v = n->results[0],
                   .values = n->args[2].as.value,
                   .mode = store_mode(n->args[3].as.s),
                   .rank = index_rank + xi->rank - indices->count,
                   .row_rank = xi->rank - indices->count,
                   .place = index_put_place,
                   .value = index_put_value};
    for (uint32_t d = 0; d < p.rank; d++) {
        p.may_meet[d] = d < index_rank;
        p.extents[d] = p.may_meet[d] ? hn_graph_value(l->g, indices->as.values[0])->sizes[d]
                                     : xi->sizes[indices->count + d - index_rank];
    }
    return put(l, &p);
}
