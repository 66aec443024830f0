/* bench_attention.c: attention as the runtime does it, in microseconds and GFLOP/s.
 *
 *   bench_attention [--threads N] [HEADS,KV_HEADS,M,N,D[,c]]...
 *
 * c: causal. Without shapes: those of the models.
 *
 * Operands are laid out as models have them: [m, head, d], in one tensor of queries, keys and
 * values. A causal product counts half. Best of many runs. */
#include "bench.h"
#include "henry/tensor.h"
#include "ops/cpu/ext.h"

typedef struct shape {
    int64_t heads, kv_heads, m, n, d;
    bool causal;
} shape;

static const shape shapes[] = {
    {12, 12, 128, 128, 64, true}, {12, 12, 128, 128, 64, false}, {12, 12, 197, 197, 64, false},
    {16, 16, 128, 128, 64, true}, {12, 12, 512, 512, 64, false}, {32, 8, 1024, 1024, 128, true},
    {32, 8, 1, 1024, 128, false}, {12, 12, 1, 1024, 64, false},  {32, 32, 1, 4096, 128, false}};

typedef struct job {
    hn_ext_call call;
    void *scratch;
} job;

static void run(void *user) {
    job *j = user;
    if (hn_ext_run(&j->call, j->scratch)) exit(1);
}

static void measure(const shape *s, int threads) {
    const int64_t q = s->heads * s->d, kv = s->kv_heads * s->d, d = s->d;
    double scale = 1 / sqrt((double)d);
    int64_t p[HN_ATTENTION_PARAM_COUNT] = {
        1,    s->heads, s->kv_heads, s->m,
        s->n, d,        d,           [HN_ATTENTION_Q] = 0,
        d,    q,        1,           [HN_ATTENTION_K] = 0,
        d,    kv,       1,           [HN_ATTENTION_V] = 0,
        d,    kv,       1,           [HN_ATTENTION_OUT] = 0,
        d,    q,        1,           [HN_ATTENTION_CAUSAL] = s->causal};
    memcpy(&p[HN_ATTENTION_SCALE], &scale, sizeof scale);
    float *memory[4] = {bench_floats((size_t)(s->m * q), 1), bench_floats((size_t)(s->m * q), 2),
                        bench_floats((size_t)(s->n * kv), 3), bench_floats((size_t)(s->n * kv), 4)};
    hn_ext_shared *shared;
    if (hn_ext_shared_create(&shared)) exit(1);
    job j = {.call = {.kind = HN_EXTERN_ATTENTION,
                      .dtypes = {HN_F32, HN_F32, HN_F32, HN_F32},
                      .params = p,
                      .param_count = HN_ATTENTION_PARAM_COUNT,
                      .threads = threads,
                      .team = &bench_team,
                      .shared = shared}};
    if (hn_ext_prepare(&j.call)) exit(1);
    for (int i = 0; i < 4; i++) j.call.operands[i] = memory[i];
    j.scratch = bench_floats(j.call.scratch_bytes / sizeof(float) + 1, 5);
    const double seconds = bench_best(run, &j, threads, 0.3);
    const double flops =
        4.0 * (double)s->heads * (double)s->m * (double)s->n * (double)d / (s->causal ? 2 : 1);
    printf("| %ld heads (%ld), %ld x %ld, %ld%s | %d | %.0f | %.1f |\n", (long)s->heads,
           (long)s->kv_heads, (long)s->m, (long)s->n, (long)d, s->causal ? ", causal" : "", threads,
           seconds * 1e6, flops / seconds * 1e-9);
    hn_ext_release(&j.call);
    hn_ext_shared_destroy(shared);
    free(j.scratch);
    for (int i = 0; i < 4; i++) free(memory[i]);
}

int main(int argc, char **argv) {
    int threads = 1, first = 1;
    if (argc > 2 && strcmp(argv[1], "--threads") == 0) threads = atoi(argv[2]), first = 3;
    printf("| heads (of keys), m x n, d | threads | us | GFLOP/s |\n|---|---:|---:|---:|\n");
    for (size_t i = 0; argc == first && i < sizeof shapes / sizeof *shapes; i++)
        measure(&shapes[i], threads);
    for (int i = first; i < argc; i++) {
        long h, g, m, n, d;
        char c = 0;
        if (sscanf(argv[i], "%ld,%ld,%ld,%ld,%ld,%c", &h, &g, &m, &n, &d, &c) >= 5)
            measure(&(shape){h, g, m, n, d, c == 'c'}, threads);
    }
    return 0;
}
