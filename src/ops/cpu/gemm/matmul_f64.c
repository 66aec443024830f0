/* matmul_f64.c: HN_EXTERN_MATMUL of f64, blocked. Small products are matmul_plain.c's.
 *
 * The result is cut into blocks, each of which one thread sums up on its own: K_STEP values of k at
 * a time it packs the block's rows of a and columns of b (1/ROWS and 1/COLS of the products) and
 * adds their products to sums in its scratch memory, which then go to the result, whatever its
 * strides are. */
#include "ops/cpu/gemm/matmul.h"

#include "henry/tensor.h"
#include "ops/cpu/conv/conv.h"
#include "ops/cpu/kernels.h"

#include <string.h>

enum {
    ROW = HN_EXTERN_BATCH,
    COL = HN_EXTERN_BATCH + 1,
    ROWS = 84,            /* of a block; whole tiles of 6 and of 14 rows */
    COLS = 128,           /* likewise, for every width of a tile */
    K_STEP = 256,         /* 168 KB of a stay in L2 while 16 KB of b go by */
    LEAST_SIDE = 4,       /* below it a tile is mostly empty */
    LEAST_WORK = 1 << 14, /* products: packing, and clearing the sums, cost more than they save */
    PARALLEL_WORK = 1 << 18
};

/* Of one thread. */
typedef struct buffers {
    double a[ROWS * K_STEP], b[COLS * K_STEP], sums[ROWS * COLS];
} buffers;

/* A block of the result: element offsets of its first row and column in the operands, and its
 * size. */
typedef struct block {
    const hn_ext_call *call;
    const hn_ext_kernels *kernels;
    int64_t at[5], rows, cols;
} block;

/* Lines [0, count) of k values each to out[line / width][k][line % width]; lines up to whole panels
 * are zeros. */
static void pack_lines(const double *in, int64_t line_step, int64_t k_step, int64_t count,
                       int64_t k, int64_t width, double *out) {
    for (int64_t first = 0; first < count;
         first += width, out += width * k, in += width * line_step) {
        const int64_t lines = hn_ext_min(width, count - first);
        if (lines < width) memset(out, 0, (size_t)(width * k) * sizeof *out);
        if (k_step == 1)
            for (int64_t l = 0; l < lines; l++)
                for (int64_t i = 0; i < k; i++) out[i * width + l] = in[l * line_step + i];
        else
            for (int64_t i = 0; i < k; i++)
                for (int64_t l = 0; l < lines; l++)
                    out[i * width + l] = in[l * line_step + i * k_step];
    }
}

static void sum_block(const block *x, buffers *own) {
    const int64_t *p = x->call->params, rows = x->kernels->tile_rows,
                  cols = x->kernels->tile_cols / 2;
    const double *a = (const double *)x->call->operands[1] + x->at[1],
                 *b = (const double *)x->call->operands[2] + x->at[2];
    memset(own->sums, 0,
           (size_t)(hn_ext_ceil_div(x->rows, rows) * rows * COLS) * sizeof *own->sums);
    for (int64_t k0 = 0; k0 < p[HN_MATMUL_K]; k0 += K_STEP) {
        const int64_t k = hn_ext_min(K_STEP, p[HN_MATMUL_K] - k0);
        pack_lines(a, p[HN_MATMUL_A + ROW], p[HN_MATMUL_A + COL], x->rows, k, rows, own->a);
        pack_lines(b, p[HN_MATMUL_B + COL], p[HN_MATMUL_B + ROW], x->cols, k, cols, own->b);
        for (int64_t j = 0; j < x->cols; j += cols)
            for (int64_t i = 0; i < x->rows; i += rows)
                x->kernels->tile_f64(k, own->a + i * k, own->b + j * k, own->sums + i * COLS + j,
                                     COLS);
        a += k * p[HN_MATMUL_A + COL], b += k * p[HN_MATMUL_B + ROW];
    }
}

static const double *operand_of(const block *x, int i) {
    return x->call->dtypes[i] != HN_NO_TYPE ? (const double *)x->call->operands[i] + x->at[i]
                                            : NULL;
}

