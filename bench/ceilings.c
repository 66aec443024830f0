/* ceilings.c: how fast loops written by hand get through memory in the ways that the kernels of
 * kernels.c must, and how near to them the generated kernels come.
 *
 *     ceilings [--threads N] [--seconds S] [--small-pages] [NAME-PART]
 *
 * For each kind of kernel a list of loops, in turns with a copy loop of as many bytes. One JSON
 * object a loop on stdout: median and least microseconds, and `of_copy`, the copy's time over the
 * loop's (the median over rounds). Three sorts of loop:
 * - whole: does what the kernel does; the best of these is the kernel's ceiling;
 * - part: one side of it alone (only reads, only writes, no memory): what bounds the whole ones. Of
 *   sums, which write nothing to speak of, the best one that reads is the ceiling;
 * - henry: the generated kernel, with `of_ceiling`: the ceiling's time over its own. */
#include "bench/ceilings.h"
#include "bench/hand_vectors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };
/* between rows of a block's array, beyond its width: rows a power of two apart share cache sets */
enum { PITCH = 16 };

INLINE void fetch(const void *p) { __builtin_prefetch(p); }
/* `far`: into the second cache. */
INLINE void fetch_to(const void *p, const bool far) {
    if (far) __builtin_prefetch(p, 0, 2);
    else __builtin_prefetch(p);
}

/* --- reads alone: streams a part of the thread's range apart --- */

INLINE void read_streams(const hand_args *a, int64_t begin, int64_t end, const int streams) {
    int64_t part = (end - begin) / streams * a->cols;
    const float *x = a->in[0] + begin * a->cols;
    vf s[8] = {0}, t[8] = {0};
    for (int64_t j = 0; j < part; j += 2 * W)
#pragma GCC unroll 8
        for (int u = 0; u < streams; u++)
            s[u] += load(x + u * part + j), t[u] += load(x + u * part + j + W);
    for (int u = 1; u < streams; u++) s[0] += s[u], t[0] += t[u];
    a->out[begin] = sum_of(s[0] + t[0]);
}

static void read_1(const hand_args *a, int64_t begin, int64_t end) {
    read_streams(a, begin, end, 1);
}
static void read_2(const hand_args *a, int64_t begin, int64_t end) {
    read_streams(a, begin, end, 2);
}
static void read_4(const hand_args *a, int64_t begin, int64_t end) {
    read_streams(a, begin, end, 4);
}
static void read_8(const hand_args *a, int64_t begin, int64_t end) {
    read_streams(a, begin, end, 8);
}

/* --- rows in several passes --- */

/* `ahead`: that many rows on are asked for, 0: none. `near`: the same two rows again and again. */

INLINE const float *row_in(const hand_args *a, int64_t i, bool near) {
    return a->in[0] + (near ? i & 1 : i) * a->cols;
}
INLINE float *row_out(const hand_args *a, int64_t i, bool near) {
    return a->out + (near ? i & 1 : i) * a->cols;
}

INLINE void norm_rows(const hand_args *a, int64_t begin, int64_t end, const int ahead,
                      const bool near) {
    int64_t n = a->cols;
    for (int64_t i = begin; i < end; i++) {
        const float *x = row_in(a, i, near), *later = x + ahead * n;
        float *y = row_out(a, i, near);
        vf s[4] = {0}, t[4] = {0};
        for (int64_t j = 0; j < n; j += 4 * W)
#pragma GCC unroll 4
            for (int u = 0; u < 4; u++) s[u] += load(x + j + u * W);
        vf mean = splat(sum_of((s[0] + s[1]) + (s[2] + s[3])) / (float)n);
        for (int64_t j = 0; j < n; j += 4 * W)
#pragma GCC unroll 4
            for (int u = 0; u < 4; u++) {
                vf d = load(x + j + u * W) - mean;
                t[u] += d * d;
            }
        vf scale = splat(1 / sqrtf(sum_of((t[0] + t[1]) + (t[2] + t[3])) / (float)n + 1e-5f));
        for (int64_t j = 0; j < n; j += 16) {
            if (ahead) fetch(later + j);
#pragma GCC unroll 2
            for (int64_t k = j; k < j + 16; k += W)
                store(y + k, (load(x + k) - mean) * scale * load(a->in[1] + k) + load(a->in[2] + k),
                      !near);
        }
    }
    fence(true);
}

