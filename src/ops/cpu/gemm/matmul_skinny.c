/* matmul_skinny.c: HN_EXTERN_MATMUL of a few rows, or columns, with a matrix that is read once, in
 * place (matrix.h).
 *
 * A task is a block of columns of one product. Where the matrix has contiguous columns of the
 * result, each row of it is added to the block, times a number; where it is contiguous along k, an
 * element of the block is the product of two rows. */
#include "ops/cpu/gemm/matmul.h"

#include "henry/tensor.h"
#include "ops/cpu/conv/conv.h"
#include "ops/cpu/gemm/matrix.h"

#include <string.h>

enum {
    ROW = HN_EXTERN_BATCH,
    COL = HN_EXTERN_BATCH + 1,
    MAX_ROWS = 8,
    MOST_ROWS = 64, /* if the caller names the form */
    /* of a matrix of so few numbers, which packing costs little, and of one of so many. Source, as
     * of the next: bench_picks_calls */
    FEW_ROWS = 4,
    SMALL_FLOATS = 16 << 10,
    MANY_ROWS = 24,
    LARGE_FLOATS = 128 << 10,
    MIN_BLOCK = 128,
    MAX_BLOCK = 1024, /* columns of a task */
    BLOCKS_PER_THREAD = 4,
    DOTS = 16, /* rows of the matrix that are converted at a time, for dots */
    /* numbers that are added up one after the other: then begins another sum */
    SUM_LENGTH = 1024,
    PARALLEL_FLOATS = 32 << 10 /* of the matrix, as in gemm.c */
};

/* Operands in the roles that they have here: out[rows, cols] = skinny[rows, k] * matrix[k, cols].
 * Strides: [batch 4, row, col]. */
typedef struct skinny_state {
    const hn_ext_kernels *kernels;
    int64_t batch[HN_EXTERN_BATCH], items, rows, cols, k;
    int skinny_index, matrix_index;
    int64_t skinny[6], matrix[6], out[6], bias[6], residual[6];
    hn_epilogue epilogue;
    bool by_dots; /* the matrix is contiguous along k */
    int threads;
    int64_t block, blocks; /* columns of a task, and tasks for each item */
    int64_t skinny_floats, buffer_floats, thread_floats;
} skinny_state;

static void copy_transposed(int64_t out[6], const int64_t *strides) {
    memcpy(out, strides, HN_EXTERN_BATCH * sizeof *out);
    out[ROW] = strides[COL], out[COL] = strides[ROW];
}

static void copy_strides(int64_t out[6], const int64_t *strides) {
    memcpy(out, strides, 6 * sizeof *out);
}

/* The smaller side of the result becomes the rows. */
static skinny_state describe(const hn_ext_call *call) {
    const int64_t *p = call->params;
    skinny_state s = {.kernels = hn_ext_kernels_get(),
                      .k = p[HN_MATMUL_K],
                      .epilogue = (hn_epilogue)p[HN_MATMUL_EPILOGUE],
                      .items = 1};
    const bool swaps = p[HN_MATMUL_M] > p[HN_MATMUL_N];
    void (*copy)(int64_t[6], const int64_t *) = swaps ? copy_transposed : copy_strides;
    s.rows = p[swaps ? HN_MATMUL_N : HN_MATMUL_M], s.cols = p[swaps ? HN_MATMUL_M : HN_MATMUL_N];
    s.skinny_index = swaps ? 2 : 1, s.matrix_index = swaps ? 1 : 2;
    copy(s.skinny, p + (swaps ? HN_MATMUL_B : HN_MATMUL_A));
    copy(s.matrix, p + (swaps ? HN_MATMUL_A : HN_MATMUL_B));
    copy(s.out, p + HN_MATMUL_OUT);
    copy(s.bias, p + HN_MATMUL_BIAS);
    copy(s.residual, p + HN_MATMUL_RESIDUAL);
    for (int d = 0; d < HN_EXTERN_BATCH; d++) s.items *= s.batch[d] = p[HN_MATMUL_BATCH + d];
    return s;
}

static bool takes_types(const hn_ext_call *call) {
    for (int i = 0; i < 5; i++)
        if (!hn_ext_matrix_takes(call->dtypes[i]) && !(i > 2 && call->dtypes[i] == HN_NO_TYPE))
            return false;
    return true;
}

/* Weights of the module can be packed once: in f32 that is quicker for any number of rows, of 16
 * bits, where it means a copy of twice the size, for all but these. */
