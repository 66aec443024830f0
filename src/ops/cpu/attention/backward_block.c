/* backward_block.c: see backward_block.h. */
#include "ops/cpu/attention/backward_block.h"

#include "henry/tensor.h"
#include "ops/cpu/attention/backward.h"
#include "ops/cpu/attention/tiles.h"
#include "ops/cpu/conv/conv.h"
#include "ops/cpu/gemm/matrix.h"

#include <math.h>
#include <string.h>

enum {
    GRAD = HN_EXT_BACKWARD_GRAD,
    Q = HN_EXT_BACKWARD_Q,
    K = HN_EXT_BACKWARD_K,
    V = HN_EXT_BACKWARD_V,
    OUT = HN_EXT_BACKWARD_OUT,
    MASK = HN_EXT_BACKWARD_MASK,
    QUERIES = HN_EXT_BACKWARD_QUERIES,
    MAX_COLS = 32
};

typedef hn_ext_backward_plan plan;
typedef hn_ext_backward_worker worker;
typedef hn_ext_backward_queries queries;
typedef hn_ext_backward_stats stats;

/* A block of keys of one key head. */
typedef struct keys {
    int64_t batch, kv_head, first, count;
} keys;

/* ---- memory ---- */

static float *take(float **memory, int64_t *all, int64_t floats) {
    float *at = *memory;
    const int64_t rounded = hn_ext_ceil_div(floats, 16) * 16;
    if (at) *memory += rounded;
    *all += rounded;
    return at;
}

int64_t hn_ext_backward_worker_init(worker *w, const plan *p, float *memory) {
    const int64_t rows = p->kernels->tile_rows, wide = hn_ext_max(p->d, p->dv);
    const int64_t query_rows = hn_ext_tiles_count(p->kernels, QUERIES) * rows;
    int64_t all = 0;
    w->plan = p;
    w->k_t = take(&memory, &all, p->width * p->d);
    w->v_t = take(&memory, &all, p->width * p->dv);
    w->k = take(&memory, &all, p->block * p->q_width);
    w->d_k_t = take(&memory, &all, p->width * p->d);
    w->d_v_t = take(&memory, &all, p->width * p->dv);
    w->q = take(&memory, &all, query_rows * p->d);
    w->grad = take(&memory, &all, query_rows * p->dv);
    w->q_t = take(&memory, &all, hn_ext_tiles_count(p->kernels, p->d) * rows * QUERIES);
    w->grad_t = take(&memory, &all, hn_ext_tiles_count(p->kernels, p->dv) * rows * QUERIES);
    w->scores = take(&memory, &all, QUERIES * p->width);
    w->changes = take(&memory, &all, QUERIES * p->width);
    w->changes_tiles = take(&memory, &all, query_rows * p->block);
    w->mask = take(&memory, &all, p->width);
    for (int i = 0; i < 2; i++) w->rows[i] = take(&memory, &all, QUERIES * wide);
    return all;
}

/* ---- operands ---- */

/* Rows of one head from `row` on. */
static hn_ext_matrix rows_of(const worker *w, int operand, int64_t batch, int64_t head,
                             int64_t row) {
    const int64_t *s = hn_ext_backward_strides(w->call, operand);
    const hn_ext_matrix all = {w->plan->kernels, w->call->operands[operand],
                               w->call->dtypes[operand], s[2], s[3]};
    return hn_ext_matrix_at(&all, batch * s[0] + head * s[1] + row * s[2]);
}

static bool is_finite_head(const worker *w, int operand, int64_t batch, int64_t head, int64_t rows,
                           int64_t cols) {
    for (int64_t i = 0; i < rows; i += QUERIES) {
        const int64_t count = hn_ext_min(QUERIES, rows - i);
        const hn_ext_matrix part = rows_of(w, operand, batch, head, i);
        int64_t row;
        const float *x = hn_ext_matrix_rows(&part, count, cols, w->rows[0], &row);
        if (!hn_ext_all_finite(x, row, 1, count, cols)) return false;
    }
    return true;
}

