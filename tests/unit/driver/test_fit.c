/* test_fit.c: kernels whose registers do not fit are replaced by other plans. Skipped where NVRTC
 * is missing. */
#include "base/cubin.h"
#include "codegen/walk.h"
#include "driver/driver.h"
#include "henry/log.h"
#include "unit/harness.h"

#include <stdlib.h>

/* Registers hold a row of a warp, in the plan that is expected to be the fastest. */
#define SOFTMAX                                                                                    \
    "graph @g {\n"                                                                                 \
    "  input user %x : f32[4096, 1024] \"x\"\n"                                                    \
    "  %y = aten._softmax.default(%x, -1, false) : f32[4096, 1024]\n"                              \
    "  output user %y \"y\"\n}\n"

/* All inputs are wanted twice: their sum is taken from each. A vector of 8 is more than there are
 * registers below, and an element of each is not; of 32 both are. */
enum { INPUTS_MAX = 32 };
static const char *many_inputs(uint32_t count, char out[16384]) {
    int at = sprintf(out, "graph @g {\n");
    for (uint32_t k = 0; k < count; k++)
        at += sprintf(out + at, "  input user %%x%u : f32[4096, 1024] \"x%u\"\n", k, k);
    at += sprintf(out + at, "  %%s0 = aten.exp.default(%%x0) : f32[4096, 1024]\n");
    for (uint32_t k = 1; k < count; k++)
        at += sprintf(out + at, "  %%s%u = aten.add.Tensor(%%s%u, %%x%u, 1) : f32[4096, 1024]\n", k,
                      k - 1, k);
    at += sprintf(out + at, "  %%y0 = aten.exp.default(%%x0) : f32[4096, 1024]\n");
    for (uint32_t k = 1; k < count; k++)
        at += sprintf(out + at,
                      "  %%d%u = aten.sub.Tensor(%%x%u, %%s%u, 1) : f32[4096, 1024]\n"
                      "  %%y%u = aten.mul.Tensor(%%y%u, %%d%u) : f32[4096, 1024]\n",
                      k, k, count - 1, k, k - 1, k);
    sprintf(out + at, "  output user %%y%u \"y\"\n}\n", count - 1);
    return out;
}

/* As of sm_90a, but with few registers for a thread; and with the fewest that its assembler
 * takes. */
static const char *const few_registers[] = {"-std=c++17", "--fmad=false", "-w", "--maxrregcount=32",
                                            NULL};
static const char *const fewest_registers[] = {"-std=c++17", "--fmad=false", "-w",
                                               "--maxrregcount=16", NULL};

typedef struct fixture {
    hn_arena arena;
    hn_service *service;
    hn_graph *graph;
    hn_driver d;
    hn_target_kind kind;
    hn_language words;
} fixture;

static const hn_compile_options options = {.threads = 2, .target = "sm_90a"};

/* False: there is no compiler. */
static bool fixture_init(fixture *x, const char *graph, const char *const *flags) {
    hn_strbuf compiler;
    hn_arena_init(&x->arena);
    x->graph = NULL;
    EXPECT_OK(hn_sym_create(&x->arena, &x->d.sym));
    hn_sym *sym = x->d.sym;
    EXPECT_OK(hn_service_create(&(hn_service_options){.threads = 1, .cache_dir = ""}, &x->service));
    hn_driver_init(&x->d, &options, x->service);
    EXPECT_OK(hn_graph_parse(&x->arena, sym, hn_str_of(graph), &x->graph));
    x->d.graph = x->graph;
    x->d.sym = sym;
    EXPECT_OK(hn_driver_targets(&x->d));
    x->kind = *x->d.levels[0].target.kind;
    if (flags) { /* which the number of threads in the text would override */
        x->words = *x->kind.words;
        x->words.head = "extern \"C\" __global__ void\nKERNEL(";
        x->kind.words = &x->words;
        x->kind.flags = flags;
    }
    x->d.levels[0].target.kind = &x->kind;
    hn_strbuf_init(&compiler);
    hn_status status =
        hn_service_toolchain_identity(x->service, hn_driver_language(&x->d), &compiler);
    hn_strbuf_deinit(&compiler);
    return !hn_test_lacks(status);
}

static void fixture_deinit(fixture *x) {
    hn_driver_deinit(&x->d);
    if (x->graph) hn_graph_deinit(x->graph);
    hn_service_destroy(x->service);
    hn_arena_deinit(&x->arena);
}

