/* test_layout.c: channels last, for targets whose convolutions prefer them: which values lie so, that
 * nothing between two convolutions is transposed, and that results stay what they are. The programs
 * are run by the interpreter of loops. */
#include "lowering_values.h"

/* Targets that have the operation, and that do convolutions by loops. */
static const hn_operations by_operation = {
    .of = {[HN_EXTERN_CONV] = {.dtypes = ~0u, .channels_last = ~0u}}};
static const hn_operations by_loops = {.of = {[HN_EXTERN_CONV] = {.channels_last = ~0u}}};
/* The operation takes these only: the one with groups is loops. */
static bool takes_one_group(const hn_sym *sym, const hn_extern *call) {
    return hn_sym_is_value(sym, call->params[HN_CONV_GROUPS], 1);
}
static const hn_operations by_both = {
    .of = {[HN_EXTERN_CONV] = {.dtypes = ~0u, .channels_last = ~0u, .takes = takes_one_group}}};

#define CONV(x, w, padding, groups)                                                                \
    "conv(" x ", " w ", none, stride=[1, 1], padding=[" padding ", " padding                       \
    "], dilation=[1, 1], transposed=false, output_padding=[0, 0], groups=" groups ")\n"

/* Buffers of rank 4 that the program makes: 'l' with channels last, 'p' with planes. */
static void describe(lowering *t) {
    for (uint32_t b = 1; t->program && b < t->program->buffers.count; b++) {
        const hn_buffer *buffer = &t->program->buffers.items[b];
        if (buffer->kind == HN_BUFFER_INPUT || buffer->rank != 4) continue;
        const bool last = hn_sym_is_value(t->program->sym, buffer->strides[1], 1);
        hn_strbuf_putc(&t->text, last ? 'l' : 'p');
        if (buffer->kind == HN_BUFFER_OUTPUT) hn_strbuf_putc(&t->text, '!');
        hn_strbuf_putc(&t->text, ' ');
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

#define INPUTS                                                                                     \
    "input user %x : f32[2, 3, 5, 6] \"x\"\n input user %w : f32[4, 3, 3, 3] \"w\"\n"              \
    "input user %v : f32[4, 4, 3, 3] \"v\"\n"

/* Of two convolutions only the inputs are copied, and the output. */
TEST(between_convolutions) {
    static const char text[] =
        INPUTS "%a = " CONV("%x", "%w", "1", "1") "%b = relu(%a)\n%c = " CONV(
            "%b", "%v", "1", "1") "%d = add(%c, %b)\noutput user %d \"\"";
    /* x and w, a, b, v, c; the sum is stored as the program's output */
    check(text, &by_operation, "l l l l l l p! ");
    check(text, &by_loops, "l l l l l l p! ");
    check(text, NULL, "p p p p! ");
}

TEST(an_output_of_a_convolution) {
    check(INPUTS "%a = " CONV("%x", "%w", "0", "1") "output user %a \"\"", &by_operation,
          "l l l! p! ");
}

/* A convolution that the operation does not take follows what it reads. */
TEST(groups) {
    check(INPUTS
          "input user %g : f32[4, 1, 3, 3] \"g\"\n%a = " CONV("%x", "%w", "1", "1") "%b = " CONV(
              "%a", "%g", "1", "4") "%c = " CONV("%b", "%v", "1",
                                                 "1") "%d = neg(%c)\noutput user %d \"\"",
          &by_both, "l l l l l l p! "); /* a weight of one channel lies both ways */
    check(INPUTS "input user %g : f32[3, 1, 3, 3] \"g\"\n%b = " CONV(
              "%x", "%g", "1", "3") "%d = neg(%b)\noutput user %d \"\"",
          &by_both, "p p! ");
}

TEST(pools_and_concatenation) {
    static const char text[] = INPUTS "%a = " CONV(
        "%x", "%w", "1", "1") "%p = pad(%a, value=0.0, lo=[0, 0, 1, 1], hi=[0, 0, 1, 1])\n"
                              "%h = window(%p, dim=2, count=5, size=3, step=1, dilation=1)\n"
                              "%q = window(%h, dim=3, count=6, size=3, step=1, dilation=1)\n"
                              "%m = amax(%q, dims=[4, 5], keepdim=false)\n"
                              "%k = cat([%m, %a], dim=1)\n"
                              "%s = slice(%k, dim=1, start=2, size=4, step=1)\n%d = " CONV(
                                  "%s", "%v", "1", "1") "%e = neg(%d)\noutput user %e \"\"";
    /* x, w, a; the largest ones; the concatenation; its part, packed; v; d */
    check(text, &by_operation, "l l l l l l l l p! ");
}

/* A weight whose bytes are known is laid out anew when the program is made. */
static hn_value constant(hn_graph *g, const int64_t *sizes, float first) {
    float bytes[4 * 3 * 3 * 3];
    hn_expr dims[4];
    int64_t count = 1;
    for (uint32_t d = 0; d < 4; d++) count *= sizes[d], dims[d] = hn_sym_int(g->sym, sizes[d]);
    for (int64_t k = 0; k < count; k++) bytes[k] = first + (float)k / 4;
    return hn_graph_add_constant(g, HN_DTYPE_F32, 4, dims, bytes, (size_t)count * sizeof *bytes);
}

TEST(weights) {
    static const double exact[1];
    static const int64_t sizes[4] = {4, 3, 3, 3};
    lowering t;
    if (lowering_parse(&t, "input user %x : f32[2, 3, 5, 6] \"x\"")) {
        hn_graph *g = t.graph;
        hn_conv_params params = {.spatial = 2, .groups = 1};
        for (uint32_t d = 0; d < 2; d++) {
            params.stride[d] = params.dilation[d] = hn_sym_int(g->sym, 1);
            params.padding[d] = params.output_padding[d] = hn_sym_int(g->sym, 0);
        }
        const hn_value w = constant(g, sizes, -3), x = g->inputs.items[0].value;
        const hn_value y = hn_b_conv(g, x, w, 0, &params), z = hn_b_conv(g, x, w, 0, &params);
        hn_value sum = hn_b_binary(g, HN_OP_ADD, y, z);
        EXPECT_OK(hn_graph_status(g));
        EXPECT_OK(hn_graph_add_output(g, (hn_output){.kind = HN_OUTPUT_USER, .value = sum}));
        lower_with(&t, &by_operation);
        describe(&t);
        EXPECT_STR(hn_strbuf_str(&t.text).ptr,
                   "l l l p! "); /* no copy of the weight, and one of x */
        EXPECT_INT(g->inputs.count, 3);
        expect_values(&t, HN_RUN_OPERATIONS, exact);
    }
    lowering_end(&t);
}

/* Of a target that wants channels in fours: an image gets one more. */
static const hn_operations by_fours = {
    .of = {[HN_EXTERN_CONV] = {.dtypes = ~0u, .channels_last = ~0u, .channel_bytes = 16}}};

static void check_channels(const hn_operations *operations, bool has_bytes, int64_t expected) {
    static const double exact[1];
    static const int64_t sizes[4] = {4, 3, 3, 3};
    lowering t;
    if (lowering_parse(&t, "input user %x : f32[2, 3, 5, 6] \"x\"\n"
                           "input user %w : f32[4, 3, 3, 3] \"w\"")) {
        hn_graph *g = t.graph;
        hn_conv_params params = {.spatial = 2, .groups = 1};
        for (uint32_t d = 0; d < 2; d++) {
            params.stride[d] = params.dilation[d] = params.padding[d] = hn_sym_int(g->sym, 1);
            params.output_padding[d] = hn_sym_int(g->sym, 0);
        }
        const hn_value w = has_bytes ? constant(g, sizes, -3) : g->inputs.items[1].value;
        hn_value y = hn_b_conv(g, g->inputs.items[0].value, w, 0, &params);
        y = hn_b_unary(g, HN_OP_NEG, y);
        EXPECT_OK(hn_graph_status(g));
        EXPECT_OK(hn_graph_add_output(g, (hn_output){.kind = HN_OUTPUT_USER, .value = y}));
        lower_with(&t, operations);
        for (hn_item k = 1; t.program && k < t.program->items.count; k++) {
            const hn_item_info *item = &t.program->items.items[k];
            if (item->kind != HN_ITEM_EXTERN) continue;
            EXPECT(hn_sym_is_value(t.program->sym, item->ext->params[HN_CONV_C], expected));
        }
        expect_values(&t, HN_RUN_OPERATIONS, exact);
    }
    lowering_end(&t);
}

TEST(few_channels) {
    check_channels(&by_fours, true, 4);
    check_channels(&by_fours, false, 3); /* the weight's bytes are not known */
    check_channels(&by_operation, true, 3);
}

TEST(random_contractions) { lowering_check_random(&by_operation, &by_loops, &by_both); }

TEST_MAIN