bool hn_ext_backward_is_finite(const worker *w, int64_t batch, int64_t kv_head) {
    const plan *p = w->plan;
    bool finite = is_finite_head(w, K, batch, kv_head, p->n, p->d) &&
                  is_finite_head(w, V, batch, kv_head, p->n, p->dv);
    for (int64_t h = kv_head * p->group; finite && h < (kv_head + 1) * p->group; h++)
        finite = is_finite_head(w, Q, batch, h, p->m, p->d) &&
                 is_finite_head(w, GRAD, batch, h, p->m, p->dv);
    return finite;
}

/* Keys or values of a block as panels of keys. */
static void pack_transposed(const worker *w, const keys *x, int operand, int64_t depth,
                            float *out) {
    const int64_t cols = w->plan->kernels->tile_cols;
    for (int64_t j = 0; j < x->count; j += cols) {
        const int64_t count = hn_ext_min(cols, x->count - j);
        const hn_ext_matrix part = rows_of(w, operand, x->batch, x->kv_head, x->first + j);
        int64_t row;
        const float *in = hn_ext_matrix_rows(&part, count, depth, w->rows[0], &row);
        w->plan->kernels->pack(&(hn_ext_pack){.in = in,
                                              .in_k = 1,
                                              .in_col = row,
                                              .k = depth,
                                              .cols = count,
                                              .width = cols,
                                              .out = out + j * depth,
                                              .out_panel = cols * depth});
    }
}

/* Keys of a block as panels of columns. */
static void pack_keys(const worker *w, const keys *x) {
    const plan *p = w->plan;
    const int64_t cols = p->kernels->tile_cols;
    for (int64_t j = 0; j < x->count; j += QUERIES) {
        const int64_t count = hn_ext_min(QUERIES, x->count - j);
        const hn_ext_matrix part = rows_of(w, K, x->batch, x->kv_head, x->first + j);
        int64_t row;
        const float *in = hn_ext_matrix_rows(&part, count, p->d, w->rows[0], &row);
        p->kernels->pack(&(hn_ext_pack){.in = in,
                                        .in_k = row,
                                        .in_col = 1,
                                        .k = count,
                                        .cols = p->d,
                                        .width = cols,
                                        .out = w->k + j * cols,
                                        .out_panel = p->block * cols});
    }
}

/* Queries in tiles of them, times the scale. Returns their rows. */
static const float *pack_queries(const worker *w, const queries *x, int64_t *out_row) {
    const plan *p = w->plan;
    const hn_ext_matrix part = rows_of(w, Q, x->batch, x->head, x->first);
    const float *q = hn_ext_matrix_rows(&part, x->count, p->d, w->rows[0], out_row);
    hn_ext_tiles_pack(p->kernels, &(hn_ext_tiles){q, *out_row, 1, x->count, p->d, &p->scale}, w->q);
    return q;
}

/* grad . out of each query. */
static void get_dots(worker *w, const queries *x, const float *grad, int64_t grad_row) {
    const plan *p = w->plan;
    const hn_ext_matrix part = rows_of(w, OUT, x->batch, x->head, x->first);
    int64_t row;
    const float *out = hn_ext_matrix_rows(&part, x->count, p->dv, w->rows[1], &row);
    for (int64_t i = 0; i < x->count; i++)
        p->kernels->dots(&(hn_ext_skinny){.rows = 1,
                                          .cols = 1,
                                          .k = p->dv,
                                          .a = grad + i * grad_row,
                                          .a_row = grad_row,
                                          .b = out + i * row,
                                          .b_row = row,
                                          .out = &w->dots[i],
                                          .out_row = 1});
}

static void load_queries(worker *w, const queries *x) {
    const plan *p = w->plan;
    const hn_ext_matrix part = rows_of(w, GRAD, x->batch, x->head, x->first);
    int64_t row;
    const float *q = pack_queries(w, x, &row);
    hn_ext_tiles_pack(p->kernels, &(hn_ext_tiles){q, 1, row, p->d, x->count, NULL}, w->q_t);
    const float *grad = hn_ext_matrix_rows(&part, x->count, p->dv, w->rows[0], &row);
    hn_ext_tiles_pack(p->kernels, &(hn_ext_tiles){grad, row, 1, x->count, p->dv, NULL}, w->grad);
    hn_ext_tiles_pack(p->kernels, &(hn_ext_tiles){grad, 1, row, p->dv, x->count, NULL}, w->grad_t);
    get_dots(w, x, grad, row);
}

