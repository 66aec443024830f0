/* picks_calls.c: what operations decide by themselves, against the best of all their forms
 * (ops/cpu/forms.h), timed in turns: matrix products, convolutions, attention.
 *
 *     bench_picks_calls [--threads N] [--budget MS] [NAME-PART]
 *
 * One JSON object a cell on stdout, as of bench_picks. The first form is what the operation
 * decides. */
#include "base/team.h"
#include "bench/picks_print.h"
#include "henry/tensor.h"
#include "ops/cpu/forms.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
    int threads;
    int64_t budget_ns;
    const char *name;
} settings;

/* A call at one set of sizes, with memory. */
typedef struct subject {
    hn_ext_call call;
    int64_t params[64];
    float *memory[HN_EXT_MAX_OPERANDS];
    size_t out_floats;
    float *expected; /* what the first form made */
} subject;

/* One form of it. */
typedef struct contender {
    subject *s;
    hn_ext_call call;
    void *scratch;
} contender;

/* Of all calls. */
static hn_team team;

static float *floats(size_t count, unsigned seed) {
    float *x = aligned_alloc(64, (count * sizeof *x + 127) / 64 * 64);
    if (!x) exit(1);
    for (size_t k = 0; k < count; k++) {
        seed = seed * 1664525u + 1013904223u;
        x[k] = (float)(int)(seed >> 8) / (float)(1 << 23) - 1.0f;
    }
    return x;
}

static hn_status start(void *user) {
    contender *c = user;
    HN_TRY(hn_ext_prepare(&c->call));
    c->scratch = aligned_alloc(64, (c->call.scratch_bytes + 127) / 64 * 64);
    for (int i = 0; i < HN_EXT_MAX_OPERANDS; i++) c->call.operands[i] = c->s->memory[i];
    return c->scratch ? NULL : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a call");
}

static hn_status run(void *user) {
    const contender *c = user;
    return hn_ext_run(&c->call, c->scratch);
}

/* Sums in another order differ by their rounding. */
static hn_status check(void *user) {
    const contender *c = user;
    subject *s = c->s;
    const float *out = s->memory[0];
    if (!s->expected) {
        s->expected = floats(s->out_floats, 1);
        memcpy(s->expected, out, s->out_floats * sizeof *out);
        return NULL;
    }
    for (size_t k = 0; k < s->out_floats; k++)
        if (!(fabsf(out[k] - s->expected[k]) <= 1e-3f + 1e-3f * fabsf(s->expected[k])))
            return HN_ERROR(HN_INTERNAL, "element %zu is %g, not %g", k, (double)out[k],
                            (double)s->expected[k]);
    return NULL;
}

static void print_form(const hn_ext_form *form) {
    char text[HN_EXT_FORM_TEXT];
    hn_ext_form_print(form, text);
    printf("{\"form\": \"%s %s\"", hn_ext_form_kind(form), text);
}

/* Of a race of many forms the winner is also the luckiest: it races again with the first one. */
static hn_status race_again(const hn_bench_options *options, const hn_ext_expected *forms,
                            const hn_bench_candidate *candidates, const hn_bench_report *first) {
    uint32_t best = 0;
    hn_bench_report *report = NULL;
    for (uint32_t k = 1; k < first->count; k++)
        if (first->results[k].state != HN_BENCH_DROPPED &&
            first->results[k].ratio < first->results[best].ratio)
            best = k;
    if (best == 0) return NULL;
    hn_bench_candidate both[2] = {candidates[0], candidates[best]};
    both[0].start = both[1].start = NULL; /* they are ready */
    HN_TRY(hn_bench(options, both, 2, &report));
    for (uint32_t k = 0; k < 2; k++) {
        printf(k ? ", " : "], \"again\": [");
        print_form(&forms[k ? best : 0].form);
        picks_print_time(&report->results[k]);
    }
    hn_bench_report_destroy(report);
    return NULL;
}

