/* interp_contract.c: matmul, convolution and attention, as their definitions say, in double,
 * rounded at the end (also between the steps of attention nothing is rounded). Int products and
 * sums wrap. */
#include "base/checked.h"
#include "ir/interp_impl.h"

#include <inttypes.h>

/* `count` elements of a tensor, `step` apart. */
typedef struct walk {
    const hn_ref_tensor *t;
    int64_t at, step;
} walk;

/* sum += a . b, with the branch on the category outside of the loop: all the time of contractions
 * is here. */
static void dot_add(walk a, walk b, int64_t count, hn_ref_elem *sum) {
    if (hn_ref_is_float(a.t)) {
        for (int64_t p = 0; p < count; p++)
            sum->f += a.t->data.f[a.at + p * a.step] * b.t->data.f[b.at + p * b.step];
        return;
    }
    for (int64_t p = 0; p < count; p++)
        sum->i = (int64_t)((uint64_t)sum->i + (uint64_t)a.t->data.i[a.at + p * a.step] *
                                                  (uint64_t)b.t->data.i[b.at + p * b.step]);
}

static void elem_add(const hn_ref_tensor *t, int64_t at, hn_ref_elem *sum) {
    if (hn_ref_is_float(t)) sum->f += t->data.f[at];
    else sum->i = (int64_t)((uint64_t)sum->i + (uint64_t)t->data.i[at]);
}

static hn_status same_batches(const hn_ref_tensor *a, const hn_ref_tensor *b, uint32_t count) {
    for (uint32_t d = 0; d < count; d++)
        if (a->sizes[d] != b->sizes[d])
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "batch sizes %" PRId64 " and %" PRId64 " of dimension %u differ",
                            a->sizes[d], b->sizes[d], d);
    return NULL;
}

/* --- matmul --- */

static hn_status matmul_check(const hn_ref_tensor *a, const hn_ref_tensor *b, int64_t *out_sizes) {
    if (a->rank < 2 || a->rank != b->rank)
        return HN_ERROR(HN_INTERNAL, "ranks %u and %u", a->rank, b->rank);
    HN_TRY(hn_ref_need_dtype(b, a->dtype, "b"));
    HN_TRY(same_batches(a, b, a->rank - 2));
    if (a->sizes[a->rank - 1] != b->sizes[b->rank - 2])
        return HN_ERROR(HN_INVALID_ARGUMENT, "inner sizes %" PRId64 " and %" PRId64 " differ",
                        a->sizes[a->rank - 1], b->sizes[b->rank - 2]);
    memcpy(out_sizes, a->sizes, sizeof a->sizes);
    out_sizes[a->rank - 1] = b->sizes[b->rank - 1];
    return NULL;
}

hn_status hn_ref_matmul(hn_ref_run *run) {
    const hn_ref_tensor *a, *b, *bias;
    int64_t sizes[HN_MAX_RANK], coord[HN_MAX_RANK] = {0};
    hn_ref_tensor *out;
    HN_TRY(hn_ref_arg_tensor(run, "a", &a));
    HN_TRY(hn_ref_arg_tensor(run, "b", &b));
    HN_TRY(hn_ref_arg_optional(run, "bias", &bias));
    HN_TRY(matmul_check(a, b, sizes));
    if (bias) HN_TRY(hn_ref_need_dtype(bias, a->dtype, "bias"));
    if (bias && !hn_ref_broadcasts_to(bias, a->rank, sizes))
        return HN_ERROR(HN_INVALID_ARGUMENT, "'bias' does not broadcast to the result");
    HN_TRY(hn_ref_result(run, 0, a->dtype, a->rank, sizes, &out));
    int64_t m = sizes[a->rank - 2], n = sizes[a->rank - 1], k = a->sizes[a->rank - 1];
    for (int64_t at = 0; at < out->numel; at++, hn_ref_next(coord, sizes, a->rank)) {
        int64_t batch = at / (m * n), row = at / n % m, column = at % n;
        hn_ref_elem sum = hn_ref_get(out, at); /* 0 */
        dot_add((walk){a, (batch * m + row) * k, 1}, (walk){b, batch * k * n + column, n}, k, &sum);
        if (bias) elem_add(bias, hn_ref_offset_broadcast(bias, coord, a->rank), &sum);
        hn_ref_set(out, at, sum);
    }
    return NULL;
}

