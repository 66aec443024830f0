/* test_multi.c: programs with several forms of their kernels. Records with times that are made up
 * say that another form is the fastest at each size: whichever runs, the results are those of the
 * interpreter. */
#include "driver/tuning.h"
#include "support/module_run.h"
#include "unit/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Sizes that have records; borders between them are their geometric means. */
static const int64_t recorded[] = {1, 4, 16, 64, 256};
enum { RECORDED = sizeof recorded / sizeof *recorded };
static const int64_t sizes[] = {1, 2, 3, 7, 8, 9, 31, 33, 64, 65, 127, 129, 257};

#define INPUT "symbol size s0 in [1, 4096] hint 8\n input user %x : f32[s0, 40] \"x\"\n "

typedef struct model {
    const char *name, *statements;
    uint32_t multi; /* kernels with several forms, at least */
} model;

static const model models[] = {
    {"a softmax",
     INPUT "%m = amax(%x, dims=[1], keepdim=true)\n %d = sub(%x, %m)\n %e = exp(%d)\n "
           "%s = sum(%e, dims=[1], keepdim=true)\n %y = div(%e, %s)\n output user %y \"y\"",
     1},
    {"sums down columns", INPUT "%y = sum(%x, dims=[0], keepdim=false)\n output user %y \"y\"", 1},
    {"two sums and what is between them",
     INPUT "%m = sum(%x, dims=[1], keepdim=true)\n %d = sub(%x, %m)\n %q = mul(%d, %d)\n "
           "%v = sum(%q, dims=[1], keepdim=true)\n %y = div(%d, %v)\n output user %y \"y\"\n "
           "output user %d \"d\"",
     1},
    {"one tensor as several arguments",
     INPUT "%a = mul(%x, %x)\n %b = add(%a, %x)\n %s = sum(%b, dims=[0], keepdim=true)\n "
           "%y = sub(%x, %s)\n output user %y \"y\"",
     1},
    {"a running sum", INPUT "%y = cumsum(%x, dim=1)\n output user %y \"y\"", 0},
    {"a sort, which has one form",
     INPUT "%v, %i = sort(%x, dim=1, descending=false, stable=true)\n output user %v \"y\"", 0},
    {"kernels behind a sort",
     INPUT "%v, %i = sort(%x, dim=1, descending=false, stable=true)\n "
           "%y = sum(%v, dims=[0], keepdim=false)\n output user %y \"y\"",
     1},
};

/* ---- made-up records ---- */

typedef struct fixture {
    hn_arena arena;
    hn_graph *graph;
    hn_sym *sym;
    hn_service *service;
} fixture;

static void begin(fixture *x, const char *statements) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    *x = (fixture){.graph = NULL};
    hn_arena_init(&x->arena);
    hn_strbuf_printf(&text, "graph {\n%s\n}\n", statements);
    EXPECT_OK(hn_service_create(&(hn_service_options){.threads = 1, .cache_dir = ""}, &x->service));
    EXPECT_OK(hn_sym_create(&x->arena, &x->sym));
    EXPECT_OK(hn_graph_parse(&x->arena, x->sym, hn_strbuf_str(&text), &x->graph));
    hn_strbuf_deinit(&text);
}

static void end(fixture *x) {
    if (x->graph) hn_graph_deinit(x->graph);
    hn_service_destroy(x->service);
    hn_arena_deinit(&x->arena);
}

/* Of a kernel at one size: form number `pick` takes half of the time of the others. */
static void put_record(const hn_tunable *t, hn_str device, int64_t size, uint32_t pick, FILE *out) {
    hn_form_timing forms[HN_VARIANTS_MAX];
    hn_strbuf text;
    memset(forms, 0, sizeof forms);
    for (uint32_t k = 0; k < t->set.count; k++) {
        const double ns = k == pick ? 100 : 200;
        forms[k] = (hn_form_timing){
            .form = t->names[k], .median_ns = ns, .low_ns = ns, .high_ns = ns, .samples = 9};
    }
    hn_tuning_record r = {.kernel = t->name,
                          .digest = t->id.digest,
                          .size_count = t->id.symbol_count,
                          .device = device,
                          .forms = forms,
                          .form_count = t->set.count,
                          .pick = pick,
                          .how = HN_TUNING_TIMED,
                          .tool = HN_STR("test")};
    for (uint32_t s = 0; s < r.size_count; s++) r.sizes[s] = size, r.symbols[s] = HN_STR("s0");
    hn_strbuf_init(&text);
    EXPECT_OK(hn_tuning_record_check(&r));
    hn_tuning_record_print(&r, &text);
    EXPECT(fputs(hn_strbuf_str(&text).ptr, out) >= 0);
    hn_strbuf_deinit(&text);
}

