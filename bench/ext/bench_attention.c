/* bench_attention.c: attention as the runtime does it, in microseconds and GFLOP/s.
 *
 *   bench_attention [--threads N] [--backward] [HEADS,KV_HEADS,M,N,D[,c]]...
 *
 * c: causal. Without shapes: those of the models. --backward: its gradients, five products where
 * the attention is two.
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

/* Sizes and strides of a call; returns how many operands it has. */
static int fill(const shape *s, bool backward, int64_t *p) {
    enum { OPERANDS = 8 };
    const int64_t q[4] = {0, s->d, s->heads * s->d, 1}, kv[4] = {0, s->d, s->kv_heads * s->d, 1};
    const int64_t sizes[] = {1, s->heads, s->kv_heads, s->m, s->n, s->d, s->d};
    static const struct {
        uint8_t at;
        bool of_keys;
    } forward_strides[] = {{HN_ATTENTION_OUT, false},
                           {HN_ATTENTION_Q, false},
                           {HN_ATTENTION_K, true},
                           {HN_ATTENTION_V, true}},
      backward_strides[OPERANDS] = {
          {HN_ATTENTION_BACKWARD_D_Q, false}, {HN_ATTENTION_BACKWARD_D_K, true},
          {HN_ATTENTION_BACKWARD_D_V, true},  {HN_ATTENTION_BACKWARD_GRAD, false},
          {HN_ATTENTION_BACKWARD_Q, false},   {HN_ATTENTION_BACKWARD_K, true},
          {HN_ATTENTION_BACKWARD_V, true},    {HN_ATTENTION_BACKWARD_OUT, false}};
    const double scale = 1 / sqrt((double)s->d);
    const int count = backward ? OPERANDS : 4;
    memcpy(p, sizes, sizeof sizes);
    for (int i = 0; i < count; i++) {
        const uint8_t at = backward ? backward_strides[i].at : forward_strides[i].at;
        const bool of_keys = backward ? backward_strides[i].of_keys : forward_strides[i].of_keys;
        memcpy(p + at, of_keys ? kv : q, sizeof q);
    }
    p[backward ? HN_ATTENTION_BACKWARD_CAUSAL : HN_ATTENTION_CAUSAL] = s->causal;
    memcpy(&p[backward ? HN_ATTENTION_BACKWARD_SCALE : HN_ATTENTION_SCALE], &scale, sizeof scale);
    return count;
}

static void measure(const shape *s, bool backward, int threads) {
    int64_t p[HN_ATTENTION_BACKWARD_PARAM_COUNT] = {0};
    float *memory[HN_EXT_MAX_OPERANDS];
    const int count = fill(s, backward, p);
    hn_ext_shared *shared;
    if (hn_ext_shared_create(&shared)) exit(1);
    job j = {.call = {.kind = backward ? HN_EXTERN_ATTENTION_BACKWARD : HN_EXTERN_ATTENTION,
                      .params = p,
                      .param_count =
                          backward ? HN_ATTENTION_BACKWARD_PARAM_COUNT : HN_ATTENTION_PARAM_COUNT,
                      .threads = threads,
                      .team = &bench_team,
                      .shared = shared}};
    for (int i = 0; i < count; i++) j.call.dtypes[i] = HN_F32;
    if (hn_ext_prepare(&j.call)) exit(1);
    for (int i = 0; i < count; i++) {
        const int64_t rows = s->m > s->n ? s->m : s->n;
        j.call.operands[i] = memory[i] = bench_floats((size_t)(rows * s->heads * s->d), i);
    }
    j.scratch = bench_floats(j.call.scratch_bytes / sizeof(float) + 1, 5);
    const double seconds = bench_best(run, &j, threads, 0.3);
    const double flops = (backward ? 10.0 : 4.0) * (double)s->heads * (double)s->m * (double)s->n *
                         (double)s->d / (s->causal ? 2 : 1);
    printf("| %ld heads (%ld), %ld x %ld, %ld%s%s | %d | %.0f | %.1f |\n", (long)s->heads,
           (long)s->kv_heads, (long)s->m, (long)s->n, (long)s->d, s->causal ? ", causal" : "",
           backward ? ", gradients" : "", threads, seconds * 1e6, flops / seconds * 1e-9);
    hn_ext_release(&j.call);
    hn_ext_shared_destroy(shared);
    free(j.scratch);
    for (int i = 0; i < count; i++) free(memory[i]);
}

int main(int argc, char **argv) {
    int threads = 1, first = 1;
    bool backward = false;
    if (argc > first + 1 && strcmp(argv[first], "--threads") == 0)
        threads = atoi(argv[first + 1]), first += 2;
    if (argc > first && strcmp(argv[first], "--backward") == 0) backward = true, first++;
    printf("| heads (of keys), m x n, d | threads | us | GFLOP/s |\n|---|---:|---:|---:|\n");
    for (size_t i = 0; argc == first && i < sizeof shapes / sizeof *shapes; i++)
        measure(&shapes[i], backward, threads);
    for (int i = first; i < argc; i++) {
        long h, g, m, n, d;
        char c = 0;
        if (sscanf(argv[i], "%ld,%ld,%ld,%ld,%ld,%c", &h, &g, &m, &n, &d, &c) >= 5)
            measure(&(shape){h, g, m, n, d, c == 'c'}, backward, threads);
    }
    return 0;
}
