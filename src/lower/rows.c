/* rows.c: rows of the matrices of products that begin at aligned addresses, for targets whose
 * products are much faster then (hn_operation.aligned_rows). A row of an odd number of elements
 * gets a few more, which nobody reads:
 *
 *   matmul(out b3 [1024, 50257], b1, b2)    ->   matmul(out b4 strides [50304, 1], b1, b2)
 *                                                pointwise: b3 = b4, where b3 leaves the program
 *
 * What the program computes is stored so from the beginning, weights when it is compiled, and
 * what is an input or an output is copied, if the product gains more than the copies take. Rows
 * whose length is known in the run only stay as they are.
 *
 * Any choice here is right: memory has strides, and who reads it obeys them. */
#include "lower/internal.h"

#include <string.h>

enum { LONG_ROW_LINES = 8 }; /* from so many lines on a row is a number of whole ones */

static const hn_value_info *info(const lower *l, hn_value v) { return hn_graph_value(l->g, v); }

static const hn_operation *products(const lower *l) {
    return l->operations ? &l->operations->of[HN_EXTERN_MATMUL] : NULL;
}

static bool is_wanted(const lower *l, hn_value v) {
    const hn_operation *o = products(l);
    return o && o->aligned_rows >> info(l, v)->dtype & 1;
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

void lower_padded_strides(lower *l, hn_value v, hn_expr *out) {
    strides_along(l, v, info(l, v)->rank - 1, out);
}

static bool has_odd_rows(const lower *l, hn_value v) {
    const hn_value_info *vi = info(l, v);
    int64_t length;
    return vi->rank >= 2 && padded_length(l, v, vi->rank - 1, &length) &&
           !hn_sym_is_value(l->sym, vi->sizes[vi->rank - 1], length);
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

typedef struct matrix {
    hn_value v;
    bool is_odd, is_copied; /* when it is aligned */
    hn_expr strides[HN_MAX_RANK];
} matrix;

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

/* False when nothing can align it. */
static bool read_operand(lower *l, hn_value v, matrix *out) {
    const uint32_t along = along_of(l, v);
    int64_t length;
    *out = (matrix){.v = v};
    if (along == info(l, v)->rank || !padded_length(l, v, along, &length)) return false;
    out->is_odd = !is_aligned(l, v, along);
    if (!out->is_odd) return true;
    strides_along(l, v, along, out->strides);
    out->is_copied = !lower_can_relay_weight(l, v, out->strides);
    return true;
}

static void read_result(lower *l, hn_value v, matrix *out) {
    *out = (matrix){.v = v, .is_odd = has_odd_rows(l, v)};
    out->is_copied = out->is_odd && lower_leaves(l, v);
    lower_padded_strides(l, v, out->strides);
}

static bool pays(const lower *l, const hn_node_info *n, const matrix *of, uint32_t count) {
    uint32_t copies = 0;
    double bytes = 0;
    bool any = false;
    for (uint32_t k = 0; k < count; k++) {
        any |= of[k].is_odd;
        if (!of[k].is_copied) continue;
        copies++;
        bytes += 2 * count_of(l, of[k].v) * hn_dtype_facts(info(l, of[k].v)->dtype)->size_bytes;
    }
    return any && products(l)->pays_to_align(lower_product_flops(l, n), copies, bytes);
}

static hn_status align_operand(lower *l, const matrix *m) {
    if (!m->is_odd) return NULL;
    HN_TRY(lower_relay_weight(l, m->v, m->strides));
    return is_aligned(l, m->v, along_of(l, m->v)) ? NULL : lower_realize_in(l, m->v, m->strides);
}

hn_status lower_product_memory(lower *l, const hn_node_info *n) {
    enum { A, B, OUT, COUNT };
    const hn_value v = n->results[0];
    matrix of[COUNT];
    if (!is_wanted(l, v) || !read_operand(l, n->args[0].as.value, &of[A]) ||
        !read_operand(l, n->args[1].as.value, &of[B]))
        return lower_new_buffer(l, v, NULL);
    read_result(l, v, &of[OUT]);
    if (!pays(l, n, of, COUNT)) return lower_new_buffer(l, v, NULL);
    HN_TRY(align_operand(l, &of[A]));
    HN_TRY(align_operand(l, &of[B]));
    if (!of[OUT].is_odd) return lower_new_buffer(l, v, NULL);
    HN_TRY(lower_new_buffer(l, v, of[OUT].strides));
    l->p->buffers.items[l->values[v].buffer].kind = HN_BUFFER_TEMP; /* an output is copied */
    return NULL;
}

/* ---- operands that the program computes ---- */

/* Loops that store wherever the strides say. */
static bool is_stored_anyhow(hn_op op) {
    return hn_op_is_elementwise(op) || hn_op_facts(op)->op_class == HN_OPC_REDUCE ||
           op == HN_OP_CAT || op == HN_OP_MATMUL;
}

/* `v`, or what it is a view of, gets longer rows when it becomes memory. */
static void mark_operand(lower *l, hn_value v) {
    const hn_value_info *vi = info(l, v);
    if (vi->kind != HN_VALUE_TENSOR || !vi->producer || l->output[v]) return;
    const hn_node_info *n = hn_graph_node(l->g, vi->producer);
    const bool is_view = n->op == HN_OP_RESHAPE || n->op == HN_OP_PERMUTE || n->op == HN_OP_EXPAND;
    if ((is_view || is_stored_anyhow(n->op)) && has_odd_rows(l, v)) l->padded_rows[v] = true;
    if (is_view) mark_operand(l, n->args[0].as.value);
}

hn_status lower_mark_rows(lower *l) {
    const hn_operation *o = products(l);
    if (!o || !o->aligned_rows) return NULL;
    HN_NEW(l->scratch, l->padded_rows, l->g->values.count);
    for (hn_node k = 1; k < l->g->nodes.count; k++) {
        const hn_node_info *n = &l->g->nodes.items[k];
        if (n->dead || n->op != HN_OP_MATMUL || !is_wanted(l, n->results[0]) ||
            !o->pays_to_align(lower_product_flops(l, n), 0, 0))
            continue;
        mark_operand(l, n->args[0].as.value);
        mark_operand(l, n->args[1].as.value);
    }
    return NULL;
}