static void put_kernel(hn_driver *d, const hn_kernel *kernel, hn_str device, FILE *out) {
    hn_tunable *t = calloc(1, sizeof *t);
    EXPECT(t);
    EXPECT_OK(hn_tunable_identify(d, &d->levels[0].target, kernel, &d->arena, t));
    EXPECT_OK(hn_tunable_complete(t, &d->arena));
    const uint32_t count = t->set.count, step = count / RECORDED + 1; /* all over the list */
    for (uint32_t k = 0; t->id.symbol_count && count > 1 && k < RECORDED; k++)
        put_record(t, device, recorded[k], k * step % count, out);
    free(t);
}

/* Of all kernels of the model. */
static void write_records(const char *statements, const hn_compile_options *options,
                          const char *path) {
    fixture x;
    hn_strbuf device;
    FILE *out = fopen(path, "w");
    EXPECT(out);
    begin(&x, statements);
    hn_driver *d = calloc(1, sizeof *d);
    EXPECT(d);
    hn_strbuf_init(&device);
    hn_driver_init(d, options, x.service);
    d->sym = x.sym;
    d->graph = x.graph;
    EXPECT_OK(hn_driver_targets(d));
    EXPECT_OK(hn_driver_passes(d));
    EXPECT_OK(hn_driver_kernels(d));
    EXPECT_OK(hn_driver_tuning_device(d, &d->levels[0].target, &device));
    for (uint32_t k = 0; k < d->schedule.steps.count; k++)
        if (d->schedule.steps.items[k].kind == HN_STEP_KERNEL)
            put_kernel(d, d->schedule.steps.items[k].kernel, hn_strbuf_str(&device), out);
    hn_driver_deinit(d);
    hn_strbuf_deinit(&device);
    free(d);
    end(&x);
    if (out) fclose(out);
}

/* ---- runs ---- */

typedef struct seen {
    uint32_t multi; /* steps with several forms, of the last run */
    uint64_t variants;
} seen;

static hn_status look(void *user, const hn_step_info *step, uint64_t *note) {
    seen *s = user;
    (void)note;
    if (step->variant_count < 2) return NULL;
    EXPECT(*step->form && step->variant < step->variant_count);
    s->multi++;
    s->variants |= UINT64_C(1) << step->variant;
    return NULL;
}

static void fill(const fixture *x, int64_t size, hn_arena *arena, hn_ref_tensor *out) {
    uint64_t seed = (uint64_t)size * 2654435761u + 1;
    (void)x;
    EXPECT_OK(hn_ref_tensor_init(arena, HN_DTYPE_F32, 2, (int64_t[]){size, 40}, out));
    for (int64_t k = 0; k < out->numel; k++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        out->data.f[k] = (double)(float)((double)(seed >> 40) / (1 << 24) - 0.5);
    }
}

static void check_size(fixture *x, hn_module *module, const model *m, int64_t size) {
    hn_arena arena;
    hn_ref_tensor input, got[4], want[4];
    hn_strbuf text;
    const uint32_t count = x->graph->outputs.count;
    hn_arena_init(&arena);
    fill(x, size, &arena, &input);
    EXPECT_OK(hn_test_module_run(&arena, module, &input, 1, got, count));
    EXPECT_OK(hn_interpret(&arena, x->graph, &input, 1, want));
    hn_strbuf_init(&text);
    for (uint32_t k = 0; k < count; k++)
        if (!hn_ref_compare(&got[k], &want[k], 1e-5, 1e-5, &text))
            HN_TEST_FAIL("%s, %lld rows, output %u: %s", m->name, (long long)size, k,
                         hn_strbuf_str(&text).ptr);
    hn_strbuf_deinit(&text);
    hn_arena_deinit(&arena);
}

static void check_model(const model *m, int threads) {
    char dir[] = "/tmp/henry_multi_XXXXXX", file[64];
    const hn_compile_options options = {.threads = threads, .tuning = file};
    hn_compiled *compiled = NULL;
    hn_module *module = NULL;
    seen s = {0};
    fixture x, y;
    EXPECT(mkdtemp(dir) != NULL);
    snprintf(file, sizeof file, "%s/t.json", dir);
    write_records(m->statements, &(hn_compile_options){.threads = threads}, file);
    begin(&x, m->statements), begin(&y, m->statements); /* compiling changes a graph */
    EXPECT_OK(hn_compile_graph(x.graph, x.service, &options, &compiled));
    EXPECT_OK(hn_compiled_load(compiled, &(hn_module_options){.threads = threads}, &module));
    EXPECT_OK(hn_module_hook_add(module, &(hn_step_hook){.before = look, .user = &s}));
    for (uint32_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        s.multi = 0;
        check_size(&y, module, m, sizes[k]);
        if (s.multi < m->multi) HN_TEST_FAIL("%s: %u kernels have several forms", m->name, s.multi);
    }
    if (m->multi) EXPECT(s.variants & (s.variants - 1)); /* not one alone */
    hn_module_release(module);
    hn_compiled_release(compiled);
    end(&x), end(&y);
    unlink(file);
    rmdir(dir);
}

TEST(whichever_form_runs_the_results_are_right) {
    for (uint32_t k = 0; k < sizeof models / sizeof *models; k++) check_model(&models[k], 2);
}

TEST(on_one_thread) { check_model(&models[1], 1); }

TEST_MAIN
