/* infer_contract.c: inference rules of contractions: matrix products, convolutions, attention. */
#include "ir/infer.h"

static hn_status equal(const hn_infer_state *in, hn_expr a, hn_expr b, const char *what) {
    return hn_sizes_agree(in->g, a, b) ? NULL : hn_infer_relation(in, HN_REL_EQ, a, b, what);
}

/* `arg` broadcasts to the sizes of the result without changing them. */
static hn_status broadcasts_to(const hn_infer_state *in, uint32_t arg, const hn_expr *sizes,
                               uint32_t rank, const char *what) {
    const hn_value_info *x = hn_infer_arg(in, arg);
    if (x->rank > rank)
        return HN_ERROR(HN_INTERNAL, "'%s': %s, but has rank %u", hn_op_facts(in->op)->name, what,
                        x->rank);
    for (uint32_t i = 0; i < x->rank; i++)
        if (!hn_sym_is_value(in->g->sym, x->sizes[i], 1))
            HN_TRY(equal(in, x->sizes[i], sizes[rank - x->rank + i], what));
    return NULL;
}

hn_status hn_infer_matmul(hn_infer_state *in) {
    const hn_value_info *a = hn_infer_arg(in, 0), *b = hn_infer_arg(in, 1);
    if (a->rank < 2 || a->rank != b->rank)
        return HN_ERROR(HN_INTERNAL,
                        "'matmul' wants operands of one rank of at least 2, not %u and %u", a->rank,
                        b->rank);
    HN_TRY(hn_infer_same_dtype(in, a->dtype, b->dtype));
    HN_TRY(hn_infer_defined(in, a->dtype));
    uint32_t rank = a->rank;
    for (uint32_t i = 0; i + 2 < rank; i++)
        HN_TRY(equal(in, a->sizes[i], b->sizes[i], "batch sizes are equal"));
    HN_TRY(equal(in, a->sizes[rank - 1], b->sizes[rank - 2],
                 "the inner sizes of a product are equal"));
    hn_infer_set(in->out, a->dtype, rank, a->sizes);
    in->out->sizes[rank - 1] = b->sizes[rank - 1];
    if (!hn_infer_has(in, 2)) return NULL;
    HN_TRY(hn_infer_same_dtype(in, a->dtype, hn_infer_arg(in, 2)->dtype));
    return broadcasts_to(in, 2, in->out->sizes, rank, "the bias broadcasts to the product");
}

hn_status hn_infer_grouped_matmul(hn_infer_state *in) {
    const hn_value_info *a = hn_infer_arg(in, 0), *b = hn_infer_arg(in, 1),
                        *ends = hn_infer_arg(in, 2);
    if (a->rank != 2 || b->rank != 3 || ends->rank != 1)
        return HN_ERROR(HN_INTERNAL, "'grouped_matmul' wants ranks 2, 3 and 1, not %u, %u and %u",
                        a->rank, b->rank, ends->rank);
    HN_TRY(hn_infer_same_dtype(in, a->dtype, b->dtype));
    HN_TRY(hn_infer_defined(in, a->dtype));
    HN_TRY(hn_infer_same_dtype(in, HN_DTYPE_I64, ends->dtype));
    HN_TRY(equal(in, a->sizes[1], b->sizes[1], "the inner sizes of a product are equal"));
    HN_TRY(equal(in, b->sizes[0], ends->sizes[0], "each group has an end"));
    hn_infer_set(in->out, a->dtype, 2, (hn_expr[]){a->sizes[0], b->sizes[2]});
    return NULL;
}

/* --- convolution: args x w bias stride padding dilation transposed output_padding groups --- */

typedef struct conv_axis {
    hn_expr in, kernel, stride, padding, dilation, output_padding;
} conv_axis;

static hn_status check_axis(const hn_infer_state *in, const conv_axis *a) {
    HN_TRY(hn_infer_at_least(in, a->kernel, 1, "a kernel holds an element"));
    HN_TRY(hn_infer_at_least(in, a->stride, 1, "a stride is positive"));
    HN_TRY(hn_infer_at_least(in, a->dilation, 1, "a dilation is positive"));
    HN_TRY(hn_infer_at_least(in, a->padding, 0, "padding is not negative"));
    return hn_infer_at_least(in, a->output_padding, 0, "padding is not negative");
}

/* dilation * (kernel - 1) + 1 */
static hn_expr kernel_extent(hn_sym *sym, const conv_axis *a) {
    hn_expr one = hn_sym_int(sym, 1);
    return hn_sym_add(sym, hn_sym_mul(sym, a->dilation, hn_sym_sub(sym, a->kernel, one)), one);
}