/* ---- scores ---- */

bool hn_ext_backward_sees(const plan *p, int64_t first, int64_t count, int64_t block) {
    return !p->causal || block * p->block < first + count;
}

/* How many keys of the block the last of the queries sees, without a mask. */
static int64_t seen_by_last(const plan *p, const queries *q, const keys *k) {
    return p->causal ? hn_ext_max(0, hn_ext_min(k->count, q->first + q->count - k->first))
                     : k->count;
}

/* out[queries][width] = tiles of queries, `depth` wide, times the first `count` keys of panels. */
static void multiply_keys(const worker *w, int64_t rows, const float *tiles, const float *panels,
                          int64_t depth, int64_t count, float *out) {
    const plan *p = w->plan;
    const int64_t cols = p->kernels->tile_cols;
    for (int64_t j = 0; j < count; j += cols)
        hn_ext_tiles_multiply(p->kernels, &(hn_ext_tiles_product){.a = tiles,
                                                                  .b = panels + j * depth,
                                                                  .rows = rows,
                                                                  .needed = rows,
                                                                  .length = depth,
                                                                  .k = depth,
                                                                  .b_k = cols,
                                                                  .c_row = p->width,
                                                                  .c = out + j,
                                                                  .half = count - j <= cols / 2});
}

static void convert_mask(worker *w, int64_t at, int64_t step, int64_t count) {
    const uint8_t dtype = w->call->dtypes[MASK];
    const void *base = w->call->operands[MASK];
    if (hn_ext_matrix_takes(dtype)) {
        const hn_ext_matrix all = {w->plan->kernels, w->call->operands[MASK], dtype, 0, step},
                            row = hn_ext_matrix_at(&all, at);
        int64_t unused;
        const float *x = hn_ext_matrix_rows(&row, 1, count, w->mask, &unused);
        if (x != w->mask) memcpy(w->mask, x, (size_t)count * sizeof *x);
        return;
    }
    for (int64_t j = 0; j < count; j++)
        w->mask[j] = (float)hn_ext_mask_value(dtype, base, at + j * step);
}

/* The mask of one query and `count` keys of a block. Queries that have the same one come one after
 * another, and then it is converted once. */
static const float *mask_row(worker *w, const queries *q, int64_t i, const keys *k, int64_t count) {
    const int64_t *s = hn_ext_backward_strides(w->call, MASK);
    const int64_t at = q->batch * s[0] + q->head * s[1] + (q->first + i) * s[2] + k->first * s[3];
    if (w->call->dtypes[MASK] == HN_F32 && s[3] == 1)
        return (const float *)w->call->operands[MASK] + at;
    if (s[2] != 0 || i == 0) convert_mask(w, at, s[3], count);
    return w->mask;
}

/* Scores become weights but for a factor. Returns how many keys the query may see; the others have
 * no weight. `out`: the greatest score, and the sum of the weights. */
static int64_t weigh_row(worker *w, const queries *q, int64_t i, const keys *k, int64_t count,
                         stats *out) {
    const plan *p = w->plan;
    const queries one = {q->batch, q->head, q->first + i, 1};
    const int64_t seen = hn_ext_min(count, seen_by_last(p, &one, k));
    float *scores = w->scores + i * p->width;
    if (w->call->dtypes[MASK] != HN_NO_TYPE && count > 0)
        p->kernels->mask(scores, mask_row(w, q, i, k, count), seen);
    out->factor = p->kernels->weights(scores, seen, &out->high);
    return seen;
}

/* The sums of two blocks as those of one. */
static stats join(stats a, stats b) {
    const float high = fmaxf(a.high, b.high);
    if (high == -INFINITY) return (stats){high, a.factor + b.factor};
    return (stats){high, a.factor * expf(a.high - high) + b.factor * expf(b.high - high)};
}

