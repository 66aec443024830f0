/* backward_plain.c: the gradients of attention by their formulas.
 *
 * With the weights P = softmax(S) of one query, S its scores, G the gradient of its result O and
 * dot = G . O: the gradient of V is P G, that of a score is P (G . V - dot), and those of Q and K
 * are its products with scale K and scale Q. Source: FlashAttention (Dao et al., 2022), appendix B.
 * First each query has its own gradient, then each key: it sums over queries in order. A query that
 * sees no key adds nothing. */
#include "ops/cpu/attention/backward.h"

#include "base/checked.h"
#include "ops/cpu/elements.h"

enum {
    GRAD = HN_EXT_BACKWARD_GRAD,
    Q = HN_EXT_BACKWARD_Q,
    K = HN_EXT_BACKWARD_K,
    V = HN_EXT_BACKWARD_V,
    OUT = HN_EXT_BACKWARD_OUT,
    MASK = HN_EXT_BACKWARD_MASK
};

/* Of one query: its greatest score, the sum of e^(score - that), and dot. */
typedef struct row_facts {
    double high, sum, dot;
} row_facts;

typedef struct group {
    const hn_ext_call *call;
    int64_t batch, kv_head, heads; /* those that share it */
    int64_t m, n, d, dv;
    double scale;
    bool causal;
    row_facts *facts; /* [heads, m] */
    double *row;      /* [n], [d] or [d + dv] */
} group;

/* One query of one head. */
typedef struct query {
    int64_t head, row;
    row_facts *facts;
} query;

/* Where the elements of a row are, `step` apart. */
typedef struct line {
    void *base;
    uint8_t dtype;
    int64_t at, step;
} line;

static line line_of(const group *g, int operand, int64_t head, int64_t row) {
    const int64_t *s = hn_ext_backward_strides(g->call, operand);
    return (line){g->call->operands[operand], g->call->dtypes[operand],
                  g->batch * s[0] + head * s[1] + row * s[2], s[3]};
}

static double get(const line *l, int64_t k) {
    return hn_ext_load(l->dtype, l->base, l->at + k * l->step).f;
}

static void put_row(const line *l, const double *x, int64_t count) {
    for (int64_t k = 0; k < count; k++)
        hn_ext_store(l->dtype, l->base, l->at + k * l->step, (hn_ext_number){.f = x[k]});
}

static double dot_of(line a, line b, int64_t count) {
    double sum = 0;
    for (int64_t k = 0; k < count; k++) sum += get(&a, k) * get(&b, k);
    return sum;
}

/* -INFINITY: the query does not see the key, and what they hold does not matter. */
static double score(const group *g, const query *q, int64_t key) {
    const uint8_t mask_dtype = g->call->dtypes[MASK];
    double added = 0;
    if (g->causal && key > q->row) return -INFINITY;
    if (mask_dtype) {
        const line mask = line_of(g, MASK, q->head, q->row);
        const hn_ext_number x = hn_ext_load(mask.dtype, mask.base, mask.at + key * mask.step);
        if (hn_ext_is_float(mask_dtype)) added = x.f;
        else if (!x.u) return -INFINITY;
        if (added == -INFINITY) return -INFINITY;
    }
    return dot_of(line_of(g, Q, q->head, q->row), line_of(g, K, g->kv_head, key), g->d) * g->scale +
           added;
}

static double weight_of(const query *q, double x) {
    return x == -INFINITY ? 0 : exp(x - q->facts->high) / q->facts->sum;
}

/* The gradient of a score but for its weight and the scale. */
static double change_of(const group *g, const query *q, int64_t key) {
    return dot_of(line_of(g, GRAD, q->head, q->row), line_of(g, V, g->kv_head, key), g->dv) -
           q->facts->dot;
}

/* Facts of a row, whose scores stay in `row`. */
static void find_facts(const group *g, const query *q) {
    row_facts f = {.high = -INFINITY};
    for (int64_t j = 0; j < g->n; j++) {
        g->row[j] = score(g, q, j);
        if (isnan(g->row[j]) || g->row[j] > f.high) f.high = g->row[j];
    }
    for (int64_t j = 0; j < g->n; j++)
        if (g->row[j] != -INFINITY) f.sum += exp(g->row[j] - f.high);
    f.dot = dot_of(line_of(g, GRAD, q->head, q->row), line_of(g, OUT, q->head, q->row), g->dv);
    *q->facts = f;
}