/* Rows [begin, end) of `a` times group g of `b`. */
static void group_rows(const hn_ref_tensor *a, const hn_ref_tensor *b, int64_t g, int64_t begin,
                       int64_t end, hn_ref_tensor *out) {
    int64_t k = b->sizes[1], n = b->sizes[2];
    for (int64_t at = begin * n; at < end * n; at++) {
        hn_ref_elem sum = hn_ref_get(out, at); /* 0 */
        dot_add((walk){a, at / n * k, 1}, (walk){b, g * k * n + at % n, n}, k, &sum);
        hn_ref_set(out, at, sum);
    }
}

hn_status hn_ref_grouped_matmul(hn_ref_run *run) {
    const hn_ref_tensor *a, *b, *ends;
    hn_ref_tensor *out;
    HN_TRY(hn_ref_arg_tensor(run, "a", &a));
    HN_TRY(hn_ref_arg_tensor(run, "b", &b));
    HN_TRY(hn_ref_arg_tensor(run, "ends", &ends));
    HN_TRY(hn_ref_need_dtype(b, a->dtype, "b"));
    HN_TRY(hn_ref_need_dtype(ends, HN_DTYPE_I64, "ends"));
    if (a->rank != 2 || b->rank != 3 || ends->rank != 1 || a->sizes[1] != b->sizes[1] ||
        b->sizes[0] != ends->sizes[0])
        return HN_ERROR(HN_INVALID_ARGUMENT, "the sizes of a, b and ends do not fit each other");
    HN_TRY(hn_ref_result(run, 0, a->dtype, 2, (int64_t[]){a->sizes[0], b->sizes[2]}, &out));
    int64_t begin = 0;
    for (int64_t g = 0; g < ends->numel; begin = ends->data.i[g++]) {
        if (ends->data.i[g] < begin || ends->data.i[g] > a->sizes[0])
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "group %" PRId64 " ends at row %" PRId64 ", must end in [%" PRId64
                            ", %" PRId64 "]",
                            g, ends->data.i[g], begin, a->sizes[0]);
        group_rows(a, b, g, begin, ends->data.i[g], out);
    }
    return NULL;
}

/* --- convolution: always as three spatial dims; missing ones have size 1 --- */

typedef struct conv {
    const hn_ref_tensor *x, *w, *bias;
    bool transposed;
    int64_t groups, batch, in_channels, out_channels;
    int64_t in[3], kernel[3], out[3], stride[3], padding[3], dilation[3], output_padding[3];
} conv;

static hn_status conv_read_dims(hn_ref_run *run, const char *name, uint32_t spatial, int64_t least,
                                int64_t fill, int64_t out[3]) {
    int64_t given[HN_MAX_RANK];
    HN_TRY(hn_ref_arg_ints_n(run, name, given, spatial));
    for (uint32_t k = 0; k < 3; k++) {
        out[k] = k < 3 - spatial ? fill : given[k - (3 - spatial)];
        if (out[k] < least || out[k] > 1 << 30)
            return HN_ERROR(HN_INVALID_ARGUMENT, "'%s' holds %" PRId64, name, out[k]);
    }
    return NULL;
}

/* Channels: w is [O, C/groups, ..], transposed [C, O/groups, ..]. */
static hn_status conv_check_channels(conv *c) {
    if (c->groups < 1 || c->groups > 1 << 30)
        return HN_ERROR(HN_INVALID_ARGUMENT, "%" PRId64 " groups", c->groups);
    c->in_channels = c->x->sizes[1];
    c->out_channels = c->transposed ? c->w->sizes[1] * c->groups : c->w->sizes[0];
    int64_t w_in = c->transposed ? c->w->sizes[0] : c->w->sizes[1] * c->groups;
    if (w_in != c->in_channels || c->out_channels % c->groups || c->in_channels % c->groups)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "%" PRId64 " input channels in %" PRId64
                        " groups do not fit weights of [%" PRId64 ", %" PRId64 ", ..]",
                        c->in_channels, c->groups, c->w->sizes[0], c->w->sizes[1]);
    if (c->bias && (c->bias->rank != 1 || c->bias->sizes[0] != c->out_channels))
        return HN_ERROR(HN_INVALID_ARGUMENT, "'bias' must have %" PRId64 " elements",
                        c->out_channels);
    return NULL;
}