/* Of a kernel in the units of the driver; UINT32_MAX: it is in none. */
static uint32_t stack_of(const fixture *x, const hn_kernel_code *kernel) {
    hn_cubin_use use = {.stack_bytes = UINT32_MAX};
    hn_artifact *artifact = NULL;
    hn_image image;
    EXPECT_OK(hn_future_wait(x->d.units.items[kernel->object], -1, &artifact));
    EXPECT_OK(hn_artifact_image_find(artifact, "sm_90a", &image));
    if (!hn_cubin_use_find((hn_str){image.bytes, image.len}, kernel->name, &use))
        use.stack_bytes = UINT32_MAX;
    hn_artifact_release(artifact);
    return use.stack_bytes;
}

/* The kernel of the first step. */
static hn_kernel_code *kernel_of(fixture *x) { return &x->d.levels[0].step_kernels[0]; }
static uint32_t stack_now(fixture *x) { return stack_of(x, kernel_of(x)); }

static void print(fixture *x) {
    EXPECT_OK(hn_driver_passes(&x->d));
    EXPECT_OK(hn_driver_kernels(&x->d));
    EXPECT_INT(x->d.schedule.steps.count, 1);
}

static void run(fixture *x, char out_first[24]) {
    print(x);
    memcpy(out_first, x->d.levels[0].step_kernels[0].name, 24);
    EXPECT_OK(hn_driver_submit(&x->d));
    EXPECT_INT(x->d.units.count, 1);
    EXPECT_INT(x->d.levels[0].unique.count, 1);
}

/* No cache had the kernel: it was compiled while other plans were tried. */
static void expect_compiled(fixture *x) {
    hn_wrapper *wrapper;
    hn_strbuf image;
    hn_strbuf_init(&image);
    EXPECT_OK(hn_driver_wrapper(&x->d, &wrapper));
    EXPECT_OK(hn_driver_image(&x->d, wrapper, &image));
    EXPECT_INT(x->d.stats.kernels_compiled, 1);
    EXPECT_INT(x->d.stats.kernels_cached, 0);
    hn_strbuf_deinit(&image);
}

TEST(what_fits_stays) {
    fixture *x = calloc(1, sizeof *x);
    char first[24];
    EXPECT(x);
    if (fixture_init(x, SOFTMAX, NULL)) {
        run(x, first);
        EXPECT_STR(x->d.levels[0].step_kernels[0].name, first);
        EXPECT_INT(stack_now(x), 0);
    }
    fixture_deinit(x);
    free(x);
}

TEST(what_does_not_fit_is_replaced) {
    fixture *x = calloc(1, sizeof *x);
    char first[24];
    EXPECT(x);
    if (fixture_init(x, SOFTMAX, few_registers)) {
        run(x, first);
        EXPECT(strcmp(x->d.levels[0].step_kernels[0].name, first) != 0);
        EXPECT_INT(stack_now(x), 0);
        expect_compiled(x);
    }
    fixture_deinit(x);
    free(x);
}

/* All plans that are expected to be fast have a stack. */
TEST(the_last_resort_takes_single_elements) {
    fixture *x = calloc(1, sizeof *x);
    char first[24], graph[16384];
    EXPECT(x);
    if (fixture_init(x, many_inputs(8, graph), fewest_registers)) {
        run(x, first);
        EXPECT(strcmp(x->d.levels[0].step_kernels[0].name, first) != 0);
        EXPECT_INT(stack_now(x), 0);
    }
    fixture_deinit(x);
    free(x);
}

static void note_stack(void *user, const hn_log_line *line) {
    if (line->level == HN_LOG_WARN && strstr(line->text, "more values than there are registers"))
        ++*(int *)user;
}

/* No plan can do without: the least is kept, and that is a warning. */
TEST(more_values_than_registers) {
    fixture *x = calloc(1, sizeof *x);
    char first[24], graph[16384];
    int warnings = 0;
    EXPECT(x);
    EXPECT_OK(hn_log_sink_set(note_stack, &warnings));
    if (fixture_init(x, many_inputs(INPUTS_MAX, graph), fewest_registers)) {
        run(x, first);
        EXPECT(strcmp(x->d.levels[0].step_kernels[0].name, first) != 0);
        EXPECT(stack_now(x) > 0);
        EXPECT_INT(warnings, 1);
    }
    EXPECT_OK(hn_log_sink_set(NULL, NULL));
    fixture_deinit(x);
    free(x);
}