static hn_status conv_size(const hn_infer_state *in, const conv_axis *a, hn_expr *out) {
    hn_sym *sym = in->g->sym;
    hn_expr one = hn_sym_int(sym, 1), extent = kernel_extent(sym, a);
    hn_expr padded = hn_sym_add(sym, a->in, hn_sym_mul(sym, hn_sym_int(sym, 2), a->padding));
    HN_TRY(
        hn_infer_relation(in, HN_REL_LE, extent, padded, "the kernel fits into the padded input"));
    *out = hn_sym_add(sym, hn_sym_floordiv(sym, hn_sym_sub(sym, padded, extent), a->stride), one);
    return NULL;
}

static hn_status transposed_size(const hn_infer_state *in, const conv_axis *a, hn_expr *out) {
    hn_sym *sym = in->g->sym;
    hn_expr one = hn_sym_int(sym, 1), two = hn_sym_int(sym, 2);
    hn_expr spread = hn_sym_mul(sym, hn_sym_sub(sym, a->in, one), a->stride);
    hn_expr full =
        hn_sym_add(sym, hn_sym_add(sym, spread, kernel_extent(sym, a)), a->output_padding);
    *out = hn_sym_sub(sym, full, hn_sym_mul(sym, two, a->padding));
    return hn_infer_at_least(in, *out, 0, "a size of the result is not negative");
}

static hn_status conv_channels(const hn_infer_state *in, const hn_value_info *x,
                               const hn_value_info *w, bool transposed, hn_expr *out) {
    hn_sym *sym = in->g->sym;
    int64_t groups;
    HN_TRY(hn_infer_const(in, 8, &groups));
    if (groups < 1) return HN_ERROR(HN_INTERNAL, "'conv' has %lld groups", (long long)groups);
    hn_expr count = in->args[8].as.expr, per_group = hn_sym_mul(sym, w->sizes[1], count);
    hn_expr zero = hn_sym_int(sym, 0);
    HN_TRY(equal(in, x->sizes[1], transposed ? w->sizes[0] : per_group,
                 "input channels and weight agree"));
    HN_TRY(equal(in, hn_sym_mod(sym, w->sizes[0], count), zero,
                 "channels are a multiple of the groups"));
    *out = transposed ? per_group : w->sizes[0];
    return NULL;
}

static hn_status check_conv(const hn_infer_state *in, const hn_value_info *x,
                            const hn_value_info *w) {
    if (x->rank < 3 || x->rank > 5 || w->rank != x->rank)
        return HN_ERROR(HN_INTERNAL,
                        "'conv' wants input and weight of one rank of 3 to 5, not %u and %u",
                        x->rank, w->rank);
    for (uint32_t arg = 3; arg <= 7; arg++)
        if (in->args[arg].kind == HN_ARG_INTS && in->args[arg].count != x->rank - 2)
            return HN_ERROR(HN_INTERNAL,
                            "'conv' has a list of %u numbers for %u spatial dimensions",
                            in->args[arg].count, x->rank - 2);
    HN_TRY(hn_infer_defined(in, x->dtype));
    return hn_infer_same_dtype(in, x->dtype, w->dtype);
}

hn_status hn_infer_conv(hn_infer_state *in) {
    const hn_value_info *x = hn_infer_arg(in, 0), *w = hn_infer_arg(in, 1);
    HN_TRY(check_conv(in, x, w));
    bool transposed = in->args[6].as.b;
    hn_infer_set(in->out, x->dtype, x->rank, x->sizes);
    HN_TRY(conv_channels(in, x, w, transposed, &in->out->sizes[1]));
    for (uint32_t i = 0; i + 2 < x->rank; i++) {
        conv_axis a = {.in = x->sizes[i + 2],
                       .kernel = w->sizes[i + 2],
                       .stride = in->args[3].as.exprs[i],
                       .padding = in->args[4].as.exprs[i],
                       .dilation = in->args[5].as.exprs[i],
                       .output_padding = in->args[7].as.exprs[i]};
        HN_TRY(check_axis(in, &a));
        HN_TRY((transposed ? transposed_size : conv_size)(in, &a, &in->out->sizes[i + 2]));
    }
    if (!hn_infer_has(in, 2)) return NULL;
    const hn_value_info *bias = hn_infer_arg(in, 2);
    HN_TRY(hn_infer_same_dtype(in, x->dtype, bias->dtype));
    if (bias->rank != 1)
        return HN_ERROR(HN_INTERNAL, "the bias of 'conv' has rank %u instead of 1", bias->rank);
    return equal(in, bias->sizes[0], in->out->sizes[1],
                 "the bias has an element for each output channel");
}

