/* backward.c: the gradients of attention in blocks: no matrix of all scores exists.
 *
 * A task takes a block of up to 512 keys of one key head, and goes over the queries of all heads
 * that share it in blocks of 64. It computes their scores and weights again, and the products of
 * gradients and values, and adds to the gradients of keys, values and queries: five products. The
 * weights need the greatest score and the sum of the whole row; if there are several blocks of
 * keys, a pass before finds these, which is a sixth product. Source: Dao et al., FlashAttention
 * (2022).
 *
 * With several blocks, those of a key head are one task after another, which adds to gradients of
 * queries in order; or, where there are too few heads for the threads, each leaves its own sums,
 * and these are added up in the same order. So the result is the same for any number of threads.
 *
 * Infinities and NaN times a weight of 0 would spoil the sums: key heads that have some are done by
 * plain loops (backward_plain.c). */
#include "ops/cpu/attention/backward.h"

#include "henry/tensor.h"
#include "ops/cpu/attention/backward_block.h"
#include "ops/cpu/conv/conv.h"
#include "ops/cpu/gemm/matrix.h"
#include "ops/cpu/share.h"

#include <math.h>
#include <string.h>

enum {
    KEY_BLOCK = 512,
    STATS_QUERIES = 512, /* of a task; each lays out the keys anew */
    QUERIES = HN_EXT_BACKWARD_QUERIES,
    MASK = HN_EXT_BACKWARD_MASK,
    PARALLEL_FLOPS = 2 << 20
};

typedef hn_ext_backward_stats stats;
typedef hn_ext_backward_worker worker;
typedef hn_ext_backward_queries queries;

typedef struct backward_state {
    hn_ext_backward_plan plan;
    int threads;
    bool is_split;          /* blocks of a key head are tasks of their own */
    int64_t head_floats;    /* gradients of the queries of a key head: [group][m][q_width] */
    int64_t stats_floats;   /* of all queries */
    int64_t partial_floats; /* is_split: [batch, kv_heads, blocks] of head_floats */
    int64_t flag_floats;    /* a flag for each key head */
    int64_t worker_floats;  /* of hn_ext_backward_worker */
    int64_t own_floats; /* of a thread: those, gradients of queries, and what plain loops need */
} backward_state;

/* One run; what its tasks have in common. */
typedef struct job {
    const hn_ext_call *call;
    const backward_state *s;
    hn_ext_share *shares; /* of the phase */
    stats *stats;         /* NULL: one block */
    int32_t *finite;      /* [batch, kv_heads]; NULL: one block */
    float *partial, *threads;
} job;

static job job_of(const hn_ext_call *call, void *scratch) {
    const backward_state *s = call->state;
    job j = {.call = call, .s = s, .shares = scratch};
    float *at = (float *)(j.shares + s->threads);
    if (s->plan.blocks > 1) {
        j.stats = (stats *)(void *)at;
        j.finite = (int32_t *)(void *)(at + s->stats_floats);
    }
    j.partial = at + s->stats_floats + s->flag_floats;
    j.threads = j.partial + s->partial_floats;
    return j;
}

/* Returns the memory behind the worker's. */
static float *worker_of(const job *j, int rank, worker *out) {
    float *at = j->threads + rank * j->s->own_floats;
    out->call = j->call;
    hn_ext_backward_worker_init(out, &j->s->plan, at);
    return at + j->s->worker_floats;
}

static int64_t next_of(const job *j, int rank) {
    return hn_ext_share_next(j->shares, rank, j->s->threads);
}

static void run_phase(job *j, hn_task_fn fn, int64_t pieces) {
    for (int i = 0; i < j->s->threads; i++) hn_ext_share_set(j->shares, i, j->s->threads, pieces);
    hn_team_run(j->call->team, j->s->threads, fn, j);
}

/* ---- phases ---- */

static void find_finite(void *context, int rank) {
    const job *j = context;
    const hn_ext_backward_plan *p = &j->s->plan;
    worker w;
    worker_of(j, rank, &w);
    for (int64_t i; (i = next_of(j, rank)) >= 0;)
        j->finite[i] = hn_ext_backward_is_finite(&w, i / p->kv_heads, i % p->kv_heads);
}

static void find_stats(void *context, int rank) {
    const job *j = context;
    const hn_ext_backward_plan *p = &j->s->plan;
    const int64_t parts = hn_ext_ceil_div(p->m, STATS_QUERIES);
    worker w;
    worker_of(j, rank, &w);
    for (int64_t i; (i = next_of(j, rank)) >= 0;) {
        const int64_t head = i / parts, first = i % parts * STATS_QUERIES;
        const queries q = {head / p->heads, head % p->heads, first,
                           hn_ext_min(STATS_QUERIES, p->m - first)};
        hn_ext_backward_find_stats(&w, &q, j->stats + head * p->m + first);
    }
}

