/* decode.c: attention of few queries, as in decoding, when a model writes text token by token: k
 * and v are read once, in place.
 *
 * The queries of all heads that share k and v go together. A task is a range of keys of one key
 * head: it leaves the maximum of its scores, the sum of its weights, and its weighted values, and
 * at the end those of all ranges are put together in order, so the result does not depend on the
 * number of threads. Source: Dao et al., Flash-Decoding for long-context inference (2023). */
#include "ops/cpu/attention/attention.h"

#include "henry/tensor.h"
#include "ops/cpu/conv/conv.h"
#include "ops/cpu/gemm/matrix.h"

#include <math.h>
#include <string.h>

enum {
    OUT = 0,
    Q = 1,
    K = 2,
    V = 3,
    MASK = 4,
    MAX_QUERIES = 16,           /* of a head; from there on laying out k and v pays */
    MOST_QUERIES = 64,          /* ... if the caller names the form */
    KEYS = 512,                 /* of a task */
    CONVERTED = 16,             /* keys that are converted at a time, if they have to be */
    PARALLEL_FLOATS = 32 << 10, /* of k and v, as in gemm/gemm.c */
    FIRST_VALUE = 2             /* of a partial row: maximum, sum, values */
};

typedef struct decode_state {
    const hn_ext_kernels *kernels;
    int64_t batch, heads, kv_heads, m, n, d, dv;
    float scale;
    bool causal;
    int threads;
    int64_t rows;      /* queries that share k and v: group * m */
    int64_t parts;     /* tasks of a key head */
    int64_t part_row;  /* floats of a partial row */
    int64_t all_parts; /* floats of all partial results */
    int64_t thread_floats;
} decode_state;

/* What a thread works with: [rows][d], [rows][KEYS], [CONVERTED][d or dv]. */
typedef struct worker {
    const decode_state *s;
    const hn_ext_call *call;
    float *q, *weights, *buffer;
} worker;

/* Keys [first, first + count) of a key head. */
typedef struct task {
    int64_t batch, kv_head, first, count;
    float *out; /* [rows][part_row] */
} task;

static hn_ext_matrix operand(const worker *w, int index, int strides, int64_t batch, int64_t head) {
    const int64_t *p = w->call->params + strides;
    const hn_ext_matrix all = {w->s->kernels, w->call->operands[index], w->call->dtypes[index],
                               p[2], p[3]};
    return hn_ext_matrix_at(&all, batch * p[0] + head * p[1]);
}

static int64_t head_of(const decode_state *s, int64_t kv_head, int64_t row) {
    return kv_head * (s->heads / s->kv_heads) + row / s->m;
}

static void get_queries(const worker *w, const task *t) {
    const decode_state *s = w->s;
    for (int64_t r = 0; r < s->rows; r++) {
        const hn_ext_matrix q = operand(w, Q, HN_ATTENTION_Q, t->batch, head_of(s, t->kv_head, r)),
                            row = hn_ext_matrix_from(&q, r % s->m, 0);
        int64_t stride;
        const float *x = hn_ext_matrix_rows(&row, 1, s->d, w->buffer, &stride);
        for (int64_t i = 0; i < s->d; i++) w->q[r * s->d + i] = x[i] * s->scale;
    }
}

static void get_scores(const worker *w, const task *t) {
    const decode_state *s = w->s;
    const hn_ext_matrix k = operand(w, K, HN_ATTENTION_K, t->batch, t->kv_head);
    const int64_t step = hn_ext_matrix_is_plain(&k) ? t->count : CONVERTED;
    for (int64_t j = 0; j < t->count; j += step) {
        const hn_ext_matrix rows = hn_ext_matrix_from(&k, t->first + j, 0);
        hn_ext_skinny f = {.rows = s->rows,
                           .cols = hn_ext_min(step, t->count - j),
                           .k = s->d,
                           .a = w->q,
                           .a_row = s->d,
                           .out = w->weights + j,
                           .out_row = KEYS};
        hn_ext_matrix_take(&rows, f.cols, s->d, w->buffer, &f);
        s->kernels->dots(&f);
    }
}

/* Hidden keys are -inf, whatever their score is. */
static void add_mask(const worker *w, const task *t, int64_t row, float *scores) {
    const decode_state *s = w->s;
    const int64_t *ms = w->call->params + HN_ATTENTION_MASK, query = row % s->m;
    const int64_t at =
        t->batch * ms[0] + head_of(s, t->kv_head, row) * ms[1] + query * ms[2] + t->first * ms[3];
    const void *mask = w->call->operands[MASK];
    switch (w->call->dtypes[MASK]) {
    case HN_NO_TYPE: break;
    case HN_F32:
        for (int64_t j = 0; j < t->count; j++) {
            const float x = ((const float *)mask)[at + j * ms[3]];
            scores[j] = x == -INFINITY ? -INFINITY : scores[j] + x;
        }
        break;
    case HN_F64:
        for (int64_t j = 0; j < t->count; j++) {
            const double x = ((const double *)mask)[at + j * ms[3]];
            scores[j] = x == (double)-INFINITY ? -INFINITY : (float)((double)scores[j] + x);
        }
        break;
    default:
        for (int64_t j = 0; j < t->count; j++)
            if (!((const uint8_t *)mask)[at + j * ms[3]]) scores[j] = -INFINITY;
    }
    if (s->causal)
        for (int64_t j = hn_ext_max(0, query + 1 - t->first); j < t->count; j++)
            scores[j] = -INFINITY;
}

