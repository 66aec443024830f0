/* attention_backward.c: see attention_backward.h.
 *
 * With the weights P = softmax(S) of one query, S its scores, G the gradient of its result O and
 * dot = G . O: the gradient of V is P G, that of a score is P (G . V - dot), and those of Q and K
 * are its products with scale K and scale Q. Source: FlashAttention (Dao et al., 2022), appendix B.
 * A query that sees no key adds nothing. */
#include "interp/attention_backward.h"

#include "ir/loop_interp.h"

#include <math.h>
#include <string.h>

enum { D_Q, D_K, D_V, GRAD, Q, K, V, OUT, MASK };

typedef struct problem {
    const hn_ext_call *call;
    int64_t batches, heads, kv_heads, m, n, d, dv;
    double scale;
    bool is_causal;
    double *d_k, *d_v; /* [batch, kv head, n, d or dv]: several heads add to them */
    double *scores;    /* of one query: [n] */
} problem;

/* One query of one head. */
typedef struct query {
    int64_t batch, head, row;
} query;

static const int64_t *strides_of(const problem *p, int operand) {
    static const uint8_t at[] = {
        [D_Q] = HN_ATTENTION_BACKWARD_D_Q,  [D_K] = HN_ATTENTION_BACKWARD_D_K,
        [D_V] = HN_ATTENTION_BACKWARD_D_V,  [GRAD] = HN_ATTENTION_BACKWARD_GRAD,
        [Q] = HN_ATTENTION_BACKWARD_Q,      [K] = HN_ATTENTION_BACKWARD_K,
        [V] = HN_ATTENTION_BACKWARD_V,      [OUT] = HN_ATTENTION_BACKWARD_OUT,
        [MASK] = HN_ATTENTION_BACKWARD_MASK};
    return &p->call->params[at[operand]];
}

static uint8_t *address(const problem *p, int operand, int64_t batch, int64_t head, int64_t row,
                        int64_t column) {
    const int64_t *s = strides_of(p, operand);
    const int64_t at = batch * s[0] + head * s[1] + row * s[2] + column * s[3];
    const int64_t size = hn_dtype_facts((hn_dtype)p->call->dtypes[operand])->size_bytes;
    return (uint8_t *)p->call->operands[operand] + at * size;
}

static double get(const problem *p, int operand, int64_t batch, int64_t head, int64_t row,
                  int64_t column) {
    const hn_dtype dtype = (hn_dtype)p->call->dtypes[operand];
    const hn_ref_elem e = hn_ref_elem_read(dtype, address(p, operand, batch, head, row, column));
    return hn_dtype_is_float(dtype) ? e.f : (double)e.i;
}

static void put(const problem *p, int operand, int64_t batch, int64_t head, int64_t row,
                int64_t column, double value) {
    hn_ref_elem_write((hn_dtype)p->call->dtypes[operand], (hn_ref_elem){.f = value},
                      address(p, operand, batch, head, row, column));
}

static int64_t kv_head(const problem *p, const query *q) {
    return q->head / (p->heads / p->kv_heads);
}

/* -INFINITY: the query does not see the key. */
static double score(const problem *p, const query *q, int64_t key) {
    double dot = 0, mask = 0;
    if (p->is_causal && key > q->row) return -INFINITY;
    if (p->call->dtypes[MASK]) mask = get(p, MASK, q->batch, q->head, q->row, key);
    if (p->call->dtypes[MASK] == HN_DTYPE_BOOL) {
        if (mask == 0) return -INFINITY;
        mask = 0;
    }
    for (int64_t c = 0; c < p->d; c++)
        dot += get(p, Q, q->batch, q->head, q->row, c) * get(p, K, q->batch, kv_head(p, q), key, c);
    return dot * p->scale + mask;
}