/* The queries of a key head, whose gradients are complete. */
static void store_head(const worker *w, int64_t batch, int64_t kv_head, float *d_q) {
    const hn_ext_backward_plan *p = w->plan;
    for (int64_t h = 0; h < p->group; h++)
        hn_ext_backward_store_queries(w, &(queries){batch, kv_head * p->group + h, 0, p->m},
                                      d_q + h * p->m * p->q_width);
}

static void run_heads(void *context, int rank) {
    const job *j = context;
    const hn_ext_backward_plan *p = &j->s->plan;
    worker w;
    float *d_q = worker_of(j, rank, &w);
    for (int64_t i; (i = next_of(j, rank)) >= 0;) {
        const int64_t batch = i / p->kv_heads, head = i % p->kv_heads;
        const bool finite = j->finite ? j->finite[i] : hn_ext_backward_is_finite(&w, batch, head);
        if (!finite) {
            hn_ext_backward_plain(j->call, batch, head, (double *)(void *)d_q);
            continue;
        }
        for (int64_t b = 0; b < p->blocks; b++)
            hn_ext_backward_block(&w, batch, head, b, j->stats, d_q, b > 0);
        if (p->blocks > 1) store_head(&w, batch, head, d_q);
    }
}

static void run_blocks(void *context, int rank) {
    const job *j = context;
    const hn_ext_backward_plan *p = &j->s->plan;
    worker w;
    float *own = worker_of(j, rank, &w);
    for (int64_t i; (i = next_of(j, rank)) >= 0;) {
        const int64_t block = i % p->blocks, head = i / p->blocks;
        const int64_t batch = head / p->kv_heads, kv_head = head % p->kv_heads;
        if (j->finite[head])
            hn_ext_backward_block(&w, batch, kv_head, block, j->stats,
                                  j->partial + i * j->s->head_floats, false);
        else if (block == 0) hn_ext_backward_plain(j->call, batch, kv_head, (double *)(void *)own);
    }
}

/* Sums of all blocks that the queries see become those of the first. */
static void join_blocks(const job *j, int64_t head, int64_t at, int64_t first, int64_t count) {
    const hn_ext_backward_plan *p = &j->s->plan;
    float *to = j->partial + head * p->blocks * j->s->head_floats + at;
    for (int64_t b = 1; b < p->blocks && hn_ext_backward_sees(p, first, count, b); b++) {
        const float *from = to + b * j->s->head_floats;
        for (int64_t k = 0; k < count * p->q_width; k++) to[k] += from[k];
    }
}

static void join_queries(void *context, int rank) {
    const job *j = context;
    const hn_ext_backward_plan *p = &j->s->plan;
    const int64_t parts = hn_ext_ceil_div(p->m, QUERIES);
    worker w;
    worker_of(j, rank, &w);
    for (int64_t i; (i = next_of(j, rank)) >= 0;) {
        const int64_t first = i % parts * QUERIES, count = hn_ext_min(QUERIES, p->m - first);
        const int64_t h = i / parts % p->group, head = i / parts / p->group;
        const int64_t at = (h * p->m + first) * p->q_width;
        const queries q = {head / p->kv_heads, head % p->kv_heads * p->group + h, first, count};
        if (!j->finite[head]) continue;
        join_blocks(j, head, at, first, count);
        hn_ext_backward_store_queries(&w, &q,
                                      j->partial + head * p->blocks * j->s->head_floats + at);
    }
}

static hn_status backward_run(const hn_ext_call *call, void *scratch) {
    job j = job_of(call, scratch);
    const hn_ext_backward_plan *p = &j.s->plan;
    const int64_t heads = p->batch * p->kv_heads;
    if (heads == 0) return NULL;
    if (p->blocks > 1) {
        run_phase(&j, find_finite, heads);
        run_phase(&j, find_stats, p->batch * p->heads * hn_ext_ceil_div(p->m, STATS_QUERIES));
    }
    if (!j.s->is_split) {
        run_phase(&j, run_heads, heads);
        return NULL;
    }
    run_phase(&j, run_blocks, heads * p->blocks);
    run_phase(&j, join_queries, p->batch * p->heads * hn_ext_ceil_div(p->m, QUERIES));
    return NULL;
}

/* ---- the implementation ---- */

static int64_t lines(int64_t floats) { return hn_ext_ceil_div(floats, 16) * 16; }

