/* matmul_plain.c: HN_EXTERN_MATMUL of small f64, integers and bool: each row of the result is
 * summed over the rows of b, in blocks of columns, with rows in parallel. Integers wrap; a bool
 * result is "not 0". */
#include "ops/cpu/gemm/matmul.h"

#include "henry/tensor.h"
#include "ops/cpu/conv/conv.h"

#include <math.h>
#include <string.h>

enum {
    ROW = HN_EXTERN_BATCH,
    COL = HN_EXTERN_BATCH + 1,
    COLUMNS = 256,
    WORK_PER_THREAD = 1 << 17,
    ROWS_AT_ONCE = 4
};

typedef union sums {
    double f[COLUMNS];
    uint64_t u[COLUMNS];
} sums;

/* One row of the result, columns [0, count): strides of b and out along the columns, of a and b
 * along k. */
typedef struct row_job {
    const hn_ext_call *call;
    int64_t a, b, out, bias, residual; /* element offsets of the row and of the first column */
    int64_t count;
} row_job;

/* sum[j] += a[k] * b[k][j]; the unit stride is a loop of its own because it becomes vectors. */
#define ROW_SUMS(NAME, TYPE, FIELD, WIDE)                                                          \
    static void NAME(const row_job *r, sums *s) {                                                  \
        const int64_t *p = r->call->params, k = p[HN_MATMUL_K];                                    \
        const int64_t a_k = p[HN_MATMUL_A + COL], b_k = p[HN_MATMUL_B + ROW],                      \
                      b_col = p[HN_MATMUL_B + COL];                                                \
        const TYPE *a = (const TYPE *)r->call->operands[1] + r->a,                                 \
                   *b = (const TYPE *)r->call->operands[2] + r->b;                                 \
        for (int64_t j = 0; j < r->count; j++) s->FIELD[j] = 0;                                    \
        for (int64_t i = 0; i < k; i++) {                                                          \
            const WIDE x = (WIDE)a[i * a_k];                                                       \
            const TYPE *row = b + i * b_k;                                                         \
            if (b_col == 1)                                                                        \
                for (int64_t j = 0; j < r->count; j++) s->FIELD[j] += x * (WIDE)row[j];            \
            else                                                                                   \
                for (int64_t j = 0; j < r->count; j++) s->FIELD[j] += x * (WIDE)row[j * b_col];    \
        }                                                                                          \
    }
ROW_SUMS(sums_f64, double, f, double)
ROW_SUMS(sums_i64, int64_t, u, uint64_t)
ROW_SUMS(sums_i32, int32_t, u, uint64_t)
ROW_SUMS(sums_i16, int16_t, u, uint64_t)
ROW_SUMS(sums_i8, int8_t, u, uint64_t)
ROW_SUMS(sums_u8, uint8_t, u, uint64_t)
#undef ROW_SUMS

/* out[j] = sum[j] + bias[j] + residual[j] in the result's width, not below 0 with ReLU. */
#define ROW_STORE(NAME, TYPE, VALUE)                                                               \
    static void NAME(const row_job *r, const sums *s) {                                            \
        const int64_t *p = r->call->params, out_col = p[HN_MATMUL_OUT + COL],                      \
                      bias_col = p[HN_MATMUL_BIAS + COL];                                          \
        const int64_t residual_col = p[HN_MATMUL_RESIDUAL + COL];                                  \
        const TYPE *bias =                                                                         \
            r->call->dtypes[3] ? (const TYPE *)r->call->operands[3] + r->bias : NULL;              \
        const TYPE *residual =                                                                     \
            r->call->dtypes[4] ? (const TYPE *)r->call->operands[4] + r->residual : NULL;          \
        TYPE *out = (TYPE *)r->call->operands[0] + r->out;                                         \
        for (int64_t j = 0; j < r->count; j++) {                                                   \
            uint64_t x = s->u[j] + (bias ? (uint64_t)bias[j * bias_col] : 0) +                     \
                         (residual ? (uint64_t)residual[j * residual_col] : 0);                    \
            TYPE value = (TYPE)(VALUE);                                                            \
            out[j * out_col] =                                                                     \
                p[HN_MATMUL_EPILOGUE] == HN_EPILOGUE_RELU && !(value > 0) ? 0 : value;             \
        }                                                                                          \
    }
ROW_STORE(store_i64, int64_t, x)
ROW_STORE(store_i32, int32_t, x)
ROW_STORE(store_i16, int16_t, x)
ROW_STORE(store_i8, int8_t, x)
ROW_STORE(store_u8, uint8_t, x)
ROW_STORE(store_bool, uint8_t, x != 0)
#undef ROW_STORE

static double clamp_0_6(double x) { return x < 0 ? 0 : x > 6 ? 6 : x; }

double hn_ext_epilogue_f64(hn_epilogue epilogue, double x) {
    switch (epilogue) {
    case HN_EPILOGUE_NONE: return x;
    case HN_EPILOGUE_RELU: return x < 0 ? 0 : x;
    case HN_EPILOGUE_GELU_ERF: return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
    case HN_EPILOGUE_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case HN_EPILOGUE_SILU: return x / (1 + exp(-x));
    case HN_EPILOGUE_HARDSWISH: return x * clamp_0_6(x + 3) / 6;
    case HN_EPILOGUE_SIGMOID: return 1 / (1 + exp(-x));
    case HN_EPILOGUE_TANH: return tanh(x);
    case HN_EPILOGUE_HARDSIGMOID: return clamp_0_6(x + 3) / 6;
    }
    return x;
}