static bool all_finite(const float *x, int64_t count) {
    float sum = 0;
    for (int64_t i = 0; i < count; i++) sum += x[i] * 0.0f; /* infinities and NaN give NaN */
    return sum == 0;
}

/* Weighted values again, where v holds infinities or NaN: a weight of 0 takes nothing. */
static void add_special_values(const worker *w, const task *t, const hn_ext_matrix *v, int64_t row,
                               float *out) {
    memset(out, 0, (size_t)w->s->dv * sizeof *out);
    for (int64_t j = 0; j < t->count; j++) {
        const float weight = w->weights[row * KEYS + j];
        if (weight == 0) continue;
        const hn_ext_matrix from = hn_ext_matrix_from(v, t->first + j, 0);
        int64_t stride;
        const float *values = hn_ext_matrix_rows(&from, 1, w->s->dv, w->buffer, &stride);
        for (int64_t c = 0; c < w->s->dv; c++) out[c] += weight * values[c];
    }
}

static void get_values(const worker *w, const task *t) {
    const decode_state *s = w->s;
    const hn_ext_matrix v = operand(w, V, HN_ATTENTION_V, t->batch, t->kv_head);
    const int64_t step = hn_ext_matrix_is_plain(&v) ? t->count : CONVERTED;
    float *out = t->out + FIRST_VALUE;
    for (int64_t r = 0; r < s->rows; r++)
        memset(out + r * s->part_row, 0, (size_t)s->dv * sizeof *out);
    for (int64_t j = 0; j < t->count; j += step) {
        const hn_ext_matrix rows = hn_ext_matrix_from(&v, t->first + j, 0);
        hn_ext_skinny f = {.rows = s->rows,
                           .cols = s->dv,
                           .k = hn_ext_min(step, t->count - j),
                           .a = w->weights + j,
                           .a_row = KEYS,
                           .out = out,
                           .out_row = s->part_row};
        hn_ext_matrix_take(&rows, f.k, s->dv, w->buffer, &f);
        s->kernels->combine(&f);
    }
    for (int64_t r = 0; r < s->rows; r++)
        if (!all_finite(out + r * s->part_row, s->dv))
            add_special_values(w, t, &v, r, out + r * s->part_row);
}

static void run_task(const worker *w, const task *t) {
    const decode_state *s = w->s;
    get_queries(w, t);
    get_scores(w, t);
    for (int64_t r = 0; r < s->rows; r++) {
        float *scores = w->weights + r * KEYS, *part = t->out + r * s->part_row;
        add_mask(w, t, r, scores);
        part[1] = s->kernels->weights(scores, t->count, &part[0]);
    }
    get_values(w, t);
}

/* One query: its partial results, put together. */
static void merge(const worker *w, const float *parts, int64_t batch, int64_t kv_head,
                  int64_t row) {
    const decode_state *s = w->s;
    float most = -INFINITY, sum = 0, *values = w->q;
    const int64_t step = s->rows * s->part_row;
    const float *first =
        parts + (batch * s->kv_heads + kv_head) * s->parts * step + row * s->part_row;
    for (int64_t i = 0; i < s->parts; i++) most = fmaxf(most, first[i * step]);
    if (most == -INFINITY) most = 0; /* nothing is seen: the difference must not be -inf - -inf */
    for (int64_t c = 0; c < s->dv; c++) values[c] = 0;
    for (int64_t i = 0; i < s->parts; i++) {
        const float *part = first + i * step, factor = expf(part[0] - most);
        if (part[1] == 0 || (factor == 0 && !isnan(part[1]))) continue;
        sum += part[1] * factor;
        for (int64_t c = 0; c < s->dv; c++) values[c] += part[FIRST_VALUE + c] * factor;
    }
    const float by = sum == 0 ? 0 : 1 / sum;
    for (int64_t c = 0; c < s->dv; c++) values[c] *= by;
    const hn_ext_matrix all = operand(w, OUT, HN_ATTENTION_OUT, batch, head_of(s, kv_head, row)),
                        out = hn_ext_matrix_from(&all, row % s->m, 0);
    hn_ext_matrix_put_row(&out, values, s->dv);
}

typedef struct job {
    const hn_ext_call *call;
    float *scratch;
} job;

