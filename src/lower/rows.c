/* rows.c: products whose sizes are odd, for targets whose products are slow then. Odd is here what
 * is no multiple of 16 bytes (hn_operation.row_bytes): the library has fast kernels only where the
 * length of each row in memory is such a multiple.
 *
 * Columns: the product computes as many as are a multiple, into longer rows. A loop computes the
 * others.
 *
 *   matmul(out b3 [1024, 50257], b1, b2)   ->   matmul(out b4 [1024, 50256 of 50304], b1, b2)
 *                                               reduce sum: b4[.., 50256] = b1 * b2[.., 50256]
 *                                               pointwise: b3 = b4, where b3 leaves the program
 *
 * Rows: the same, where they are neighbours in the memory of the first operand.
 *
 * The length of the sum: both operands get zeros at its end (longer.c). A weight gets columns of
 * zeros at the same time, and so does the bias: then no loop is needed.
 *
 *   matmul(b1 [333, 1023], w [1023, 776])   ->   pointwise: b4 [333, 1024] = b1, or 0
 *                                                matmul(b4, w' [1024, 776])
 *
 * Operands whose rows begin at odd addresses are copied.
 *
 * All this is done only where it saves more time than the loops and copies take. A weight costs
 * nothing: it is laid out anew when the program is loaded. Nor does an expression that only the
 * product reads: it is written to the new memory. An expression that others read, too, gets longer
 * rows from the beginning, with zeros behind them (lower_rows). Sizes that only a run knows are
 * left as they are. */
#include "lower/internal.h"

enum { LONG_ROW_LINES = 8 }; /* from so many lines on a row is a number of whole ones */

/* One operand. */
typedef struct side {
    hn_value v;
    uint32_t summed, along; /* dimensions: of the sum; the innermost in memory */
    bool is_anew;           /* gets other memory, described by `how` */
    bool is_weight;         /* that memory is made when the program is loaded */
    bool is_free;           /* it costs no time in a run */
    lower_longer how;
} side;

typedef struct plan {
    side a, b;
    int64_t depth;                 /* of the sum, with zeros */
    bool is_deeper;                /* it has zeros */
    int64_t columns;               /* of the weight, with zeros; 0: it has none */
    lower_longer bias;             /* likewise */
    int64_t few_rows, few_columns; /* the last ones, for loops */
} plan;

static const hn_value_info *info(const lower *l, hn_value v) { return hn_graph_value(l->g, v); }

static const hn_operation *products(const lower *l) {
    return l->operations ? &l->operations->of[HN_EXTERN_MATMUL] : NULL;
}

static int64_t elems_of(const lower *l, hn_value v, uint32_t bytes) {
    return bytes / (int64_t)hn_dtype_facts(info(l, v)->dtype)->size_bytes;
}

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/* ---- one matrix ---- */

/* Elements from one row of `length` to the next. */
static int64_t row_of(const lower *l, hn_value v, int64_t length) {
    const hn_operation *o = products(l);
    const int64_t unit = elems_of(l, v, o->row_bytes), line = elems_of(l, v, o->line_bytes);
    if (length % unit == 0) return length;
    return round_up(length, length >= LONG_ROW_LINES * line ? line : unit);
}

/* Along which of its dimensions the elements of a matrix are neighbours; rank: none. */
static uint32_t along_of(const lower *l, hn_value v) {
    const uint32_t rank = info(l, v)->rank;
    const hn_expr *strides = l->values[v].strides;
    if (!l->values[v].buffer || hn_sym_is_value(l->sym, strides[rank - 1], 1)) return rank - 1;
    return hn_sym_is_value(l->sym, strides[rank - 2], 1) ? rank - 2 : rank;
}