static hn_status conv_out_sizes(conv *c) {
    for (uint32_t k = 0; k < 3; k++) {
        int64_t span = c->dilation[k] * (c->kernel[k] - 1) + 1;
        c->out[k] =
            c->transposed
                ? (c->in[k] - 1) * c->stride[k] - 2 * c->padding[k] + span + c->output_padding[k]
                : hn_floor_div(c->in[k] + 2 * c->padding[k] - span, c->stride[k]) + 1;
        if (c->out[k] < 0 || c->kernel[k] < 1)
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "a kernel of size %" PRId64 " does not fit an input of size %" PRId64,
                            c->kernel[k], c->in[k]);
    }
    return NULL;
}

static hn_status conv_read(hn_ref_run *run, conv *c, uint32_t *out_spatial) {
    HN_TRY(hn_ref_arg_tensor(run, "x", &c->x));
    HN_TRY(hn_ref_arg_tensor(run, "w", &c->w));
    HN_TRY(hn_ref_arg_optional(run, "bias", &c->bias));
    HN_TRY(hn_ref_arg_bool(run, "transposed", &c->transposed));
    HN_TRY(hn_ref_arg_int(run, "groups", &c->groups));
    if (c->x->rank < 3 || c->x->rank > 5 || c->w->rank != c->x->rank)
        return HN_ERROR(HN_INTERNAL, "ranks %u and %u", c->x->rank, c->w->rank);
    uint32_t spatial = c->x->rank - 2;
    HN_TRY(hn_ref_need_dtype(c->w, c->x->dtype, "w"));
    if (c->bias) HN_TRY(hn_ref_need_dtype(c->bias, c->x->dtype, "bias"));
    HN_TRY(conv_read_dims(run, "stride", spatial, 1, 1, c->stride));
    HN_TRY(conv_read_dims(run, "padding", spatial, 0, 0, c->padding));
    HN_TRY(conv_read_dims(run, "dilation", spatial, 1, 1, c->dilation));
    HN_TRY(conv_read_dims(run, "output_padding", spatial, 0, 0, c->output_padding));
    for (uint32_t k = 0; k < 3; k++) {
        bool real = k >= 3 - spatial;
        c->in[k] = real ? c->x->sizes[2 + k - (3 - spatial)] : 1;
        c->kernel[k] = real ? c->w->sizes[2 + k - (3 - spatial)] : 1;
    }
    c->batch = c->x->sizes[0];
    *out_spatial = spatial;
    HN_TRY(conv_check_channels(c));
    return conv_out_sizes(c);
}

/* Which input position kernel position `k` pairs with output position `o`; false when none does. */
static bool conv_input_at(const conv *c, uint32_t d, int64_t o, int64_t k, int64_t *out) {
    if (c->transposed) {
        int64_t spread = o + c->padding[d] - k * c->dilation[d]; /* = input position * stride */
        *out = spread / c->stride[d];
        return spread >= 0 && spread % c->stride[d] == 0 && *out < c->in[d];
    }
    *out = o * c->stride[d] - c->padding[d] + k * c->dilation[d];
    return *out >= 0 && *out < c->in[d];
}

/* The weights of output channel `o` at kernel position `k`, over the input channels of its
 * group. */
static walk conv_weights(const conv *c, int64_t o, int64_t group, const int64_t k[3]) {
    int64_t in_per_group = c->in_channels / c->groups, out_per_group = c->out_channels / c->groups;
    int64_t volume = c->kernel[0] * c->kernel[1] * c->kernel[2],
            at = (k[0] * c->kernel[1] + k[1]) * c->kernel[2] + k[2];
    if (c->transposed)
        return (walk){c->w,
                      (group * in_per_group * out_per_group + o % out_per_group) * volume + at,
                      out_per_group * volume};
    return (walk){c->w, o * in_per_group * volume + at, volume};
}