INLINE void softmax_rows(const hand_args *a, int64_t begin, int64_t end, const int ahead,
                         const bool near) {
    int64_t n = a->cols;
    float kept[COLS] __attribute__((aligned(64)));
    for (int64_t i = begin; i < end; i++) {
        const float *x = row_in(a, i, near), *later = x + ahead * n;
        float *y = row_out(a, i, near);
        vf m[4] = {load(x), load(x + W), load(x + 2 * W), load(x + 3 * W)}, s = {0}, t = {0};
        for (int64_t j = 4 * W; j < n; j += 4 * W)
#pragma GCC unroll 4
            for (int u = 0; u < 4; u++) m[u] = larger(m[u], load(x + j + u * W));
        vf most = splat(largest_of(larger(larger(m[0], m[1]), larger(m[2], m[3]))));
        for (int64_t j = 0; j < n; j += 2 * W) {
            vf p = exponential(load(x + j) - most), q = exponential(load(x + j + W) - most);
            store(kept + j, p, false), store(kept + j + W, q, false);
            s += p, t += q;
            if (ahead) fetch(later + j);
        }
        vf scale = splat(1 / sum_of(s + t));
        for (int64_t j = 0; j < n; j += W) store(y + j, load(kept + j) * scale, !near);
    }
    fence(true);
}

/* Software pipelining: row i - 1 is stored while row i is computed. */
static void softmax_pipelined(const hand_args *a, int64_t begin, int64_t end) {
    int64_t n = a->cols;
    float kept[2][COLS] __attribute__((aligned(64))) = {0};
    vf scale = splat(0);
    for (int64_t i = begin; i <= end; i++) {
        const float *x = a->in[0] + (i < end ? i : end - 1) * n, *later = x + 2 * n;
        float *y = a->out + (i > begin ? i - 1 : begin) * n, *now = kept[i & 1],
              *before = kept[(i + 1) & 1];
        vf m[4] = {load(x), load(x + W), load(x + 2 * W), load(x + 3 * W)}, s = {0}, t = {0};
        for (int64_t j = 4 * W; j < n; j += 4 * W)
#pragma GCC unroll 4
            for (int u = 0; u < 4; u++) m[u] = larger(m[u], load(x + j + u * W));
        vf most = splat(largest_of(larger(larger(m[0], m[1]), larger(m[2], m[3]))));
        for (int64_t j = 0; j < n; j += 2 * W) {
            vf p = exponential(load(x + j) - most), q = exponential(load(x + j + W) - most);
            store(now + j, p, false), store(now + j + W, q, false);
            s += p, t += q;
            store(y + j, load(before + j) * scale, true),
                store(y + j + W, load(before + j + W) * scale, true);
            fetch(later + j);
        }
        scale = splat(1 / sum_of(s + t));
    }
    fence(true);
}

#define ROWS_LOOP(kind, k)                                                                         \
    static void kind##_##k(const hand_args *a, int64_t begin, int64_t end) {                       \
        kind##_rows(a, begin, end, k, false);                                                      \
    }
#define NEAR_LOOP(kind)                                                                            \
    static void kind##_near(const hand_args *a, int64_t begin, int64_t end) {                      \
        kind##_rows(a, begin, end, 0, true);                                                       \
    }
ROWS_LOOP(norm, 0);
ROWS_LOOP(norm, 1);
ROWS_LOOP(norm, 2);
ROWS_LOOP(norm, 4);
NEAR_LOOP(norm);
ROWS_LOOP(softmax, 0);
ROWS_LOOP(softmax, 1);
ROWS_LOOP(softmax, 2);
ROWS_LOOP(softmax, 4);
NEAR_LOOP(softmax);

