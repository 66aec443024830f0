/* attention.c: softmax(scale q k^T + mask) v in blocks: no matrix of all scores exists.
 *
 * A panel of queries (16 or 32: the columns of a register tile) goes over the keys in blocks of up
 * to 512. Everything is kept transposed, with queries along the lanes: scores^T = k q^T is a panel
 * [keys][queries]; softmax then needs no sums across lanes; and the panel is at once the packed
 * operand of out^T = v^T weights^T. Between blocks the sums are rescaled to the new maximum.
 * Source: Dao et al., FlashAttention (2022); Milakov and Gimelshein, Online normalizer calculation
 * for softmax (2018).
 *
 * First all threads lay out k and v in row panels, once for all queries (and all heads that share
 * them). */
#include "ops/cpu/attention/attention.h"

#include "henry/tensor.h"
#include "ops/cpu/attention/tiles.h"
#include "ops/cpu/conv/conv.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/share.h"

#include <math.h>
#include <string.h>

enum {
    OUT = 0,
    Q = 1,
    K = 2,
    V = 3,
    MASK = 4,
    KEY_BLOCK = 512,
    KEYS_MOST = 4096, /* of a block that the caller names */
    MAX_COLS = 32,
    TASKS_PER_THREAD = 32,
    PARALLEL_FLOPS = 2 << 20
};

typedef struct attention_state {
    const hn_ext_kernels *kernels;
    int64_t batch, heads, kv_heads, m, n, d, dv;
    float scale;
    bool causal;
    int threads;
    int64_t block, blocks;           /* keys in a block */
    int64_t panels, panels_per_task; /* of queries, for each head */
    int64_t k_block, v_block;        /* floats of a packed block */
    int64_t thread_floats, flag_floats;
} attention_state;

/* ---- k and v in panels ---- */

static int64_t block_keys(const attention_state *s, int64_t block) {
    return hn_ext_min(s->block, s->n - block * s->block);
}

/* Where the parts of the scratch memory are. */
typedef struct buffers {
    /* of the threads: blocks of k and v; panels of queries. Both go by heads: who packs one reads
     * it */
    hn_ext_share *packing, *tasks;
    float *k, *v;
    int32_t *finite; /* of each block of v */
    float *threads;
} buffers;

static buffers layout(const attention_state *s, void *scratch) {
    const int64_t all = s->batch * s->kv_heads * s->blocks;
    buffers b = {.packing = scratch};
    b.tasks = b.packing + s->threads;
    b.k = (float *)(b.tasks + s->threads);
    b.v = b.k + all * s->k_block;
    b.finite = (int32_t *)(b.v + all * s->v_block);
    b.threads = (float *)b.finite + s->flag_floats;
    return b;
}

static void pack_block(const attention_state *s, const hn_ext_call *call, const buffers *b,
                       int64_t index) {
    const int64_t *ks = call->params + HN_ATTENTION_K, *vs = call->params + HN_ATTENTION_V;
    const int64_t block = index % s->blocks, head = index / s->blocks % s->kv_heads,
                  batch = index / s->blocks / s->kv_heads;
    const int64_t first = block * s->block, keys = block_keys(s, block);
    const float *k =
        (const float *)call->operands[K] + batch * ks[0] + head * ks[1] + first * ks[2];
    const float *v =
        (const float *)call->operands[V] + batch * vs[0] + head * vs[1] + first * vs[2];
    hn_ext_tiles_pack(s->kernels, &(hn_ext_tiles){k, ks[2], ks[3], keys, s->d, NULL},
                      b->k + index * s->k_block);
    hn_ext_tiles_pack(s->kernels, &(hn_ext_tiles){v, vs[3], vs[2], s->dv, keys, NULL},
                      b->v + index * s->v_block);
    /* such values times a weight of 0 would spoil the sums, so they take another way */
    b->finite[index] = hn_ext_all_finite(v, vs[2], vs[3], keys, s->dv);
}

/* ---- one panel of queries ---- */

typedef struct worker {
    const attention_state *s;
    const hn_ext_call *call;
    const buffers *b;
    float *q, *scores, *out, *mask; /* panels: [d], [keys], [dv], [keys] rows of tile_cols */
    float *max, *sum, *rescale;
} worker;

typedef struct panel {
    int64_t batch, head, first, count; /* queries */
} panel;