void hn_ext_backward_find_stats(worker *w, const queries *x, stats *out) {
    const plan *p = w->plan;
    const int64_t kv_head = x->head / p->group;
    for (int64_t i = 0; i < x->count; i++) out[i] = (stats){-INFINITY, 0};
    for (int64_t b = 0; b < p->blocks && hn_ext_backward_sees(p, x->first, x->count, b); b++) {
        const keys k = {x->batch, kv_head, b * p->block, hn_ext_min(p->block, p->n - b * p->block)};
        pack_transposed(w, &k, K, p->d, w->k_t);
        for (int64_t i = 0; i < x->count; i += QUERIES) {
            const queries part = {x->batch, x->head, x->first + i,
                                  hn_ext_min(QUERIES, x->count - i)};
            const int64_t count = seen_by_last(p, &part, &k);
            int64_t row;
            pack_queries(w, &part, &row);
            multiply_keys(w, part.count, w->q, w->k_t, p->d, count, w->scores);
            for (int64_t j = 0; j < part.count; j++) {
                stats s;
                weigh_row(w, &part, j, &k, count, &s);
                out[i + j] = join(out[i + j], s);
            }
        }
    }
    for (int64_t i = 0; i < x->count; i++)
        out[i].factor = out[i].factor == 0 ? 0 : 1 / out[i].factor;
}

/* ---- gradients ---- */

/* Scores become weights, and products of the gradient and values the gradients of scores. */
static void weigh(worker *w, const queries *q, const keys *k, int64_t count, const stats *all) {
    const plan *p = w->plan;
    const int64_t cols = p->kernels->tile_cols, padded = hn_ext_ceil_div(count, cols) * cols;
    for (int64_t i = 0; i < q->count; i++) {
        float *scores = w->scores + i * p->width, *changes = w->changes + i * p->width;
        stats s;
        const int64_t seen = weigh_row(w, q, i, k, count, &s);
        float factor = s.factor == 0 ? 0 : 1 / s.factor;
        if (all && factor != 0) factor = expf(s.high - all[i].high) * all[i].factor;
        p->kernels->gradient(scores, changes, seen, factor, w->dots[i]);
        memset(scores + seen, 0, (size_t)(padded - seen) * sizeof *scores);
        memset(changes + seen, 0, (size_t)(padded - seen) * sizeof *changes);
    }
}

/* sums (panels of keys) += tiles of columns, `depth` of them, times x[queries][width]. */
static void add_to_keys(const worker *w, int64_t queries_count, const float *tiles, const float *x,
                        int64_t depth, int64_t count, float *sums) {
    const plan *p = w->plan;
    const int64_t cols = p->kernels->tile_cols;
    for (int64_t j = 0; j < count; j += cols)
        hn_ext_tiles_multiply(p->kernels, &(hn_ext_tiles_product){.a = tiles,
                                                                  .b = x + j,
                                                                  .rows = depth,
                                                                  .needed = depth,
                                                                  .length = queries_count,
                                                                  .k = queries_count,
                                                                  .b_k = p->width,
                                                                  .c_row = cols,
                                                                  .c = sums + j * depth,
                                                                  .accumulate = true,
                                                                  .half = count - j <= cols / 2});
}

static void add_to_queries(const worker *w, int64_t rows, int64_t count, float *d_q, bool adds) {
    const plan *p = w->plan;
    const int64_t cols = p->kernels->tile_cols;
    hn_ext_tiles_pack(p->kernels, &(hn_ext_tiles){w->changes, p->width, 1, rows, count, NULL},
                      w->changes_tiles);
    for (int64_t c = 0; c < p->d; c += cols)
        hn_ext_tiles_multiply(p->kernels, &(hn_ext_tiles_product){.a = w->changes_tiles,
                                                                  .b = w->k + c * p->block,
                                                                  .rows = rows,
                                                                  .needed = rows,
                                                                  .length = count,
                                                                  .k = count,
                                                                  .b_k = cols,
                                                                  .c_row = p->q_width,
                                                                  .c = d_q + c,
                                                                  .accumulate = adds,
                                                                  .half = p->d - c <= cols / 2});
}