/* --- silu(a * b + c) --- */

/* `ahead`: that many elements on are asked for. `plain`: only a * b + c. */
INLINE void silu_loop(const hand_args *a, int64_t begin, int64_t end, const int ahead,
                      const bool near, const bool plain) {
    for (int64_t i = begin; i < end; i++) {
        int64_t at = (near ? 0 : i) * a->cols;
        for (int64_t j = at; j < at + a->cols; j += 16) {
            for (int k = 0; k < 3 && ahead; k++) fetch(a->in[k] + j + ahead);
#pragma GCC unroll 2
            for (int64_t k = j; k < j + 16; k += W) {
                vf x = load(a->in[0] + k) * load(a->in[1] + k) + load(a->in[2] + k);
                store(a->out + k, plain ? x : x / (1.0f + exponential(-x)), !near);
            }
        }
    }
    fence(true);
}

#define SILU_LOOP(name, ahead, near, plain)                                                        \
    static void name(const hand_args *a, int64_t begin, int64_t end) {                             \
        silu_loop(a, begin, end, ahead, near, plain);                                              \
    }
SILU_LOOP(silu_near, 0, true, false);
SILU_LOOP(silu_plain, 512, false, true);
SILU_LOOP(silu_0, 0, false, false);
SILU_LOOP(silu_256, 256, false, false);
SILU_LOOP(silu_512, 512, false, false);
SILU_LOOP(silu_1024, 1024, false, false);

/* --- transposes by blocks: out[i][j] = x[j][i] (+ y[i][j]) ---
 *
 * A thread's units are `block` rows of out. */

/* Reads or writes alone, in pieces of `piece` floats a row of the matrix apart; units: pieces of
 * a row. */
INLINE void piece_reads(const hand_args *a, int64_t begin, int64_t end, const int piece) {
    vf s[2] = {0};
    for (int64_t i = begin; i < end; i++)
        for (int64_t j = 0; j < a->rows; j++) {
            const float *x = a->in[0] + j * a->cols + i * piece;
            for (int l = 0; l < piece; l += 16) {
                fetch(x + 16 * a->cols + l);
                for (int k = 0; k < 16; k += W) s[k / W & 1] += load(x + l + k);
            }
        }
    a->out[begin * 16] = sum_of(s[0] + s[1]);
}

INLINE void piece_writes(const hand_args *a, int64_t begin, int64_t end, const int piece) {
    for (int64_t i = begin; i < end; i++)
        for (int64_t j = 0; j < a->rows; j++)
            for (int l = 0; l < piece; l += W)
                store(a->out + j * a->cols + i * piece + l, splat(1), true);
    fence(true);
}

/* Lines of the next block are asked for evenly, half while this one is transposed, half while it is
 * written. */
