/* bench_gemm.c: matrix products as the runtime does them against the BLAS and oneDNN of the system:
 * the tables of docs/contractions.md.
 *
 *   bench_gemm [--threads N] [--f64] [GROUP | M,N,K]...
 *
 * Groups: squares, large, skinny, rows, models; without any, all of them.
 *
 * GFLOP/s, best of many runs, operands in cache where they fit. "weights": b is a constant, which
 * is packed once; "float": b changes from call to call; "bf16 weights": everything is bf16, b a
 * constant. OpenBLAS and oneDNN do sgemm. A result that is wrong has no figure. One thread is timed
 * by its processor time. --f64: products of doubles, and OpenBLAS's dgemm. */
#include "bench.h"
#include "henry/tensor.h"
#include "ops/cpu/ext.h"

#include <dlfcn.h>

typedef void cblas_sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha,
                            const float *a, int lda, const float *b, int ldb, float beta, float *c,
                            int ldc);
typedef void cblas_dgemm_fn(int order, int ta, int tb, int m, int n, int k, double alpha,
                            const double *a, int lda, const double *b, int ldb, double beta,
                            double *c, int ldc);
typedef int dnnl_sgemm_fn(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha,
                          const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                          float *c, int64_t ldc);

typedef struct libraries {
    cblas_sgemm_fn *cblas;
    cblas_dgemm_fn *cblas_f64;
    dnnl_sgemm_fn *dnnl;
} libraries;

typedef struct gemm_case {
    const libraries *libraries;
    int64_t m, n, k;
    float *a, *b, *out;
    double *f64[3];   /* out, a, b */
    hn_ext_call call; /* the one that is timed */
    void *scratch;
    bool failed;
} gemm_case;

typedef struct shape {
    const char *group;
    int64_t m, n, k;
} shape;

static const shape shapes[] = {
    {"squares", 64, 64, 64},      {"squares", 128, 128, 128},    {"squares", 256, 256, 256},
    {"squares", 512, 512, 512},   {"squares", 1024, 1024, 1024}, {"squares", 2048, 2048, 2048},
    {"large", 4096, 4096, 4096},  {"skinny", 4096, 64, 64},      {"skinny", 4096, 32, 512},
    {"skinny", 64, 64, 4096},     {"skinny", 127, 129, 131},     {"rows", 1, 768, 768},
    {"rows", 2, 768, 768},        {"rows", 4, 768, 768},         {"rows", 8, 768, 768},
    {"rows", 16, 768, 768},       {"rows", 32, 768, 768},        {"rows", 1, 3072, 768},
    {"rows", 2, 3072, 768},       {"rows", 4, 3072, 768},        {"rows", 8, 3072, 768},
    {"rows", 16, 3072, 768},      {"rows", 32, 3072, 768},       {"rows", 1, 4096, 4096},
    {"rows", 2, 4096, 4096},      {"rows", 4, 4096, 4096},       {"rows", 8, 4096, 4096},
    {"rows", 16, 4096, 4096},     {"rows", 32, 4096, 4096},      {"models", 128, 768, 768},
    {"models", 128, 2304, 768},   {"models", 128, 3072, 768},    {"models", 128, 768, 3072},
    {"models", 128, 50257, 768},  {"models", 197, 768, 768},     {"models", 197, 3072, 768},
    {"models", 197, 768, 3072},   {"models", 128, 1024, 1024},   {"models", 128, 2816, 1024},
    {"models", 1024, 2816, 1024}, {"models", 1, 1000, 2048},
};

static void run_ours(void *user) {
    gemm_case *c = user;
    hn_status status = hn_ext_run(&c->call, c->scratch);
    c->failed |= status != NULL;
    hn_status_free(status);
}
static void run_cblas(void *user) {
    gemm_case *c = user;
    int m = (int)c->m, n = (int)c->n, k = (int)c->k;
    c->libraries->cblas(101, 111, 111, m, n, k, 1, c->a, k, c->b, n, 0, c->out, n);
}
static void run_cblas_f64(void *user) {
    gemm_case *c = user;
    int m = (int)c->m, n = (int)c->n, k = (int)c->k;
    c->libraries->cblas_f64(101, 111, 111, m, n, k, 1, c->f64[1], k, c->f64[2], n, 0, c->f64[0], n);
}
static void run_dnnl(void *user) {
    gemm_case *c = user;
    c->libraries->dnnl('N', 'N', c->m, c->n, c->k, 1, c->a, c->k, c->b, c->n, 0, c->out, c->n);
}

