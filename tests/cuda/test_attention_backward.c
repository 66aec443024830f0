/* test_attention_backward.c: the two kernels of ATTENTION_BACKWARD (codegen/cuda/attention_backward.c),
 * run on the CPU (tests/support/cuda_on_cpu.c), against sums in double as the formulas say: sizes
 * that fill no tile, shared heads of keys, triangles, masks, rows that see no key, strides. */
#include "base/compiler.h"
#include "opencl/fixture.h"

#include <math.h>

enum { D_Q, D_K, D_V, GRAD, Q, K, V, OUT, MASK, OPERANDS, ELEMS = 30000, GUARD = 64 };

typedef struct sizes {
    int64_t batches, heads, kv_heads, m, n, d, dv;
} sizes;

typedef struct problem {
    sizes s;
    hn_dtype dtype, mask;    /* NONE: there is none */
    bool causal, rows_first; /* strides as of [batch, row, head, column] */
    double scale;
    int64_t params[HN_ATTENTION_BACKWARD_PARAM_COUNT];
    double *numbers[OPERANDS]; /* by the strides */
    void *memory[OPERANDS];
} problem;

/* ---- 16-bit floats ---- */

static double get(hn_dtype dtype, const void *from, int64_t at) {
    uint32_t bits = 0;
    float f;
    if (dtype == HN_DTYPE_F16) return (double)((const _Float16 *)from)[at];
    if (dtype == HN_DTYPE_BOOL) return ((const uint8_t *)from)[at];
    bits = (uint32_t)((const uint16_t *)from)[at] << 16;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

static void put(hn_dtype dtype, void *to, int64_t at, float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (dtype == HN_DTYPE_F16) ((_Float16 *)to)[at] = (_Float16)f;
    else if (dtype == HN_DTYPE_BOOL) ((uint8_t *)to)[at] = f > -0.5f;
    else ((uint16_t *)to)[at] = (uint16_t)(bits >> 16);
}

static float next_number(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int64_t)(*state >> 40 & 0xff) / 128 - 1;
}

/* ---- a problem ---- */

static int64_t rows_of(const problem *p, uint32_t operand) {
    return operand == D_K || operand == D_V || operand == K || operand == V ? p->s.n : p->s.m;
}

static int64_t heads_of(const problem *p, uint32_t operand) {
    return rows_of(p, operand) == p->s.m && (operand == Q || operand == D_Q || operand == GRAD ||
                                             operand == OUT || operand == MASK)
               ? p->s.heads
           : operand == K || operand == V || operand == D_K || operand == D_V ? p->s.kv_heads
                                                                              : p->s.heads;
}

static int64_t columns_of(const problem *p, uint32_t operand) {
    if (operand == MASK) return p->s.n;
    return operand == Q || operand == K || operand == D_Q || operand == D_K ? p->s.d : p->s.dv;
}

static int64_t *strides_of(problem *p, uint32_t operand) {
    static const uint8_t at[OPERANDS] = {
        [D_Q] = HN_ATTENTION_BACKWARD_D_Q,  [D_K] = HN_ATTENTION_BACKWARD_D_K,
        [D_V] = HN_ATTENTION_BACKWARD_D_V,  [GRAD] = HN_ATTENTION_BACKWARD_GRAD,
        [Q] = HN_ATTENTION_BACKWARD_Q,      [K] = HN_ATTENTION_BACKWARD_K,
        [V] = HN_ATTENTION_BACKWARD_V,      [OUT] = HN_ATTENTION_BACKWARD_OUT,
        [MASK] = HN_ATTENTION_BACKWARD_MASK};
    return &p->params[at[operand]];
}

static void lay_out(problem *p, uint32_t operand) {
    const int64_t heads = heads_of(p, operand), rows = rows_of(p, operand),
                  columns = columns_of(p, operand);
    const int64_t by_rows[4] = {rows * heads * columns, columns, heads * columns, 1},
                  by_heads[4] = {heads * rows * columns, rows * columns, columns, 1};
    memcpy(strides_of(p, operand), p->rows_first ? by_rows : by_heads, sizeof by_rows);
}

static void begin(problem *p) {
    uint64_t state = 11;
    const int64_t first[] = {p->s.batches, p->s.heads, p->s.kv_heads, p->s.m,
                             p->s.n,       p->s.d,     p->s.dv};
    memcpy(p->params, first, sizeof first);
    p->params[HN_ATTENTION_BACKWARD_CAUSAL] = p->causal;
    memcpy(&p->params[HN_ATTENTION_BACKWARD_SCALE], &p->scale, sizeof p->scale);
    for (uint32_t k = 0; k < OPERANDS; k++) {
        const hn_dtype dtype = k == MASK ? p->mask : p->dtype;
        p->memory[k] = calloc(ELEMS + GUARD, 2);
        p->numbers[k] = calloc(ELEMS, sizeof(double));
        if (k != MASK || p->mask) lay_out(p, k);
        for (int64_t e = 0; e < ELEMS && k >= GRAD && dtype; e++)
            put(dtype, p->memory[k], e, next_number(&state));
        for (int64_t e = 0; e < ELEMS && dtype; e++) p->numbers[k][e] = get(dtype, p->memory[k], e);
    }
}