/* Keys after the query are not seen: -inf in x[keys][tile_cols]. */
static void hide_later_keys(const worker *w, const panel *p, int64_t first_key, int64_t keys,
                            float *x) {
    const int64_t cols = w->s->kernels->tile_cols;
    for (int64_t k = hn_ext_max(0, p->first + 1 - first_key); k < keys; k++)
        for (int64_t q = 0; q < hn_ext_min(cols, first_key + k - p->first); q++)
            x[k * cols + q] = -INFINITY;
}

/* The mask of a block of keys, as one value a key or as a panel. Keys that are hidden anyway are
 * hidden in the mask, as what it holds for them may be anything. */
static void get_mask(const worker *w, const panel *p, int64_t first_key, int64_t keys,
                     hn_ext_softmax *x) {
    const uint8_t dtype = w->call->dtypes[MASK];
    const int64_t *ms = w->call->params + HN_ATTENTION_MASK, cols = w->s->kernels->tile_cols;
    if (dtype == HN_NO_TYPE) {
        if (w->s->causal) hide_later_keys(w, p, first_key, keys, w->scores);
        return;
    }
    const int64_t at = p->batch * ms[0] + p->head * ms[1] + p->first * ms[2] + first_key * ms[3];
    if (ms[2] == 0 && !w->s->causal) {
        for (int64_t k = 0; k < keys; k++)
            w->mask[k] = (float)hn_ext_mask_value(dtype, w->call->operands[MASK], at + k * ms[3]);
        x->key_mask = w->mask;
        return;
    }
    x->mask = w->mask;
    if (dtype == HN_F32) {
        w->s->kernels->pack(&(hn_ext_pack){.in = (const float *)w->call->operands[MASK] + at,
                                           .in_k = ms[3],
                                           .in_col = ms[2],
                                           .k = keys,
                                           .cols = p->count,
                                           .width = cols,
                                           .out = w->mask,
                                           .out_panel = keys * cols});
    } else {
        for (int64_t k = 0; k < keys; k++)
            for (int64_t q = 0; q < cols; q++)
                w->mask[k * cols + q] =
                    q < p->count ? (float)hn_ext_mask_value(dtype, w->call->operands[MASK],
                                                            at + q * ms[2] + k * ms[3])
                                 : 0;
    }
    if (w->s->causal) hide_later_keys(w, p, first_key, keys, w->mask);
}

/* out += v^T weights where v holds infinities or NaN: a weight of 0 takes nothing. */
static void add_special_values(const worker *w, const float *v, const int64_t *vs, int64_t keys) {
    const int64_t cols = w->s->kernels->tile_cols;
    for (int64_t k = 0; k < keys; k++)
        for (int64_t q = 0; q < cols; q++) {
            float weight = w->scores[k * cols + q];
            if (weight == 0) continue;
            for (int64_t c = 0; c < w->s->dv; c++)
                w->out[c * cols + q] += weight * v[k * vs[2] + c * vs[3]];
        }
}

static void run_block(const worker *w, const panel *p, int64_t block) {
    const attention_state *s = w->s;
    const int64_t first_key = block * s->block, all = block_keys(s, block),
                  cols = s->kernels->tile_cols;
    const int64_t keys = s->causal ? hn_ext_min(all, p->first + p->count - first_key) : all;
    const int64_t kv_head = p->head / (s->heads / s->kv_heads),
                  index = (p->batch * s->kv_heads + kv_head) * s->blocks + block;
    hn_ext_softmax x = {
        .scores = w->scores, .keys = keys, .max = w->max, .sum = w->sum, .rescale = w->rescale};
    hn_ext_tiles_multiply(s->kernels, &(hn_ext_tiles_product){.a = w->b->k + index * s->k_block,
                                                              .b = w->q,
                                                              .rows = all,
                                                              .needed = keys,
                                                              .length = s->d,
                                                              .k = s->d,
                                                              .b_k = cols,
                                                              .c_row = cols,
                                                              .c = w->scores});
    get_mask(w, p, first_key, keys, &x);
    s->kernels->softmax(&x);
    if (block > 0) s->kernels->scale(w->out, s->dv, w->rescale);
    if (w->b->finite[index]) {
        hn_ext_tiles_multiply(s->kernels, &(hn_ext_tiles_product){.a = w->b->v + index * s->v_block,
                                                                  .b = w->scores,
                                                                  .rows = s->dv,
                                                                  .needed = s->dv,
                                                                  .length = all,
                                                                  .k = keys,
                                                                  .b_k = cols,
                                                                  .c_row = cols,
                                                                  .c = w->out,
                                                                  .accumulate = block > 0});
        return;
    }
    const int64_t *vs = w->call->params + HN_ATTENTION_V;
    if (block == 0) memset(w->out, 0, (size_t)(s->dv * cols) * sizeof *w->out);
    add_special_values(w,
                       (const float *)w->call->operands[V] + p->batch * vs[0] + kv_head * vs[1] +
                           first_key * vs[2],
                       vs, keys);
}

