/* test_join.c: products of the same rows with different weights that are one product: which are
 * joined, what their readers read, and that results stay what they are. The programs are run by the
 * interpreter of loops. */
#include "lowering.h"

#include "support/program_run.h"

static const hn_operations joins = {
    .of = {[HN_EXTERN_MATMUL] = {
               .dtypes = ~0u, .row_bytes = 16, .joined = ~0u, .joined_max_flops = 1e4}}};

enum { ROWS = 6, K = 8, PARTS = 3 };

/* %x [6, 8] and a product for each part, which the test reads as it likes */
typedef struct model {
    lowering t;
    hn_graph *g;
    hn_value x, y[PARTS];
} model;

static hn_value constant(hn_graph *g, int64_t first, int64_t second, float from) {
    float bytes[K * 128];
    const int64_t count = first * (second ? second : 1);
    const hn_expr sizes[2] = {hn_sym_int(g->sym, first), hn_sym_int(g->sym, second)};
    for (int64_t k = 0; k < count; k++) bytes[k] = from + (float)(k % 32) / 4;
    return hn_graph_add_constant(g, HN_DTYPE_F32, second ? 2 : 1, sizes, bytes,
                                 (size_t)count * sizeof *bytes);
}

/* Weights as linear layers have them ([n, k]), or by columns; `biased`: a bit for each part. */
static bool begin(model *m, const int64_t *columns, bool transposed, uint32_t biased) {
    static const uint32_t swapped[2] = {1, 0};
    *m = (model){0};
    if (!lowering_parse(&m->t, "input user %x : f32[6, 8] \"x\"")) return false;
    m->g = m->t.graph;
    m->x = hn_b_unary(m->g, HN_OP_NEG, m->g->inputs.items[0].value);
    for (int64_t p = 0; p < PARTS; p++) {
        hn_value w = transposed ? constant(m->g, columns[p], K, (float)p - 3)
                                : constant(m->g, K, columns[p], (float)p - 3);
        if (transposed) w = hn_b_permute(m->g, w, swapped);
        hn_value bias = biased >> p & 1 ? constant(m->g, columns[p], 0, (float)p) : 0;
        m->y[p] = hn_b_matmul(m->g, m->x, w, bias);
    }
    return true;
}

static void leave(model *m, hn_value v) {
    EXPECT_OK(hn_graph_add_output(m->g, (hn_output){.kind = HN_OUTPUT_USER, .value = v}));
}

static void leave_all(model *m, hn_op op) {
    for (int p = 0; p < PARTS; p++) leave(m, hn_b_unary(m->g, op, m->y[p]));
}

/* "20;": the columns of each product, in order */
static void print_products(lowering *t) {
    for (hn_item k = 1; t->program && k < t->program->items.count; k++) {
        const hn_item_info *item = &t->program->items.items[k];
        if (item->kind != HN_ITEM_EXTERN) continue;
        hn_sym_print(t->program->sym, item->ext->params[HN_MATMUL_N], &t->text);
        hn_strbuf_puts(&t->text, item->ext->operands[3].buffer ? "+;" : ";");
    }
}

/* Joined weights are descriptions: the program has no bytes of theirs. */
static void expect_no_bytes(const hn_graph *g) {
    for (uint32_t k = 1; k < g->storages.count; k++)
        EXPECT(!g->storages.items[k].data == (g->storages.items[k].piece_count > 0));
}

static void end(model *m, const char *expected) {
    static const double exact[PARTS];
    hn_ref_tensor inputs[HN_RANDOM_MAX_TENSORS], wanted[PARTS], got[PARTS];
    lowering *t = &m->t;
    EXPECT_OK(hn_graph_status(m->g));
    EXPECT_OK(hn_lower(t->graph, &(hn_lower_options){.operations = &joins}, &t->arena, &t->scratch,
                       &t->program));
    if (t->program) {
        EXPECT_OK(hn_program_verify(t->program));
        print_products(t);
        expect_no_bytes(m->g);
        EXPECT_STR(hn_strbuf_str(&t->text).ptr, expected);
        EXPECT_OK(hn_random_inputs(5, &t->arena, m->g, 0, inputs));
        EXPECT_OK(hn_interpret(&t->arena, m->g, inputs, 1, wanted));
        EXPECT_OK(
            hn_program_run_all(&t->arena, t->program, m->g, inputs, 1, HN_RUN_OPERATIONS, got));
        EXPECT_OK(hn_outputs_compare(got, wanted, exact, m->g->outputs.count));
    }
    lowering_end(t);
}

static const int64_t even[PARTS] = {8, 4, 12}, odd[PARTS] = {8, 5, 12};