/* --- attention: args q k v mask scale causal --- */

static hn_status check_mask(const hn_infer_state *in, const hn_value_info *q, hn_expr keys) {
    const hn_value_info *mask = hn_infer_arg(in, 3);
    if (mask->dtype != HN_DTYPE_BOOL && !hn_dtype_is_float(mask->dtype))
        return HN_ERROR(HN_INTERNAL, "the mask of 'attention' is neither bool nor float");
    hn_meta scores;
    hn_infer_set(&scores, q->dtype, q->rank, q->sizes);
    scores.sizes[q->rank - 1] = keys;
    return broadcasts_to(in, 3, scores.sizes, scores.rank, "the mask broadcasts to the scores");
}

hn_status hn_infer_attention(hn_infer_state *in) {
    const hn_value_info *q = hn_infer_arg(in, 0), *k = hn_infer_arg(in, 1),
                        *v = hn_infer_arg(in, 2);
    uint32_t rank = q->rank;
    if (rank < 3 || k->rank != rank || v->rank != rank)
        return HN_ERROR(HN_INTERNAL,
                        "'attention' wants q, k and v of one rank of at least 3, not %u, %u and %u",
                        rank, k->rank, v->rank);
    HN_TRY(hn_infer_same_dtype(in, q->dtype, k->dtype));
    HN_TRY(hn_infer_same_dtype(in, q->dtype, v->dtype));
    HN_TRY(hn_infer_defined(in, q->dtype));
    for (uint32_t i = 0; i + 3 < rank; i++) {
        HN_TRY(equal(in, q->sizes[i], k->sizes[i], "batch sizes are equal"));
        HN_TRY(equal(in, q->sizes[i], v->sizes[i], "batch sizes are equal"));
    }
    hn_sym *sym = in->g->sym;
    hn_expr heads = k->sizes[rank - 3];
    HN_TRY(equal(in, heads, v->sizes[rank - 3], "keys and values have as many heads"));
    HN_TRY(hn_infer_at_least(in, heads, 1, "there is a head"));
    HN_TRY(equal(in, hn_sym_mod(sym, q->sizes[rank - 3], heads), hn_sym_int(sym, 0),
                 "query heads are a multiple of key heads"));
    HN_TRY(equal(in, k->sizes[rank - 2], v->sizes[rank - 2], "keys and values are as many"));
    HN_TRY(equal(in, q->sizes[rank - 1], k->sizes[rank - 1], "queries and keys are as long"));
    hn_infer_set(in->out, q->dtype, rank, q->sizes);
    in->out->sizes[rank - 1] = v->sizes[rank - 1];
    return hn_infer_has(in, 3) ? check_mask(in, q, k->sizes[rank - 2]) : NULL;
}

/* --- gradients of attention: args grad q k v out mask scale causal --- */

hn_status hn_infer_attention_backward(hn_infer_state *in) {
    enum { GRAD = 0, Q = 1, OUT = 4, MASK = 5 };
    const hn_arg *a = in->args;
    const hn_arg forward[] = {a[Q], a[Q + 1], a[Q + 2], a[MASK], a[MASK + 1], a[MASK + 2]};
    hn_infer_state attention = {.g = in->g, .op = HN_OP_ATTENTION, .args = forward, .out = in->out};
    HN_TRY(hn_infer_attention(&attention));
    const hn_meta result = in->out[0];
    for (uint32_t k = 0; k < 2; k++) {
        const hn_value_info *x = hn_infer_arg(in, k ? OUT : GRAD);
        HN_TRY(hn_infer_same_dtype(in, result.dtype, x->dtype));
        if (x->rank != result.rank)
            return HN_ERROR(HN_INTERNAL, "'attention_backward' wants results of rank %u, not %u",
                            result.rank, x->rank);
        for (uint32_t i = 0; i < result.rank; i++)
            HN_TRY(equal(in, x->sizes[i], result.sizes[i], "results of attention are as large"));
    }
    for (uint32_t k = 0; k < 3; k++) {
        const hn_value_info *x = hn_infer_arg(in, Q + k);
        hn_infer_set(&in->out[k], x->dtype, x->rank, x->sizes);
    }
    return NULL;
}