static int64_t most_rows(const skinny_state *s, const hn_ext_call *call) {
    const bool is_packed =
        call->is_constant[2] && call->params[HN_MATMUL_B_CONSTANT] && call->params[HN_MATMUL_N] > 1;
    if (call->form && call->form->kind) return MOST_ROWS;
    if (!is_packed) {
        const double floats = (double)s->cols * (double)s->k;
        return floats <= SMALL_FLOATS ? FEW_ROWS : floats >= LARGE_FLOATS ? MANY_ROWS : MAX_ROWS;
    }
    return call->dtypes[2] != HN_F32 && s->matrix_index == 2 ? MAX_ROWS / 2 : 0;
}

/* A batch that shares the matrix is one product of many rows. */
static bool is_worth_it(const skinny_state *s, const hn_ext_call *call) {
    if (s->rows > most_rows(s, call) || s->rows == 0 || s->cols == 0) return false;
    for (int d = 0; d < HN_EXTERN_BATCH; d++)
        if (s->batch[d] > 1 && s->matrix[d] == 0) return false;
    return s->matrix[ROW] == 1 || s->matrix[COL] == 1;
}

/* Sizes of memory stay far below what overflows. */
static bool is_small_enough(const skinny_state *s) {
    return (double)s->k < 0x1p40 && (double)s->items < 0x1p40 && (double)s->cols < 0x1p48;
}

static int64_t rounded(int64_t floats) { return hn_ext_ceil_div(floats, 16) * 16; }

static void plan(skinny_state *s, const hn_ext_call *call) {
    s->by_dots = s->matrix[COL] != 1;
    /* one or all: see ext.h */
    s->threads = (double)s->items * (double)s->cols * (double)s->k < PARALLEL_FLOATS
                     ? 1
                     : hn_ext_tasks(call);
    s->block = rounded(hn_ext_ceil_div(s->cols, BLOCKS_PER_THREAD * s->threads));
    s->block = hn_ext_max(MIN_BLOCK, hn_ext_min(MAX_BLOCK, s->block));
    if (call->form && call->form->block > 0) s->block = rounded(call->form->block);
    s->blocks = hn_ext_ceil_div(s->cols, s->block);
    s->skinny_floats = rounded(s->rows * s->k);
    s->buffer_floats = rounded(s->by_dots ? DOTS * s->k : DOTS * s->block);
    s->thread_floats = s->skinny_floats + s->buffer_floats + 2 * s->rows * s->block;
}

static hn_status skinny_prepare(hn_ext_call *call) {
    skinny_state s = describe(call);
    if (!takes_types(call) || !is_worth_it(&s, call) || !is_small_enough(&s))
        return HN_ERROR(HN_UNSUPPORTED, "not a skinny product");
    plan(&s, call);
    HN_TRY(hn_ext_state_keep(call, &s, sizeof s));
    call->scratch_bytes = (size_t)(s.threads * s.thread_floats) * sizeof(float);
    return NULL;
}

/* ---- one block of columns ---- */

typedef struct block {
    const skinny_state *s;
    const float *skinny; /* [rows][k], skinny_row apart */
    int64_t skinny_row;
    hn_ext_matrix matrix; /* [k][cols] */
    int64_t cols;
    float *buffer, *part, *sums; /* part, sums: [rows][block] */
} block;

static void block_dots(const block *b) {
    const int64_t k = b->s->k;
    const hn_ext_matrix by_column = {b->matrix.kernels, b->matrix.base, b->matrix.dtype,
                                     b->matrix.col_stride, b->matrix.row_stride};
    const int64_t step = hn_ext_matrix_is_plain(&by_column) ? b->cols : DOTS;
    for (int64_t j = 0; j < b->cols; j += step) {
        hn_ext_skinny f = {.rows = b->s->rows,
                           .cols = hn_ext_min(step, b->cols - j),
                           .k = k,
                           .a = b->skinny,
                           .a_row = b->skinny_row,
                           .out = b->sums + j,
                           .out_row = b->s->block};
        const hn_ext_matrix rows = hn_ext_matrix_from(&by_column, j, 0);
        hn_ext_matrix_take(&rows, f.cols, k, b->buffer, &f);
        b->s->kernels->dots(&f);
    }
}