static void store_f64(const row_job *r, const sums *s) {
    const int64_t *p = r->call->params;
    const double *bias = r->call->dtypes[3] ? (const double *)r->call->operands[3] + r->bias : NULL;
    const double *residual =
        r->call->dtypes[4] ? (const double *)r->call->operands[4] + r->residual : NULL;
    double *out = (double *)r->call->operands[0] + r->out;
    for (int64_t j = 0; j < r->count; j++) {
        double x = s->f[j] + (bias ? bias[j * p[HN_MATMUL_BIAS + COL]] : 0) +
                   (residual ? residual[j * p[HN_MATMUL_RESIDUAL + COL]] : 0);
        out[j * p[HN_MATMUL_OUT + COL]] =
            hn_ext_epilogue_f64((hn_epilogue)p[HN_MATMUL_EPILOGUE], x);
    }
}

typedef struct row_functions {
    void (*sum)(const row_job *r, sums *s);
    void (*store)(const row_job *r, const sums *s);
} row_functions;

static const row_functions functions[HN_SCALAR_TYPE_COUNT] = {
    [HN_F64] = {sums_f64, store_f64},  [HN_I64] = {sums_i64, store_i64},
    [HN_I32] = {sums_i32, store_i32},  [HN_I16] = {sums_i16, store_i16},
    [HN_I8] = {sums_i8, store_i8},     [HN_U8] = {sums_u8, store_u8},
    [HN_BOOL] = {sums_u8, store_bool},
};

static hn_status plain_prepare(hn_ext_call *call) {
    if (call->dtypes[0] >= HN_SCALAR_TYPE_COUNT || !functions[call->dtypes[0]].sum)
        return HN_ERROR(HN_UNSUPPORTED, "plain matmul has no loops for this type");
    return NULL;
}

static void run_row(const hn_ext_call *call, int64_t index) {
    const int64_t *p = call->params, m = p[HN_MATMUL_M], n = p[HN_MATMUL_N];
    row_job r = {.call = call};
    int64_t i = index % m, item = index / m;
    r.a = i * p[HN_MATMUL_A + ROW], r.out = i * p[HN_MATMUL_OUT + ROW];
    r.bias = i * p[HN_MATMUL_BIAS + ROW], r.residual = i * p[HN_MATMUL_RESIDUAL + ROW];
    for (int d = HN_EXTERN_BATCH - 1; d >= 0; d--) {
        int64_t at = item % p[HN_MATMUL_BATCH + d];
        item /= p[HN_MATMUL_BATCH + d];
        r.a += at * p[HN_MATMUL_A + d], r.b += at * p[HN_MATMUL_B + d];
        r.out += at * p[HN_MATMUL_OUT + d], r.bias += at * p[HN_MATMUL_BIAS + d];
        r.residual += at * p[HN_MATMUL_RESIDUAL + d];
    }
    for (int64_t j = 0; j < n; j += COLUMNS) {
        sums s;
        r.count = hn_ext_min(COLUMNS, n - j);
        functions[call->dtypes[0]].sum(&r, &s);
        functions[call->dtypes[0]].store(&r, &s);
        r.b += r.count * p[HN_MATMUL_B + COL], r.out += r.count * p[HN_MATMUL_OUT + COL];
        r.bias += r.count * p[HN_MATMUL_BIAS + COL],
            r.residual += r.count * p[HN_MATMUL_RESIDUAL + COL];
    }
}

typedef struct rows_job {
    const hn_ext_call *call;
    int64_t rows, next; /* next: the first that nobody has taken */
} rows_job;

static void run_rows(void *context, int rank) {
    (void)rank;
    rows_job *j = context;
    for (int64_t i; (i = __atomic_fetch_add(&j->next, ROWS_AT_ONCE, __ATOMIC_RELAXED)) < j->rows;)
        for (int64_t end = hn_ext_min(i + ROWS_AT_ONCE, j->rows); i < end; i++) run_row(j->call, i);
}

static hn_status plain_run(const hn_ext_call *call, void *scratch) {
    (void)scratch;
    const int64_t *p = call->params;
    int64_t rows = p[HN_MATMUL_M];
    for (int d = 0; d < HN_EXTERN_BATCH; d++) rows *= p[HN_MATMUL_BATCH + d];
    if (p[HN_MATMUL_N] == 0) return NULL;
    double work = (double)rows * (double)p[HN_MATMUL_N] * ((double)p[HN_MATMUL_K] + 1);
    int threads = work < 2.0 * WORK_PER_THREAD ? 1 : call->threads; /* one or all: see ext.h */
    hn_team_run(call->team, threads, run_rows, &(rows_job){.call = call, .rows = rows});
    return NULL;
}

const hn_ext_impl hn_ext_matmul_plain = {
    .name = "plain", .prepare = plain_prepare, .run = plain_run};
