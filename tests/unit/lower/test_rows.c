/* test_rows.c: products whose sizes are odd, for targets that are slow then: what the product
 * computes and what loops do, where rows are longer, what is copied, and that results stay what
 * they are. The programs are run by the interpreter of loops. */
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

static void print_size(lowering *t, const hn_extern *call, uint32_t param, const char *end) {
    hn_sym_print(t->program->sym, call->params[param], &t->text);
    hn_strbuf_puts(&t->text, end);
}

/* "loop; matmul 6x8x8 12,1 8,1 12,1; loop": the items; of products rows, columns, the length of the
 * sum, and the strides of out, a and b */
static void describe(lowering *t) {
    for (hn_item k = 1; t->program && k < t->program->items.count; k++) {
        const hn_item_info *item = &t->program->items.items[k];
        hn_strbuf_puts(&t->text, k > 1 ? "; " : "");
        if (item->kind != HN_ITEM_EXTERN) {
            hn_strbuf_puts(&t->text, item->kind == HN_ITEM_LOOP ? "loop" : "other");
            continue;
        }
        hn_strbuf_puts(&t->text, "matmul ");
        print_size(t, item->ext, HN_MATMUL_M, "x");
        print_size(t, item->ext, HN_MATMUL_N, "x");
        print_size(t, item->ext, HN_MATMUL_K, "");
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
    check(ODD_COLUMNS "output user %y \"\"", &by_operation,
          "loop; matmul 6x8x8 12,1 8,1 1,8; loop");
    check(ODD_COLUMNS "output user %y \"\"", &by_loops, "matmul 6x11x8 11,1 8,1 1,8");
    check(ODD_COLUMNS "output user %y \"\"", &free_only, "matmul 6x11x8 11,1 8,1 1,8");
    check(ODD_COLUMNS "output user %y \"\"", &as_it_is, "matmul 6x11x8 11,1 8,1 1,8");
    check(ODD_COLUMNS "output user %y \"\"", NULL, "matmul 6x11x8 11,1 8,1 1,8");
    check(ODD_COLUMNS "%z = reshape(%y, sizes=[2, 3, 11])\noutput user %z \"\"", &by_operation,
          "loop; matmul 6x8x8 12,1 8,1 1,8; loop");
    check(ODD_COLUMNS "%z = reshape(%y, sizes=[2, 3, 11])\noutput user %z \"\"", &free_only,
          "matmul 6x11x8 11,1 8,1 1,8");
}

/* Who reads the result element by element reads its longer rows. */
TEST(a_temporary) {
    check(ODD_COLUMNS "%z = neg(%y)\noutput user %z \"\"", &free_only,
          "loop; matmul 6x8x8 12,1 8,1 1,8; loop");
    check(ODD_COLUMNS "%a = reshape(%y, sizes=[66])\n%z = neg(%a)\noutput user %z \"\"", &free_only,
          "loop; matmul 6x8x8 12,1 8,1 1,8; loop");
    check(ODD_COLUMNS "%s = sum(%y, dims=[0], keepdim=false)\noutput user %s \"\"", &free_only,
          "loop; matmul 6x8x8 12,1 8,1 1,8; loop");
}

/* Long rows are whole lines of 32 numbers. */
TEST(long_rows) {
    check("input user %x : f32[2, 4] \"x\"\n input user %w : f32[257, 4] \"w\"\n"
          "%t = permute(%w, dims=[1, 0])\n%y = matmul(%x, %t, none)\n%z = relu(%y)\n"
          "output user %z \"\"",
          &by_operation, "loop; matmul 2x256x4 288,1 4,1 1,4; loop");
}

TEST(a_bias) {
    check("input user %x : f32[6, 8] \"x\"\n input user %w : f32[11, 8] \"w\"\n"
          "input user %b : f32[11] \"b\"\n%t = permute(%w, dims=[1, 0])\n"
          "%y = matmul(%x, %t, %b)\n%z = neg(%y)\noutput user %z \"\"",
          &by_operation, "loop; loop; matmul 6x8x8 12,1 8,1 1,8; loop");
}

TEST(batches) {
    check("input user %x : f32[3, 5, 4] \"x\"\n input user %w : f32[3, 9, 4] \"w\"\n"
          "%t = permute(%w, dims=[0, 2, 1])\n%y = matmul(%x, %t, none)\n%z = neg(%y)\n"
          "output user %z \"\"",
          &by_operation, "loop; matmul 5x8x4 12,1 4,1 1,4; loop");
}

/* A sum of an odd length gets zeros in both operands: by a loop each, or where one is written. */
TEST(odd_sums) {
    check("input user %x : f32[6, 7] \"x\"\n input user %w : f32[8, 7] \"w\"\n"
          "%t = permute(%w, dims=[1, 0])\n%y = matmul(%x, %t, none)\noutput user %y \"\"",
          &by_operation, "loop; loop; matmul 6x8x8 8,1 8,1 1,8");
    check("input user %x : f32[6, 7] \"x\"\n input user %w : f32[7, 8] \"w\"\n"
          "%n = neg(%x)\n%y = matmul(%n, %w, none)\noutput user %y \"\"",
          &free_only, "loop; loop; matmul 6x8x8 8,1 8,1 8,1");
    check("input user %x : f32[6, 7] \"x\"\n input user %w : f32[7, 8] \"w\"\n"
          "%y = matmul(%x, %w, none)\noutput user %y \"\"",
          &free_only, "matmul 6x8x7 8,1 7,1 8,1");
    /* a single row, a single element to sum */
    check("input user %x : f32[1, 1] \"x\"\n input user %w : f32[1, 8] \"w\"\n"
          "%y = matmul(%x, %w, none)\noutput user %y \"\"",
          &by_operation, "loop; loop; matmul 1x8x4 8,1 4,1 8,1");
    /* neither operand has rows along what is summed: there is nothing odd */
    check("input user %x : f32[7, 8] \"x\"\n input user %w : f32[7, 8] \"w\"\n"
          "%t = permute(%x, dims=[1, 0])\n%y = matmul(%t, %w, none)\noutput user %y \"\"",
          &by_operation, "matmul 8x8x7 8,1 1,8 8,1");
    /* everything is odd, and has a batch */
    check("input user %x : f32[2, 5, 7] \"x\"\n input user %w : f32[2, 7, 9] \"w\"\n"
          "input user %b : f32[9] \"b\"\n"
          "%y = matmul(%x, %w, %b)\n%z = relu(%y)\noutput user %z \"\"",
          &by_operation, "loop; loop; loop; loop; matmul 5x8x8 12,1 8,1 12,1; loop");
}

/* Rows of the result that are neighbours in memory: the operation makes 8, loops 3. */
TEST(odd_rows) {
    check("input user %x : f32[16, 11] \"x\"\n input user %w : f32[16, 8] \"w\"\n"
          "%t = permute(%x, dims=[1, 0])\n%y = matmul(%t, %w, none)\noutput user %y \"\"",
          &by_operation, "loop; loop; matmul 8x8x16 8,1 1,12 8,1");
    check("input user %x : f32[16, 11] \"x\"\n input user %w : f32[16, 9] \"w\"\n"
          "input user %b : f32[9] \"b\"\n%t = permute(%x, dims=[1, 0])\n"
          "%y = matmul(%t, %w, %b)\n%z = neg(%y)\noutput user %z \"\"",
          &by_operation, "loop; loop; loop; loop; loop; loop; matmul 8x8x16 12,1 1,12 12,1; loop");
    check("symbol size s0 in [2, 9] hint 6\ninput user %x : f32[8, s0] \"x\"\n"
          "input user %w : f32[8, 11] \"w\"\n%t = permute(%x, dims=[1, 0])\n"
          "%y = matmul(%t, %w, none)\noutput user %y \"\"",
          &by_operation, "matmul s0x11x8 11,1 1,s0 11,1");
}

/* What two products read, one of them transposed, is written once, with zeros behind its rows: the
 * gradients of a last product. */
TEST(values_in_longer_rows) {
    check("input user %x : f32[8, 11] \"x\"\n input user %w : f32[11, 8] \"w\"\n"
          "input user %h : f32[8, 12] \"h\"\n%e = neg(%x)\n%g = sub(%e, %x)\n"
          "%y = matmul(%g, %w, none)\n%t = permute(%g, dims=[1, 0])\n"
          "%z = matmul(%t, %h, none)\noutput user %y \"\"\noutput user %z \"\"",
          &by_operation,
          "loop; loop; loop; matmul 8x8x12 8,1 12,1 8,1; loop; matmul 8x12x8 12,1 1,12 12,1");
    check("input user %x : f32[2, 4, 11] \"x\"\n input user %w : f32[11, 8] \"w\"\n"
          "%e = neg(%x)\n%g = sub(%e, %x)\n%r = reshape(%g, sizes=[8, 11])\n"
          "%y = matmul(%r, %w, none)\n%s = sum(%g, dims=[0], keepdim=false)\n"
          "output user %y \"\"\noutput user %s \"\"",
          &by_operation, "loop; loop; loop; matmul 8x8x12 8,1 12,1 8,1; loop");
    check("input user %x : f32[8, 11] \"x\"\n input user %w : f32[11, 8] \"w\"\n"
          "%e = neg(%x)\n%g = sub(%e, %x)\n%y = matmul(%g, %w, none)\n"
          "output user %y \"\"\noutput user %g \"\"",
          &by_operation, "loop; loop; loop; matmul 8x8x12 8,1 12,1 8,1");
}

/* Operands that begin at odd addresses are copied; few columns stay, and what a batch repeats. */
TEST(addresses_and_few_columns) {
    check("input user %x : f32[6, 16] \"x\"\n input user %w : f32[8, 8] \"w\"\n"
          "%s = slice(%x, dim=1, start=3, size=8, step=1)\n%t = permute(%w, dims=[1, 0])\n"
          "%y = matmul(%s, %t, none)\noutput user %y \"\"",
          &by_operation, "loop; matmul 6x8x8 8,1 8,1 1,8");
    check("input user %x : f32[6, 8] \"x\"\n input user %w : f32[8, 11] \"w\"\n"
          "%y = matmul(%x, %w, none)\noutput user %y \"\"",
          &by_operation, "loop; loop; matmul 6x8x8 12,1 8,1 12,1; loop");
    check("input user %x : f32[6, 7] \"x\"\n input user %w : f32[3, 7] \"w\"\n"
          "%t = permute(%w, dims=[1, 0])\n%y = matmul(%x, %t, none)\noutput user %y \"\"",
          &by_operation, "matmul 6x3x7 3,1 7,1 1,7");
    check("input user %x : f32[2, 6, 7] \"x\"\n input user %w : f32[7, 8] \"w\"\n"
          "%r = reshape(%w, sizes=[1, 7, 8])\n%e = expand(%r, sizes=[2, 7, 8])\n"
          "%y = matmul(%x, %e, none)\noutput user %y \"\"",
          &by_operation, "matmul 6x8x7 8,1 7,1 8,1");
}

/* The number of rows need not be known, that of columns must. */
TEST(sizes_of_a_run) {
    check("symbol size s0 in [2, 9] hint 6\ninput user %x : f32[s0, 8] \"x\"\n"
          "input user %w : f32[11, 8] \"w\"\n%t = permute(%w, dims=[1, 0])\n"
          "%y = matmul(%x, %t, none)\noutput user %y \"\"",
          &by_operation, "loop; matmul s0x8x8 12,1 8,1 1,8; loop");
    check("symbol size s0 in [2, 9] hint 6\ninput user %x : f32[4, 8] \"x\"\n"
          "input user %w : f32[s0, 8] \"w\"\n%t = permute(%w, dims=[1, 0])\n"
          "%y = matmul(%x, %t, none)\noutput user %y \"\"",
          &by_operation, "matmul 4xs0x8 s0,1 8,1 1,8");
}

static hn_value add_weight(hn_graph *g, uint32_t rank, const int64_t *numbers) {
    static float bytes[8 * 11];
    hn_expr sizes[2] = {hn_sym_int(g->sym, 1), hn_sym_int(g->sym, 1)};
    size_t count = 1;
    for (int k = 0; k < 8 * 11; k++) bytes[k] = (float)k / 4 - 3;
    for (uint32_t d = 0; d < rank; d++) {
        sizes[d] = hn_sym_int(g->sym, numbers[d]);
        count *= (size_t)numbers[d];
    }
    return hn_graph_add_constant(g, HN_DTYPE_F32, rank, sizes, bytes, count * sizeof *bytes);
}

/* What is read: relu(-x [6, depth] times a weight + a bias), of 11 columns. */
typedef struct layer {
    int64_t depth;
    bool is_transposed, has_bias, bias_is_input, has_relu;
} layer;

static void check_layer(layer of, const char *expected) {
    static const double exact[1];
    lowering t;
    char inputs[80];
    (void)snprintf(inputs, sizeof inputs,
                   "input user %%x : f32[6, %d] \"x\"\ninput user %%b : f32[11] \"b\"",
                   (int)of.depth);
    if (lowering_parse(&t, inputs)) {
        hn_graph *g = t.graph;
        hn_value w = add_weight(
            g, 2, of.is_transposed ? (int64_t[]){11, of.depth} : (int64_t[]){of.depth, 11});
        if (of.is_transposed) w = hn_b_permute(g, w, (const uint32_t[]){1, 0});
        hn_value bias = of.has_bias ? add_weight(g, 1, (int64_t[]){11}) : 0;
        if (of.bias_is_input) bias = g->inputs.items[1].value;
        const hn_value x = hn_b_unary(g, HN_OP_NEG, g->inputs.items[0].value);
        hn_value y = hn_b_matmul(g, x, w, bias);
        if (of.has_relu) y = hn_b_unary(g, HN_OP_RELU, y);
        EXPECT_OK(hn_graph_status(g));
        EXPECT_OK(hn_graph_add_output(g, (hn_output){.kind = HN_OUTPUT_USER, .value = y}));
        lower_with(&t, &by_operation);
        describe(&t);
        EXPECT_STR(hn_strbuf_str(&t.text).ptr, expected);
        expect_values(&t, HN_RUN_OPERATIONS, exact);
    }
    lowering_end(&t);
}

/* Weights are laid out anew when the program is loaded, if their bytes are known. Those that get
 * zeros get columns of zeros as well, unless there is a bias that cannot. */
TEST(weights) {
    check_layer((layer){.depth = 8}, "loop; loop; matmul 6x8x8 12,1 8,1 12,1; loop");
    check_layer((layer){.depth = 7}, "loop; matmul 6x12x8 12,1 8,1 12,1; loop");
    check_layer((layer){.depth = 7, .is_transposed = true},
                "loop; matmul 6x12x8 12,1 8,1 1,8; loop");
    check_layer((layer){.depth = 3, .is_transposed = true},
                "loop; matmul 6x12x4 12,1 4,1 1,4; loop");
    check_layer((layer){.depth = 7, .is_transposed = true, .has_bias = true, .has_relu = true},
                "loop; matmul 6x12x8 12,1 8,1 1,8; loop");
    check_layer((layer){.depth = 7, .has_bias = true, .has_relu = true},
                "loop; matmul 6x12x8 12,1 8,1 12,1; loop");
    check_layer((layer){.depth = 7, .bias_is_input = true},
                "loop; loop; loop; matmul 6x8x8 12,1 8,1 12,1; loop");
    check_layer((layer){.depth = 7, .is_transposed = true, .bias_is_input = true, .has_relu = true},
                "loop; loop; loop; matmul 6x8x8 12,1 8,1 1,8; loop");
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
                 "loop; loop; matmul 1024x50256x768 50304,1 768,1 1,768; loop");
    /* f32 has no tensor cores to lose, and little is not worth a launch */
    check_on_gpu("input user %x : f32[1024, 768] \"x\"\n input user %w : f32[50257, 768] \"w\"\n"
                 "%t = permute(%w, dims=[1, 0])\n%y = matmul(%x, %t, none)\noutput user %y \"\"",
                 "matmul 1024x50257x768 50257,1 768,1 1,768");
    check_on_gpu("input user %x : bf16[16, 768] \"x\"\n input user %w : bf16[257, 768] \"w\"\n"
                 "%t = permute(%w, dims=[1, 0])\n%y = matmul(%x, %t, none)\noutput user %y \"\"",
                 "matmul 16x257x768 257,1 768,1 1,768");
    /* its gradients, for which the values and the weight get zeros behind 50257 */
    check_on_gpu("input user %x : bf16[1024, 50257] \"x\"\n"
                 "input user %w : bf16[50257, 768] \"w\"\n"
                 "input user %h : bf16[1024, 768] \"h\"\n"
                 "%e = exp(%x)\n%g = sub(%e, %x)\n%y = matmul(%g, %w, none)\n"
                 "%t = permute(%g, dims=[1, 0])\n%z = matmul(%t, %h, none)\n"
                 "output user %y \"\"\noutput user %z \"\"",
                 "loop; loop; loop; matmul 1024x768x50264 768,1 50304,1 768,1; "
                 "loop; loop; matmul 50256x768x1024 768,1 1,50304 768,1");
    /* a sum of an odd length: two copies, and where they cost more than they gain */
    check_on_gpu("input user %x : bf16[2048, 2049] \"x\"\n input user %w : bf16[2049, 2048] \"w\"\n"
                 "%y = matmul(%x, %w, none)\noutput user %y \"\"",
                 "loop; loop; matmul 2048x2048x2056 2048,1 2112,1 2048,1");
    check_on_gpu("input user %x : bf16[128, 129] \"x\"\n input user %w : bf16[129, 128] \"w\"\n"
                 "%y = matmul(%x, %w, none)\noutput user %y \"\"",
                 "matmul 128x128x129 128,1 129,1 128,1");
}

TEST(random_contractions) { lowering_check_random(&by_operation, &by_loops, &free_only); }

TEST_MAIN