INLINE void transpose_blocks(const hand_args *a, int64_t begin, int64_t end, const int block,
                             const bool add) {
    static _Thread_local float array[256 * (256 + PITCH)] __attribute__((aligned(64)));
    const int64_t pitch = block + PITCH;
    for (int64_t i = begin * block; i < end * block; i += block)
        for (int64_t j = 0; j < a->cols; j += block) {
            bool last = j + block >= a->cols;
            int64_t next_i = last ? i + block : i, next_j = last ? 0 : j + block;
            if (next_i >= a->rows) next_i = i;
            const float *next = a->in[0] + next_j * a->rows + next_i;
            for (int64_t v = 0; v < block; v += 8)
                for (int64_t u = 0; u < block; u += 8) {
                    v8 square[8];
                    transpose_8x8(a->in[0] + (j + v) * a->rows + i + u, a->rows, square);
#pragma GCC unroll 8
                    for (int k = 0; k < 8; k++)
                        store8(array + (u + k) * pitch + v, square[k], false);
                    int64_t line = u / 4, row = v / 2 + line / (block / 16);
                    fetch(next + row * a->rows + line % (block / 16) * 16);
                    fetch(next + row * a->rows + (line + 1) % (block / 16) * 16);
                }
            for (int64_t u = 0; u < block; u++) {
                float *y = a->out + (i + u) * a->cols + j;
                const float *z = add ? a->in[1] + (i + u) * a->cols + j : NULL,
                            *later = add ? a->in[1] + (next_i + u) * a->cols + next_j : NULL;
                for (int64_t v = 0; v < block; v += 32) {
                    fetch(next + (block / 2 + u / 2) * a->rows + u % 2 * (block / 2) + v / 2);
                    if (add) fetch(later + v), fetch(later + v + 16);
#pragma GCC unroll 4
                    for (int64_t k = v; k < v + 32; k += 8) {
                        v8 r = *(const v8 *)(array + u * pitch + k);
                        if (add) r += *(const v8_u *)(z + k);
                        store8(y + k, r, true);
                    }
                }
            }
        }
    fence(true);
}

/* Two arrays: with each square that is transposed into one, as many elements of the block before
 * leave the other, so that reads and writes go on together. Lines are asked for `ahead` rows on:
 * rows a power of two apart share the sets of the caches, of which the second one (`far`) has more.
 * A thread's blocks go along the rows of x, or (`down`) along those of out. */
INLINE void transpose_flow(const hand_args *a, int64_t begin, int64_t end, const int wide,
                           const int high, const int ahead, const bool down, const bool far,
                           const bool add) {
    static _Thread_local float arrays[2][256 * (128 + PITCH)] __attribute__((aligned(64)));
    const int64_t pitch = high + PITCH, across = end - begin, deep = a->cols / high,
                  steps = across * deep;
    const float *z = NULL, *later = NULL;
    float *y = NULL;
    for (int64_t t = 0; t <= steps && steps; t++) {
        int64_t now = t < steps ? t : steps - 1, next = t + 1 < steps ? t + 1 : steps - 1;
        int64_t i = (begin + (down ? now / deep : now % across)) * wide,
                j = (down ? now % deep : now / across) * high;
        int64_t next_i = (begin + (down ? next / deep : next % across)) * wide,
                next_j = (down ? next % deep : next / across) * high;
        const float *x = a->in[0] + j * a->rows + i, *after = a->in[0] + next_j * a->rows + next_i,
                    *from = arrays[~t & 1];
        float *array = arrays[t & 1];
        if (add) later = a->in[1] + i * a->cols + j;
        for (int64_t v = 0, k = 0; v < high; v += 8) {
            const float *fetched =
                v + ahead < high ? x + (v + ahead) * a->rows : after + (v + ahead - high) * a->rows;
            for (int64_t u = 0; u < wide; u += 8, k += 64) {
#pragma GCC unroll 4
                for (int64_t line = u / 2; line < u / 2 + 4; line++)
                    fetch_to(fetched + line / (wide / 16) * a->rows + line % (wide / 16) * 16, far);
                v8 square[8];
                transpose_8x8(x + v * a->rows + u, a->rows, square);
#pragma GCC unroll 8
                for (int l = 0; l < 8; l++) store8(array + (u + l) * pitch + v, square[l], false);
                int64_t row = k / high, at = k % high,
                        row_on = row + 8 < wide ? row + 8 : row + 8 - wide;
                for (int64_t l = at; t && l < at + 64; l += 8) {
                    v8 r = *(const v8 *)(from + row * pitch + l);
                    if (add && l % 16 == 0)
                        fetch_to((row_on > row ? z : later) + row_on * a->cols + l, far);
                    if (add) r += *(const v8_u *)(z + row * a->cols + l);
                    store8(y + row * a->cols + l, r, true);
                }
            }
        }
        y = a->out + i * a->cols + j, z = later;
    }
    fence(true);
}