static double get(uint8_t type, const void *memory, int64_t at) {
    if (type == HN_F64) return ((const double *)memory)[at];
    if (type == HN_F32) return (double)((const float *)memory)[at];
    uint32_t bits = (uint32_t)((const uint16_t *)memory)[at] << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

/* The largest error of some elements, in units of the sum of the products' sizes. */
static double largest_error(const gemm_case *c, uint8_t type, const void *a, const void *b,
                            const void *out) {
    double worst = 0;
    for (int s = 0; s < 100; s++) {
        int64_t i = s * 7919 % c->m, j = s * 104729 % c->n;
        double sum = 0, size = 0;
        for (int64_t p = 0; p < c->k; p++) {
            double x = get(type, a, i * c->k + p) * get(type, b, p * c->n + j);
            sum += x, size += fabs(x);
        }
        double error = fabs(sum - get(type, out, i * c->n + j)) / size;
        if (!(error <= worst)) worst = error;
    }
    return worst;
}

static void print_cell(const gemm_case *c, double seconds, bool is_right) {
    if (is_right)
        printf(" %.1f |", 2.0 * (double)c->m * (double)c->n * (double)c->k / seconds * 1e-9);
    else printf(" wrong |");
    fflush(stdout);
}

/* The runtime's own, called as a step of a module calls it. */
static void measure_ours(gemm_case *c, uint8_t type, bool is_constant, int threads, double budget) {
    const bool is_bf16 = type == HN_BF16;
    const int64_t p[HN_MATMUL_PARAM_COUNT] = {1,    1,
                                              1,    1,
                                              c->m, c->n,
                                              c->k, [HN_MATMUL_A + 4] = c->k,
                                              1,    [HN_MATMUL_B + 4] = c->n,
                                              1,    [HN_MATMUL_OUT + 4] = c->n,
                                              1,    [HN_MATMUL_B_CONSTANT] = is_constant};
    const int64_t counts[3] = {c->m * c->n, c->m * c->k, c->k * c->n};
    float *const floats[3] = {c->out, c->a, c->b};
    void *memory[3];
    hn_ext_shared *shared;
    for (int i = 0; i < 3; i++) {
        memory[i] = is_bf16          ? bench_floats((size_t)(counts[i] + 1) / 2, 0)
                    : type == HN_F64 ? (void *)c->f64[i]
                                     : floats[i];
        for (int64_t k = 0; is_bf16 && k < counts[i]; k++)
            ((uint16_t *)memory[i])[k] = (uint16_t)(((const uint32_t *)floats[i])[k] >> 16);
    }
    if (hn_ext_shared_create(&shared)) exit(1);
    c->call = (hn_ext_call){.kind = HN_EXTERN_MATMUL,
                            .dtypes = {type, type, type},
                            .params = p,
                            .param_count = HN_MATMUL_PARAM_COUNT,
                            .threads = threads,
                            .team = &bench_team,
                            .is_constant = {[2] = is_constant},
                            .shared = shared};
    if (is_constant) c->call.operands[2] = memory[2];
    if (hn_ext_prepare(&c->call)) exit(1);
    memcpy(c->call.operands, memory, sizeof memory);
    c->scratch = bench_floats(c->call.scratch_bytes / sizeof(float) + 1, 5);
    c->failed = false;
    run_ours(c); /* the first use of a weight */
    double seconds = bench_best(run_ours, c, threads, budget);
    print_cell(c, seconds,
               !c->failed && largest_error(c, type, memory[1], memory[2], memory[0]) <
                                 (is_bf16          ? 4e-3
                                  : type == HN_F64 ? 1e-14
                                                   : 1e-6));
    hn_ext_release(&c->call);
    hn_ext_shared_destroy(shared);
    free(c->scratch);
    for (int i = 0; is_bf16 && i < 3; i++) free(memory[i]);
}

static void measure(const libraries *l, const shape *s, int threads) {
    gemm_case c = {.libraries = l,
                   .m = s->m,
                   .n = s->n,
                   .k = s->k,
                   .a = bench_floats((size_t)(s->m * s->k), 1),
                   .b = bench_floats((size_t)(s->k * s->n), 2),
                   .out = bench_floats((size_t)(s->m * s->n), 3)};
    const double budget = 0.08;
    printf("| %ld x %ld x %ld | %d |", (long)s->m, (long)s->n, (long)s->k, threads);
    measure_ours(&c, HN_F32, true, threads, budget);
    measure_ours(&c, HN_F32, false, threads, budget);
    measure_ours(&c, HN_BF16, true, threads, budget);
    if (l->cblas) print_cell(&c, bench_best(run_cblas, &c, threads, budget), true);
    else printf(" |");
    if (l->dnnl) print_cell(&c, bench_best(run_dnnl, &c, threads, budget), true);
    else printf(" |");
    putchar('\n');
    free(c.a), free(c.b), free(c.out);
}

static void measure_f64(const libraries *l, const shape *s, int threads) {
    const double budget = 0.08;
    const int64_t counts[3] = {s->m * s->n, s->m * s->k, s->k * s->n};
    gemm_case c = {.libraries = l, .m = s->m, .n = s->n, .k = s->k};
    for (int i = 0; i < 3; i++) {
        float *x = bench_floats((size_t)counts[i], (unsigned)i + 1);
        c.f64[i] = malloc((size_t)counts[i] * sizeof(double));
        if (!c.f64[i]) exit(1);
        for (int64_t k = 0; k < counts[i]; k++) c.f64[i][k] = (double)x[k];
        free(x);
    }
    printf("| %ld x %ld x %ld | %d |", (long)s->m, (long)s->n, (long)s->k, threads);
    measure_ours(&c, HN_F64, false, threads, budget);
    if (l->cblas_f64) print_cell(&c, bench_best(run_cblas_f64, &c, threads, budget), true);
    else printf(" |");
    putchar('\n');
    for (int i = 0; i < 3; i++) free(c.f64[i]);
}

int main(int argc, char **argv) {
    int threads = 1, first = 1;
    if (argc > 2 && strcmp(argv[1], "--threads") == 0) threads = atoi(argv[2]), first = 3;
    const bool is_f64 = argc > first && strcmp(argv[first], "--f64") == 0;
    first += is_f64;
    libraries l = {0};
    void *blas = dlopen("libopenblas.so.0", RTLD_NOW), *dnn = dlopen("libdnnl.so.2", RTLD_NOW);
    if (blas) {
        l.cblas = (cblas_sgemm_fn *)dlsym(blas, "cblas_sgemm");
        l.cblas_f64 = (cblas_dgemm_fn *)dlsym(blas, "cblas_dgemm");
        void (*set_threads)(int) = (void (*)(int))dlsym(blas, "openblas_set_num_threads");
        if (set_threads) set_threads(threads);
    }
    if (dnn) l.dnnl = (dnnl_sgemm_fn *)dlsym(dnn, "dnnl_sgemm");
    if (is_f64) printf("| m x n x k | threads | f64 | OpenBLAS |\n|---|---:|---:|---:|\n");
    else
        printf(
            "| m x n x k | threads | weights | float | bf16 weights | OpenBLAS | oneDNN |\n|---|---:|---:|---:|---:|---:|---:|\n");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        bool wanted = argc == first;
        for (int k = first; k < argc; k++) wanted |= strcmp(argv[k], shapes[i].group) == 0;
        if (wanted) (is_f64 ? measure_f64 : measure)(&l, &shapes[i], threads);
    }
    for (int i = first; i < argc; i++) {
        long m, n, k;
        if (sscanf(argv[i], "%ld,%ld,%ld", &m, &n, &k) == 3)
            (is_f64 ? measure_f64 : measure)(&l, &(shape){"", m, n, k}, threads);
    }
    return 0;
}