static void run_query(const group *g, const query *q) {
    double *sums = g->row + g->n;
    find_facts(g, q);
    for (int64_t c = 0; c < g->d; c++) sums[c] = 0;
    for (int64_t j = 0; j < g->n; j++) {
        const double weight = weight_of(q, g->row[j]);
        if (weight == 0) continue;
        const double change = weight * change_of(g, q, j) * g->scale;
        const line k = line_of(g, K, g->kv_head, j);
        for (int64_t c = 0; c < g->d; c++) sums[c] += change * get(&k, c);
    }
    const line out = line_of(g, HN_EXT_BACKWARD_D_Q, q->head, q->row);
    put_row(&out, sums, g->d);
}

static query query_of(const group *g, int64_t index) {
    return (query){g->kv_head * g->heads + index / g->m, index % g->m, &g->facts[index]};
}

static void run_key(const group *g, int64_t key) {
    double *d_k = g->row, *d_v = g->row + g->d;
    for (int64_t c = 0; c < g->d + g->dv; c++) g->row[c] = 0;
    for (int64_t i = 0; i < g->heads * g->m; i++) {
        const query at = query_of(g, i);
        const double weight = weight_of(&at, score(g, &at, key));
        if (weight == 0) continue;
        const double change = weight * change_of(g, &at, key) * g->scale;
        const line q = line_of(g, Q, at.head, at.row), grad = line_of(g, GRAD, at.head, at.row);
        for (int64_t c = 0; c < g->d; c++) d_k[c] += change * get(&q, c);
        for (int64_t c = 0; c < g->dv; c++) d_v[c] += weight * get(&grad, c);
    }
    const line to_k = line_of(g, HN_EXT_BACKWARD_D_K, g->kv_head, key),
               to_v = line_of(g, HN_EXT_BACKWARD_D_V, g->kv_head, key);
    put_row(&to_k, d_k, g->d);
    put_row(&to_v, d_v, g->dv);
}

static int64_t shared_heads(const int64_t *p) {
    return p[HN_ATTENTION_KV_HEADS] ? p[HN_ATTENTION_BATCH + 1] / p[HN_ATTENTION_KV_HEADS] : 0;
}

/* Facts, then the row: [n] and [d], or [d + dv]. */
bool hn_ext_backward_plain_doubles(const hn_ext_call *call, int64_t *out) {
    const int64_t *p = call->params;
    int64_t facts, row;
    return hn_mul_i64(shared_heads(p), p[HN_ATTENTION_M], &facts) && hn_mul_i64(facts, 3, &facts) &&
           hn_add_i64(p[HN_ATTENTION_N], p[HN_ATTENTION_D], &row) &&
           hn_add_i64(row, p[HN_ATTENTION_DV], &row) && hn_add_i64(facts, row, out) &&
           *out < INT64_MAX / 16;
}

void hn_ext_backward_plain(const hn_ext_call *call, int64_t batch, int64_t kv_head,
                           double *scratch) {
    const int64_t *p = call->params;
    group g = {.call = call,
               .batch = batch,
               .kv_head = kv_head,
               .heads = shared_heads(p),
               .m = p[HN_ATTENTION_M],
               .n = p[HN_ATTENTION_N],
               .d = p[HN_ATTENTION_D],
               .dv = p[HN_ATTENTION_DV],
               .causal = p[HN_ATTENTION_BACKWARD_CAUSAL] != 0,
               .facts = (row_facts *)(void *)scratch,
               .row = scratch};
    memcpy(&g.scale, &p[HN_ATTENTION_BACKWARD_SCALE], sizeof g.scale);
    g.row += 3 * g.heads * g.m;
    for (int64_t i = 0; i < g.heads * g.m; i++) {
        const query q = query_of(&g, i);
        run_query(&g, &q);
    }
    for (int64_t j = 0; j < g.n; j++) run_key(&g, j);
}