#define UNIT_LOOP(name, function, ...)                                                             \
    static void name(const hand_args *a, int64_t begin, int64_t end) {                             \
        function(a, begin, end, __VA_ARGS__);                                                      \
    }
UNIT_LOOP(reads_64, piece_reads, 64);
UNIT_LOOP(reads_128, piece_reads, 128);
UNIT_LOOP(reads_256, piece_reads, 256);
UNIT_LOOP(writes_64, piece_writes, 64);
UNIT_LOOP(writes_128, piece_writes, 128);
UNIT_LOOP(writes_256, piece_writes, 256);
UNIT_LOOP(transpose_64, transpose_blocks, 64, false);
UNIT_LOOP(transpose_128, transpose_blocks, 128, false);
UNIT_LOOP(transpose_256, transpose_blocks, 256, false);
UNIT_LOOP(flow_128, transpose_flow, 128, 128, 8, false, false, false);
UNIT_LOOP(flow_down, transpose_flow, 128, 128, 8, true, false, false);
UNIT_LOOP(flow_far, transpose_flow, 128, 128, 64, false, false, false);
UNIT_LOOP(flow_256, transpose_flow, 256, 128, 16, false, false, false);
UNIT_LOOP(add_flow_128, transpose_flow, 128, 128, 8, false, false, true);
UNIT_LOOP(add_flow_256, transpose_flow, 256, 128, 16, false, false, true);
UNIT_LOOP(flow_second, transpose_flow, 128, 128, 8, false, true, false);
UNIT_LOOP(add_flow_second, transpose_flow, 128, 128, 8, false, true, true);
UNIT_LOOP(add_64, transpose_blocks, 64, true);
UNIT_LOOP(add_128, transpose_blocks, 128, true);
UNIT_LOOP(add_256, transpose_blocks, 256, true);

/* --- rows that an index picks, and elements of a row that indices pick --- */

INLINE void embed(const hand_args *a, int64_t begin, int64_t end, const int ahead) {
    for (int64_t i = begin; i < end; i++) {
        const float *x = a->in[0] + a->index[i] * a->cols,
                    *later = a->in[0] + a->index[i + ahead < a->rows ? i + ahead : i] * a->cols;
        for (int64_t j = 0; j < a->cols; j += 16) {
            if (ahead) fetch(later + j);
            for (int64_t k = j; k < j + 16; k += W)
                store(a->out + i * a->cols + k, load(x + k), true);
        }
    }
    fence(true);
}

/* The reads of it alone, in the order of the index or of the table. */
INLINE void embed_reads(const hand_args *a, int64_t begin, int64_t end, const bool in_order) {
    vf s[2] = {0};
    for (int64_t i = begin; i < end; i++) {
        int64_t on = i + 4 < a->rows ? i + 4 : i;
        const float *x = a->in[0] + (in_order ? i : a->index[i]) * a->cols,
                    *later = a->in[0] + (in_order ? on : a->index[on]) * a->cols;
        for (int64_t j = 0; j < a->cols; j += 16) {
            fetch(later + j);
            for (int k = 0; k < 16; k += W) s[k / W & 1] += load(x + j + k);
        }
    }
    a->out[begin] = sum_of(s[0] + s[1]);
}

UNIT_LOOP(embed_reads_order, embed_reads, true);
UNIT_LOOP(embed_reads_picked, embed_reads, false);
UNIT_LOOP(embed_0, embed, 0);
UNIT_LOOP(embed_1, embed, 1);
UNIT_LOOP(embed_2, embed, 2);
UNIT_LOOP(embed_4, embed, 4);
UNIT_LOOP(embed_8, embed, 8);