static void end(problem *p) {
    for (uint32_t k = 0; k < OPERANDS; k++) free(p->memory[k]), free(p->numbers[k]);
}

static double *at(problem *p, uint32_t operand, int64_t batch, int64_t head, int64_t row,
                  int64_t column) {
    const int64_t *s = strides_of(p, operand);
    const int64_t shared = heads_of(p, operand) == p->s.heads ? 1 : p->s.heads / p->s.kv_heads;
    return &p->numbers[operand][batch * s[0] + head / shared * s[1] + row * s[2] + column * s[3]];
}

/* ---- the formulas ---- */

static double score(problem *p, int64_t b, int64_t h, int64_t m, int64_t n) {
    double dot = 0;
    if (p->causal && n > m) return -INFINITY;
    for (int64_t d = 0; d < p->s.d; d++) dot += *at(p, Q, b, h, m, d) * *at(p, K, b, h, n, d);
    if (!p->mask) return dot * p->scale;
    const double mask = *at(p, MASK, b, h, m, n);
    if (p->mask == HN_DTYPE_BOOL) return mask != 0 ? dot * p->scale : -INFINITY;
    return dot * p->scale + mask;
}

/* One query: its weights, its result, and what it adds to the gradients. */
static void query(problem *p, int64_t b, int64_t h, int64_t m, double *weights) {
    double sum = 0, dot = 0;
    for (int64_t n = 0; n < p->s.n; n++) sum += weights[n] = exp(score(p, b, h, m, n));
    for (int64_t n = 0; n < p->s.n && sum > 0; n++) weights[n] /= sum;
    for (int64_t c = 0; c < p->s.dv; c++) {
        double *out = at(p, OUT, b, h, m, c);
        *out = 0;
        for (int64_t n = 0; n < p->s.n; n++) *out += weights[n] * *at(p, V, b, h, n, c);
        dot += *out * *at(p, GRAD, b, h, m, c);
    }
    for (int64_t n = 0; n < p->s.n; n++) {
        double change = -dot;
        for (int64_t c = 0; c < p->s.dv; c++) {
            const double grad = *at(p, GRAD, b, h, m, c);
            change += grad * *at(p, V, b, h, n, c);
            *at(p, D_V, b, h, n, c) += weights[n] * grad;
        }
        change *= weights[n] * p->scale;
        for (int64_t d = 0; d < p->s.d; d++) {
            *at(p, D_Q, b, h, m, d) += change * *at(p, K, b, h, n, d);
            *at(p, D_K, b, h, n, d) += change * *at(p, Q, b, h, m, d);
        }
    }
}

static void run_formulas(problem *p) {
    double *weights = calloc((size_t)p->s.n + 1, sizeof *weights);
    for (int64_t b = 0; b < p->s.batches; b++)
        for (int64_t h = 0; h < p->s.heads; h++)
            for (int64_t m = 0; m < p->s.m; m++) query(p, b, h, m, weights);
    for (int64_t e = 0; e < ELEMS; e++) put(p->dtype, p->memory[OUT], e, (float)p->numbers[OUT][e]);
    free(weights);
}

/* ---- the kernels ---- */

static hn_extern call_of(problem *p, fixture *x) {
    hn_extern call = {.kind = HN_EXTERN_ATTENTION_BACKWARD,
                      .operand_count = OPERANDS,
                      .param_count = HN_ATTENTION_BACKWARD_PARAM_COUNT};
    for (uint32_t k = 0; k < call.param_count; k++) call.params[k] = num(x, p->params[k]);
    for (uint32_t k = 0; k < OPERANDS; k++) {
        if (k == MASK && !p->mask) continue;
        call.operands[k].buffer = add_input(x, k == MASK ? p->mask : p->dtype, ELEMS, p->memory[k]);
        call.operands[k].written = k <= D_V;
        call.operands[k].offset_elems = num(x, 0);
    }
    return call;
}

