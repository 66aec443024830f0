/* test_rows.c: matrices of products whose rows begin at aligned addresses, for targets that are
 * faster then: where the rows are longer, what is copied, and that results stay what they are. The
 * programs are run by the interpreter of loops. */
#include "lowering.h"

#include "support/program_run.h"

static bool always(double flops, uint32_t copies, double copied_bytes) {
    (void)flops, (void)copies, (void)copied_bytes;
    return true;
}
static bool without_copies(double flops, uint32_t copies, double copied_bytes) {
    (void)flops, (void)copied_bytes;
    return !copies;
}
static bool never(double flops, uint32_t copies, double copied_bytes) {
    (void)flops, (void)copies, (void)copied_bytes;
    return false;
}

#define PRODUCTS(types, pays)                                                                      \
    {                                                                                              \
        .of = {                                                                                    \
            [HN_EXTERN_MATMUL] = {.dtypes = (types),                                               \
                                  .narrow_epilogues = 1u << HN_EPILOGUE_RELU,                      \
                                  .epilogues = 1u << HN_EPILOGUE_RELU,                             \
                                  .aligned_rows = ~0u,                                             \
                                  .row_bytes = 16,                                                 \
                                  .line_bytes = 128,                                               \
                                  .pays_to_align = (pays)}                                         \
        }                                                                                          \
    }
static const hn_operations by_operation = PRODUCTS(~0u, always), by_loops = PRODUCTS(0, always),
                           free_only = PRODUCTS(~0u, without_copies),
                           as_it_is = PRODUCTS(~0u, never);

static void print_matrix(lowering *t, const hn_expr *strides) {
    hn_strbuf_putc(&t->text, ' ');
    hn_sym_print(t->program->sym, strides[HN_EXTERN_BATCH], &t->text);
    hn_strbuf_putc(&t->text, ',');
    hn_sym_print(t->program->sym, strides[HN_EXTERN_BATCH + 1], &t->text);
}

/* "loop; matmul 8,1 8,1 12,1; loop": the items, and the strides of out, a and b */
static void describe(lowering *t) {
    for (hn_item k = 1; t->program && k < t->program->items.count; k++) {
        const hn_item_info *item = &t->program->items.items[k];
        hn_strbuf_puts(&t->text, k > 1 ? "; " : "");
        if (item->kind != HN_ITEM_EXTERN) {
            hn_strbuf_puts(&t->text, item->kind == HN_ITEM_LOOP ? "loop" : "other");
            continue;
        }
        hn_strbuf_puts(&t->text, "matmul");
        print_matrix(t, &item->ext->params[HN_MATMUL_OUT]);
        print_matrix(t, &item->ext->params[HN_MATMUL_A]);
        print_matrix(t, &item->ext->params[HN_MATMUL_B]);
    }
}

static void lower_with(lowering *t, const hn_operations *operations) {
    EXPECT_OK(hn_lower(t->graph, operations, &t->arena, &t->scratch, &t->program));
    if (t->program) EXPECT_OK(hn_program_verify(t->program));
}

static void expect_values(lowering *t, hn_run_calls calls, const double *tolerance) {
    hn_ref_tensor inputs[HN_RANDOM_MAX_TENSORS], wanted[HN_RANDOM_MAX_TENSORS],
        got[HN_RANDOM_MAX_TENSORS];
    const uint32_t outputs = t->graph->outputs.count;
    uint32_t count = 0;
    for (uint32_t k = 0; k < t->graph->inputs.count; k++)
        count += t->graph->inputs.items[k].kind == HN_INPUT_USER;
    if (!t->program) return;
    EXPECT_OK(hn_random_inputs(5, &t->arena, t->graph, 0, inputs));
    EXPECT_OK(hn_interpret(&t->arena, t->graph, inputs, count, wanted));
    EXPECT_OK(hn_program_run_all(&t->arena, t->program, t->graph, inputs, count, calls, got));
    EXPECT_OK(hn_outputs_compare(got, wanted, tolerance, outputs));
}

static void check(const char *statements, const hn_operations *operations, const char *expected) {
    static const double exact[8];
    lowering t;
    if (lowering_parse(&t, statements)) {
        lower_with(&t, operations);
        describe(&t);
        EXPECT_STR(hn_strbuf_str(&t.text).ptr, expected);
        expect_values(&t, operations == &by_loops ? HN_RUN_LOOPS : HN_RUN_OPERATIONS, exact);
    }
    lowering_end(&t);
}

#define EVEN_INPUTS                                                                                \
    "input user %x : f32[6, 8] \"x\"\n input user %w : f32[11, 8] \"w\"\n"                         \
    "%t = permute(%w, dims=[1, 0])\n%y = matmul(%x, %t, none)\n"
#define ODD_INPUTS "input user %x : f32[6, 7] \"x\"\n input user %w : f32[7, 11] \"w\"\n"

