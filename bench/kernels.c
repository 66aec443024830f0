/* kernels.c: generated kernels against the same written by hand and against a copy loop, all
 * measured in turns in one run.
 *
 *     kernels [--threads N] [--seconds S] [--small-pages] [NAME-PART]
 *
 * One JSON object a case on stdout: times are the median and the least over rounds of one call,
 * microseconds; a round calls each contestant in bursts. `copy` moves as many bytes as the case
 * must (reads and writes counted), once with ordinary stores and once with stores that bypass the
 * caches. `read`, for the reductions, is the best loop that only reads their input: a ceiling,
 * where a copy's bytes a second are none. The kernels' results are compared first. */
#include "bench/generated.h"
#include "bench/kernels_by_hand.h"
#include "bench/median.h"

#include "base/trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    MAX_ROUNDS = 400,
    MAX_INPUTS = 3,
    SMALL_BYTES = 1 << 20,
    TABLE_ROWS = 50257,
    HUGE_PAGE = 2 << 20
};

static bool small_pages; /* pages of 4 KiB for all arrays */

typedef enum shape_kind { SAME, TABLE, HALF, ROW, NONE } shape_kind;

typedef struct kernel_case {
    const char *name; /* of the graph in generated.c, too */
    hand_fn *hand;
    bool by_columns, by_strips; /* units of the hand-written kernel; otherwise rows */
    bool has_index;             /* the last input holds indices below `depth` */
    shape_kind inputs[MAX_INPUTS], output;
} kernel_case;

static const kernel_case cases[] = {
    {.name = "softmax", .hand = hand_softmax, .inputs = {SAME, NONE, NONE}, .output = SAME},
    {.name = "layer_norm", .hand = hand_layer_norm, .inputs = {SAME, ROW, ROW}, .output = SAME},
    {.name = "silu(a*b+c)", .hand = hand_silu, .inputs = {SAME, SAME, SAME}, .output = SAME},
    {.name = "sum of rows", .hand = hand_sum_rows, .inputs = {SAME, NONE, NONE}, .output = ROW},
    {.name = "sum of columns",
     .hand = hand_sum_columns,
     .by_columns = true,
     .inputs = {SAME, NONE, NONE},
     .output = ROW},
    {.name = "transpose",
     .hand = hand_transpose,
     .by_strips = true,
     .inputs = {SAME, NONE, NONE},
     .output = SAME},
    {.name = "x.t() + y",
     .hand = hand_add_transposed,
     .by_strips = true,
     .inputs = {SAME, SAME, NONE},
     .output = SAME},
    {.name = "cat", .hand = hand_cat, .inputs = {HALF, HALF, NONE}, .output = SAME},
    {.name = "embedding",
     .hand = hand_embedding,
     .has_index = true,
     .inputs = {TABLE, NONE, NONE},
     .output = SAME},
    {.name = "gather",
     .hand = hand_gather,
     .has_index = true,
     .inputs = {SAME, NONE, NONE},
     .output = SAME},
};

typedef struct series {
    double values[MAX_ROUNDS];
} series;

/* A case at one size: memory, module, measurements. */
typedef struct trial {
    const kernel_case *kernel;
    int64_t rows, cols, depth, bytes; /* bytes: read and written at least */
    int threads;
    double seconds;
    hand_args args;
    float *by_hand, *by_henry;
    generated henry_side;
    bool small; /* the calls are so short that only the time inside the steps counts */
    series henry, plain, streaming, copy_plain, copy_streaming, read;
    hand_args copy;
    int rounds;
    uint32_t steps;
} trial;

/* --- making --- */