/* Whether all of a matrix's rows along `along` begin at aligned addresses, or will. */
static bool is_aligned(const lower *l, hn_value v, uint32_t along) {
    const hn_value_info *vi = info(l, v);
    const lower_value *lv = &l->values[v];
    const int64_t unit = elems_of(l, v, products(l)->row_bytes);
    if (!lv->buffer) return hn_sym_divisor(l->sym, vi->sizes[along]) % unit == 0;
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

/* The size of a dimension, at least 1; false: only a run knows it. */
static bool read_size(const lower *l, hn_value v, uint32_t d, int64_t *out) {
    return hn_sym_is_int(l->sym, info(l, v)->sizes[d], out) && *out >= 1;
}

/* The numbers of a product, and how its operands lie. */
static bool read_plan(const lower *l, const hn_node_info *n, plan *p) {
    const hn_value v = n->results[0], a = n->args[0].as.value, b = n->args[1].as.value;
    const uint32_t rank = info(l, v)->rank, rank_a = info(l, a)->rank, rank_b = info(l, b)->rank;
    const int64_t unit = elems_of(l, v, products(l)->row_bytes);
    int64_t rows, columns;
    p->a = (side){.v = a, .summed = rank_a - 1, .along = along_of(l, a)};
    p->b = (side){.v = b, .summed = rank_b - 2, .along = along_of(l, b)};
    if (p->a.along == rank_a || p->b.along == rank_b || !read_size(l, v, rank - 1, &columns) ||
        !read_size(l, a, rank_a - 1, &p->depth))
        return false;
    p->few_columns = columns % unit;
    if (p->a.along != p->a.summed) {
        if (!read_size(l, v, rank - 2, &rows) || rows < unit) return false;
        p->few_rows = rows % unit;
    }
    p->is_deeper = p->depth % unit && (p->a.along == p->a.summed || p->b.along == p->b.summed);
    if (p->is_deeper) p->depth = round_up(p->depth, unit);
    return columns >= unit;
}

/* Whether the elements of a matrix are several elements of its value. */
static bool repeats(const lower *l, hn_value v) {
    for (uint32_t d = 0; l->values[v].buffer && d < info(l, v)->rank; d++)
        if (hn_sym_is_value(l->sym, l->values[v].strides[d], 0) &&
            !hn_sym_is_value(l->sym, info(l, v)->sizes[d], 1))
            return true;
    return false;
}

/* Whether there are as many zeros behind its rows as the sum needs. */
static bool ends_with_zeros(const lower *l, const plan *p, const side *s) {
    int64_t length;
    return l->values[s->v].buffer && s->along == s->summed &&
           read_size(l, s->v, s->along, &length) && l->values[s->v].zeros >= p->depth - length;
}

/* Whether operand `s` is to have other memory, and what that costs; false: it cannot. */
static bool plan_side(const lower *l, const plan *p, side *s) {
    int64_t length;
    s->is_anew = (p->is_deeper && !ends_with_zeros(l, p, s)) || !is_aligned(l, s->v, s->along);
    if (!s->is_anew) return true;
    if (!read_size(l, s->v, s->along, &length) || repeats(l, s->v)) return false;
    s->how = (lower_longer){.dim = s->summed, .along = s->along};
    s->how.row = row_of(l, s->v, length);
    s->how.size = s->along == s->summed ? s->how.row : p->depth;
    s->is_weight = lower_can_be_longer(l, s->v, &s->how);
    s->is_free = s->is_weight || (!l->values[s->v].buffer && l->uses[s->v] == 1);
    return true;
}

/* Columns of zeros for a weight that is laid out anew, if the bias may have them. */
static void plan_columns(const lower *l, const hn_node_info *n, plan *p) {
    const hn_value v = n->results[0];
    const uint32_t last = p->b.summed + 1;
    int64_t columns, count, length;
    if (!p->few_columns || !p->is_deeper || !p->b.is_weight ||
        !read_size(l, v, info(l, v)->rank - 1, &count))
        return;
    columns = round_up(count, elems_of(l, v, products(l)->row_bytes));
    p->bias = (lower_longer){.size = columns, .row = columns};
    if (n->args[2].kind == HN_ARG_VALUE) {
        const hn_value bias = n->args[2].as.value;
        if (info(l, bias)->rank != 1 || !read_size(l, bias, 0, &length) || length != count ||
            !lower_can_be_longer(l, bias, &p->bias))
            return;
    }
    if (p->b.along == p->b.summed)
        p->b.how =
            (lower_longer){.dim = last, .size = columns, .along = p->b.along, .row = p->b.how.row};
    p->few_columns = 0;
    p->columns = columns;
}

/* Launches of loops besides, and what copies move. */
static bool pays(const lower *l, const hn_node_info *n, const plan *p) {
    const hn_value v = n->results[0];
    const bool is_copied = (p->few_columns || p->columns) && lower_leaves(l, v);
    const side *const sides[] = {&p->a, &p->b};
    uint32_t launches = (p->few_rows > 0) + (p->few_columns > 0) + is_copied;
    double elems = is_copied ? count_of(l, v) : 0;
    for (uint32_t k = 0; k < 2; k++) {
        if (!sides[k]->is_anew || sides[k]->is_free) continue;
        launches++;
        elems += count_of(l, sides[k]->v);
    }
    return products(l)->pays_to_align(lower_product_flops(l, n), launches,
                                      2 * elems * hn_dtype_facts(info(l, v)->dtype)->size_bytes);
}

/* False: the product stays as it is. */
static bool make_plan(const lower *l, const hn_node_info *n, plan *p) {
    const hn_operation *o = products(l);
    *p = (plan){0};
    if (!o || !(o->dtypes & o->aligned_rows & 1u << info(l, n->results[0])->dtype) ||
        !read_plan(l, n, p) || !plan_side(l, p, &p->a) || !plan_side(l, p, &p->b))
        return false;
    plan_columns(l, n, p);
    return (p->a.is_anew || p->b.is_anew || p->few_rows || p->few_columns) && pays(l, n, p);
}

/* ---- values in longer rows ---- */

/* What is computed element by element, and read through views as `v`; 0: nothing is. */
static hn_value source_of(const lower *l, hn_value v) {
    for (;;) {
        const hn_node producer = info(l, v)->producer;
        if (!producer) return 0;
        const hn_node_info *n = hn_graph_node(l->g, producer);
        if (hn_op_is_elementwise(n->op)) return v;
        if (n->op != HN_OP_PERMUTE && n->op != HN_OP_RESHAPE) return 0;
        v = n->args[0].as.value;
    }
}

/* Operands with an odd dimension of the product, which is the last one of what they are of. */
static void mark_operand(lower *l, hn_value v, int64_t unit) {
    const hn_value_info *vi = info(l, v);
    const hn_value source = source_of(l, v);
    int64_t length;
    if (!source || !info(l, source)->rank || info(l, source)->dtype != vi->dtype ||
        !read_size(l, source, info(l, source)->rank - 1, &length) || length % unit == 0 ||
        length < unit)
        return;
    for (uint32_t d = vi->rank - 2; d < vi->rank; d++)
        if (hn_sym_is_value(l->sym, vi->sizes[d], length)) l->longer_rows[source] = true;
}

hn_status lower_rows(lower *l) {
    const hn_operation *o = products(l);
    if (!o || !o->aligned_rows) return NULL;
    HN_NEW(l->scratch, l->longer_rows, l->g->values.count);
    for (hn_node k = 1; k < l->g->nodes.count; k++) {
        const hn_node_info *n = &l->g->nodes.items[k];
        if (n->dead || n->op != HN_OP_MATMUL ||
            !(o->dtypes & o->aligned_rows & 1u << info(l, n->results[0])->dtype) ||
            !o->pays_to_align(lower_product_flops(l, n), 1, 0))
            continue;
        for (uint32_t m = 0; m < 2; m++)
            mark_operand(l, n->args[m].as.value, elems_of(l, n->results[0], o->row_bytes));
    }
    return NULL;
}

int64_t lower_longer_row(const lower *l, hn_value v) {
    const uint32_t rank = info(l, v)->rank;
    int64_t length = 0;
    if (!l->longer_rows || !l->longer_rows[v] || (l->channels_last && l->channels_last[v]) ||
        !read_size(l, v, rank - 1, &length))
        return 0;
    return row_of(l, v, length);
}

/* ---- its memory ---- */

/* A weight that gets no zeros is exchanged for the one that lies anew, for all who read it. */
static hn_status lay(lower *l, const plan *p, const side *s, lower_place *out) {
    if (s->is_anew && s->is_weight && !p->is_deeper) {
        HN_TRY(lower_longer_shape(l, s->v, &s->how, out));
        HN_TRY(lower_relay_weight(l, s->v, out->strides));
        *out = (lower_place){0};
    } else if (s->is_anew) {
        if (s->is_weight) HN_TRY(lower_weight_longer(l, s->v, &s->how, out));
        if (!out->buffer) HN_TRY(lower_copy_longer(l, s->v, &s->how, out));
        if (!s->is_weight) l->p->layouts_padded++;
        return NULL;
    }
    HN_TRY(lower_realize(l, s->v));
    out->strides = l->values[s->v].strides;
    return NULL;
}

static hn_status lay_bias(lower *l, hn_value bias, const plan *p, lower_place *out) {
    if (p->columns) return lower_weight_longer(l, bias, &p->bias, out);
    return lower_realize(l, bias);
}

/* The result, in longer rows if it has few columns for loops, or columns of zeros. */
static hn_status lay_result(lower *l, hn_value v, const plan *p) {
    const uint32_t rank = info(l, v)->rank, last = rank - 1;
    lower_longer how = {.dim = last, .along = last};
    lower_place place;
    int64_t columns;
    if ((!p->few_columns && !p->columns) || !read_size(l, v, last, &columns))
        return lower_new_buffer(l, v, NULL);
    how.row = how.size = row_of(l, v, columns);
    HN_TRY(lower_longer_shape(l, v, &how, &place));
    HN_TRY(lower_new_buffer(l, v, place.strides));
    hn_buffer *buffer = &l->p->buffers.items[l->values[v].buffer];
    buffer->kind = HN_BUFFER_TEMP; /* an output is copied */
    if (p->columns) buffer->extent = hn_strided_extent(l->sym, place.sizes, place.strides, rank);
    l->p->layouts_padded++;
    return NULL;
}

hn_status lower_product_memory(lower *l, const hn_node_info *n, lower_product *out) {
    plan p;
    *out = (lower_product){0};
    if (!make_plan(l, n, &p))
        p = (plan){.a = {.v = n->args[0].as.value}, .b = {.v = n->args[1].as.value}};
    HN_TRY(lay(l, &p, &p.a, &out->a));
    HN_TRY(lay(l, &p, &p.b, &out->b));
    if (n->args[2].kind == HN_ARG_VALUE) HN_TRY(lay_bias(l, n->args[2].as.value, &p, &out->bias));
    HN_TRY(lay_result(l, n->results[0], &p));
    out->depth = p.is_deeper ? hn_sym_int(l->sym, p.depth) : 0;
    out->columns = p.columns ? hn_sym_int(l->sym, p.columns) : 0;
    out->few_rows = p.few_rows;
    out->few_columns = p.few_columns;
    return NULL;
}

/* ---- its calls ---- */

/* Rows (dimension 0) or columns (1) from `first` on, `count` of them. */
static void take(lower *l, hn_extern *e, uint32_t dim, int64_t first, int64_t count) {
    static const uint32_t strides[] = {HN_MATMUL_OUT, HN_MATMUL_A, HN_MATMUL_B, HN_MATMUL_BIAS};
    for (uint32_t k = 0; k < sizeof strides / sizeof *strides; k++) {
        struct hn_extern_operand *o = &e->operands[k];
        const hn_expr step = e->params[strides[k] + HN_EXTERN_BATCH + dim];
        if (o->buffer && k != (dim ? 1 : 2)) /* a has no columns of the result, b no rows */
            o->offset_elems = hn_sym_add(l->sym, o->offset_elems,
                                         hn_sym_mul(l->sym, step, hn_sym_int(l->sym, first)));
    }
    e->params[dim ? HN_MATMUL_N : HN_MATMUL_M] = hn_sym_int(l->sym, count);
}

/* The last `few` for loops, the others for the call. */
static hn_status split(lower *l, hn_extern *e, uint32_t dim, int64_t few) {
    hn_extern others = *e;
    hn_item item;
    int64_t all = 0;
    if (!few || !hn_sym_is_int(l->sym, e->params[dim ? HN_MATMUL_N : HN_MATMUL_M], &all))
        return NULL;
    take(l, e, dim, 0, all - few);
    take(l, &others, dim, all - few, few);
    HN_TRY(lower_loops_of(l, &others));
    for (uint32_t k = 0; k < others.loop_count; k++)
        HN_TRY(hn_program_add_loop(l->p, &others.loops[k], l->origin, &item));
    return NULL;
}

hn_status lower_product_split(lower *l, hn_extern *e, const lower_product *product) {
    HN_TRY(split(l, e, 1, product->few_columns));
    HN_TRY(split(l, e, 0, product->few_rows));
    if (product->depth) e->params[HN_MATMUL_K] = product->depth;
    if (product->columns) e->params[HN_MATMUL_N] = product->columns;
    return NULL;
}