static void print_cell(const char *name, const char *sizes, const hn_ext_expected *forms,
                       const hn_bench_report *report) {
    printf("{\"kernel\": \"%s\", \"sizes\": \"%s\", \"step\": 0, \"end\": \"%s\", \"forms\": [",
           name, sizes, hn_bench_end_name(report->end));
    for (uint32_t k = 0; k < report->count; k++) {
        const hn_bench_result *r = &report->results[k];
        if (k) printf(", ");
        print_form(&forms[k].form);
        printf(", \"own\": %s, \"expected\": %.1f", k ? "false" : "true", forms[k].ns);
        picks_print_time(r);
        if (r->state == HN_BENCH_DROPPED)
            fprintf(stderr, "bench_picks_calls: %s %s: form %u: %s\n", name, sizes, k, r->why);
    }
}

static hn_status race(const settings *set, subject *s, const char *name, const char *sizes) {
    hn_ext_expected forms[HN_EXT_FORMS_MAX];
    contender contenders[HN_EXT_FORMS_MAX];
    hn_bench_candidate candidates[HN_EXT_FORMS_MAX];
    hn_bench_report *report = NULL;
    hn_ext_shared *shared;
    uint32_t count = 0;
    HN_TRY(hn_ext_shared_create(&shared));
    s->call.shared = shared;
    hn_status status = hn_ext_forms_list(&s->call, forms, &count);
    for (uint32_t k = 0; k < count; k++) {
        contenders[k] = (contender){.s = s, .call = s->call};
        contenders[k].call.form = &forms[k].form;
        candidates[k] = (hn_bench_candidate){
            .name = "form", .user = &contenders[k], .start = start, .run = run, .check = check};
    }
    const hn_bench_options options = {.budget_ns = set->budget_ns, .noise = 0.02};
    if (!status) status = hn_bench(&options, candidates, count, &report);
    if (!status) {
        print_cell(name, sizes, forms, report);
        status = race_again(&options, forms, candidates, report);
        printf("]}\n");
        fflush(stdout);
    }
    hn_bench_report_destroy(report);
    for (uint32_t k = 0; k < count; k++) {
        hn_ext_release(&contenders[k].call);
        free(contenders[k].scratch);
    }
    hn_ext_shared_destroy(shared); /* one for all, so that all read the same packed weights */
    return status;
}

static int finish(const settings *set, subject *s, const char *name, const char *sizes) {
    s->call.params = s->params;
    s->call.threads = set->threads;
    s->call.team = &team;
    hn_status status = race(set, s, name, sizes);
    for (int i = 0; i < HN_EXT_MAX_OPERANDS; i++) free(s->memory[i]);
    free(s->expected);
    if (!status) return 0;
    fprintf(stderr, "bench_picks_calls: %s %s: %s\n", name, sizes, hn_status_message(status));
    hn_status_free(status);
    return 1;
}

/* ---- matrix products ---- */

typedef struct product {
    const char *name;
    int64_t batch, n, k;
    bool has_weights, by_columns; /* b is a constant; is contiguous along k */
} product;

static const product products[] = {
    {"weights 768, 768", 1, 768, 768, true, false},
    {"weights 3072, 768", 1, 3072, 768, true, false},
    {"weights 768, 3072", 1, 768, 3072, true, false},
    {"weights 4096, 4096", 1, 4096, 4096, true, true},
    {"weights 64, 64", 1, 64, 64, true, false},
    {"weights 1000, 2048", 1, 1000, 2048, true, true},
    {"product 768, 768", 1, 768, 768, false, false},
    {"product 3072, 768", 1, 3072, 768, false, false},
    {"product 512, 512, columns", 1, 512, 512, false, true},
    {"product 100, 4000", 1, 100, 4000, false, false},
    {"product 12 x 128, 64, columns", 12, 128, 64, false, true},
    {"product 12 x 64, 128", 12, 64, 128, false, false},
};
static const int64_t rows[] = {1, 3, 7, 20, 50, 130, 300, 777};