static void store_block(const block *x, const double *sums) {
    const int64_t *p = x->call->params;
    const hn_epilogue epilogue = (hn_epilogue)p[HN_MATMUL_EPILOGUE];
    const double *bias = operand_of(x, 3), *residual = operand_of(x, 4);
    double *out = (double *)x->call->operands[0] + x->at[0];
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < x->cols; j++) {
            double value = sums[i * COLS + j];
            if (bias) value += bias[i * p[HN_MATMUL_BIAS + ROW] + j * p[HN_MATMUL_BIAS + COL]];
            if (residual)
                value +=
                    residual[i * p[HN_MATMUL_RESIDUAL + ROW] + j * p[HN_MATMUL_RESIDUAL + COL]];
            out[i * p[HN_MATMUL_OUT + ROW] + j * p[HN_MATMUL_OUT + COL]] =
                hn_ext_epilogue_f64(epilogue, value);
        }
}

/* Block `index` of all items of the batch. */
static block block_at(const hn_ext_call *call, int64_t index) {
    static const int first_stride[5] = {HN_MATMUL_OUT, HN_MATMUL_A, HN_MATMUL_B, HN_MATMUL_BIAS,
                                        HN_MATMUL_RESIDUAL};
    const int64_t *p = call->params, m = p[HN_MATMUL_M], n = p[HN_MATMUL_N],
                  down = hn_ext_ceil_div(m, ROWS), across = hn_ext_ceil_div(n, COLS);
    const int64_t row = index / across % down * ROWS, col = index % across * COLS;
    block x = {.call = call,
               .kernels = hn_ext_kernels_get(),
               .rows = hn_ext_min(ROWS, m - row),
               .cols = hn_ext_min(COLS, n - col)};
    for (int i = 0; i < 5; i++) {
        const int64_t *stride = p + first_stride[i];
        int64_t item = index / (down * across);
        x.at[i] = (i == 2 ? 0 : row * stride[ROW]) + (i == 1 ? 0 : col * stride[COL]);
        for (int d = HN_EXTERN_BATCH - 1; d >= 0; d--) {
            x.at[i] += item % p[HN_MATMUL_BATCH + d] * stride[d];
            item /= p[HN_MATMUL_BATCH + d];
        }
    }
    return x;
}

static double work_of(const int64_t *p) {
    return (double)p[HN_MATMUL_M] * (double)p[HN_MATMUL_N] * (double)p[HN_MATMUL_K];
}

static hn_status f64_prepare(hn_ext_call *call) {
    const int64_t *p = call->params;
    if (call->dtypes[0] != HN_F64 || p[HN_MATMUL_M] < LEAST_SIDE || p[HN_MATMUL_N] < LEAST_SIDE ||
        work_of(p) < LEAST_WORK)
        return HN_ERROR(HN_UNSUPPORTED, "blocked products of f64 are for larger ones");
    call->scratch_bytes = (size_t)call->threads * sizeof(buffers);
    return NULL;
}

typedef struct job {
    const hn_ext_call *call;
    buffers *scratch;
    int64_t blocks, next; /* next: the first that nobody has taken */
} job;

static void run_blocks(void *context, int rank) {
    job *j = context;
    buffers *own = j->scratch + rank;
    for (int64_t i; (i = __atomic_fetch_add(&j->next, 1, __ATOMIC_RELAXED)) < j->blocks;) {
        const block x = block_at(j->call, i);
        sum_block(&x, own);
        store_block(&x, own->sums);
    }
}

static hn_status f64_run(const hn_ext_call *call, void *scratch) {
    const int64_t *p = call->params;
    int64_t items = 1;
    for (int d = 0; d < HN_EXTERN_BATCH; d++) items *= p[HN_MATMUL_BATCH + d];
    const int64_t blocks =
        items * hn_ext_ceil_div(p[HN_MATMUL_M], ROWS) * hn_ext_ceil_div(p[HN_MATMUL_N], COLS);
    /* one or all: see ext.h */
    const int threads =
        work_of(p) * (double)items < PARALLEL_WORK || blocks == 1 ? 1 : call->threads;
    hn_team_run(call->team, threads, run_blocks,
                &(job){.call = call, .scratch = scratch, .blocks = blocks});
    return NULL;
}

const hn_ext_impl hn_ext_matmul_f64 = {
    .name = "gemm of f64", .prepare = f64_prepare, .run = f64_run};