/* The input channels of a group at position `p` of batch element `n`. */
static walk conv_inputs(const conv *c, int64_t n, int64_t group, const int64_t p[3]) {
    int64_t volume = c->in[0] * c->in[1] * c->in[2],
            first = n * c->in_channels + group * (c->in_channels / c->groups);
    return (walk){c->x, first * volume + (p[0] * c->in[1] + p[1]) * c->in[2] + p[2], volume};
}

static hn_ref_elem conv_one(const conv *c, int64_t n, int64_t o, const int64_t at[3]) {
    int64_t group = o / (c->out_channels / c->groups), k[3], p[3];
    hn_ref_elem sum = hn_ref_is_float(c->x) ? (hn_ref_elem){.f = 0} : (hn_ref_elem){.i = 0};
    for (k[0] = 0; k[0] < c->kernel[0]; k[0]++)
        for (k[1] = 0; k[1] < c->kernel[1]; k[1]++)
            for (k[2] = 0; k[2] < c->kernel[2]; k[2]++) {
                if (!conv_input_at(c, 0, at[0], k[0], &p[0]) ||
                    !conv_input_at(c, 1, at[1], k[1], &p[1]) ||
                    !conv_input_at(c, 2, at[2], k[2], &p[2]))
                    continue;
                dot_add(conv_inputs(c, n, group, p), conv_weights(c, o, group, k),
                        c->in_channels / c->groups, &sum);
            }
    if (c->bias) elem_add(c->bias, o, &sum);
    return sum;
}

hn_status hn_ref_conv(hn_ref_run *run) {
    conv c = {0};
    uint32_t spatial = 0;
    hn_ref_tensor *out;
    HN_TRY(conv_read(run, &c, &spatial));
    int64_t sizes[5] = {c.batch, c.out_channels},
            loops[5] = {c.batch, c.out_channels, c.out[0], c.out[1], c.out[2]}, coord[5] = {0};
    for (uint32_t k = 0; k < spatial; k++) sizes[2 + k] = c.out[3 - spatial + k];
    HN_TRY(hn_ref_result(run, 0, c.x->dtype, 2 + spatial, sizes, &out));
    for (int64_t at = 0; at < out->numel; at++, hn_ref_next(coord, loops, 5))
        hn_ref_set(out, at, conv_one(&c, coord[0], coord[1], coord + 2));
    return NULL;
}

/* --- attention --- */

typedef struct attention {
    const hn_ref_tensor *q, *k, *v, *mask;
    double scale;
    bool causal;
    uint32_t rank;
    int64_t m, n, d, dv, heads, kv_heads;
    int64_t scores_shape[HN_MAX_RANK]; /* [B.., H, m, n] */
} attention;

static hn_status attention_check(attention *a) {
    uint32_t r = a->rank = a->q->rank;
    if (r < 3 || a->k->rank != r || a->v->rank != r || !hn_ref_is_float(a->q))
        return HN_ERROR(HN_INTERNAL, "q, k and v must be floats of one rank, at least 3");
    HN_TRY(hn_ref_need_dtype(a->k, a->q->dtype, "k"));
    HN_TRY(hn_ref_need_dtype(a->v, a->q->dtype, "v"));
    HN_TRY(same_batches(a->q, a->k, r - 3));
    HN_TRY(same_batches(a->q, a->v, r - 3));
    a->m = a->q->sizes[r - 2], a->d = a->q->sizes[r - 1], a->heads = a->q->sizes[r - 3];
    a->n = a->k->sizes[r - 2], a->dv = a->v->sizes[r - 1], a->kv_heads = a->k->sizes[r - 3];
    if (a->k->sizes[r - 1] != a->d || a->v->sizes[r - 2] != a->n ||
        a->v->sizes[r - 3] != a->kv_heads || a->kv_heads == 0 || a->heads % a->kv_heads)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the sizes of q, k and v do not fit each other");
    memcpy(a->scores_shape, a->q->sizes, sizeof a->scores_shape);
    a->scores_shape[r - 1] = a->n;
    if (!a->mask) return NULL;
    if (a->mask->dtype != HN_DTYPE_BOOL && !hn_ref_is_float(a->mask))
        return HN_ERROR(HN_INTERNAL, "'mask' must be bool or float");
    return hn_ref_broadcasts_to(a->mask, r, a->scores_shape)
               ? NULL
               : HN_ERROR(HN_INVALID_ARGUMENT,
                          "'mask' does not broadcast to [.., heads, queries, keys]");
}