static int run_product(const settings *set, const product *p, int64_t m) {
    char sizes[48];
    subject s = {.call = {.kind = HN_EXTERN_MATMUL, .param_count = HN_MATMUL_PARAM_COUNT}};
    int64_t *q = s.params;
    q[HN_MATMUL_M] = m, q[HN_MATMUL_N] = p->n, q[HN_MATMUL_K] = p->k;
    for (int d = 0; d < HN_EXTERN_BATCH; d++) q[HN_MATMUL_BATCH + d] = 1;
    q[HN_MATMUL_BATCH] = p->batch;
    const int64_t item[3] = {m * p->n, m * p->k, p->n * p->k};
    q[HN_MATMUL_OUT] = item[0], q[HN_MATMUL_A] = item[1], q[HN_MATMUL_B] = item[2];
    q[HN_MATMUL_OUT + 4] = p->n, q[HN_MATMUL_OUT + 5] = 1;
    q[HN_MATMUL_A + 4] = p->k, q[HN_MATMUL_A + 5] = 1;
    q[HN_MATMUL_B + 4] = p->by_columns ? 1 : p->n, q[HN_MATMUL_B + 5] = p->by_columns ? p->k : 1;
    q[HN_MATMUL_B_CONSTANT] = p->has_weights;
    for (int i = 0; i < 3; i++) {
        s.call.dtypes[i] = HN_F32;
        s.memory[i] = floats((size_t)(p->batch * item[i]), (unsigned)i + 1);
    }
    s.out_floats = (size_t)(p->batch * item[0]);
    s.call.is_constant[2] = p->has_weights;
    if (p->has_weights) s.call.operands[2] = s.memory[2];
    snprintf(sizes, sizeof sizes, "%lld rows", (long long)m);
    return finish(set, &s, p->name, sizes);
}

/* ---- convolutions ---- */

typedef struct convolution {
    int64_t channels, outputs, groups, kernel, stride, side;
} convolution;

static const convolution convolutions[] = {
    {3, 64, 1, 7, 2, 112},   {64, 64, 1, 3, 1, 56},  {128, 128, 1, 3, 1, 28},
    {256, 256, 1, 3, 1, 14}, {512, 512, 1, 3, 1, 7}, {64, 128, 1, 3, 2, 56},
    {64, 256, 1, 1, 1, 56},  {256, 64, 1, 1, 1, 28}, {96, 96, 96, 3, 1, 56},
    {40, 40, 40, 5, 1, 28},  {16, 16, 1, 3, 1, 112}, {32, 32, 4, 3, 1, 56},
};

static int run_convolution(const settings *set, const convolution *c) {
    char name[64];
    subject s = {.call = {.kind = HN_EXTERN_CONV, .param_count = HN_CONV_PARAM_COUNT}};
    int64_t *q = s.params;
    const int64_t out = (c->side + c->kernel / 2 * 2 - c->kernel) / c->stride + 1,
                  inner = c->channels / c->groups;
    q[HN_CONV_N] = 1, q[HN_CONV_C] = c->channels, q[HN_CONV_O] = c->outputs;
    q[HN_CONV_GROUPS] = c->groups;
    const int64_t in_size[3] = {1, c->side, c->side}, kernel[3] = {1, c->kernel, c->kernel},
                  out_size[3] = {1, out, out};
    for (int d = 0; d < 3; d++) {
        q[HN_CONV_IN + d] = in_size[d], q[HN_CONV_KERNEL + d] = kernel[d];
        q[HN_CONV_OUTSIZE + d] = out_size[d];
        q[HN_CONV_STRIDE + d] = d ? c->stride : 1, q[HN_CONV_DILATION + d] = 1;
        q[HN_CONV_PADDING + d] = d ? c->kernel / 2 : 0;
    }
    const int64_t x[5] = {c->channels * c->side * c->side, c->side * c->side, c->side * c->side,
                          c->side, 1},
                  w[5] = {inner * c->kernel * c->kernel, c->kernel * c->kernel,
                          c->kernel * c->kernel, c->kernel, 1},
                  y[5] = {c->outputs * out * out, out * out, out * out, out, 1};
    for (int d = 0; d < 5; d++)
        q[HN_CONV_X + d] = x[d], q[HN_CONV_W + d] = w[d], q[HN_CONV_OUT + d] = y[d];
    q[HN_CONV_W_CONSTANT] = 1;
    const int64_t counts[3] = {y[0], x[0], c->outputs * w[0]};
    for (int i = 0; i < 3; i++) {
        s.call.dtypes[i] = HN_F32;
        s.memory[i] = floats((size_t)counts[i], (unsigned)i + 1);
    }
    s.out_floats = (size_t)counts[0];
    s.call.is_constant[2] = true;
    s.call.operands[2] = s.memory[2];
    snprintf(name, sizeof name, "convolution %lld to %lld, %lld groups, %lldx%lld",
             (long long)c->channels, (long long)c->outputs, (long long)c->groups,
             (long long)c->kernel, (long long)c->kernel);
    char sizes[32];
    snprintf(sizes, sizeof sizes, "%lld by %lld", (long long)c->side, (long long)c->stride);
    return finish(set, &s, name, sizes);
}

