/* test_columns_run.c: rows with reductions down their columns, compiled for this machine: against
 * the interpreter of graphs, and the same bits with any number of threads. */
#include "bundle/view.h"
#include "driver/driver.h"
#include "tests/support/module_run.h"
#include "tests/support/random_graph.h"
#include "unit/harness.h"

enum { OUTPUTS = 3 };

/* 1031 rows of 130: neither slabs nor vectors are whole. Sums of quarters are exact in any
 * order. */
static const char layer_norm_backward[] =
    "input user %d : f32[1031, 130] \"d\"\ninput user %x : f32[1031, 130] \"x\"\n"
    "%p = mul(%d, %x)\n%s = sum(%p, dims=[1], keepdim=true)\n"
    "%t = sum(%d, dims=[1], keepdim=true)\n%a = sub(%d, %s)\n%y = sub(%a, %t)\n"
    "%w = sum(%p, dims=[0], keepdim=false)\n%b = sum(%d, dims=[0], keepdim=false)\n"
    "output user %y \"\"\noutput user %w \"\"\noutput user %b \"\"";
/* ... of exponentials are not. */
static const char inexact[] =
    "input user %d : f32[1031, 130] \"d\"\ninput user %x0 : bf16[1031, 130] \"x\"\n"
    "%x = cast(%x0, dtype=f32)\n%e = exp(%x)\n%p = mul(%d, %e)\n"
    "%s = sum(%p, dims=[1], keepdim=true)\n%y0 = sub(%d, %s)\n%y = cast(%y0, dtype=bf16)\n"
    "%w = sum(%p, dims=[0], keepdim=false)\n%b = sum(%d, dims=[0], keepdim=false)\n"
    "output user %y \"\"\noutput user %w \"\"\noutput user %b \"\"";

typedef struct fixture {
    hn_arena arena;
    hn_graph *graph;
    hn_service *service;
    hn_ref_tensor inputs[HN_RANDOM_MAX_TENSORS];
    uint32_t input_count;
} fixture;

static void setup(fixture *f, const char *statements) {
    hn_sym *sym;
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_arena_init(&f->arena);
    hn_strbuf_printf(&text, "graph {\n%s\n}\n", statements);
    EXPECT_OK(hn_sym_create(&f->arena, &sym));
    EXPECT_OK(hn_graph_parse(&f->arena, sym, hn_strbuf_str(&text), &f->graph));
    EXPECT_OK(hn_random_inputs(7, &f->arena, f->graph, 0, f->inputs));
    EXPECT_OK(hn_service_create(&(hn_service_options){.threads = 1, .cache_dir = ""}, &f->service));
    f->input_count = f->graph->inputs.count;
    hn_strbuf_deinit(&text);
}

static void teardown(fixture *f) {
    hn_service_destroy(f->service);
    hn_graph_deinit(f->graph);
    hn_arena_deinit(&f->arena);
}

TEST(results_are_those_of_the_graph) {
    static const char *const targets[] = {"host", "generic"};
    static const double tolerance[HN_RANDOM_MAX_TENSORS];
    for (int k = 0; k < 2; k++) {
        fixture f;
        setup(&f, layer_norm_backward);
        EXPECT_OK(hn_check_against_interpreter(f.graph, f.service, f.inputs, tolerance,
                                               &(hn_compile_options){.target = targets[k]}, false));
        teardown(&f);
    }
}

/* Each of the two sums has partial results, a row for each of 64 slabs. */
static void expect_slabs(const hn_compiled *compiled) {
    hn_bundle b;
    size_t len;
    uint32_t count = 0;
    const void *image = hn_compiled_image(compiled, &len);
    EXPECT_OK(hn_bundle_open(image, len, false, &b));
    for (uint32_t k = 1; k < b.buffers_count; k++) {
        int64_t slabs;
        const hnb_buffer *f = &b.buffers[k];
        if (f->kind != HNB_BUFFER_TEMP || f->rank != 2) continue;
        count += hn_bundle_expr_const(&b, b.dims[f->dims], &slabs) && slabs == 64;
    }
    EXPECT_INT(count, 2);
}

TEST(threads_do_not_change_a_bit) {
    fixture f;
    hn_compiled *compiled;
    hn_ref_tensor outputs[3][OUTPUTS];
    setup(&f, inexact);
    EXPECT_OK(hn_compile_graph(f.graph, f.service, &(hn_compile_options){.threads = 2}, &compiled));
    expect_slabs(compiled);
    for (int k = 0; k < 3; k++) {
        hn_module *module;
        EXPECT_OK(hn_compiled_load(compiled, &(hn_module_options){.threads = 1 + 2 * k}, &module));
        EXPECT_OK(
            hn_test_module_run(&f.arena, module, f.inputs, f.input_count, outputs[k], OUTPUTS));
        hn_module_release(module);
        for (int o = 0; o < OUTPUTS; o++) {
            const hn_ref_tensor *a = &outputs[0][o], *b = &outputs[k][o];
            EXPECT_INT(a->numel, b->numel);
            EXPECT(memcmp(a->data.f, b->data.f, (size_t)a->numel * sizeof *a->data.f) == 0);
        }
    }
    hn_compiled_release(compiled);
    teardown(&f);
}

TEST_MAIN
