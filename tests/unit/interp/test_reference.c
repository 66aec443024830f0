/* test_reference.c: the lines of small programs by their references, against the interpreter of
 * graphs. */
#include "driver/driver.h"
#include "interp/reference.h"
#include "unit/harness.h"

#include <stdlib.h>

/* A program from the text of a graph, and memory for each of its buffers. All sizes are numbers. */
typedef struct fixture {
    hn_arena arena;
    hn_graph *graph;
    hn_driver d;
    hn_wrapper *w;
    hn_line_memory *memory; /* per buffer */
    hn_ref_tensor inputs[5], expected[4];
} fixture;

static const hn_compile_options host = {.threads = 2, .target = "x86-64-v3"};
/* has operations that the host has not; texts of kernels need no compiler */
static const hn_compile_options device = {.threads = 2, .target = "sm_90a"};

static int64_t number(const fixture *x, hn_expr e) {
    int64_t value = 0;
    EXPECT(hn_sym_is_int(x->graph->sym, e, &value));
    return value;
}

/* Numbers from -1 to 1, of no pattern that a reduction would hide. */
static void fill_input(fixture *x, uint32_t k) {
    const hn_value_info *vi = hn_graph_value(x->graph, x->graph->inputs.items[k].value);
    hn_ref_tensor *t = &x->inputs[k];
    int64_t sizes[HN_MAX_RANK];
    for (uint32_t d = 0; d < vi->rank; d++) sizes[d] = number(x, vi->sizes[d]);
    EXPECT_OK(hn_ref_tensor_init(&x->arena, vi->dtype, vi->rank, sizes, t));
    for (int64_t n = 0; n < t->numel; n++)
        if (hn_dtype_is_float(vi->dtype))
            t->data.f[n] = (double)(float)sin((double)(n * 37 % 1009) + k);
        else t->data.i[n] = n % 3;
}

static void make_memory(fixture *x) {
    void *list = NULL;
    EXPECT_OK(hn_arena_array(&x->arena, x->w->buffers.count, sizeof *x->memory, &list));
    x->memory = list;
    for (hn_wbuf b = 1; b < x->w->buffers.count; b++) {
        const hn_wbuffer *buffer = &x->w->buffers.items[b];
        const int64_t size = hn_dtype_facts(buffer->dtype)->size_bytes;
        const bool is_input = buffer->kind == HN_WBUF_INPUT;
        void *bytes = NULL;
        x->memory[b].len =
            is_input ? x->inputs[buffer->source].numel * size : number(x, buffer->bytes);
        EXPECT_OK(hn_arena_array(&x->arena, (size_t)x->memory[b].len, 1, &bytes));
        memset(bytes, 0xff, (size_t)x->memory[b].len);
        if (is_input) hn_ref_tensor_store(&x->inputs[buffer->source], bytes);
        x->memory[b].bytes = bytes;
    }
}

static void fixture_init_for(fixture *x, const hn_compile_options *options, const char *text) {
    hn_arena_init(&x->arena);
    hn_driver_init(&x->d, options, NULL);
    EXPECT_OK(hn_sym_create(&x->arena, &x->d.sym));
    EXPECT_OK(hn_graph_parse(&x->arena, x->d.sym, hn_str_of(text), &x->graph));
    x->d.graph = x->graph;
    EXPECT_OK(hn_driver_targets(&x->d));
    EXPECT_OK(hn_driver_passes(&x->d));
    for (uint32_t k = 0; k < x->graph->inputs.count; k++) fill_input(x, k);
    EXPECT_OK(hn_interpret(&x->arena, x->graph, x->inputs, x->graph->inputs.count, x->expected));
    EXPECT_OK(hn_driver_kernels(&x->d));
    EXPECT_OK(hn_driver_wrapper(&x->d, &x->w));
    make_memory(x);
}

static void fixture_init(fixture *x, const char *text) { fixture_init_for(x, &host, text); }

static void fixture_deinit(fixture *x) {
    hn_graph_deinit(x->graph);
    hn_driver_deinit(&x->d);
    hn_arena_deinit(&x->arena);
}

static void run_line(fixture *x, const hn_line *line) {
    hn_line_memory memory[16] = {{0}};
    for (uint32_t k = 0; k < line->operand_count && k < 16; k++)
        memory[k] = x->memory[line->operands[k].buffer];
    EXPECT(!hn_line_reference_missing(line));
    EXPECT_OK(hn_line_reference(line, &(hn_reference_how){.is_wide = true}, memory));
}

static void check_outputs(fixture *x, double rtol, double atol) {
    for (uint32_t k = 0; k < x->w->outputs.count; k++) {
        hn_ref_tensor actual;
        hn_strbuf why;
        const hn_ref_tensor *e = &x->expected[k];
        hn_strbuf_init(&why);
        EXPECT_OK(hn_ref_tensor_load(&x->arena, e->dtype, e->rank, e->sizes, NULL,
                                     x->memory[x->w->outputs.items[k].buffer].bytes, &actual));
        if (!hn_ref_compare(&actual, e, rtol, atol, &why))
            HN_TEST_FAIL("output %u: %s", k, why.ptr);
        hn_strbuf_deinit(&why);
    }
}