INLINE v8 pick(const float *x, const int64_t *index, const bool at_once) {
#if defined(__AVX2__)
    if (at_once) {
        __m256i low = _mm256_loadu_si256((const __m256i *)index),
                high = _mm256_loadu_si256((const __m256i *)(index + 4));
        return (v8)_mm256_set_m128(_mm256_i64gather_ps(x, high, 4), _mm256_i64gather_ps(x, low, 4));
    }
#endif
    (void)at_once;
    return (v8){x[index[0]], x[index[1]], x[index[2]], x[index[3]],
                x[index[4]], x[index[5]], x[index[6]], x[index[7]]};
}

INLINE void gather_rows(const hand_args *a, int64_t begin, int64_t end, const int ahead,
                        const bool near, const bool at_once) {
    for (int64_t i = begin; i < end; i++) {
        const float *x = row_in(a, i, near);
        const int64_t *index = a->index + (near ? 0 : i) * a->cols;
        for (int64_t j = 0; j < a->cols; j += 16) {
            if (ahead)
                fetch(x + ahead * a->cols + j), fetch(index + ahead * a->cols + j),
                    fetch(index + ahead * a->cols + j + 8);
            for (int64_t k = j; k < j + 16; k += 8) {
                uint64_t wrong = 0;
#pragma GCC unroll 8
                for (int l = 0; l < 8; l++) wrong |= (uint64_t)index[k + l];
                if (wrong >= COLS) return; /* of a power of two, one comparison does for all */
                store8(row_out(a, i, near) + k, pick(x, index + k, at_once), !near);
            }
        }
    }
    fence(true);
}

UNIT_LOOP(gather_near, gather_rows, 0, true, false);
UNIT_LOOP(gather_1, gather_rows, 1, false, false);
UNIT_LOOP(gather_2, gather_rows, 2, false, false);
UNIT_LOOP(gather_at_once, gather_rows, 1, false, true);

/* --- cat of two halves of rows --- */

INLINE void cat_rows(const hand_args *a, int64_t begin, int64_t end, const int ahead) {
    const int64_t half = a->cols / 2;
    for (int64_t i = begin; i < end; i++)
        for (int h = 0; h < 2; h++) {
            const float *x = a->in[h] + i * half, *later = x + ahead * half;
            float *y = a->out + i * a->cols + h * half;
            for (int64_t j = 0; j < half; j += 16) {
                if (ahead) fetch(later + j);
#pragma GCC unroll 2
                for (int64_t k = j; k < j + 16; k += W) store(y + k, load(x + k), true);
            }
        }
    fence(true);
}

UNIT_LOOP(cat_0, cat_rows, 0);
UNIT_LOOP(cat_2, cat_rows, 2);
UNIT_LOOP(cat_4, cat_rows, 4);

/* --- the list --- */