static void run_panel(const worker *w, const panel *p) {
    const attention_state *s = w->s;
    const int64_t *qs = w->call->params + HN_ATTENTION_Q, *os = w->call->params + HN_ATTENTION_OUT,
                  cols = s->kernels->tile_cols;
    const float *q =
        (const float *)w->call->operands[Q] + p->batch * qs[0] + p->head * qs[1] + p->first * qs[2];
    float *out = (float *)w->call->operands[OUT] + p->batch * os[0] + p->head * os[1] +
                 p->first * os[2],
          factor[MAX_COLS];
    s->kernels->pack(&(hn_ext_pack){.in = q,
                                    .in_k = qs[3],
                                    .in_col = qs[2],
                                    .k = s->d,
                                    .cols = p->count,
                                    .width = cols,
                                    .out = w->q,
                                    .out_panel = cols * s->d});
    for (int64_t i = 0; i < cols; i++) w->max[i] = -INFINITY, w->sum[i] = 0, factor[i] = s->scale;
    s->kernels->scale(w->q, s->d, factor);
    if (s->blocks == 0) memset(w->out, 0, (size_t)(s->dv * cols) * sizeof *w->out);
    for (int64_t b = 0; b < s->blocks; b++) {
        if (s->causal && b * s->block >= p->first + p->count) break;
        run_block(w, p, b);
    }
    for (int64_t i = 0; i < cols; i++) factor[i] = w->sum[i] == 0 ? 0 : 1 / w->sum[i];
    if (os[3] == 1) {
        s->kernels->transpose(w->out, s->dv, p->count, factor, out, os[2]);
        return;
    }
    for (int64_t i = 0; i < p->count; i++)
        for (int64_t c = 0; c < s->dv; c++)
            out[i * os[2] + c * os[3]] = w->out[c * cols + i] * factor[i];
}

/* ---- the implementation ---- */

static int64_t tasks_of_head(const attention_state *s) {
    return hn_ext_ceil_div(s->panels, s->panels_per_task);
}

typedef struct job {
    const hn_ext_call *call;
    buffers b;
} job;

static void pack_task(void *context, int rank) {
    const job *j = context;
    const attention_state *s = j->call->state;
    for (int64_t i; (i = hn_ext_share_next(j->b.packing, rank, s->threads)) >= 0;)
        pack_block(s, j->call, &j->b, i);
}

static void run_task(void *context, int rank) {
    const job *of = context;
    const hn_ext_call *call = of->call;
    const buffers *b = &of->b;
    const attention_state *s = call->state;
    const int64_t cols = s->kernels->tile_cols, per_head = tasks_of_head(s);
    worker w = {.s = s, .call = call, .b = b, .q = b->threads + rank * s->thread_floats};
    w.scores = w.q + s->d * cols;
    w.mask = w.scores + s->block * cols;
    w.out = w.mask + s->block * cols;
    w.max = w.out + s->dv * cols;
    w.sum = w.max + cols;
    w.rescale = w.sum + cols;
    for (int64_t i; (i = hn_ext_share_next(b->tasks, rank, s->threads)) >= 0;) {
        int64_t from = i % per_head * s->panels_per_task, head = i / per_head;
        for (int64_t j = from; j < hn_ext_min(from + s->panels_per_task, s->panels); j++)
            run_panel(&w, &(panel){.batch = head / s->heads,
                                   .head = head % s->heads,
                                   .first = j * cols,
                                   .count = hn_ext_min(cols, s->m - j * cols)});
    }
}