/* ---- attention ---- */

static const int64_t attentions[][5] = {
    /* heads, key heads, queries, keys, depth */
    {12, 12, 1, 1000, 64},  {12, 12, 4, 1000, 64},  {12, 12, 12, 500, 64},   {12, 12, 30, 300, 64},
    {12, 12, 128, 128, 64}, {12, 12, 197, 197, 64}, {12, 12, 512, 512, 64},  {32, 8, 1, 2000, 128},
    {32, 8, 6, 2000, 128},  {32, 8, 64, 2000, 128}, {8, 8, 1000, 1000, 128}, {4, 4, 20, 20, 32},
};

static int run_attention(const settings *set, const int64_t *a) {
    char sizes[64];
    const int64_t heads = a[0], kv = a[1], m = a[2], n = a[3], d = a[4];
    const double scale = 0.125;
    subject s = {.call = {.kind = HN_EXTERN_ATTENTION, .param_count = HN_ATTENTION_PARAM_COUNT}};
    int64_t *q = s.params;
    q[HN_ATTENTION_BATCH] = 1, q[HN_ATTENTION_BATCH + 1] = heads, q[HN_ATTENTION_KV_HEADS] = kv;
    q[HN_ATTENTION_M] = m, q[HN_ATTENTION_N] = n, q[HN_ATTENTION_D] = q[HN_ATTENTION_DV] = d;
    memcpy(&q[HN_ATTENTION_SCALE], &scale, sizeof scale);
    const int at[4] = {HN_ATTENTION_OUT, HN_ATTENTION_Q, HN_ATTENTION_K, HN_ATTENTION_V};
    const int64_t lengths[4] = {m, m, n, n}, counts[4] = {heads, heads, kv, kv};
    for (int i = 0; i < 4; i++) {
        const int64_t strides[4] = {counts[i] * lengths[i] * d, lengths[i] * d, d, 1};
        memcpy(&q[at[i]], strides, sizeof strides);
        s.call.dtypes[i] = HN_F32;
        s.memory[i] = floats((size_t)strides[0], (unsigned)i + 1);
    }
    s.out_floats = (size_t)(heads * m * d);
    snprintf(sizes, sizeof sizes, "%lld of %lld, %lld x %lld, %lld", (long long)heads,
             (long long)kv, (long long)m, (long long)n, (long long)d);
    return finish(set, &s, "attention", sizes);
}

/* ---- all of them ---- */

static bool is_wanted(const settings *set, const char *name) {
    return !set->name || strstr(name, set->name);
}

int main(int count, char **words) {
    settings set = {.threads = 1, .budget_ns = 1000000000};
    int failed = 0;
    for (int k = 1; k < count; k++) {
        if (strcmp(words[k], "--threads") == 0 && k + 1 < count) set.threads = atoi(words[++k]);
        else if (strcmp(words[k], "--budget") == 0 && k + 1 < count)
            set.budget_ns = atoll(words[++k]) * 1000000;
        else set.name = words[k];
    }
    for (size_t k = 0; k < sizeof products / sizeof *products; k++)
        for (size_t m = 0; m < sizeof rows / sizeof *rows; m++)
            if (is_wanted(&set, products[k].name))
                failed |= run_product(&set, &products[k], rows[m]);
    for (size_t k = 0; k < sizeof convolutions / sizeof *convolutions; k++)
        if (is_wanted(&set, "convolution")) failed |= run_convolution(&set, &convolutions[k]);
    for (size_t k = 0; k < sizeof attentions / sizeof *attentions; k++)
        if (is_wanted(&set, "attention")) failed |= run_attention(&set, attentions[k]);
    return failed;
}