static const loop loops[] = {
    {"sums", "reads, 1 stream", read_1, 1, 1, .part = true},
    {"sums", "reads, 2 streams", read_2, 1, 1, .part = true},
    {"sums", "reads, 4 streams", read_4, 1, 1, .part = true},
    {"sums", "reads, 8 streams", read_8, 1, 1, .part = true},
    {"layer_norm", "arithmetic, in the first cache", norm_near, 1, 2, .part = true},
    {"layer_norm", "no prefetches", norm_0, 1, 2, .part = false},
    {"layer_norm", "1 row ahead", norm_1, 1, 2, .part = false},
    {"layer_norm", "2 rows ahead", norm_2, 1, 2, .part = false},
    {"layer_norm", "4 rows ahead", norm_4, 1, 2, .part = false},
    {"softmax", "arithmetic, in the first cache", softmax_near, 1, 2, .part = true},
    {"softmax", "no prefetches", softmax_0, 1, 2, .part = false},
    {"softmax", "1 row ahead", softmax_1, 1, 2, .part = false},
    {"softmax", "2 rows ahead", softmax_2, 1, 2, .part = false},
    {"softmax", "4 rows ahead", softmax_4, 1, 2, .part = false},
    {"softmax", "2 rows ahead, software pipelined", softmax_pipelined, 1, 2, .part = false},
    {"silu(a*b+c)", "arithmetic, in the first cache", silu_near, 1, 4, .part = true},
    {"silu(a*b+c)", "a*b+c alone", silu_plain, 1, 4, .part = true},
    {"silu(a*b+c)", "no prefetches", silu_0, 1, 4, .part = false},
    {"silu(a*b+c)", "1 KiB ahead", silu_256, 1, 4, .part = false},
    {"silu(a*b+c)", "2 KiB ahead", silu_512, 1, 4, .part = false},
    {"silu(a*b+c)", "4 KiB ahead", silu_1024, 1, 4, .part = false},
    {"transpose", "reads alone, pieces of 256 B", reads_64, 64, 2, .part = true, .square = true},
    {"transpose", "reads alone, pieces of 512 B", reads_128, 128, 2, .part = true, .square = true},
    {"transpose", "reads alone, pieces of 1 KiB", reads_256, 256, 2, .part = true, .square = true},
    {"transpose", "writes alone, pieces of 256 B", writes_64, 64, 2, .part = true, .square = true},
    {"transpose", "writes alone, pieces of 512 B", writes_128, 128, 2, .part = true,
     .square = true},
    {"transpose", "writes alone, pieces of 1 KiB", writes_256, 256, 2, .part = true,
     .square = true},
    {"transpose", "blocks of 64 x 64", transpose_64, 64, 2, .part = false, .square = true},
    {"transpose", "blocks of 128 x 128", transpose_128, 128, 2, .part = false, .square = true},
    {"transpose", "blocks of 256 x 256", transpose_256, 256, 2, .part = false, .square = true},
    {"transpose", "reads and writes together, 128 x 128", flow_128, 128, 2, .part = false,
     .square = true},
    {"transpose", "the same, along the rows of out", flow_down, 128, 2, .part = false,
     .square = true},
    {"transpose", "the same, lines 64 rows ahead", flow_far, 128, 2, .part = false, .square = true},
    {"transpose", "the same, 256 x 128", flow_256, 256, 2, .part = false, .square = true},
    {"transpose", "the same, 128 x 128, into the second cache", flow_second, 128, 2, .part = false,
     .square = true},
    {"x.t() + y", "reads and writes together, 128 x 128", add_flow_128, 128, 3, .part = false,
     .square = true},
    {"x.t() + y", "the same, 256 x 128", add_flow_256, 256, 3, .part = false, .square = true},
    {"x.t() + y", "the same, 128 x 128, into the second cache", add_flow_second, 128, 3,
     .part = false, .square = true},
    {"x.t() + y", "blocks of 64 x 64", add_64, 64, 3, .part = false, .square = true},
    {"x.t() + y", "blocks of 128 x 128", add_128, 128, 3, .part = false, .square = true},
    {"x.t() + y", "blocks of 256 x 256", add_256, 256, 3, .part = false, .square = true},
    {"embedding", "reads alone, rows in order", embed_reads_order, 1, 2, .part = true,
     .table = true},
    {"embedding", "reads alone, rows at random", embed_reads_picked, 1, 2, .part = true,
     .table = true},
    {"embedding", "no prefetches", embed_0, 1, 2, .part = false, .table = true},
    {"embedding", "1 row ahead", embed_1, 1, 2, .part = false, .table = true},
    {"embedding", "2 rows ahead", embed_2, 1, 2, .part = false, .table = true},
    {"embedding", "4 rows ahead", embed_4, 1, 2, .part = false, .table = true},
    {"embedding", "8 rows ahead", embed_8, 1, 2, .part = false, .table = true},
    {"gather", "arithmetic, in the first cache", gather_near, 1, 4, .part = true},
    {"gather", "1 row ahead", gather_1, 1, 4, .part = false},
    {"gather", "2 rows ahead", gather_2, 1, 4, .part = false},
    {"gather", "1 row ahead, vgatherqps", gather_at_once, 1, 4, .part = false},
    {"cat", "no prefetches", cat_0, 1, 2, .part = false},
    {"cat", "2 rows ahead", cat_2, 1, 2, .part = false},
    {"cat", "4 rows ahead", cat_4, 1, 2, .part = false},
};
enum { LOOPS = sizeof loops / sizeof *loops };