/* Score of the query at coord[0..rank-2] and key j: -inf when masked out. */
static double attention_score(const attention *a, int64_t *coord, int64_t q_row, int64_t k_row,
                              int64_t j) {
    double dot = 0;
    coord[a->rank - 1] = j;
    if (a->causal && j > coord[a->rank - 2]) return -INFINITY;
    for (int64_t p = 0; p < a->d; p++)
        dot += a->q->data.f[q_row * a->d + p] * a->k->data.f[k_row * a->d + p];
    dot *= a->scale;
    if (!a->mask) return dot;
    hn_ref_elem mask = hn_ref_get(a->mask, hn_ref_offset_broadcast(a->mask, coord, a->rank));
    if (a->mask->dtype == HN_DTYPE_BOOL) return mask.i ? dot : -INFINITY;
    return dot + mask.f;
}

/* One row of the result: softmax over the scores, then the weighted sum of the values. Keys of
 * score -inf are masked out: they count for nothing, even when their value is inf or NaN. Without a
 * key left the row is 0. */
static void attention_row(const attention *a, const double *scores, const double *values,
                          double *out) {
    double high = -INFINITY, sum = 0;
    for (int64_t j = 0; j < a->n; j++)
        high = isnan(scores[j]) || scores[j] > high ? scores[j] : high;
    for (int64_t j = 0; j < a->n; j++) {
        if (scores[j] == -INFINITY) continue;
        double weight = exp(scores[j] - high);
        sum += weight;
        for (int64_t p = 0; p < a->dv; p++) out[p] += weight * values[j * a->dv + p];
    }
    for (int64_t p = 0; p < a->dv && sum != 0; p++) out[p] /= sum;
}

static hn_status attention_read(hn_ref_run *run, attention *a) {
    *a = (attention){0};
    HN_TRY(hn_ref_arg_tensor(run, "q", &a->q));
    HN_TRY(hn_ref_arg_tensor(run, "k", &a->k));
    HN_TRY(hn_ref_arg_tensor(run, "v", &a->v));
    HN_TRY(hn_ref_arg_optional(run, "mask", &a->mask));
    HN_TRY(hn_ref_arg_float(run, "scale", &a->scale));
    HN_TRY(hn_ref_arg_bool(run, "causal", &a->causal));
    return attention_check(a);
}

/* The row of the keys' head that a row of queries meets first. */
static int64_t attention_keys(const attention *a, int64_t row) {
    int64_t head = row / a->m % a->heads, batch = row / a->m / a->heads;
    return (batch * a->kv_heads + head / (a->heads / a->kv_heads)) * a->n;
}

hn_status hn_ref_attention(hn_ref_run *run) {
    attention a;
    int64_t sizes[HN_MAX_RANK], rows[HN_MAX_RANK], coord[HN_MAX_RANK] = {0}, row_count;
    double *scores;
    hn_ref_tensor *out;
    HN_TRY(attention_read(run, &a));
    memcpy(sizes, a.q->sizes, sizeof sizes);
    memcpy(rows, a.q->sizes, sizeof rows);
    sizes[a.rank - 1] = a.dv;
    rows[a.rank - 1] = 1;
    HN_TRY(hn_ref_result(run, 0, a.q->dtype, a.rank, sizes, &out));
    HN_TRY(hn_ref_numel(a.rank, rows, &row_count));
    HN_NEW(run->scratch, scores, a.n + 1);
    for (int64_t row = 0; row < row_count; row++) {
        int64_t keys = attention_keys(&a, row);
        for (int64_t j = 0; j < a.n; j++) scores[j] = attention_score(&a, coord, row, keys + j, j);
        attention_row(&a, scores, a.v->data.f + keys * a.dv, out->data.f + row * a.dv);
        coord[a.rank - 1] = 0;
        hn_ref_next(coord, rows, a.rank);
    }
    return NULL;
}