/* Runs all lines: so many kernels, of so many loops or more, so many of which go down columns; every output is as the graph says. */
static void check(const char *text, uint32_t kernels, uint32_t loops, uint32_t columns) {
    fixture x;
    uint32_t seen = 0, fused = 0, down = 0;
    fixture_init(&x, text);
    for (uint32_t i = 0; i < x.w->lines.count; i++) {
        const hn_line *line = &x.w->lines.items[i];
        if (line->kind != HN_LINE_KERNEL && line->kind != HN_LINE_EXTERN) continue;
        run_line(&x, line);
        if (line->kind != HN_LINE_KERNEL) continue;
        const hn_kernel *kernel = line->meaning->kernel;
        seen++, fused += kernel->loop_count;
        for (uint32_t l = 0; l < kernel->loop_count; l++) down += kernel->loops[l].is_column;
    }
    EXPECT_INT(seen, kernels);
    EXPECT(fused >= loops);
    EXPECT_INT(down, columns);
    check_outputs(&x, 1e-5, 1e-5);
    fixture_deinit(&x);
}

/* A kernel of several loops, whose values between them are its own. */
TEST(softmax_is_one_kernel) {
    check("graph @g {\n"
          "  input user %x : f32[6, 40] \"x\"\n"
          "  %y = aten._softmax.default(%x, -1, false) : f32[6, 40]\n"
          "  output user %y \"y\"\n}\n",
          1, 2, 0);
}

TEST(a_product_with_its_activation_is_a_call) {
    check("graph @g {\n"
          "  input user %x : f32[5, 12] \"x\"\n"
          "  input user %w : f32[12, 7] \"w\"\n"
          "  %m = aten.mm.default(%x, %w) : f32[5, 7]\n"
          "  %y = aten.relu.default(%m) : f32[5, 7]\n"
          "  output user %y \"y\"\n}\n",
          0, 0, 0);
}

/* Sums of slabs of rows, in the kernel of the rows. */
TEST(sums_down_columns_are_a_part_of_a_row_kernel) {
    check("graph @g {\n"
          "  input user %x : f32[4096, 128] \"x\"\n"
          "  %r = aten.sum.dim_IntList(%x, [1], true) : f32[4096, 1]\n"
          "  %d = aten.sub.Tensor(%x, %r) : f32[4096, 128]\n"
          "  %c = aten.sum.dim_IntList(%x, [0]) : f32[128]\n"
          "  output user %d \"d\"\n  output user %c \"c\"\n}\n",
          2, 4, 1);
}

/* What a line writes may lie over what it reads. */
TEST(all_is_read_before_anything_is_written) {
    fixture x;
    fixture_init(&x, "graph @g {\n"
                     "  input user %x : f32[4] \"x\"\n"
                     "  %y = aten.flip.default(%x, [0]) : f32[4]\n"
                     "  output user %y \"y\"\n}\n");
    const hn_line *line = &x.w->lines.items[0];
    hn_line_memory memory[4] = {{0}};
    float values[4] = {1, 2, 3, 4};
    for (uint32_t k = 0; k < line->operand_count; k++)
        memory[k] = (hn_line_memory){(uint8_t *)values, sizeof values};
    EXPECT_OK(hn_line_reference(line, &(hn_reference_how){0}, memory));
    EXPECT(values[0] == 4 && values[1] == 3 && values[2] == 2 && values[3] == 1);
    fixture_deinit(&x);
}

/* The whole of a call that is several kernels. */
static uint32_t run_whole_calls(fixture *x) {
    hn_line whole;
    uint32_t last, count = 0;
    for (uint32_t i = 0; i < x->w->lines.count; i++) {
        const hn_line *line = &x->w->lines.items[i];
        if (!line->meaning || !line->meaning->call || line->meaning->number) continue;
        EXPECT_INT(line->meaning->call->kind, HN_EXTERN_ATTENTION_BACKWARD);
        EXPECT_OK(hn_line_whole_call(x->w, i, &x->arena, &whole, &last));
        run_line(x, &whole);
        count++;
    }
    return count;
}

/* Against the interpreter of graphs: heads that share keys; a triangle, or a mask. */
static void check_gradients(const char *mask, const char *arguments) {
    fixture x;
    char text[800];
    snprintf(text, sizeof text,
             "graph @g {\n"
             "  input user %%g : f16[2, 4, 5, 8] \"g\"\n"
             "  input user %%q : f16[2, 4, 5, 8] \"q\"\n"
             "  input user %%k : f16[2, 2, 6, 8] \"k\"\n"
             "  input user %%v : f16[2, 2, 6, 8] \"v\"\n%s"
             "  %%a, %%b, %%c = attention_backward(%%g, %%q, %%k, %%v, %%g, %s)\n"
             "  output user %%a \"a\"\n  output user %%b \"b\"\n  output user %%c \"c\"\n}\n",
             mask, arguments);
    fixture_init_for(&x, &device, text);
    EXPECT_INT(run_whole_calls(&x), 1);
    check_outputs(&x, 1e-3, 1e-6);
    fixture_deinit(&x);
}

TEST(gradients_of_attention_by_their_formulas) {
    check_gradients("", "none, scale=0.5, causal=true");
    check_gradients("  input user %m : bool[2, 4, 5, 6] \"m\"\n", "%m, scale=0.25, causal=false");
}

TEST(a_line_that_was_read_from_a_text_has_none) {
    const hn_line line = {.kind = HN_LINE_KERNEL};
    EXPECT_ERROR(hn_line_reference(&line, &(hn_reference_how){0}, NULL), HN_UNSUPPORTED,
                 "read from a text");
}

TEST_MAIN