/* The user wants this form, whatever it takes. */
TEST(what_is_named_stays) {
    fixture *x = calloc(1, sizeof *x);
    char first[24];
    EXPECT(x);
    setenv("HENRY_FORM", "*=persistent", 1);
    if (fixture_init(x, SOFTMAX, few_registers)) {
        run(x, first);
        EXPECT_STR(x->d.levels[0].step_kernels[0].name, first);
        EXPECT(stack_now(x) > 0);
    }
    unsetenv("HENRY_FORM");
    fixture_deinit(x);
    free(x);
}

/* ---- forms of tuning records ---- */

/* Of softmax with few registers: the first plan has a stack, this one has none. */
enum { HAS_STACK = 0, HAS_NONE = 5 };

/* In place of a record's: the kernel in the form of one of the plans. */
static hn_kernel_code plan(fixture *x, uint32_t number) {
    const hn_target *target = &x->d.levels[0].target;
    hn_form *plans[16];
    hn_kernel_code code = {.text = {NULL, 0}};
    uint32_t count = 0;
    EXPECT_OK(target->kind->plan(x->d.program, x->d.schedule.steps.items[0].kernel, target, 16,
                                 &x->d.arena, &x->d.scratch, plans, &count));
    EXPECT(number < count);
    EXPECT_OK(hn_target_print_form(target, plans[number], &x->d.arena, &x->d.scratch, &code));
    code.is_picked = true;
    return code;
}

static void note_record(void *user, const hn_log_line *line) {
    if (strstr(line->text, "the form of the tuning record is not used")) ++*(int *)user;
}

/* Otherwise the log says that it is given up. */
TEST(a_form_of_a_record_stays_if_it_fits) {
    fixture *x = calloc(1, sizeof *x);
    int given_up = 0;
    EXPECT(x);
    EXPECT_OK(hn_log_levels_set("toolchain:info"));
    EXPECT_OK(hn_log_sink_set(note_record, &given_up));
    for (int number = HAS_STACK; number <= HAS_NONE; number += HAS_NONE) {
        if (fixture_init(x, SOFTMAX, few_registers)) {
            print(x);
            const hn_kernel_code recorded = *kernel_of(x) = plan(x, (uint32_t)number);
            EXPECT_OK(hn_driver_submit(&x->d));
            EXPECT((strcmp(kernel_of(x)->name, recorded.name) == 0) == (number == HAS_NONE));
            EXPECT_INT(stack_now(x), 0);
            EXPECT_INT(given_up, 1);
        }
        fixture_deinit(x);
        *x = (fixture){.graph = NULL};
    }
    EXPECT_OK(hn_log_sink_set(NULL, NULL));
    EXPECT_OK(hn_log_levels_set(""));
    free(x);
}

static hn_status add_unique(fixture *x, const hn_kernel_code *kernel) {
    HN_PUSH(&x->d.arena, &x->d.levels[0].unique, kernel);
    return NULL;
}

/* Of several forms each that has a stack is replaced; the table stays. */
TEST(variants_are_replaced_by_themselves) {
    fixture *x = calloc(1, sizeof *x);
    EXPECT(x);
    for (int first = HAS_STACK; first <= HAS_NONE; first += HAS_NONE) {
        if (fixture_init(x, SOFTMAX, few_registers)) {
            const hn_sym_choice table = {.head = {.variant_count = 2}};
            print(x);
            hn_kernel_code variant = plan(x, HAS_NONE - (uint32_t)first),
                           whole = plan(x, (uint32_t)first);
            const hn_kernel_code before[] = {whole, variant};
            whole.variant_count = 1;
            whole.variants = &variant;
            whole.choice = &table;
            *kernel_of(x) = whole;
            EXPECT_OK(add_unique(x, &variant));
            EXPECT_OK(hn_driver_submit(&x->d));
            EXPECT(kernel_of(x)->variant_count == 1 && kernel_of(x)->variants == &variant);
            EXPECT(kernel_of(x)->choice == &table);
            const hn_kernel_code *now[] = {kernel_of(x), &variant};
            for (int k = 0; k < 2; k++) {
                EXPECT((strcmp(now[k]->name, before[k].name) == 0) ==
                       ((k == 0) == (first == HAS_NONE)));
                EXPECT_INT(stack_of(x, now[k]), 0);
            }
        }
        fixture_deinit(x);
        *x = (fixture){.graph = NULL};
    }
    free(x);
}

TEST_MAIN