/* A result that leaves the program is copied from its longer rows, if that pays. */
TEST(an_output) {
    check(EVEN_INPUTS "output user %y \"\"", &by_operation, "matmul 12,1 8,1 1,8; loop");
    check(EVEN_INPUTS "output user %y \"\"", &by_loops, "matmul 12,1 8,1 1,8; loop");
    check(EVEN_INPUTS "output user %y \"\"", &free_only, "matmul 11,1 8,1 1,8");
    check(EVEN_INPUTS "output user %y \"\"", &as_it_is, "matmul 11,1 8,1 1,8");
    check(EVEN_INPUTS "output user %y \"\"", NULL, "matmul 11,1 8,1 1,8");
    check(EVEN_INPUTS "%z = reshape(%y, sizes=[2, 3, 11])\noutput user %z \"\"", &by_operation,
          "matmul 12,1 8,1 1,8; loop");
    check(EVEN_INPUTS "%z = reshape(%y, sizes=[2, 3, 11])\noutput user %z \"\"", &free_only,
          "matmul 11,1 8,1 1,8");
}

/* Long rows are whole lines of 32 numbers. */
TEST(long_rows) {
    check("input user %x : f32[2, 4] \"x\"\n input user %w : f32[4, 257] \"w\"\n"
          "%y = matmul(%x, %w, none)\n%z = relu(%y)\noutput user %z \"\"",
          &by_operation, "loop; matmul 288,1 4,1 288,1; loop");
    check("input user %x : f32[2, 4] \"x\"\n input user %w : f32[4, 260] \"w\"\n"
          "%y = matmul(%x, %w, none)\n%z = relu(%y)\noutput user %z \"\"",
          &by_operation, "matmul 260,1 4,1 260,1; loop");
}

/* What a loop reads or makes has its rows for nothing; views of it, too. */
TEST(between_loops) {
    check(ODD_INPUTS "%a = exp(%x)\n%b = exp(%w)\n%y = matmul(%a, %b, none)\n%z = neg(%y)\n"
                     "output user %z \"\"",
          &as_it_is, "loop; loop; matmul 11,1 7,1 11,1; loop");
    check("input user %x : f32[2, 3, 7] \"x\"\n input user %w : f32[7, 11] \"w\"\n"
          "input user %v : f32[11, 8] \"v\"\n%b = mul(%w, %w)\n%s = mul(%x, %x)\n"
          "%a = reshape(%s, sizes=[6, 7])\n%y = matmul(%a, %b, none)\n%z = matmul(%y, %v, none)\n"
          "output user %z \"\"",
          &free_only, "loop; loop; matmul 12,1 8,1 12,1; matmul 8,1 12,1 8,1");
}

/* Inputs are copied, with the dimension behind in which they lie. */
TEST(inputs) {
    check("input user %x : f32[6, 7] \"x\"\n input user %w : f32[11, 7] \"w\"\n"
          "%t = permute(%w, dims=[1, 0])\n%y = matmul(%x, %t, none)\noutput user %y \"\"",
          &by_operation, "loop; loop; matmul 12,1 8,1 1,8; loop");
    check("input user %x : f32[6, 16] \"x\"\n input user %w : f32[8, 12] \"w\"\n"
          "%s = slice(%x, dim=1, start=3, size=8, step=1)\n%y = matmul(%s, %w, none)\n"
          "output user %y \"\"",
          &by_operation, "loop; matmul 12,1 8,1 12,1");
    check("input user %x : f32[6, 16] \"x\"\n input user %w : f32[8, 12] \"w\"\n"
          "%s = slice(%x, dim=1, start=4, size=8, step=1)\n%y = matmul(%s, %w, none)\n"
          "output user %y \"\"",
          &by_operation, "matmul 12,1 16,1 12,1");
}

TEST(batches) {
    check("input user %x : f32[3, 5, 7] \"x\"\n input user %w : f32[3, 7, 9] \"w\"\n"
          "%y = matmul(%x, %w, none)\n%z = neg(%y)\noutput user %z \"\"",
          &by_operation, "loop; loop; matmul 12,1 8,1 12,1; loop");
}

/* Rows that are known in the run only stay as they are; their number need not be known. */
TEST(sizes_of_a_run) {
    check("symbol size s0 in [2, 9] hint 6\ninput user %x : f32[s0, 8] \"x\"\n"
          "input user %w : f32[8, 11] \"w\"\n%y = matmul(%x, %w, none)\noutput user %y \"\"",
          &by_operation, "loop; matmul 12,1 8,1 12,1; loop");
    check("symbol size s0 in [2, 9] hint 6\ninput user %x : f32[4, s0] \"x\"\n"
          "input user %v : f32[s0, 11] \"v\"\n%y = matmul(%x, %v, none)\noutput user %y \"\"",
          &by_operation, "matmul 11,1 s0,1 11,1");
}

