/* bench_gemm.c: float matrix products of ext_gemm.c against the BLAS and oneDNN of the system.
 *
 *   gcc -O2 -std=gnu17 -D_GNU_SOURCE -fopenmp -Iinclude -Isrc bench/ext/bench_gemm.c src/runtime/ext_gemm.c \
 *       src/runtime/ext_kernels*.c -ldl -lm -o bench_gemm && ./bench_gemm [threads] [m,n,k ...]
 *
 * GFLOP/s, best of many runs: ours with b packed before (weights) and in each call, then sgemm of both libraries. */
#include "bench.h"
#include "runtime/ext_gemm.h"

#include <dlfcn.h>

typedef void cblas_sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                            const float *b, int ldb, float beta, float *c, int ldc);
typedef int dnnl_sgemm_fn(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                          const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

typedef struct gemm_case {
    hn_ext_gemm plan, packed_plan;
    float *a, *b, *packed, *out;
    void *scratch;
    cblas_sgemm_fn *cblas;
    dnnl_sgemm_fn *dnnl;
} gemm_case;

static void run_ours(void *user) {
    gemm_case *c = user;
    hn_ext_gemm_run(&c->plan, c->out, c->a, c->b, NULL, c->scratch);
}
static void run_packed(void *user) {
    gemm_case *c = user;
    hn_ext_gemm_run(&c->packed_plan, c->out, c->a, c->packed, NULL, c->scratch);
}
static void run_cblas(void *user) {
    gemm_case *c = user;
    int m = (int)c->plan.m, n = (int)c->plan.n, k = (int)c->plan.k;
    c->cblas(101, 111, 111, m, n, k, 1, c->a, k, c->b, n, 0, c->out, n);
}
static void run_dnnl(void *user) {
    gemm_case *c = user;
    c->dnnl('N', 'N', c->plan.m, c->plan.n, c->plan.k, 1, c->a, c->plan.k, c->b, c->plan.n, 0, c->out, c->plan.n);
}

static double largest_error(const gemm_case *c) {
    double worst = 0;
    for (int s = 0; s < 200; s++) {
        int64_t i = s * 7919 % c->plan.m, j = s * 104729 % c->plan.n;
        double sum = 0, mag = 0;
        for (int64_t p = 0; p < c->plan.k; p++) {
            double x = (double)c->a[i * c->plan.k + p] * c->b[p * c->plan.n + j];
            sum += x, mag += fabs(x);
        }
        double e = fabs(sum - c->out[i * c->plan.n + j]) / mag;
        if (!(e <= worst)) worst = e;
    }
    return worst;
}

static void measure(gemm_case *c, int64_t m, int64_t n, int64_t k, int threads) {
    hn_ext_gemm g = {.batch = {1, 1, 1, 1}, .m = m, .n = n, .k = k, .a = {0, 0, 0, 0, k, 1}, .b = {0, 0, 0, 0, n, 1},
                     .out = {0, 0, 0, 0, n, 1}, .threads = threads};
    c->plan = g;
    g.prepack_b = true;
    c->packed_plan = g;
    hn_ext_gemm_plan(&c->plan);
    hn_ext_gemm_plan(&c->packed_plan);
    c->a = bench_floats((size_t)(m * k), 1);
    c->b = bench_floats((size_t)(k * n), 2);
    c->out = bench_floats((size_t)(m * n), 3);
    c->packed = bench_floats(hn_ext_gemm_packed_bytes(&c->packed_plan) / sizeof(float), 4);
    c->scratch = bench_floats((hn_ext_gemm_scratch_bytes(&c->plan) + hn_ext_gemm_scratch_bytes(&c->packed_plan)) / 4, 5);
    hn_ext_gemm_pack_b(&c->packed_plan, c->b, c->packed);
    omp_set_num_threads(threads);
    double flops = 2.0 * (double)m * (double)n * (double)k, budget = fmin(0.15 + flops * 3e-10, 3);
    void (*const runs[])(void *) = {run_packed, run_ours, c->cblas ? run_cblas : NULL, c->dnnl ? run_dnnl : NULL};
    printf("%5ld %5ld %5ld |", (long)m, (long)n, (long)k);
    double worst = 0;
    for (int i = 0; i < 4; i++) {
        if (runs[i]) {
            printf(" %7.1f", flops / bench_best(runs[i], c, threads, budget) * 1e-9);
            if (i < 2) worst = fmax(worst, largest_error(c));
        }
    }
    printf(" | error %.1e\n", worst);
    fflush(stdout);
    free(c->a), free(c->b), free(c->out), free(c->packed), free(c->scratch);
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    static const int64_t all[][3] = {
        {64, 64, 64}, {128, 128, 128}, {256, 256, 256}, {512, 512, 512}, {1024, 1024, 1024}, {2048, 2048, 2048}, {4096, 4096, 4096},
        {1, 4096, 4096}, {2, 4096, 4096}, {4, 4096, 4096}, {8, 4096, 4096}, {16, 4096, 1024}, {32, 4096, 4096},
        {4096, 64, 64}, {4096, 32, 512}, {64, 64, 4096}, {127, 129, 131},
        {128, 768, 768}, {128, 2304, 768}, {128, 3072, 768}, {128, 768, 3072}, {128, 50257, 768}, {197, 768, 768},
        {197, 3072, 768}, {197, 768, 3072}, {128, 1024, 1024}, {128, 2816, 1024}, {1024, 2816, 1024}, {1, 1000, 2048}};
    gemm_case c = {0};
    void *blas = dlopen("libopenblas.so.0", RTLD_NOW), *dnn = dlopen("libdnnl.so.2", RTLD_NOW);
    if (blas) c.cblas = (cblas_sgemm_fn *)dlsym(blas, "cblas_sgemm");
    if (dnn) c.dnnl = (dnnl_sgemm_fn *)dlsym(dnn, "dnnl_sgemm");
    printf("kernels %s, %d threads\n    m     n     k |  packed    ours openblas  dnnl\n", hn_ext_kernels_get()->name, threads);
    for (size_t i = 0; argc < 3 && i < sizeof all / sizeof *all; i++) measure(&c, all[i][0], all[i][1], all[i][2], threads);
    for (int i = 2; i < argc; i++) {
        long m, n, k;
        if (sscanf(argv[i], "%ld,%ld,%ld", &m, &n, &k) == 3) measure(&c, m, n, k, threads);
    }
    return 0;
}
