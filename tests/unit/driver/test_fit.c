/* test_fit.c: kernels whose registers do not fit are replaced by other plans. Skipped where NVRTC
 * is missing. */
#include "base/cubin.h"
#include "codegen/walk.h"
#include "driver/driver.h"
#include "unit/harness.h"

#include <stdlib.h>

/* Registers hold a row of a warp, in the plan that is expected to be the fastest. */
#define SOFTMAX                                                                                    \
    "graph @g {\n"                                                                                 \
    "  input user %x : f32[4096, 1024] \"x\"\n"                                                    \
    "  %y = aten._softmax.default(%x, -1, false) : f32[4096, 1024]\n"                              \
    "  output user %y \"y\"\n}\n"

/* As of sm_90a, but with few registers for a thread. */
static const char *const few_registers[] = {"-std=c++17", "--fmad=false", "-w", "--maxrregcount=32",
                                            NULL};

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
static bool fixture_init(fixture *x, const char *const *flags) {
    hn_strbuf compiler;
    hn_arena_init(&x->arena);
    x->graph = NULL;
    EXPECT_OK(hn_sym_create(&x->arena, &x->d.sym));
    hn_sym *sym = x->d.sym;
    EXPECT_OK(hn_service_create(&(hn_service_options){.threads = 1, .cache_dir = ""}, &x->service));
    hn_driver_init(&x->d, &options, x->service);
    EXPECT_OK(hn_graph_parse(&x->arena, sym, HN_STR(SOFTMAX), &x->graph));
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

/* Of the kernel of the first step, in the units of the driver; UINT32_MAX: it is in none. */
static uint32_t stack_now(fixture *x) {
    hn_cubin_use use = {.stack_bytes = UINT32_MAX};
    hn_artifact *artifact = NULL;
    hn_image image;
    const hn_driver_level *level = &x->d.levels[0];
    EXPECT_OK(hn_future_wait(x->d.units.items[level->step_kernels[0].object], -1, &artifact));
    EXPECT_OK(hn_artifact_image_find(artifact, "sm_90a", &image));
    if (!hn_cubin_use_find((hn_str){image.bytes, image.len}, level->step_kernels[0].name, &use))
        use.stack_bytes = UINT32_MAX;
    hn_artifact_release(artifact);
    return use.stack_bytes;
}

static void run(fixture *x, char out_first[24]) {
    EXPECT_OK(hn_driver_passes(&x->d));
    EXPECT_OK(hn_driver_kernels(&x->d));
    EXPECT_INT(x->d.schedule.steps.count, 1);
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
    if (fixture_init(x, NULL)) {
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
    if (fixture_init(x, few_registers)) {
        run(x, first);
        EXPECT(strcmp(x->d.levels[0].step_kernels[0].name, first) != 0);
        EXPECT_INT(stack_now(x), 0);
        expect_compiled(x);
    }
    fixture_deinit(x);
    free(x);
}

TEST_MAIN
