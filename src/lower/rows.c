/* rows.c: products with a result of odd rows, for targets whose products are slow then
 * (hn_operation.row_bytes): a row that is no multiple of 16 bytes begins at an odd address, and the
 * library has fast kernels for numbers of columns that are such a multiple only. The result gets
 * longer rows, the product computes the columns that are a multiple, and a loop the few others:
 *
 *   matmul(out b3 [1024, 50257], b1, b2)   ->   matmul(out b4 [1024, 50256 of 50304], b1, b2)
 *                                               reduce sum: b4[.., 50256] = b1 * b2[.., 50256]
 *                                               pointwise: b3 = b4, where b3 leaves the program
 *
 * This is done where the product gains more than the others take. Weights that have odd rows
 * themselves are laid out anew; other operands with odd rows, or sums of an odd length, stay as
 * they are, and so do widths that only a run knows. */
#include "lower/internal.h"

#include <string.h>

enum { LONG_ROW_LINES = 8 }; /* from so many lines on a row is a number of whole ones */

static const hn_value_info *info(const lower *l, hn_value v) { return hn_graph_value(l->g, v); }

static const hn_operation *products(const lower *l) {
    return l->operations ? &l->operations->of[HN_EXTERN_MATMUL] : NULL;
}

static int64_t elems_of(const lower *l, hn_value v, uint32_t bytes) {
    return bytes / (int64_t)hn_dtype_facts(info(l, v)->dtype)->size_bytes;
}

/* ---- one matrix ---- */

/* The length of rows along dimension `along`, with what is added; false: it is not known. */
static bool padded_length(const lower *l, hn_value v, uint32_t along, int64_t *out) {
    const hn_operation *o = products(l);
    const int64_t row = elems_of(l, v, o->row_bytes), line = elems_of(l, v, o->line_bytes);
    int64_t length;
    if (!hn_sym_is_int(l->sym, info(l, v)->sizes[along], &length) || length < 1) return false;
    const int64_t unit = length >= LONG_ROW_LINES * line ? line : row;
    *out = length % row ? (length + unit - 1) / unit * unit : length;
    return true;
}

/* Row-major but for dimension `along`, which is the innermost. */
static void strides_along(lower *l, hn_value v, uint32_t along, hn_expr *out) {
    const hn_value_info *vi = info(l, v);
    hn_expr stride = l->one;
    int64_t length;
    out[along] = stride;
    stride = padded_length(l, v, along, &length) ? hn_sym_int(l->sym, length) : vi->sizes[along];
    for (uint32_t d = vi->rank; d-- > 0;) {
        if (d == along) continue;
        out[d] = stride;
        if (d > 0) stride = hn_sym_mul(l->sym, stride, vi->sizes[d]);
    }
}

/* Along which of its dimensions the elements of a matrix in memory are neighbours; rank: none. */
static uint32_t along_of(const lower *l, hn_value v) {
    const uint32_t rank = info(l, v)->rank;
    const hn_expr *strides = l->values[v].strides;
    if (hn_sym_is_value(l->sym, strides[rank - 1], 1)) return rank - 1;
    return hn_sym_is_value(l->sym, strides[rank - 2], 1) ? rank - 2 : rank;
}

/* Whether all of a matrix's rows along `along` begin at aligned addresses. */
static bool is_aligned(const lower *l, hn_value v, uint32_t along) {
    const hn_value_info *vi = info(l, v);
    const lower_value *lv = &l->values[v];
    const int64_t unit = elems_of(l, v, products(l)->row_bytes);
    bool aligned = hn_sym_divisor(l->sym, lv->offset) % unit == 0 &&
                   hn_program_begin_of(l->p, lv->buffer) % unit == 0;
    for (uint32_t d = 0; d < vi->rank; d++)
        if (d != along && !hn_sym_is_value(l->sym, vi->sizes[d], 1))
            aligned = aligned && hn_sym_divisor(l->sym, lv->strides[d]) % unit == 0;
    return aligned;
}

/* ---- one product ---- */

static double count_of(const lower *l, hn_value v) {
    enum { UNKNOWN = 256 };
    const hn_value_info *vi = info(l, v);
    double count = 1;
    for (uint32_t d = 0; d < vi->rank; d++)
        count *= (double)hn_sym_hint(l->sym, vi->sizes[d], UNKNOWN);
    return count;
}

double lower_product_flops(const lower *l, const hn_node_info *n) {
    const hn_value_info *a = info(l, n->args[0].as.value);
    return 2 * count_of(l, n->results[0]) * (double)hn_sym_hint(l->sym, a->sizes[a->rank - 1], 1);
}