/* The scheduler gives the product what is behind it, and leaves the copy a loop of its own. */
TEST(behind_a_product) {
    lowering t;
    if (lowering_parse(&t, EVEN_INPUTS "%z = relu(%y)\noutput user %z \"\"")) {
        EXPECT_STR(lowering_describe_with(&t, &by_operation),
                   "matmul(temp, in0, in1, -, -) relu; loop");
        EXPECT(t.program &&
               hn_sym_is_value(t.program->sym,
                               t.program->items.items[1].ext->params[HN_MATMUL_OUT + 4], 12));
    }
    lowering_end(&t);
}

/* A weight whose bytes are known is laid out anew when the program is made. */
static void check_weight(bool transposed) {
    static const double exact[1];
    lowering t;
    if (lowering_parse(&t, "input user %x : f32[6, 7] \"x\"")) {
        hn_graph *g = t.graph;
        float bytes[7 * 12];
        for (int k = 0; k < 7 * 12; k++) bytes[k] = (float)k / 4 - 3;
        const hn_expr sizes[2] = {hn_sym_int(g->sym, transposed ? 12 : 7),
                                  hn_sym_int(g->sym, transposed ? 7 : 11)};
        const uint32_t dims[2] = {1, 0};
        const size_t count = transposed ? 12 * 7 : 7 * 11;
        hn_value w = hn_graph_add_constant(g, HN_DTYPE_F32, 2, sizes, bytes, count * sizeof *bytes);
        if (transposed) w = hn_b_permute(g, w, dims);
        hn_value y = hn_b_matmul(g, hn_b_unary(g, HN_OP_NEG, g->inputs.items[0].value), w, 0);
        EXPECT_OK(hn_graph_status(g));
        EXPECT_OK(hn_graph_add_output(g, (hn_output){.kind = HN_OUTPUT_USER, .value = y}));
        lower_with(&t, &by_operation);
        describe(&t);
        EXPECT_STR(hn_strbuf_str(&t.text).ptr,
                   transposed ? "loop; matmul 12,1 8,1 1,8" : "loop; matmul 12,1 8,1 12,1; loop");
        expect_values(&t, HN_RUN_OPERATIONS, exact);
    }
    lowering_end(&t);
}

TEST(weights) {
    check_weight(false);
    check_weight(true);
}

/* With the costs of NVIDIA's GPUs. */
static void check_on_gpu(const char *statements, const char *expected) {
    lowering t;
    if (lowering_parse(&t, statements)) {
        lower_with(&t, hn_gpu_facts_sm_90.limits.operations);
        describe(&t);
        EXPECT_STR(hn_strbuf_str(&t.text).ptr, expected);
    }
    lowering_end(&t);
}

TEST(gpus) {
    static const char small[] =
        "input user %x : bf16[16, 768] \"x\"\n input user %w : bf16[768, 257] "
        "\"w\"\n%y = matmul(%x, %w, none)\noutput user %y \"\"";
    /* the last product of GPT-2 */
    check_on_gpu("input user %x : bf16[1024, 768] \"x\"\n input user %w : bf16[50257, 768] \"w\"\n"
                 "%t = permute(%w, dims=[1, 0])\n%y = matmul(%x, %t, none)\noutput user %y \"\"",
                 "matmul 50304,1 768,1 1,768; loop");
    check_on_gpu("input user %x : f32[1024, 768] \"x\"\n input user %w : f32[768, 50257] \"w\"\n"
                 "%y = matmul(%x, %w, none)\noutput user %y \"\"",
                 "matmul 50257,1 768,1 50257,1"); /* f32 has no tensor cores to lose */
    check_on_gpu(small, "matmul 257,1 768,1 257,1");
    /* scores of attention that is spelt out: nothing is copied */
    check_on_gpu(
        "input user %q : bf16[96, 197, 64] \"q\"\n input user %k : bf16[96, 64, 197] \"k\"\n"
        "input user %v : bf16[96, 197, 64] \"v\"\n%l = exp(%k)\n%s = matmul(%q, %l, none)\n"
        "%e = exp(%s)\n%y = matmul(%e, %v, none)\noutput user %y \"\"",
        "loop; matmul 200,1 64,1 200,1; loop; matmul 64,1 200,1 64,1");
}

TEST(random_contractions) {
    const struct {
        const hn_operations *operations;
        hn_run_calls calls;
    } ways[] = {{&by_operation, HN_RUN_OPERATIONS},
                {&by_loops, HN_RUN_LOOPS},
                {&free_only, HN_RUN_OPERATIONS}};
    for (uint64_t seed = 0; seed < 240; seed++) {
        double tolerance[HN_RANDOM_MAX_TENSORS];
        lowering t;
        if (lowering_parse(&t, "")) {
            EXPECT_OK(hn_random_contractions_add(seed, t.graph, tolerance));
            lower_with(&t, ways[seed % 3].operations);
            expect_values(&t, ways[seed % 3].calls, tolerance);
        }
        lowering_end(&t);
    }
}

TEST_MAIN