/* As the runtime's own blocks: large ones on huge pages, unless the system refuses. */
static void *memory(size_t bytes) {
    size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : 64;
    void *p = aligned_alloc(align, (bytes + 63 + align) / align * align);
    if (!p) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    if (align == HUGE_PAGE)
        (void)madvise(p, (bytes + 63 + align) / align * align,
                      small_pages ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    memset(p, 0, bytes); /* touched: first use is not what is measured */
    return p;
}

static float *random_floats(int64_t count) {
    float *x = memory((size_t)count * sizeof *x);
    uint32_t seed = 1;
    for (int64_t k = 0; k < count; k++) {
        seed = seed * 1664525u + 1013904223u;
        x[k] = (float)(int)(seed >> 8) / (float)(1 << 22) - 2.0f;
    }
    return x;
}

static int64_t *random_index(int64_t count, int64_t depth) {
    int64_t *x = memory((size_t)count * sizeof *x);
    uint64_t seed = 1;
    for (int64_t k = 0; k < count; k++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[k] = (int64_t)((seed >> 33) % (uint64_t)depth);
    }
    return x;
}

static int64_t count_of(const trial *t, shape_kind kind) {
    if (kind == SAME) return t->rows * t->cols;
    if (kind == HALF) return t->rows * t->cols / 2;
    if (kind == TABLE) return t->depth * t->cols;
    return kind == ROW ? (t->kernel->hand == hand_sum_rows ? t->rows : t->cols) : 0;
}

static hn_status prepare(trial *t, hn_service *service) {
    const kernel_case *k = t->kernel;
    t->depth = k->inputs[0] == TABLE ? TABLE_ROWS : t->cols;
    HN_TRY(generated_make(&(generated_wanted){k->name, t->rows, t->cols, t->depth, t->threads},
                          service, &t->henry_side));
    t->args = (hand_args){.rows = t->rows, .cols = t->cols, .depth = t->depth};
    int64_t out_count = count_of(t, k->output);
    t->bytes = 4 * out_count;
    for (int i = 0; i < MAX_INPUTS && k->inputs[i] != NONE; i++) {
        int64_t count = count_of(t, k->inputs[i]);
        t->args.in[i] = random_floats(count);
        /* of a table, the rows that are asked for */
        t->bytes += 4 * (k->inputs[i] == TABLE ? out_count : count);
        HN_TRY(generated_give(&t->henry_side, (void *)t->args.in[i]));
    }
    if (k->has_index) {
        int64_t count = k->inputs[0] == TABLE ? t->rows : t->rows * t->cols;
        t->args.index = random_index(count, t->depth);
        t->bytes += 8 * count;
        HN_TRY(generated_give(&t->henry_side, (void *)t->args.index));
    }
    t->by_hand = memory((size_t)out_count * 4);
    t->by_henry = memory((size_t)out_count * 4);
    HN_TRY(generated_give(&t->henry_side, t->by_henry));
    /* rows of a copy that reads and writes `bytes` in all */
    int64_t half = (t->bytes / 8 + t->cols - 1) / t->cols;
    t->copy = (hand_args){.in = {random_floats(half * t->cols)},
                          .out = memory((size_t)(half * t->cols) * 4),
                          .rows = half,
                          .cols = t->cols};
    t->small = t->bytes <= SMALL_BYTES;
    t->steps = hn_module_step_count(t->henry_side.module);
    return NULL;
}

static void deinit(trial *t) {
    generated_deinit(&t->henry_side);
    for (int k = 0; k < MAX_INPUTS; k++) free((void *)t->args.in[k]);
    free((void *)t->args.index);
    free(t->by_hand);
    free(t->by_henry);
    free((void *)t->copy.in[0]);
    free(t->copy.out);
}

/* --- measuring --- */

static int64_t hand_units(const trial *t) {
    return t->kernel->by_columns ? t->cols / 64 : t->kernel->by_strips ? t->rows / 16 : t->rows;
}

/* Microseconds of one of `burst` calls. */
static double time_hand(trial *t, hand_fn *fn, hand_args *a, int64_t units, bool streaming,
                        int burst) {
    a->streaming = streaming;
    int64_t begin = hn_now_ns();
    for (int k = 0; k < burst; k++) hand_run(fn, a, units, t->threads);
    return (double)(hn_now_ns() - begin) / burst / 1e3;
}

static int64_t profiled_ns(const trial *t) {
    int64_t sum = 0;
    for (uint32_t k = 0; k < t->steps; k++) {
        hn_module_step_profile p;
        hn_status status = hn_module_profile(t->henry_side.module, k, &p);
        if (status) hn_status_free(status);
        else sum += p.total_ns;
    }
    return sum;
}

static hn_status time_henry(trial *t, int burst, double *out_us) {
    int64_t inside = profiled_ns(t), begin = hn_now_ns();
    for (int k = 0; k < burst; k++) HN_TRY(generated_run(&t->henry_side));
    int64_t all = hn_now_ns() - begin;
    *out_us = (double)(t->small ? profiled_ns(t) - inside : all) / burst / 1e3;
    return NULL;
}

static hn_status check(trial *t) {
    double unused, worst = 0, scale = t->kernel->by_columns ? 1 + 1e-2 * (double)t->rows : 1;
    HN_TRY(time_henry(t, 1, &unused));
    hand_run(t->kernel->hand, &t->args, hand_units(t), t->threads);
    for (int64_t k = 0; k < count_of(t, t->kernel->output); k++) {
        double difference = fabs((double)t->by_hand[k] - (double)t->by_henry[k]) / scale;
        if (!(difference <= worst)) worst = difference;
    }
    /* 1e-3: sums of a thousand and more numbers near 1 in other orders; a wrong kernel is off by
     * much more */
    return worst < 1e-3
               ? NULL
               : HN_ERROR(HN_INTERNAL, "'%s': the kernel differs from the one by hand by %g",
                          t->kernel->name, worst);
}

static bool only_reads(const trial *t) { return t->kernel->output == ROW; }

static hn_status measure(trial *t) {
    hand_args read = {.in = {t->args.in[0]}, .out = t->copy.out, .rows = t->rows, .cols = t->cols};
    t->args.out = t->by_hand;
    HN_TRY(check(t));
    int64_t units = hand_units(t), begin = hn_now_ns();
    double once = time_hand(t, t->kernel->hand, &t->args, units, false, 3);
    int burst = once > 500 ? 1 : (int)(500 / once) + 1;
    for (t->rounds = 0; t->rounds < MAX_ROUNDS; t->rounds++) {
        int r = t->rounds;
        if (r >= 9 && (double)(hn_now_ns() - begin) > t->seconds * 1e9) break;
        HN_TRY(time_henry(t, burst, &t->henry.values[r]));
        t->plain.values[r] = time_hand(t, t->kernel->hand, &t->args, units, false, burst);
        t->streaming.values[r] = time_hand(t, t->kernel->hand, &t->args, units, true, burst);
        t->copy_plain.values[r] = time_hand(t, hand_copy, &t->copy, t->copy.rows, false, burst);
        t->copy_streaming.values[r] = time_hand(t, hand_copy, &t->copy, t->copy.rows, true, burst);
        if (only_reads(t))
            t->read.values[r] = time_hand(t, hand_read, &read, t->rows, false, burst);
    }
    return NULL;
}

/* --- reporting --- */

static void print_series(trial *t, const char *name, series *s) {
    double m = median(s->values, (size_t)t->rounds);
    printf(", \"%s_us\": [%.3f, %.3f]", name, m, s->values[0]);
}

/* The median over rounds of henry's time over the better of two. */
static double median_ratio(const trial *t, const series *a, const series *b) {
    double ratios[MAX_ROUNDS];
    for (int r = 0; r < t->rounds; r++)
        ratios[r] = t->henry.values[r] / fmin(a->values[r], b->values[r]);
    return median(ratios, (size_t)t->rounds);
}

static void report(trial *t) {
    double hand = median_ratio(t, &t->plain, &t->streaming),
           copy = median_ratio(t, &t->copy_plain, &t->copy_streaming);
    printf(
        "{\"case\": \"%s\", \"rows\": %lld, \"cols\": %lld, \"threads\": %d, \"bytes\": %lld, \"steps\": %u, \"rounds\": %d",
        t->kernel->name, (long long)t->rows, (long long)t->cols, t->threads, (long long)t->bytes,
        t->steps, t->rounds);
    printf(", \"times_hand\": %.4f, \"of_copy\": %.4f", hand, 1 / copy);
    print_series(t, "henry", &t->henry);
    print_series(t, "hand", &t->plain);
    print_series(t, "hand_streaming", &t->streaming);
    print_series(t, "copy", &t->copy_plain);
    print_series(t, "copy_streaming", &t->copy_streaming);
    if (only_reads(t)) print_series(t, "read", &t->read);
    printf("}\n");
    fflush(stdout);
}

/* --- the list --- */

typedef struct run_options {
    int threads;
    double seconds;
    const char *part;
} run_options;

static hn_status run_one(const kernel_case *k, int64_t rows, int64_t cols, const run_options *o,
                         hn_service *service) {
    trial *t = calloc(1, sizeof *t);
    if (!t) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    *t = (trial){
        .kernel = k, .rows = rows, .cols = cols, .threads = o->threads, .seconds = o->seconds};
    hn_status status = hn_status_annotate(prepare(t, service), "'%s'", k->name);
    if (!status) status = measure(t);
    if (!status) report(t);
    deinit(t);
    free(t);
    return status;
}

static hn_status run_case(const kernel_case *k, const run_options *o, hn_service *service) {
    static const int64_t rows[][2] = {{64, 1024}, {8192, 1024}, {32768, 1024}},
                         squares[] = {256, 1024, 4096};
    for (int s = 0; s < 3; s++) {
        if (k->by_strips) HN_TRY(run_one(k, squares[s], squares[s], o, service));
        else if (!(s == 0 && o->threads > 1))
            HN_TRY(run_one(k, rows[s][0], rows[s][1], o, service));
    }
    return NULL;
}

static bool parse(int argc, char **argv, run_options *o) {
    *o = (run_options){.threads = 1, .seconds = 0.4, .part = ""};
    for (int k = 1; k < argc; k++) {
        if (strcmp(argv[k], "--threads") == 0 && k + 1 < argc) o->threads = atoi(argv[++k]);
        else if (strcmp(argv[k], "--seconds") == 0 && k + 1 < argc) o->seconds = atof(argv[++k]);
        else if (strcmp(argv[k], "--small-pages") == 0) small_pages = true;
        else if (argv[k][0] == '-') return false;
        else o->part = argv[k];
    }
    return o->threads >= 1 && o->seconds > 0;
}

int main(int argc, char **argv) {
    run_options o;
    hn_service *service = NULL;
    int failed = 0;
    if (!parse(argc, argv, &o)) {
        fprintf(stderr, "usage: kernels [--threads N] [--seconds S] [--small-pages] [NAME-PART]\n");
        return 2;
    }
    hn_status status = hn_service_create(&(hn_service_options){.cache_dir = ""}, &service);
    for (size_t k = 0; !status && k < sizeof cases / sizeof *cases; k++) {
        if (!strstr(cases[k].name, o.part)) continue;
        hn_status wrong = run_case(&cases[k], &o, service);
        if (wrong) fprintf(stderr, "kernels: %s\n", hn_status_message(wrong));
        failed |= wrong != NULL;
        hn_status_free(wrong);
    }
    if (status) fprintf(stderr, "kernels: %s\n", hn_status_message(status));
    failed |= status != NULL;
    hn_status_free(status);
    hn_service_destroy(service);
    return failed;
}