TEST(weights_by_rows_and_by_columns) {
    for (int transposed = 0; transposed < 2; transposed++) {
        model m;
        if (!begin(&m, even, transposed, 0)) return;
        leave_all(&m, HN_OP_NEG);
        end(&m, "24;");
    }
}

/* A part without a bias gets zeros. */
TEST(biases) {
    model m;
    if (!begin(&m, even, true, 7)) return;
    leave_all(&m, HN_OP_NEG);
    end(&m, "24+;");
    if (!begin(&m, even, true, 5)) return;
    leave_all(&m, HN_OP_NEG);
    end(&m, "24+;");
}

/* Columns of another product would begin anywhere. */
TEST(odd_columns) {
    model m;
    if (!begin(&m, odd, true, 0)) return;
    leave_all(&m, HN_OP_NEG);
    end(&m, "20;5;");
}

/* What leaves the program, or may be ended with a function, stays by itself. */
TEST(ends) {
    model m;
    if (!begin(&m, even, true, 0)) return;
    leave(&m, m.y[0]);
    leave(&m, hn_b_unary(m.g, HN_OP_NEG, m.y[1]));
    leave(&m, hn_b_unary(m.g, HN_OP_NEG, m.y[2]));
    end(&m, "8;16;");
    if (!begin(&m, even, true, 0)) return;
    leave(&m, hn_b_unary(m.g, HN_OP_NEG, m.y[0]));
    leave(&m, hn_b_unary(m.g, HN_OP_RELU, m.y[1]));
    leave(&m, hn_b_unary(m.g, HN_OP_NEG, m.y[2]));
    end(&m, "20;4;");
}

/* The products may be read by views, and by others in any order. */
TEST(readers) {
    model m;
    if (!begin(&m, (int64_t[]){8, 8, 8}, true, 2)) return;
    const hn_expr sizes[3] = {hn_sym_int(m.g->sym, 6), hn_sym_int(m.g->sym, 2),
                              hn_sym_int(m.g->sym, 4)};
    static const uint32_t turned[3] = {1, 0, 2}, swapped[2] = {1, 0};
    hn_value heads = hn_b_permute(m.g, hn_b_reshape(m.g, m.y[0], sizes, 3), turned);
    leave(&m, hn_b_unary(m.g, HN_OP_ABS, heads));
    leave(&m, hn_b_binary(m.g, HN_OP_MUL, m.y[2], m.y[1]));
    leave(&m, hn_b_matmul(m.g, m.y[1], hn_b_permute(m.g, m.y[2], swapped), 0));
    end(&m, "24+;6;");
}

/* Large products gain nothing, and weights that are inputs have no bytes. */
TEST(not_joined) {
    model m;
    if (!begin(&m, (int64_t[]){108, 4, 8}, true, 0)) return; /* 2 * 6 * 8 * 108 > 1e4 */
    leave_all(&m, HN_OP_NEG);
    end(&m, "108;12;");
    lowering t;
    if (lowering_parse(&t, "input user %x : f32[6, 8] \"x\"\n input user %w : f32[8, 8] \"w\"\n"
                           "input user %v : f32[8, 8] \"v\"\n%y = matmul(%x, %w, none)\n"
                           "%z = matmul(%x, %v, none)\n%s = add(%y, %z)\noutput user %s \"\"")) {
        EXPECT_OK(hn_lower(t.graph, &(hn_lower_options){.operations = &joins}, &t.arena, &t.scratch,
                           &t.program));
        print_products(&t);
        EXPECT_STR(hn_strbuf_str(&t.text).ptr, "8;8;");
    }
    lowering_end(&t);
}

/* A weight whose memory another input changes is read in each run. */
TEST(a_weight_that_changes) {
    model m;
    if (!begin(&m, even, true, 0)) return;
    hn_input twin = m.g->inputs.items[2];
    const hn_value_info w = *hn_graph_value(m.g, twin.value);
    twin.kind = HN_INPUT_BUFFER;
    twin.value = hn_graph_add_tensor(m.g, w.dtype, w.rank, w.sizes, NULL, HN_STR("twin"));
    EXPECT_OK(hn_graph_add_input(m.g, twin));
    leave_all(&m, HN_OP_NEG);
    EXPECT_OK(hn_graph_add_output(m.g, (hn_output){.kind = HN_OUTPUT_MUTATION,
                                                   .value = hn_b_unary(m.g, HN_OP_NEG, twin.value),
                                                   .target = m.g->inputs.count - 1}));
    EXPECT_OK(hn_lower(m.g, &(hn_lower_options){.operations = &joins}, &m.t.arena, &m.t.scratch,
                       &m.t.program));
    print_products(&m.t);
    EXPECT_STR(hn_strbuf_str(&m.t.text).ptr, "20;4;");
    lowering_end(&m.t);
}

TEST_MAIN
