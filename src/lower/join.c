/* join.c: several products of the same rows with different weights are one product, for targets
 * where that takes less time (hn_operation.joined): queries, keys and values of attention, say.
 *
 *   matmul(out b5, b1, b2)         matmul(out b8 [m, n2 + n3 + n4], b1, b7: b2, b3, b4 side by side)
 *   matmul(out b6, b1, b3)    ->
 *   matmul(out b7, b1, b4)         who reads b5, b6 or b7 reads columns of b8
 *
 * The weights become one constant of the program, and biases another. Requires that their bytes
 * are known. Left alone are products that are large enough by themselves, results that leave the
 * program, which would be copied, and those that the operation may end with a function
 * (sched/epilogue.c), which it does for all columns or for none. */
#include "lower/internal.h"

#include <string.h>

/* Nodes behind the first product in which others are looked for. */
enum { PARTS_MAX = 8, AHEAD = 1024 };

typedef struct join {
    hn_value a;
    hn_dtype dtype;
    uint32_t along; /* the dimension of the weights that lies side by side in memory */
    uint32_t count;
    bool has_bias;
    int64_t k, n; /* of all together */
    hn_value out[PARTS_MAX], b[PARTS_MAX], bias[PARTS_MAX];
    int64_t starts[PARTS_MAX]; /* columns */
} join;

static const hn_value_info *info(const lower *l, hn_value v) { return hn_graph_value(l->g, v); }

/* ---- what may be joined ---- */

typedef struct reading {
    hn_value of;
    uint32_t times;
} reading;

static void count_reading(void *user, hn_value v) {
    reading *r = user;
    r->times += v == r->of;
}

/* Counts element-wise ops that read `v`, seen through views and casts; an activation counts as
 * many. An activation that is spelt out (GELU) reads its value three times or more. */
static uint32_t count_elementwise(const lower *l, hn_value v) {
    uint32_t count = 0, uses = 0;
    for (hn_node k = info(l, v)->producer + 1; k < l->g->nodes.count && uses < l->uses[v]; k++) {
        const hn_node_info *n = &l->g->nodes.items[k];
        reading r = {.of = v};
        if (n->dead) continue;
        hn_node_each_value(n, count_reading, &r);
        uses += r.times;
        if (!r.times) continue;
        const hn_op_class op_class = hn_op_facts(n->op)->op_class;
        if (op_class == HN_OPC_VIEW || op_class == HN_OPC_CAST)
            count += count_elementwise(l, n->results[0]);
        else if (n->op == HN_OP_RELU || n->op == HN_OP_MAX) count += HN_MAX_RANK;
        else count += hn_op_is_elementwise(n->op);
    }
    return count;
}

static bool may_end_with_function(const lower *l, hn_value v) {
    enum { ENDS = 3 };
    return count_elementwise(l, v) >= ENDS;
}

/* Views of inputs are made before their turn; those that leave the program are not: they may be
 * copies, which are made once. */
static hn_status see_through(lower *l, hn_value v, bool *out_seen) {
    *out_seen = l->values[v].defined;
    if (*out_seen || !info(l, v)->producer) return NULL;
    const hn_node_info *n = hn_graph_node(l->g, info(l, v)->producer);
    if (hn_op_facts(n->op)->op_class != HN_OPC_VIEW || l->output[v]) return NULL;
    HN_TRY(see_through(l, n->args[0].as.value, out_seen));
    return *out_seen ? lower_view(l, n) : NULL;
}

static bool is_known(lower *l, hn_value v, uint32_t rank) {
    hn_expr strides[HN_MAX_RANK];
    if (!l->values[v].buffer || info(l, v)->rank != rank) return false;
    hn_contiguous_strides(l->sym, info(l, v)->sizes, rank, strides);
    return lower_can_relay_weight(l, v, strides);
}