bool lower_leaves(const lower *l, hn_value v) {
    if (l->output[v]) return true;
    for (hn_node k = info(l, v)->producer + 1; k < l->g->nodes.count; k++) {
        const hn_node_info *n = &l->g->nodes.items[k];
        if (!n->dead && hn_op_facts(n->op)->op_class == HN_OPC_VIEW && n->args[0].as.value == v &&
            lower_leaves(l, n->results[0]))
            return true;
    }
    return false;
}

/* Whether the columns of `n` are better split, and how many are left over. */
static bool is_odd(const lower *l, const hn_node_info *n, int64_t *out_rest) {
    const hn_operation *o = products(l);
    const hn_value v = n->results[0], a = n->args[0].as.value;
    const hn_value_info *out = info(l, v), *ai = info(l, a);
    int64_t columns, depth;
    if (!o || !(o->dtypes & o->aligned_rows & 1u << out->dtype) ||
        !hn_sym_is_int(l->sym, out->sizes[out->rank - 1], &columns) ||
        !hn_sym_is_int(l->sym, ai->sizes[ai->rank - 1], &depth))
        return false;
    const int64_t unit = elems_of(l, v, o->row_bytes);
    *out_rest = columns % unit;
    return *out_rest && columns > unit && depth % unit == 0;
}

/* The loop of the columns that are left over is a launch, and the copy of an output another. */
static bool pays(const lower *l, const hn_node_info *n) {
    const hn_value v = n->results[0];
    const bool is_copied = lower_leaves(l, v);
    const double bytes = 2 * count_of(l, v) * hn_dtype_facts(info(l, v)->dtype)->size_bytes;
    return products(l)->pays_to_align(lower_product_flops(l, n), 1 + is_copied,
                                      is_copied ? bytes : 0);
}

/* Whether the operand is aligned, or a weight that can be; *out_along: rank where it is not. */
static bool may_align(lower *l, hn_value v, uint32_t *out_along) {
    hn_expr strides[HN_MAX_RANK];
    *out_along = along_of(l, v);
    if (*out_along == info(l, v)->rank) return false;
    if (is_aligned(l, v, *out_along)) return true;
    strides_along(l, v, *out_along, strides);
    return lower_can_relay_weight(l, v, strides);
}

static hn_status align(lower *l, hn_value v, uint32_t along) {
    hn_expr strides[HN_MAX_RANK];
    if (is_aligned(l, v, along)) return NULL;
    strides_along(l, v, along, strides);
    return lower_relay_weight(l, v, strides);
}

hn_status lower_product_memory(lower *l, const hn_node_info *n, int64_t *out_rest) {
    const hn_value v = n->results[0], a = n->args[0].as.value, b = n->args[1].as.value;
    uint32_t along_a, along_b;
    hn_expr strides[HN_MAX_RANK];
    int64_t rest;
    *out_rest = 0;
    if (!is_odd(l, n, &rest) || !pays(l, n) || !may_align(l, a, &along_a) ||
        !may_align(l, b, &along_b))
        return lower_new_buffer(l, v, NULL);
    HN_TRY(align(l, a, along_a));
    HN_TRY(align(l, b, along_b));
    strides_along(l, v, info(l, v)->rank - 1, strides);
    HN_TRY(lower_new_buffer(l, v, strides));
    l->p->buffers.items[l->values[v].buffer].kind = HN_BUFFER_TEMP; /* an output is copied */
    l->p->layouts_padded++;
    *out_rest = rest;
    return NULL;
}

/* ---- its call ---- */

/* Columns from `first` on, `count` of them. */
static void take_columns(lower *l, hn_extern *e, int64_t first, int64_t count) {
    static const struct {
        uint32_t operand, strides;
    } of[] = {{0, HN_MATMUL_OUT}, {2, HN_MATMUL_B}, {3, HN_MATMUL_BIAS}};
    for (uint32_t k = 0; k < sizeof of / sizeof *of; k++) {
        struct hn_extern_operand *o = &e->operands[of[k].operand];
        const hn_expr step = e->params[of[k].strides + HN_EXTERN_BATCH + 1];
        if (o->buffer)
            o->offset_elems = hn_sym_add(l->sym, o->offset_elems,
                                         hn_sym_mul(l->sym, step, hn_sym_int(l->sym, first)));
    }
    e->params[HN_MATMUL_N] = hn_sym_int(l->sym, count);
}

hn_status lower_product_columns(lower *l, hn_extern *e, int64_t rest) {
    hn_extern others = *e;
    hn_item item;
    int64_t columns = 0;
    if (!rest || !hn_sym_is_int(l->sym, e->params[HN_MATMUL_N], &columns)) return NULL;
    take_columns(l, e, 0, columns - rest);
    take_columns(l, &others, columns - rest, rest);
    HN_TRY(lower_loops_of(l, &others));
    for (uint32_t k = 0; k < others.loop_count; k++)
        HN_TRY(hn_program_add_loop(l->p, &others.loops[k], l->origin, &item));
    return NULL;
}
