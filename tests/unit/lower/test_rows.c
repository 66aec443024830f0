/* test_rows.c: products with a result of odd rows, for targets that are slow then: which columns the
 * product computes and which loops, where rows are longer, what is copied, and that results stay
 * what they are. The programs are run by the interpreter of loops. */
#include "lowering_values.h"

static bool always(double flops, uint32_t launches, double copied_bytes) {
    (void)flops, (void)launches, (void)copied_bytes;
    return true;
}
static bool without_copies(double flops, uint32_t launches, double copied_bytes) {
    (void)flops, (void)copied_bytes;
    return launches <= 1;
}
static bool never(double flops, uint32_t launches, double copied_bytes) {
    (void)flops, (void)launches, (void)copied_bytes;
    return false;
}

#define PRODUCTS(types, pays)                                                                      \
    {                                                                                              \
        .of = {                                                                                    \
            [HN_EXTERN_MATMUL] = {.dtypes = (types),                                               \
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

/* "loop; matmul 8 12,1 8,1 12,1; loop": the items; of products the columns, and the strides of out,
 * a and b */
static void describe(lowering *t) {
    for (hn_item k = 1; t->program && k < t->program->items.count; k++) {
        const hn_item_info *item = &t->program->items.items[k];
        hn_strbuf_puts(&t->text, k > 1 ? "; " : "");
        if (item->kind != HN_ITEM_EXTERN) {
            hn_strbuf_puts(&t->text, item->kind == HN_ITEM_LOOP ? "loop" : "other");
            continue;
        }
        hn_strbuf_puts(&t->text, "matmul ");
        hn_sym_print(t->program->sym, item->ext->params[HN_MATMUL_N], &t->text);
        print_matrix(t, &item->ext->params[HN_MATMUL_OUT]);
        print_matrix(t, &item->ext->params[HN_MATMUL_A]);
        print_matrix(t, &item->ext->params[HN_MATMUL_B]);
    }
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

#define ODD_COLUMNS                                                                                \
    "input user %x : f32[6, 8] \"x\"\n input user %w : f32[11, 8] \"w\"\n"                         \
    "%t = permute(%w, dims=[1, 0])\n%y = matmul(%x, %t, none)\n"

/* The operation makes 8 columns, a loop 3; a result that leaves the program is copied then. */
TEST(an_output) {
    check(ODD_COLUMNS "output user %y \"\"", &by_operation, "loop; matmul 8 12,1 8,1 1,8; loop");
    check(ODD_COLUMNS "output user %y \"\"", &by_loops, "matmul 11 11,1 8,1 1,8");
    check(ODD_COLUMNS "output user %y \"\"", &free_only, "matmul 11 11,1 8,1 1,8");
    check(ODD_COLUMNS "output user %y \"\"", &as_it_is, "matmul 11 11,1 8,1 1,8");
    check(ODD_COLUMNS "output user %y \"\"", NULL, "matmul 11 11,1 8,1 1,8");
    check(ODD_COLUMNS "%z = reshape(%y, sizes=[2, 3, 11])\noutput user %z \"\"", &by_operation,
          "loop; matmul 8 12,1 8,1 1,8; loop");
    check(ODD_COLUMNS "%z = reshape(%y, sizes=[2, 3, 11])\noutput user %z \"\"", &free_only,
          "matmul 11 11,1 8,1 1,8");
}

/* Who reads the result element by element reads its longer rows. */
TEST(a_temporary) {
    check(ODD_COLUMNS "%z = neg(%y)\noutput user %z \"\"", &free_only,
          "loop; matmul 8 12,1 8,1 1,8; loop");
    check(ODD_COLUMNS "%a = reshape(%y, sizes=[66])\n%z = neg(%a)\noutput user %z \"\"", &free_only,
          "loop; matmul 8 12,1 8,1 1,8; loop");
    check(ODD_COLUMNS "%s = sum(%y, dims=[0], keepdim=false)\noutput user %s \"\"", &free_only,
          "loop; matmul 8 12,1 8,1 1,8; loop");
}

/* Long rows are whole lines of 32 numbers. */
TEST(long_rows) {
    check("input user %x : f32[2, 4] \"x\"\n input user %w : f32[257, 4] \"w\"\n"
          "%t = permute(%w, dims=[1, 0])\n%y = matmul(%x, %t, none)\n%z = relu(%y)\n"
          "output user %z \"\"",
          &by_operation, "loop; matmul 256 288,1 4,1 1,4; loop");
}

TEST(a_bias) {
    check("input user %x : f32[6, 8] \"x\"\n input user %w : f32[11, 8] \"w\"\n"
          "input user %b : f32[11] \"b\"\n%t = permute(%w, dims=[1, 0])\n"
          "%y = matmul(%x, %t, %b)\n%z = neg(%y)\noutput user %z \"\"",
          &by_operation, "loop; loop; matmul 8 12,1 8,1 1,8; loop");
}

TEST(batches) {
    check("input user %x : f32[3, 5, 4] \"x\"\n input user %w : f32[3, 9, 4] \"w\"\n"
          "%t = permute(%w, dims=[0, 2, 1])\n%y = matmul(%x, %t, none)\n%z = neg(%y)\n"
          "output user %z \"\"",
          &by_operation, "loop; matmul 8 12,1 4,1 1,4; loop");
}

/* Operands with odd rows, or sums of an odd length, gain nothing; nor do few columns. */
TEST(as_they_are) {
    check("input user %x : f32[6, 8] \"x\"\n input user %w : f32[8, 11] \"w\"\n"
          "%y = matmul(%x, %w, none)\noutput user %y \"\"",
          &by_operation, "matmul 11 11,1 8,1 11,1");
    check("input user %x : f32[6, 7] \"x\"\n input user %w : f32[11, 7] \"w\"\n"
          "%t = permute(%w, dims=[1, 0])\n%y = matmul(%x, %t, none)\noutput user %y \"\"",
          &by_operation, "matmul 11 11,1 7,1 1,7");
    check("input user %x : f32[6, 8] \"x\"\n input user %w : f32[3, 8] \"w\"\n"
          "%t = permute(%w, dims=[1, 0])\n%y = matmul(%x, %t, none)\noutput user %y \"\"",
          &by_operation, "matmul 3 3,1 8,1 1,8");
    check("input user %x : f32[6, 16] \"x\"\n input user %w : f32[11, 8] \"w\"\n"
          "%s = slice(%x, dim=1, start=3, size=8, step=1)\n%t = permute(%w, dims=[1, 0])\n"
          "%y = matmul(%s, %t, none)\noutput user %y \"\"",
          &by_operation, "matmul 11 11,1 16,1 1,8");
}

/* The number of rows need not be known, that of columns must. */
TEST(sizes_of_a_run) {
    check("symbol size s0 in [2, 9] hint 6\ninput user %x : f32[s0, 8] \"x\"\n"
          "input user %w : f32[11, 8] \"w\"\n%t = permute(%w, dims=[1, 0])\n"
          "%y = matmul(%x, %t, none)\noutput user %y \"\"",
          &by_operation, "loop; matmul 8 12,1 8,1 1,8; loop");
    check("symbol size s0 in [2, 9] hint 6\ninput user %x : f32[4, 8] \"x\"\n"
          "input user %w : f32[s0, 8] \"w\"\n%t = permute(%w, dims=[1, 0])\n"
          "%y = matmul(%x, %t, none)\noutput user %y \"\"",
          &by_operation, "matmul s0 s0,1 8,1 1,8");
}

/* A weight with odd rows is laid out anew when the program is made, if its bytes are known. */
TEST(weights) {
    static const double exact[1];
    lowering t;
    if (lowering_parse(&t, "input user %x : f32[6, 8] \"x\"")) {
        hn_graph *g = t.graph;
        float bytes[8 * 11];
        for (int k = 0; k < 8 * 11; k++) bytes[k] = (float)k / 4 - 3;
        const hn_expr sizes[2] = {hn_sym_int(g->sym, 8), hn_sym_int(g->sym, 11)};
        hn_value w = hn_graph_add_constant(g, HN_DTYPE_F32, 2, sizes, bytes, sizeof bytes);
        hn_value y = hn_b_matmul(g, hn_b_unary(g, HN_OP_NEG, g->inputs.items[0].value), w, 0);
        EXPECT_OK(hn_graph_status(g));
        EXPECT_OK(hn_graph_add_output(g, (hn_output){.kind = HN_OUTPUT_USER, .value = y}));
        lower_with(&t, &by_operation);
        describe(&t);
        EXPECT_STR(hn_strbuf_str(&t.text).ptr, "loop; loop; matmul 8 12,1 8,1 12,1; loop");
        expect_values(&t, HN_RUN_OPERATIONS, exact);
    }
    lowering_end(&t);
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
    /* the last product of GPT-2; its sum behind the rounding of 16 bits is a loop of its own */
    check_on_gpu("input user %x : bf16[1024, 768] \"x\"\n input user %w : bf16[50257, 768] \"w\"\n"
                 "%t = permute(%w, dims=[1, 0])\n%y = matmul(%x, %t, none)\noutput user %y \"\"",
                 "loop; loop; matmul 50256 50304,1 768,1 1,768; loop");
    /* f32 has no tensor cores to lose, and little is not worth a launch */
    check_on_gpu("input user %x : f32[1024, 768] \"x\"\n input user %w : f32[50257, 768] \"w\"\n"
                 "%t = permute(%w, dims=[1, 0])\n%y = matmul(%x, %t, none)\noutput user %y \"\"",
                 "matmul 50257 50257,1 768,1 1,768");
    check_on_gpu("input user %x : bf16[16, 768] \"x\"\n input user %w : bf16[257, 768] \"w\"\n"
                 "%t = permute(%w, dims=[1, 0])\n%y = matmul(%x, %t, none)\noutput user %y \"\"",
                 "matmul 257 257,1 768,1 1,768");
}

TEST(random_contractions) { lowering_check_random(&by_operation, &by_loops, &free_only); }

TEST_MAIN
