/* kernels_by_hand.c: see the header. */
#include "kernels_by_hand.h"

#include "base/team.h"
#include "hand_vectors.h"

#include <string.h>

INLINE float row_max(const float *x, int64_t n) {
    vf a = load(x), b = load(x + W), c = load(x + 2 * W), d = load(x + 3 * W);
    for (int64_t j = 4 * W; j < n; j += 4 * W) {
        a = larger(a, load(x + j)), b = larger(b, load(x + j + W));
        c = larger(c, load(x + j + 2 * W)), d = larger(d, load(x + j + 3 * W));
    }
    return largest_of(larger(larger(a, b), larger(c, d)));
}

INLINE float row_sum(const float *x, int64_t n) {
    vf a = load(x), b = load(x + W), c = load(x + 2 * W), d = load(x + 3 * W);
    for (int64_t j = 4 * W; j < n; j += 4 * W) {
        a += load(x + j), b += load(x + j + W);
        c += load(x + j + 2 * W), d += load(x + j + 3 * W);
    }
    return sum_of((a + b) + (c + d));
}

INLINE void softmax_row(const float *x, float *y, int64_t n, bool streaming) {
    vf most = splat(row_max(x, n)), a = {0}, b = {0};
    float kept[8192]; /* exponentials stay in the first cache when the result bypasses it */
    float *e = streaming && n <= 8192 ? kept : y;
    for (int64_t j = 0; j < n; j += 4 * W) {
        vf p = exponential(load(x + j) - most), q = exponential(load(x + j + W) - most);
        vf r = exponential(load(x + j + 2 * W) - most), s = exponential(load(x + j + 3 * W) - most);
        store(e + j, p, false), store(e + j + W, q, false), store(e + j + 2 * W, r, false),
            store(e + j + 3 * W, s, false);
        a += p + q, b += r + s;
    }
    vf scale = splat(1 / sum_of(a + b));
    for (int64_t j = 0; j < n; j += W) store(y + j, load(e + j) * scale, streaming);
}

void hand_softmax(const hand_args *a, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
        if (a->streaming) softmax_row(a->in[0] + i * a->cols, a->out + i * a->cols, a->cols, true);
        else softmax_row(a->in[0] + i * a->cols, a->out + i * a->cols, a->cols, false);
    }
    fence(a->streaming);
}

INLINE void layer_norm_row(const hand_args *h, const float *x, float *y, int64_t n,
                           bool streaming) {
    vf mean = splat(row_sum(x, n) / (float)n), a = {0}, b = {0}, c = {0}, d = {0};
    for (int64_t j = 0; j < n; j += 4 * W) {
        vf p = load(x + j) - mean, q = load(x + j + W) - mean, r = load(x + j + 2 * W) - mean,
           s = load(x + j + 3 * W) - mean;
        a += p * p, b += q * q, c += r * r, d += s * s;
    }
    vf scale = splat(1 / __builtin_sqrtf(sum_of((a + b) + (c + d)) / (float)n + 1e-5f));
    for (int64_t j = 0; j < n; j += W)
        store(y + j, (load(x + j) - mean) * scale * load(h->in[1] + j) + load(h->in[2] + j),
              streaming);
}

void hand_layer_norm(const hand_args *a, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
        if (a->streaming)
            layer_norm_row(a, a->in[0] + i * a->cols, a->out + i * a->cols, a->cols, true);
        else layer_norm_row(a, a->in[0] + i * a->cols, a->out + i * a->cols, a->cols, false);
    }
    fence(a->streaming);
}

INLINE void silu_range(const hand_args *a, int64_t from, int64_t to, bool streaming) {
    for (int64_t j = from; j < to; j += 2 * W) {
        for (int k = 0; k < 2; k++) {
            vf x = load(a->in[0] + j + k * W) * load(a->in[1] + j + k * W) +
                   load(a->in[2] + j + k * W);
            store(a->out + j + k * W, x / (1.0f + exponential(-x)), streaming);
        }
    }
}

void hand_silu(const hand_args *a, int64_t begin, int64_t end) {
    if (a->streaming) silu_range(a, begin * a->cols, end * a->cols, true);
    else silu_range(a, begin * a->cols, end * a->cols, false);
    fence(a->streaming);
}

void hand_sum_rows(const hand_args *a, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) a->out[i] = row_sum(a->in[0] + i * a->cols, a->cols);
}

/* Eight rows at a time into sums that stay in the first cache: memory is read in order. */
void hand_sum_columns(const hand_args *a, int64_t begin, int64_t end) {
    float *sum = a->out;
    int64_t n = a->cols, i = 0;
    memset(sum + begin * 64, 0, (size_t)(end - begin) * 64 * sizeof *sum);
    for (; i + 8 <= a->rows; i += 8) {
        const float *x = a->in[0] + i * n;
        for (int64_t j = begin * 64; j < end * 64; j += W) {
            vf p = (load(x + j) + load(x + n + j)) + (load(x + 2 * n + j) + load(x + 3 * n + j));
            vf q = (load(x + 4 * n + j) + load(x + 5 * n + j)) +
                   (load(x + 6 * n + j) + load(x + 7 * n + j));
            store(sum + j, load(sum + j) + (p + q), false);
        }
    }
    for (; i < a->rows; i++)
        for (int64_t j = begin * 64; j < end * 64; j += W)
            store(sum + j, load(sum + j) + load(a->in[0] + i * n + j), false);
}