/* A product with known columns, each a whole number of aligned pieces. */
static bool is_small(lower *l, const hn_operation *o, const hn_node_info *n, int64_t *out_k,
                     int64_t *out_n) {
    const hn_value_info *out = info(l, n->results[0]), *a = info(l, n->args[0].as.value);
    const int64_t unit = o->row_bytes / (int64_t)hn_dtype_facts(out->dtype)->size_bytes;
    return out->rank == 2 && a->rank == 2 && hn_sym_is_int(l->sym, a->sizes[1], out_k) &&
           hn_sym_is_int(l->sym, out->sizes[1], out_n) && *out_k > 0 && *out_n > 0 &&
           *out_k % unit == 0 && *out_n % unit == 0 &&
           lower_product_flops(l, n) <= o->joined_max_flops;
}

static void put_part(join *j, const hn_node_info *n, int64_t columns, hn_value bias) {
    j->out[j->count] = n->results[0];
    j->b[j->count] = n->args[1].as.value;
    j->bias[j->count] = bias;
    j->starts[j->count] = j->n;
    j->has_bias |= bias != 0;
    j->n += columns;
    j->count++;
}

/* Adds product `n`, if it is one to be joined. */
static hn_status add_part(lower *l, const hn_operation *o, join *j, const hn_node_info *n) {
    const hn_value b = n->args[1].as.value,
                   bias = n->args[2].kind == HN_ARG_VALUE ? n->args[2].as.value : 0;
    int64_t columns;
    bool seen, bias_seen = true;
    if (l->values[n->results[0]].defined || info(l, n->results[0])->dtype != j->dtype ||
        !is_small(l, o, n, &j->k, &columns) || lower_leaves(l, n->results[0]) ||
        may_end_with_function(l, n->results[0]))
        return NULL;
    HN_TRY(see_through(l, b, &seen));
    if (bias) HN_TRY(see_through(l, bias, &bias_seen));
    if (!seen || !bias_seen || !is_known(l, b, 2) || (bias && !is_known(l, bias, 1))) return NULL;
    if (bias && !hn_sym_is_value(l->sym, info(l, bias)->sizes[0], columns)) return NULL;
    const uint32_t along = hn_sym_is_value(l->sym, l->values[b].strides[0], 1) ? 0 : 1;
    if (j->count && along != j->along) return NULL;
    j->along = along;
    put_part(j, n, columns, bias);
    return NULL;
}

/* `first` and those behind it that read the same. */
static hn_status find_parts(lower *l, const hn_operation *o, const hn_node_info *first, join *j) {
    const hn_node at = info(l, first->results[0])->producer;
    HN_TRY(add_part(l, o, j, first));
    for (hn_node k = at + 1; j->count && k < l->g->nodes.count && k - at < AHEAD; k++) {
        const hn_node_info *n = &l->g->nodes.items[k];
        if (n->dead || n->op != HN_OP_MATMUL || n->args[0].as.value != j->a) continue;
        if (j->count < PARTS_MAX) HN_TRY(add_part(l, o, j, n));
    }
    return NULL;
}

/* ---- joining ---- */

static hn_status join_weights(lower *l, const join *j, hn_buf *out_b, hn_expr *out_strides) {
    const hn_expr sizes[2] = {hn_sym_int(l->sym, j->k), hn_sym_int(l->sym, j->n)};
    int64_t offsets[PARTS_MAX];
    out_strides[0] = j->along == 0 ? l->one : sizes[1];
    out_strides[1] = j->along == 0 ? sizes[0] : l->one;
    for (uint32_t k = 0; k < j->count; k++)
        offsets[k] = j->along == 0 ? j->starts[k] * j->k : j->starts[k];
    return lower_join_weights(l,
                              &(lower_joint){.dtype = j->dtype,
                                             .rank = 2,
                                             .count = j->count,
                                             .sizes = sizes,
                                             .strides = out_strides,
                                             .parts = j->b,
                                             .offsets = offsets},
                              out_b);
}

static hn_status join_biases(lower *l, const join *j, hn_buf *out) {
    const hn_expr size = hn_sym_int(l->sym, j->n);
    return lower_join_weights(l,
                              &(lower_joint){.dtype = j->dtype,
                                             .rank = 1,
                                             .count = j->count,
                                             .sizes = &size,
                                             .strides = &l->one,
                                             .parts = j->bias,
                                             .offsets = j->starts},
                              out);
}