/* --- gradients of attention --- */

/* Results of this are sums until the end. */
typedef struct gradients {
    attention a;
    const hn_ref_tensor *grad, *out;
    double *d_q, *d_k, *d_v;
} gradients;

/* What one query adds to the gradients, with its scores. */
static void gradients_row(const gradients *x, double *scores, int64_t row, int64_t keys) {
    const attention *a = &x->a;
    const double *grad = x->grad->data.f + row * a->dv, *out = x->out->data.f + row * a->dv,
                 *q = a->q->data.f + row * a->d;
    double high = -INFINITY, sum = 0, dot = 0;
    for (int64_t j = 0; j < a->n; j++) high = scores[j] > high ? scores[j] : high;
    for (int64_t j = 0; j < a->n; j++)
        sum += scores[j] = scores[j] == -INFINITY ? 0 : exp(scores[j] - high);
    for (int64_t p = 0; p < a->dv; p++) dot += grad[p] * out[p];
    for (int64_t j = 0; j < a->n; j++) {
        const double *k = a->k->data.f + (keys + j) * a->d, *v = a->v->data.f + (keys + j) * a->dv;
        double weight = scores[j] / sum, change = -dot;
        if (scores[j] == 0) continue;
        for (int64_t p = 0; p < a->dv; p++) {
            change += grad[p] * v[p];
            x->d_v[(keys + j) * a->dv + p] += weight * grad[p];
        }
        for (int64_t p = 0; p < a->d; p++) {
            x->d_q[row * a->d + p] += change * weight * a->scale * k[p];
            x->d_k[(keys + j) * a->d + p] += change * weight * a->scale * q[p];
        }
    }
}

static hn_status gradients_result(hn_ref_run *run, uint32_t k, const hn_ref_tensor *like,
                                  const double *sums) {
    hn_ref_tensor *out;
    HN_TRY(hn_ref_result(run, k, like->dtype, like->rank, like->sizes, &out));
    for (int64_t at = 0; at < out->numel; at++) hn_ref_set(out, at, (hn_ref_elem){.f = sums[at]});
    return NULL;
}

hn_status hn_ref_attention_backward(hn_ref_run *run) {
    gradients x;
    int64_t rows[HN_MAX_RANK], coord[HN_MAX_RANK] = {0}, row_count;
    double *scores;
    HN_TRY(attention_read(run, &x.a));
    HN_TRY(hn_ref_arg_tensor(run, "grad", &x.grad));
    HN_TRY(hn_ref_arg_tensor(run, "out", &x.out));
    memcpy(rows, x.a.q->sizes, sizeof rows);
    rows[x.a.rank - 1] = 1;
    HN_TRY(hn_ref_numel(x.a.rank, rows, &row_count));
    if (x.grad->numel != row_count * x.a.dv || x.out->numel != x.grad->numel)
        return HN_ERROR(HN_INVALID_ARGUMENT, "the result is not as large as that of attention");
    HN_NEW(run->scratch, scores, x.a.n + 1);
    HN_NEW(run->scratch, x.d_q, x.a.q->numel + 1);
    HN_NEW(run->scratch, x.d_k, x.a.k->numel + 1);
    HN_NEW(run->scratch, x.d_v, x.a.v->numel + 1);
    for (int64_t row = 0; row < row_count; row++) {
        const int64_t keys = attention_keys(&x.a, row);
        for (int64_t j = 0; j < x.a.n; j++)
            scores[j] = attention_score(&x.a, coord, row, keys + j, j);
        gradients_row(&x, scores, row, keys);
        coord[x.a.rank - 1] = 0;
        hn_ref_next(coord, rows, x.a.rank);
    }
    HN_TRY(gradients_result(run, 0, x.a.q, x.d_q));
    HN_TRY(gradients_result(run, 1, x.a.k, x.d_k));
    return gradients_result(run, 2, x.a.v, x.d_v);
}