static void run_kernels(problem *p) {
    hn_target target;
    hn_kernel_code first = {.threads = 0};
    opencl_program *program = NULL;
    int64_t bytes = 0;
    fixture x;
    EXPECT_OK(fixture_init(&x));
    EXPECT_OK(kernel_target(&target));
    const hn_extern call = call_of(p, &x);
    EXPECT(hn_operation_of(target.kind->limits->operations, x.program, &call));
    EXPECT_OK(target.kind->operation(x.program, &call, &x.arena, &first));
    EXPECT(first.next && !first.next->next);
    EXPECT(hn_sym_eval(x.sym, first.workspace_bytes, NULL, NULL, 0, &bytes));
    x.memory[0] = (kernel_memory){malloc((size_t)bytes + GUARD), (size_t)bytes};
    memset(x.memory[0].bytes, 0xa5, (size_t)bytes + GUARD);
    EXPECT_OK(kernel_build(host, (const hn_kernel_code *const[]){&first, first.next}, 2, &program));
    const kernel_env env = {.program = x.program, .buffers = x.memory};
    EXPECT_OK(kernel_run(program, &first, &env));
    EXPECT_OK(kernel_run(program, first.next, &env));
    for (int64_t k = 0; k < GUARD; k++)
        EXPECT_INT(((const uint8_t *)x.memory[0].bytes)[bytes + k], 0xa5);
    opencl_program_free(program);
    free(x.memory[0].bytes);
    fixture_deinit(&x);
}

static void compare(problem *p, uint32_t operand) {
    /* of the largest number: weights and their changes are rounded to 16 bits */
    const double tolerance = p->dtype == HN_DTYPE_BF16 ? 1.2e-2 : 2e-3;
    double largest = 0;
    uint32_t wrong = 0;
    for (int64_t e = 0; e < ELEMS; e++) largest = fmax(largest, fabs(p->numbers[operand][e]));
    for (int64_t e = 0; e < ELEMS; e++) {
        const double a = p->numbers[operand][e], b = get(p->dtype, p->memory[operand], e);
        if (fabs(a - b) <= tolerance * largest) continue;
        if (!wrong++)
            fprintf(stderr, "operand %u: element %lld is %g, not %g\n", operand, (long long)e, b,
                    a);
    }
    EXPECT_INT(wrong, 0);
}

static void check(problem p) {
    begin(&p);
    run_formulas(&p);
    run_kernels(&p);
    for (uint32_t k = D_Q; k <= D_V; k++) compare(&p, k);
    end(&p);
}

/* ---- tests ---- */

static const hn_dtype dtypes[] = {HN_DTYPE_BF16, HN_DTYPE_F16};

TEST(gradients) {
    for (size_t k = 0; k < HN_COUNT_OF(dtypes); k++) {
        check((problem){
            .s = {2, 4, 2, 70, 50, 40, 24}, .dtype = dtypes[k], .rows_first = true, .scale = 0.25});
        check((problem){
            .s = {1, 2, 1, 37, 70, 16, 100}, .dtype = dtypes[k], .causal = true, .scale = 0.25});
        check((problem){.s = {1, 1, 1, 65, 130, 128, 128}, .dtype = dtypes[k], .scale = 0.0884});
    }
}

TEST(triangles_of_several_tiles) {
    for (size_t k = 0; k < HN_COUNT_OF(dtypes); k++) {
        check((problem){.s = {1, 2, 1, 150, 150, 64, 64},
                        .dtype = dtypes[k],
                        .causal = true,
                        .rows_first = true,
                        .scale = 0.125});
        check((problem){
            .s = {1, 1, 1, 40, 130, 8, 8}, .dtype = dtypes[k], .causal = true, .scale = 0.5});
    }
}

TEST(masks) {
    for (size_t k = 0; k < HN_COUNT_OF(dtypes); k++) {
        check((problem){.s = {2, 2, 1, 20, 45, 24, 30},
                        .dtype = dtypes[k],
                        .mask = dtypes[k],
                        .rows_first = true,
                        .scale = 0.2});
        check((problem){
            .s = {1, 3, 1, 70, 70, 8, 8}, .dtype = dtypes[k], .mask = HN_DTYPE_BOOL, .scale = 0.3});
    }
}

/* Half of the mask is false: some rows of three keys see none. */
TEST(rows_that_see_no_key) {
    check((problem){.s = {1, 2, 2, 90, 3, 16, 16},
                    .dtype = HN_DTYPE_F16,
                    .mask = HN_DTYPE_BOOL,
                    .scale = 0.25});
}

TEST(columns_apart) {
    problem p = {.s = {1, 1, 1, 20, 30, 10, 12}, .dtype = HN_DTYPE_BF16, .scale = 0.3};
    begin(&p);
    for (uint32_t k = 0; k < MASK; k++) {
        int64_t *s = strides_of(&p, k);
        s[2] = 3, s[3] = 3 * rows_of(&p, k);
    }
    run_formulas(&p);
    run_kernels(&p);
    for (uint32_t k = D_Q; k <= D_V; k++) compare(&p, k);
    end(&p);
}

int main(int argc, char **argv) { return opencl_test_main(argc, argv); }