static void run_queries(worker *w, const queries *q, const keys *k, const stats *all, float *d_q,
                        bool adds) {
    const plan *p = w->plan;
    const int64_t count = seen_by_last(p, q, k);
    load_queries(w, q);
    multiply_keys(w, q->count, w->q, w->k_t, p->d, count, w->scores);
    multiply_keys(w, q->count, w->grad, w->v_t, p->dv, count, w->changes);
    weigh(w, q, k, count, all);
    add_to_keys(w, q->count, w->grad_t, w->scores, p->dv, count, w->d_v_t);
    add_to_keys(w, q->count, w->q_t, w->changes, p->d, count, w->d_k_t);
    add_to_queries(w, q->count, count, d_q, adds);
}

/* ---- results ---- */

void hn_ext_backward_store_queries(const worker *w, const queries *x, float *d_q) {
    const plan *p = w->plan;
    for (int64_t i = 0; i < x->count; i++) {
        float *row = d_q + i * p->q_width;
        const hn_ext_matrix to = rows_of(w, HN_EXT_BACKWARD_D_Q, x->batch, x->head, x->first + i);
        for (int64_t c = 0; c < p->d; c++) row[c] *= p->scale;
        if (p->d) hn_ext_matrix_put_row(&to, row, p->d);
    }
}

/* Panels of keys, times a factor, to the rows of an operand. */
static void store_keys(const worker *w, const keys *x, int operand, int64_t depth, float factor,
                       const float *sums) {
    const int64_t cols = w->plan->kernels->tile_cols;
    float factors[MAX_COLS];
    for (int64_t i = 0; i < cols; i++) factors[i] = factor;
    for (int64_t j = 0; depth && j < x->count; j += cols) {
        const int64_t count = hn_ext_min(cols, x->count - j);
        w->plan->kernels->transpose(sums + j * depth, depth, count, factors, w->rows[0], depth);
        for (int64_t i = 0; i < count; i++) {
            const hn_ext_matrix to = rows_of(w, operand, x->batch, x->kv_head, x->first + j + i);
            hn_ext_matrix_put_row(&to, w->rows[0] + i * depth, depth);
        }
    }
}

/* The queries of one head. */
static void run_head(worker *w, const keys *k, int64_t head, int64_t block, const stats *all,
                     float *d_q, bool adds) {
    const plan *p = w->plan;
    for (int64_t i = 0; i < p->m; i += QUERIES) {
        const queries q = {k->batch, head, i, hn_ext_min(QUERIES, p->m - i)};
        if (!hn_ext_backward_sees(p, i, q.count, block)) continue;
        const stats *own = all ? all + (k->batch * p->heads + head) * p->m + i : NULL;
        run_queries(w, &q, k, own, p->blocks == 1 ? d_q : d_q + i * p->q_width, adds);
        if (p->blocks == 1) hn_ext_backward_store_queries(w, &q, d_q);
    }
}

void hn_ext_backward_block(worker *w, int64_t batch, int64_t kv_head, int64_t block,
                           const stats *all, float *d_q, bool adds) {
    const plan *p = w->plan;
    const int64_t first = block * p->block;
    const keys k = {batch, kv_head, first, hn_ext_min(p->block, p->n - first)};
    pack_transposed(w, &k, K, p->d, w->k_t);
    pack_transposed(w, &k, V, p->dv, w->v_t);
    pack_keys(w, &k);
    memset(w->d_k_t, 0, (size_t)(p->width * p->d) * sizeof *w->d_k_t);
    memset(w->d_v_t, 0, (size_t)(p->width * p->dv) * sizeof *w->d_v_t);
    for (int64_t h = 0; h < p->group; h++) {
        float *head_q = p->blocks == 1 ? d_q : d_q + h * p->m * p->q_width;
        run_head(w, &k, kv_head * p->group + h, block, all, head_q, adds);
    }
    store_keys(w, &k, HN_EXT_BACKWARD_D_K, p->d, p->scale, w->d_k_t);
    store_keys(w, &k, HN_EXT_BACKWARD_D_V, p->dv, 1, w->d_v_t);
}