/* Scores become weights. False: it sees no key. */
static bool weigh(const problem *p, const query *q) {
    double high = -INFINITY, sum = 0;
    for (int64_t j = 0; j < p->n; j++) {
        p->scores[j] = score(p, q, j);
        if (p->scores[j] > high) high = p->scores[j];
    }
    for (int64_t j = 0; j < p->n; j++)
        sum += p->scores[j] = p->scores[j] == -INFINITY ? 0 : exp(p->scores[j] - high);
    for (int64_t j = 0; j < p->n; j++) p->scores[j] /= sum;
    return high != -INFINITY;
}

/* What one key gets of a query, and the query of it. */
static void add_key(const problem *p, const query *q, int64_t key, double dot, double *d_q) {
    const int64_t kv = kv_head(p, q), row = (q->batch * p->kv_heads + kv) * p->n + key;
    const double weight = p->scores[key];
    double change = -dot;
    for (int64_t c = 0; c < p->dv; c++) {
        const double grad = get(p, GRAD, q->batch, q->head, q->row, c);
        change += grad * get(p, V, q->batch, kv, key, c);
        p->d_v[row * p->dv + c] += weight * grad;
    }
    change *= weight * p->scale;
    for (int64_t c = 0; c < p->d; c++) {
        d_q[c] += change * get(p, K, q->batch, kv, key, c);
        p->d_k[row * p->d + c] += change * get(p, Q, q->batch, q->head, q->row, c);
    }
}

static void run_query(const problem *p, const query *q, double *d_q) {
    double dot = 0;
    memset(d_q, 0, (size_t)p->d * sizeof *d_q);
    if (weigh(p, q)) {
        for (int64_t c = 0; c < p->dv; c++)
            dot += get(p, GRAD, q->batch, q->head, q->row, c) *
                   get(p, OUT, q->batch, q->head, q->row, c);
        for (int64_t j = 0; j < p->n; j++)
            if (p->scores[j] != 0) add_key(p, q, j, dot, d_q);
    }
    for (int64_t c = 0; c < p->d; c++) put(p, D_Q, q->batch, q->head, q->row, c, d_q[c]);
}

static void store_sums(const problem *p, int operand, const double *sums, int64_t columns) {
    for (int64_t b = 0; b < p->batches; b++)
        for (int64_t h = 0; h < p->kv_heads; h++)
            for (int64_t j = 0; j < p->n; j++)
                for (int64_t c = 0; c < columns; c++)
                    put(p, operand, b, h, j, c,
                        sums[((b * p->kv_heads + h) * p->n + j) * columns + c]);
}

hn_status hn_reference_attention_backward(const hn_ext_call *call, hn_arena *arena) {
    const int64_t *params = call->params;
    problem p = {.call = call,
                 .batches = params[HN_ATTENTION_BATCH],
                 .heads = params[HN_ATTENTION_BATCH + 1],
                 .kv_heads = params[HN_ATTENTION_KV_HEADS],
                 .m = params[HN_ATTENTION_M],
                 .n = params[HN_ATTENTION_N],
                 .d = params[HN_ATTENTION_D],
                 .dv = params[HN_ATTENTION_DV],
                 .is_causal = params[HN_ATTENTION_BACKWARD_CAUSAL] != 0};
    const int64_t keys = p.batches * p.kv_heads * p.n;
    double *d_q;
    memcpy(&p.scale, &params[HN_ATTENTION_BACKWARD_SCALE], sizeof p.scale);
    HN_NEW(arena, p.d_k, keys * p.d + 1);
    HN_NEW(arena, p.d_v, keys * p.dv + 1);
    HN_NEW(arena, p.scores, p.n + 1);
    HN_NEW(arena, d_q, p.d + 1);
    for (int64_t b = 0; b < p.batches; b++)
        for (int64_t h = 0; h < p.heads; h++)
            for (int64_t row = 0; row < p.m; row++) run_query(&p, &(query){b, h, row}, d_q);
    store_sums(&p, D_K, p.d_k, p.d);
    store_sums(&p, D_V, p.d_v, p.dv);
    return NULL;
}