/* Memory for all results, and the columns of it that each one is. */
static hn_status make_results(lower *l, const join *j, hn_buf *out) {
    hn_expr *sizes, *strides;
    HN_NEW(l->arena, sizes, 2);
    HN_NEW(l->arena, strides, 2);
    sizes[0] = info(l, j->a)->sizes[0];
    sizes[1] = hn_sym_int(l->sym, j->n);
    hn_contiguous_strides(l->sym, sizes, 2, strides);
    hn_buffer buffer = {.kind = HN_BUFFER_TEMP,
                        .dtype = j->dtype,
                        .rank = 2,
                        .sizes = sizes,
                        .strides = strides,
                        .extent = hn_strided_extent(l->sym, sizes, strides, 2)};
    HN_TRY(hn_program_add_buffer(l->p, buffer, out));
    for (uint32_t k = 0; k < j->count; k++)
        l->values[j->out[k]] = (lower_value){.defined = true,
                                             .buffer = *out,
                                             .strides = strides,
                                             .offset = hn_sym_int(l->sym, j->starts[k]),
                                             .loads = 1};
    return NULL;
}

static hn_status add_call(lower *l, const join *j, hn_buf b, const hn_expr *b_strides,
                          hn_buf bias) {
    hn_buf out;
    hn_item item;
    const lower_value *a = &l->values[j->a];
    HN_TRY(make_results(l, j, &out));
    hn_extern e = {.kind = HN_EXTERN_MATMUL,
                   .operand_count = 5,
                   .operands = {{out, l->zero, true},
                                {a->buffer, a->offset, false},
                                {b, l->zero, false},
                                {bias, bias ? l->zero : 0, false}},
                   .param_count = HN_MATMUL_PARAM_COUNT};
    for (uint32_t k = 0; k < HN_MATMUL_PARAM_COUNT; k++) e.params[k] = l->zero;
    for (uint32_t k = 0; k < HN_EXTERN_BATCH; k++) e.params[HN_MATMUL_BATCH + k] = l->one;
    e.params[HN_MATMUL_M] = info(l, j->a)->sizes[0];
    e.params[HN_MATMUL_N] = hn_sym_int(l->sym, j->n);
    e.params[HN_MATMUL_K] = hn_sym_int(l->sym, j->k);
    memcpy(&e.params[HN_MATMUL_A + HN_EXTERN_BATCH], a->strides, 2 * sizeof *e.params);
    memcpy(&e.params[HN_MATMUL_B + HN_EXTERN_BATCH], b_strides, 2 * sizeof *e.params);
    e.params[HN_MATMUL_OUT + HN_EXTERN_BATCH] = e.params[HN_MATMUL_N];
    e.params[HN_MATMUL_OUT + HN_EXTERN_BATCH + 1] = l->one;
    if (bias) e.params[HN_MATMUL_BIAS + HN_EXTERN_BATCH + 1] = l->one;
    e.params[HN_MATMUL_B_CONSTANT] = l->one;
    HN_TRY(lower_call_loops(l, &e));
    return hn_program_add_extern(l->p, &e, l->origin, &item);
}

hn_status lower_join_products(lower *l, const hn_node_info *n, bool *out_done) {
    const hn_operation *o = l->operations ? &l->operations->of[HN_EXTERN_MATMUL] : NULL;
    join j = {.a = n->args[0].as.value, .dtype = info(l, n->results[0])->dtype};
    hn_expr b_strides[2];
    hn_buf b, bias = 0;
    *out_done = l->values[n->results[0]].defined;
    if (*out_done || !o || !(o->joined >> j.dtype & 1) || l->uses[j.a] < 2) return NULL;
    HN_TRY(find_parts(l, o, n, &j));
    if (j.count < 2) return NULL;
    HN_TRY(join_weights(l, &j, &b, b_strides));
    if (b && j.has_bias) HN_TRY(join_biases(l, &j, &bias));
    if (!b || (j.has_bias && !bias)) return NULL;
    HN_TRY(lower_realize(l, j.a));
    *out_done = true;
    return add_call(l, &j, b, b_strides, bias);
}