static void plan_blocks(backward_state *s) {
    hn_ext_backward_plan *p = &s->plan;
    const int64_t cols = p->kernels->tile_cols;
    p->group = p->kv_heads ? p->heads / p->kv_heads : 0;
    p->blocks = hn_ext_max(1, hn_ext_ceil_div(p->n, KEY_BLOCK));
    p->block = hn_ext_ceil_div(p->n, p->blocks);
    p->width = hn_ext_ceil_div(p->block, cols) * cols;
    p->q_width = hn_ext_ceil_div(p->d, cols) * cols;
    /* as many pieces of about the same size as two for each thread need no splitting */
    s->is_split =
        p->blocks > 1 && s->threads > 1 && p->batch * p->kv_heads < 2 * (int64_t)s->threads;
}

static void plan_memory(backward_state *s, int64_t plain_doubles) {
    const hn_ext_backward_plan *p = &s->plan;
    const bool several = p->blocks > 1;
    worker unused = {.call = NULL};
    s->head_floats = lines(p->group * p->m * p->q_width);
    s->stats_floats = several ? lines(2 * p->batch * p->heads * p->m) : 0;
    s->flag_floats = several ? lines(p->batch * p->kv_heads) : 0;
    s->partial_floats = s->is_split ? p->batch * p->kv_heads * p->blocks * s->head_floats : 0;
    s->worker_floats = hn_ext_backward_worker_init(&unused, p, NULL);
    const int64_t sums = s->is_split ? 0 : several ? s->head_floats : QUERIES * p->q_width;
    s->own_floats = s->worker_floats + lines(hn_ext_max(sums, 2 * plain_doubles));
}

/* What is multiplied for sizes of memory, and the number of tasks, stay in range. */
static bool is_small_enough(const backward_state *s) {
    const hn_ext_backward_plan *p = &s->plan;
    const double wide = (double)p->d + (double)p->dv + 64,
                 heads = (double)p->batch * ((double)p->heads + (double)p->kv_heads),
                 blocks = (double)p->n / KEY_BLOCK + 1;
    return heads * ((double)p->m + 64) * blocks * wide < 0x1p56 && wide < 0x1p40 &&
           heads * blocks < HN_EXT_SHARE_MAX &&
           heads * ((double)p->m / QUERIES + 1) < HN_EXT_SHARE_MAX;
}

static bool takes_types(const hn_ext_call *call) {
    const uint8_t mask = call->dtypes[MASK];
    return hn_ext_matrix_takes(call->dtypes[0]) &&
           (mask == HN_NO_TYPE || mask == HN_F64 || mask == HN_BOOL || hn_ext_matrix_takes(mask));
}

static hn_status backward_prepare(hn_ext_call *call) {
    const int64_t *params = call->params;
    int64_t doubles;
    double scale;
    memcpy(&scale, &params[HN_ATTENTION_BACKWARD_SCALE], sizeof scale);
    backward_state s = {.plan = {.kernels = hn_ext_kernels_get(),
                                 .batch = params[HN_ATTENTION_BATCH],
                                 .heads = params[HN_ATTENTION_BATCH + 1],
                                 .kv_heads = params[HN_ATTENTION_KV_HEADS],
                                 .m = params[HN_ATTENTION_M],
                                 .n = params[HN_ATTENTION_N],
                                 .d = params[HN_ATTENTION_D],
                                 .dv = params[HN_ATTENTION_DV],
                                 .scale = (float)scale,
                                 .causal = params[HN_ATTENTION_BACKWARD_CAUSAL] != 0},
                        .threads = call->threads};
    if (!takes_types(call) || !is_small_enough(&s) ||
        !hn_ext_backward_plain_doubles(call, &doubles))
        return HN_ERROR(HN_UNSUPPORTED, "no gradients of attention for blocks");
    const double flops = 2.0 * (double)s.plan.batch * (double)s.plan.heads * (double)s.plan.m *
                         (double)s.plan.n * (double)(3 * s.plan.d + 2 * s.plan.dv);
    if (flops < PARALLEL_FLOPS) s.threads = 1; /* one or all: see ext.h */
    plan_blocks(&s);
    plan_memory(&s, doubles);
    HN_TRY(hn_ext_state_keep(call, &s, sizeof s));
    call->scratch_bytes =
        (size_t)s.threads * sizeof(hn_ext_share) +
        (size_t)(s.stats_floats + s.flag_floats + s.partial_floats + s.threads * s.own_floats) *
            sizeof(float);
    return NULL;
}

const hn_ext_impl hn_ext_attention_backward = {.name = "blocked attention backward",
                                               .prepare = backward_prepare,
                                               .run = backward_run,
                                               .release = hn_ext_state_free};