static void block_combine(const block *b) {
    const int64_t k = b->s->k, length = b->s->rows * b->s->block;
    const int64_t step = hn_ext_matrix_is_plain(&b->matrix) ? SUM_LENGTH : DOTS;
    memset(b->sums, 0, (size_t)length * sizeof *b->sums);
    for (int64_t first = 0; first < k; first += SUM_LENGTH) {
        const int64_t end = hn_ext_min(k, first + SUM_LENGTH);
        memset(b->part, 0, (size_t)length * sizeof *b->part);
        for (int64_t i = first; i < end; i += step) {
            hn_ext_skinny f = {.rows = b->s->rows,
                               .cols = b->cols,
                               .k = hn_ext_min(step, end - i),
                               .a = b->skinny + i,
                               .a_row = b->skinny_row,
                               .out = b->part,
                               .out_row = b->s->block};
            const hn_ext_matrix rows = hn_ext_matrix_from(&b->matrix, i, 0);
            hn_ext_matrix_take(&rows, f.k, f.cols, b->buffer, &f);
            b->s->kernels->combine(&f);
        }
        for (int64_t i = 0; i < length; i++) b->sums[i] += b->part[i];
    }
}

/* Adds an operand of the result's shape to row r of the block. */
static void add_operand(const hn_ext_matrix *x, int64_t r, int64_t cols, float *buffer,
                        float *sums) {
    const hn_ext_matrix row = hn_ext_matrix_from(x, r, 0);
    int64_t stride;
    const float *values = hn_ext_matrix_rows(&row, 1, cols, buffer, &stride);
    for (int64_t j = 0; j < cols; j++) sums[j] += values[j];
}

/* Where item `item` begins in an operand of these strides. */
static int64_t item_offset(const skinny_state *s, int64_t item, const int64_t strides[6]) {
    int64_t at = 0;
    for (int d = HN_EXTERN_BATCH - 1; d >= 0; d--) {
        at += item % s->batch[d] * strides[d];
        item /= s->batch[d];
    }
    return at;
}

/* An operand of an item, as a matrix, from column `first` on. */
static hn_ext_matrix operand(const hn_ext_call *call, int index, const int64_t strides[6],
                             int64_t item, int64_t first) {
    const skinny_state *s = call->state;
    const hn_ext_matrix all = {s->kernels, call->operands[index], call->dtypes[index], strides[ROW],
                               strides[COL]};
    return hn_ext_matrix_at(&all, item_offset(s, item, strides) + first * strides[COL]);
}

static void run_block(const hn_ext_call *call, float *scratch, int64_t item, int64_t first) {
    const skinny_state *s = call->state;
    float *skinny_memory = scratch;
    block b = {.s = s,
               .cols = hn_ext_min(s->block, s->cols - first),
               .buffer = scratch + s->skinny_floats};
    b.part = b.buffer + s->buffer_floats;
    b.sums = b.part + s->rows * s->block;
    const hn_ext_matrix skinny = operand(call, s->skinny_index, s->skinny, item, 0);
    b.skinny = hn_ext_matrix_rows(&skinny, s->rows, s->k, skinny_memory, &b.skinny_row);
    b.matrix = operand(call, s->matrix_index, s->matrix, item, first);
    if (s->by_dots) block_dots(&b);
    else block_combine(&b);
    const hn_ext_matrix out = operand(call, 0, s->out, item, first);
    for (int64_t r = 0; r < s->rows; r++) {
        float *sums = b.sums + r * s->block;
        for (int i = 3; i <= 4; i++) {
            if (call->dtypes[i] == HN_NO_TYPE) continue;
            const hn_ext_matrix x = operand(call, i, i == 3 ? s->bias : s->residual, item, first);
            add_operand(&x, r, b.cols, b.part, sums);
        }
        s->kernels->epilogue(s->epilogue, sums, b.cols);
        const hn_ext_matrix row = hn_ext_matrix_from(&out, r, 0);
        hn_ext_matrix_put_row(&row, sums, b.cols);
    }
}

typedef struct job {
    const hn_ext_call *call;
    float *scratch;
} job;

static void run_blocks(void *context, int rank) {
    const job *j = context;
    const skinny_state *s = j->call->state;
    const int64_t all = s->items * s->blocks;
    for (int64_t i = all * rank / s->threads; i < all * (rank + 1) / s->threads; i++)
        run_block(j->call, j->scratch + rank * s->thread_floats, i / s->blocks,
                  i % s->blocks * s->block);
}

static hn_status skinny_run(const hn_ext_call *call, void *scratch) {
    const skinny_state *s = call->state;
    hn_team_run(call->team, s->threads, run_blocks, &(job){.call = call, .scratch = scratch});
    return NULL;
}

const hn_ext_impl hn_ext_matmul_skinny = {.name = "skinny product",
                                          .prepare = skinny_prepare,
                                          .run = skinny_run,
                                          .release = hn_ext_state_free};