static worker worker_of(const job *j, int rank) {
    const decode_state *s = j->call->state;
    worker w = {.s = s, .call = j->call, .q = j->scratch + s->all_parts + rank * s->thread_floats};
    w.weights = w.q + s->rows * hn_ext_max(s->d, s->dv);
    w.buffer = w.weights + s->rows * KEYS;
    return w;
}

static void run_tasks(void *context, int rank) {
    const job *j = context;
    const worker w = worker_of(j, rank);
    const decode_state *s = w.s;
    const int64_t tasks = s->batch * s->kv_heads * s->parts;
    for (int64_t i = tasks * rank / s->threads; i < tasks * (rank + 1) / s->threads; i++) {
        const int64_t first = i % s->parts * KEYS, head = i / s->parts;
        run_task(&w, &(task){.batch = head / s->kv_heads,
                             .kv_head = head % s->kv_heads,
                             .first = first,
                             .count = hn_ext_min(KEYS, s->n - first),
                             .out = j->scratch + i * s->rows * s->part_row});
    }
}

static void merge_rows(void *context, int rank) {
    const job *j = context;
    const worker w = worker_of(j, rank);
    const decode_state *s = w.s;
    const int64_t rows = s->batch * s->kv_heads * s->rows;
    for (int64_t i = rows * rank / s->threads; i < rows * (rank + 1) / s->threads; i++)
        merge(&w, j->scratch, i / s->rows / s->kv_heads, i / s->rows % s->kv_heads, i % s->rows);
}

static hn_status decode_run(const hn_ext_call *call, void *scratch) {
    const decode_state *s = call->state;
    if (s->batch == 0 || s->heads == 0 || s->m == 0 || s->dv == 0) return NULL;
    job j = {.call = call, .scratch = scratch};
    hn_team_run(call->team, s->threads, run_tasks, &j);
    hn_team_run(call->team, s->threads, merge_rows, &j);
    return NULL;
}

static void plan(decode_state *s) {
    s->rows = s->kv_heads ? s->heads / s->kv_heads * s->m : 0;
    s->parts = hn_ext_ceil_div(s->n, KEYS);
    s->part_row = FIRST_VALUE + s->dv;
    s->all_parts =
        hn_ext_ceil_div(s->batch * s->kv_heads * s->parts * s->rows * s->part_row, 16) * 16;
    const int64_t wide = hn_ext_max(s->d, s->dv);
    s->thread_floats = hn_ext_ceil_div(s->rows * (wide + KEYS) + CONVERTED * wide, 16) * 16;
    /* see ext.h */
    if ((double)s->batch * (double)s->kv_heads * (double)s->n * (double)(s->d + s->dv) <
        PARALLEL_FLOATS)
        s->threads = 1;
}

/* What is multiplied for sizes of memory stays below 2^62. */
static bool is_small_enough(const decode_state *s) {
    const double wide = (double)s->d + (double)s->dv + KEYS;
    return (double)s->batch * (double)s->heads * ((double)s->n + KEYS) * wide < 0x1p52 &&
           (double)s->heads * wide < 0x1p40;
}

static bool takes_types(const hn_ext_call *call) {
    const uint8_t mask = call->dtypes[MASK];
    for (int i = OUT; i <= V; i++)
        if (!hn_ext_matrix_takes(call->dtypes[i])) return false;
    return mask == HN_NO_TYPE || mask == HN_F32 || mask == HN_F64 || mask == HN_BOOL;
}

static hn_status decode_prepare(hn_ext_call *call) {
    const int64_t *p = call->params;
    double scale;
    memcpy(&scale, &p[HN_ATTENTION_SCALE], sizeof scale);
    decode_state s = {.kernels = hn_ext_kernels_get(),
                      .batch = p[HN_ATTENTION_BATCH],
                      .heads = p[HN_ATTENTION_BATCH + 1],
                      .kv_heads = p[HN_ATTENTION_KV_HEADS],
                      .m = p[HN_ATTENTION_M],
                      .n = p[HN_ATTENTION_N],
                      .d = p[HN_ATTENTION_D],
                      .dv = p[HN_ATTENTION_DV],
                      .scale = (float)scale,
                      .causal = p[HN_ATTENTION_CAUSAL] != 0,
                      .threads = hn_ext_tasks(call)};
    const bool is_named = call->form && call->form->kind;
    if (s.m > (is_named ? MOST_QUERIES : MAX_QUERIES) || !takes_types(call) || !is_small_enough(&s))
        return HN_ERROR(HN_UNSUPPORTED, "not attention of few queries");
    plan(&s);
    HN_TRY(hn_ext_state_keep(call, &s, sizeof s));
    call->scratch_bytes = (size_t)(s.all_parts + s.threads * s.thread_floats) * sizeof(float);
    return NULL;
}

const hn_ext_impl hn_ext_attention_decode = {.name = "attention of few queries",
                                             .prepare = decode_prepare,
                                             .run = decode_run,
                                             .release = hn_ext_state_free};