/* --- transposes: out[i][j] = x[j][i]; x is [cols, rows] --- */

/* 16 rows of the output, which are 16 columns of x: one cache line of each row of x, whole lines of
 * the output. */
INLINE void transpose_strip(const hand_args *a, int64_t i, bool streaming, bool add) {
    for (int64_t j = 0; j < a->cols; j += 16) {
#pragma GCC unroll 2
        for (int64_t ii = 0; ii < 16; ii += 8) {
            v8 top[8], low[8];
            transpose_8x8(a->in[0] + j * a->rows + i + ii, a->rows, top);
            transpose_8x8(a->in[0] + (j + 8) * a->rows + i + ii, a->rows, low);
#pragma GCC unroll 8
            for (int k = 0; k < 8; k++) {
                int64_t at = (i + ii + k) * a->cols + j;
                v8 p = top[k], q = low[k];
                if (add)
                    p += *(const v8_u *)(a->in[1] + at), q += *(const v8_u *)(a->in[1] + at + 8);
                store8(a->out + at, p, streaming);
                store8(a->out + at + 8, q, streaming);
            }
        }
    }
}

void hand_transpose(const hand_args *a, int64_t begin, int64_t end) {
    for (int64_t i = begin * 16; i < end * 16; i += 16) {
        if (a->streaming) transpose_strip(a, i, true, false);
        else transpose_strip(a, i, false, false);
    }
    fence(a->streaming);
}

void hand_add_transposed(const hand_args *a, int64_t begin, int64_t end) {
    for (int64_t i = begin * 16; i < end * 16; i += 16) {
        if (a->streaming) transpose_strip(a, i, true, true);
        else transpose_strip(a, i, false, true);
    }
    fence(a->streaming);
}

/* --- moving --- */

INLINE void copy_range(const float *x, float *y, int64_t n, bool streaming) {
    for (int64_t j = 0; j < n; j += 4 * W) {
        vf p = load(x + j), q = load(x + j + W), r = load(x + j + 2 * W), s = load(x + j + 3 * W);
        store(y + j, p, streaming), store(y + j + W, q, streaming);
        store(y + j + 2 * W, r, streaming), store(y + j + 3 * W, s, streaming);
    }
}

INLINE void copy_floats(const float *x, float *y, int64_t n, bool streaming) {
    if (streaming) copy_range(x, y, n, true);
    else copy_range(x, y, n, false);
}

void hand_copy(const hand_args *a, int64_t begin, int64_t end) {
    copy_floats(a->in[0] + begin * a->cols, a->out + begin * a->cols, (end - begin) * a->cols,
                a->streaming);
    fence(a->streaming);
}

void hand_read(const hand_args *a, int64_t begin, int64_t end) {
    int64_t quarter = (end - begin) / 4 * a->cols;
    const float *x = a->in[0] + begin * a->cols;
    vf p = {0}, q = {0}, r = {0}, s = {0};
    for (int64_t j = 0; j < quarter; j += 2 * W) {
        p += load(x + j) + load(x + j + W), q += load(x + quarter + j) + load(x + quarter + j + W);
        r += load(x + 2 * quarter + j) + load(x + 2 * quarter + j + W),
            s += load(x + 3 * quarter + j) + load(x + 3 * quarter + j + W);
    }
    a->out[begin] = sum_of((p + q) + (r + s)); /* so that the compiler keeps the loop */
}

/* Two arrays of [rows, cols / 2] side by side. */
void hand_cat(const hand_args *a, int64_t begin, int64_t end) {
    int64_t half = a->cols / 2;
    for (int64_t i = begin; i < end; i++)
        for (int k = 0; k < 2; k++)
            copy_floats(a->in[k] + i * half, a->out + i * a->cols + k * half, half, a->streaming);
    fence(a->streaming);
}

/* Rows of a table [depth, cols]. */
void hand_embedding(const hand_args *a, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
        int64_t row = a->index[i];
        if ((uint64_t)row >= (uint64_t)a->depth) return;
        copy_floats(a->in[0] + row * a->cols, a->out + i * a->cols, a->cols, a->streaming);
    }
    fence(a->streaming);
}

/* out[i][j] = x[i][index[i][j]] with checked indices. */
void hand_gather(const hand_args *a, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
        const float *x = a->in[0] + i * a->cols;
        const int64_t *index = a->index + i * a->cols;
        float *y = a->out + i * a->cols;
        uint64_t wrong = 0;
        for (int64_t j = 0; j < a->cols; j += 8) {
            v8 r;
#pragma GCC unroll 8
            for (int k = 0; k < 8; k++) {
                uint64_t at = (uint64_t)index[j + k];
                wrong |= at >= (uint64_t)a->cols;
                r[k] = x[at < (uint64_t)a->cols ? at : 0];
            }
            store8(y + j, r, a->streaming);
        }
        if (wrong) return;
    }
    fence(a->streaming);
}

typedef struct hand_job {
    hand_fn *fn;
    const hand_args *a;
    int64_t units;
    int threads;
} hand_job;

static void run_part(void *context, int k) {
    const hand_job *j = context;
    j->fn(j->a, j->units * k / j->threads, j->units * (k + 1) / j->threads);
}

void hand_run(hand_fn *fn, const hand_args *a, int64_t units, int threads) {
    static hn_team team;
    hn_team_run(&team, threads, run_part, &(hand_job){fn, a, units, threads});
    hn_team_end(&team); /* or it counts as a caller beside Henry's, which has the workers then */
}