static hn_status attention_run(const hn_ext_call *call, void *scratch) {
    const attention_state *s = call->state;
    if (s->batch == 0 || s->heads == 0 || s->m == 0 || s->dv == 0) return NULL;
    job j = {.call = call, .b = layout(s, scratch)};
    for (int i = 0; i < s->threads; i++) {
        hn_ext_share_set(j.b.packing, i, s->threads, s->batch * s->kv_heads * s->blocks);
        hn_ext_share_set(j.b.tasks, i, s->threads, s->batch * s->heads * tasks_of_head(s));
    }
    hn_team_run(call->team, s->threads, pack_task, &j);
    hn_team_run(call->team, s->threads, run_task, &j);
    return NULL;
}

static void plan(attention_state *s, const hn_ext_form *form) {
    const int64_t rows = s->kernels->tile_rows, cols = s->kernels->tile_cols,
                  keys = form && form->block > 0 ? hn_ext_min(form->block, KEYS_MOST) : KEY_BLOCK;
    s->blocks = hn_ext_ceil_div(s->n, keys);
    s->block = s->blocks ? hn_ext_ceil_div(s->n, s->blocks) : 0;
    s->k_block = hn_ext_ceil_div(hn_ext_tiles_count(s->kernels, s->block) * rows * s->d, 16) * 16;
    s->v_block = hn_ext_ceil_div(hn_ext_tiles_count(s->kernels, s->dv) * rows * s->block, 16) * 16;
    s->panels = hn_ext_ceil_div(s->m, cols);
    s->flag_floats = hn_ext_ceil_div(s->batch * s->kv_heads * s->blocks, 16) * 16;
    s->thread_floats = hn_ext_ceil_div((s->d + s->dv + 2 * s->block + 3) * cols, 16) * 16;
    double flops = 2.0 * (double)s->batch * (double)s->heads * (double)s->m * (double)s->n *
                   (double)(s->d + s->dv);
    if (flops < PARALLEL_FLOPS) s->threads = 1; /* one or all: see ext.h */
    s->panels_per_task = hn_ext_max(
        1, hn_ext_min(8, s->panels * s->heads * s->batch / (s->threads * TASKS_PER_THREAD)));
}

/* What is multiplied for sizes of memory stays below 2^62. */
static bool is_small_enough(const attention_state *s) {
    double kv = (double)s->batch * (double)s->kv_heads * ((double)s->n + KEY_BLOCK) *
                ((double)s->d + (double)s->dv + 64);
    return kv < 0x1p56 && (double)s->batch * (double)s->heads * ((double)s->m + 64) *
                                  ((double)s->d + (double)s->dv + 1) <
                              0x1p56;
}

static bool fits_shares(const attention_state *s) {
    const double tasks = (double)s->batch * (double)s->heads * (double)tasks_of_head(s);
    return tasks <= HN_EXT_SHARE_MAX &&
           (double)s->batch * (double)s->kv_heads * (double)s->blocks <= HN_EXT_SHARE_MAX;
}

static hn_status attention_prepare(hn_ext_call *call) {
    const int64_t *p = call->params;
    for (int i = OUT; i <= V; i++)
        if (call->dtypes[i] != HN_F32)
            return HN_ERROR(HN_UNSUPPORTED, "blocked attention is for f32");
    uint8_t mask = call->dtypes[MASK];
    if (mask != HN_NO_TYPE && mask != HN_F32 && mask != HN_F64 && mask != HN_BOOL)
        return HN_ERROR(HN_UNSUPPORTED, "blocked attention has no mask of this type");
    double scale;
    memcpy(&scale, &p[HN_ATTENTION_SCALE], sizeof scale);
    attention_state s = {.kernels = hn_ext_kernels_get(),
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
    if (!is_small_enough(&s)) return HN_ERROR(HN_UNSUPPORTED, "attention is too large for blocks");
    plan(&s, call->form);
    if (!fits_shares(&s))
        return HN_ERROR(HN_UNSUPPORTED, "attention has too many heads for blocks");
    HN_TRY(hn_ext_state_keep(call, &s, sizeof s));
    call->scratch_bytes = 2 * (size_t)s.threads * sizeof(hn_ext_share) +
                          (size_t)(s.batch * s.kv_heads * s.blocks * (s.k_block + s.v_block) +
                                   s.flag_floats + s.threads * s.thread_floats) *
                              sizeof(float);
    return NULL;
}

const hn_ext_impl hn_ext_attention_f32 = {.name = "blocked attention",
                                          .prepare = attention_prepare,
                                          .run = attention_run,
                                          .release = hn_ext_state_free};