/* --- running --- */

static void *memory(size_t bytes, bool small_pages) {
    size_t whole = (bytes + HUGE_PAGE) / HUGE_PAGE * HUGE_PAGE;
    void *p = aligned_alloc(HUGE_PAGE, whole);
    if (!p) {
        fprintf(stderr, "ceilings: out of memory\n");
        exit(1);
    }
    (void)madvise(p, whole, small_pages ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    memset(p, 0, whole);
    return p;
}

static bool parse(int argc, char **argv, run_options *o) {
    *o = (run_options){.threads = 1, .seconds = 0.4, .part = ""};
    for (int k = 1; k < argc; k++) {
        if (strcmp(argv[k], "--threads") == 0 && k + 1 < argc) o->threads = atoi(argv[++k]);
        else if (strcmp(argv[k], "--seconds") == 0 && k + 1 < argc) o->seconds = atof(argv[++k]);
        else if (strcmp(argv[k], "--small-pages") == 0) o->small_pages = true;
        else if (argv[k][0] == '-') return false;
        else o->part = argv[k];
    }
    return o->threads >= 1 && o->seconds > 0;
}

/* Indices below `depth`, at random. */
static void fill_index(int64_t *index, int64_t count, int64_t depth) {
    uint64_t seed = 1;
    for (int64_t k = 0; k < count; k++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        index[k] = (int64_t)((seed >> 33) % (uint64_t)depth);
    }
}

int main(int argc, char **argv) {
    run_options o;
    if (!parse(argc, argv, &o)) {
        fprintf(stderr,
                "usage: ceilings [--threads N] [--seconds S] [--small-pages] [NAME-PART]\n");
        return 2;
    }
    const int64_t count = (int64_t)ROWS * COLS, table = (int64_t)DEPTH * COLS;
    float *x = memory((size_t)table * 4, o.small_pages),
          *y = memory((size_t)count * 4, o.small_pages);
    float *z = memory((size_t)count * 4, o.small_pages),
          *out = memory((size_t)count * 4, o.small_pages),
          *own_out = memory((size_t)count * 4, o.small_pages);
    float *from = memory((size_t)count * 8, o.small_pages),
          *to = memory((size_t)count * 8, o.small_pages);
    int64_t *index = memory((size_t)count * 8, o.small_pages);
    for (int64_t k = 0; k < table; k++) x[k] = (float)(k * 7919 % 2003) / 500.0f - 2.0f;
    hand_args a = {.in = {x, y, z},
                   .out = out,
                   .index = index,
                   .rows = ROWS,
                   .cols = COLS,
                   .depth = DEPTH,
                   .streaming = true};
    hand_args copied = {.in = {from}, .out = to, .cols = COLS, .streaming = true};
    hn_service *service = NULL;
    hn_status status = hn_service_create(&(hn_service_options){.cache_dir = ""}, &service);
    for (int k = 0, n; k < LOOPS && !status; k += n) {
        for (n = 1; k + n < LOOPS && strcmp(loops[k].kernel, loops[k + n].kernel) == 0;) n++;
        if (!strstr(loops[k].kernel, o.part)) continue;
        if (has_index(&loops[k])) fill_index(index, count, loops[k].table ? DEPTH : COLS);
        status = run_kernel(&loops[k], n, a, &copied, own_out, &o, service);
    }
    if (status) fprintf(stderr, "ceilings: %s\n", hn_status_message(status));
    const bool has_failed = status != NULL;
    hn_status_free(status);
    hn_service_destroy(service);
    free(x), free(y), free(z), free(out), free(own_out), free(from), free(to), free(index);
    return has_failed;
}
