/* test_numbering.c: what a printed program is made from: its expressions, guards, weights and the
 * places of its buffers, each with a number. */
#include "unit/harness.h"
#include "wrapper/numbering.h"

typedef struct fixture {
    hn_arena arena;
    hn_sym *sym;
    hn_graph *graph;
    hn_wrapper *w;
    hn_memory_plan plan;
    hn_wnumbering numbering;
} fixture;

/* A graph with one storage of 8 floats: the parameter "w" is all of it, the buffer "tail" its
 * last 4. */
static hn_status add_weights(fixture *f) {
    static const float bytes[8];
    HN_TRY(hn_graph_create(&f->arena, f->sym, &f->graph));
    const uint32_t storage = hn_graph_add_storage(
        f->graph, (hn_storage){.data = (const uint8_t *)bytes, .size_bytes = sizeof bytes});
    const hn_expr eight = hn_sym_int(f->sym, 8),
                  square[] = {hn_sym_int(f->sym, 2), hn_sym_int(f->sym, 2)};
    hn_input w = {.kind = HN_INPUT_PARAMETER, .name = HN_STR("w"), .storage = storage};
    hn_input tail = {.kind = HN_INPUT_BUFFER,
                     .name = HN_STR("tail"),
                     .storage = storage,
                     .storage_offset_elems = 4};
    w.value = hn_graph_add_tensor(f->graph, HN_DTYPE_F32, 1, &eight, NULL, w.name);
    tail.value = hn_graph_add_tensor(f->graph, HN_DTYPE_F32, 2, square, NULL, tail.name);
    HN_TRY(hn_graph_add_input(f->graph, w));
    return hn_graph_add_input(f->graph, tail);
}

static hn_status number(fixture *f, const char *text) {
    hn_arena_init(&f->arena);
    HN_TRY(hn_sym_create(&f->arena, &f->sym));
    HN_TRY(add_weights(f));
    HN_TRY(hn_wrapper_parse(&f->arena, f->sym, hn_str_of(text), &f->w));
    f->w->graph = f->graph;
    HN_TRY(hn_wrapper_plan(f->w, &f->plan));
    return hn_wrapper_number(f->w, &f->plan, &f->arena, &f->numbering);
}

static void fixture_deinit(fixture *f) {
    hn_graph_deinit(f->graph);
    hn_arena_deinit(&f->arena);
}

/* The text of the node that an expression has. */
static void expect_node(const fixture *f, hn_expr e, const char *expected) {
    const hn_named_nodes named = hn_wnumbering_named(&f->numbering);
    hn_strbuf text;
    hn_strbuf_init(&text);
    hn_nodes_print(&named, hn_wnumbering_node(&f->numbering, e), &text);
    EXPECT_STR(text.ptr ? text.ptr : "", expected);
    hn_strbuf_deinit(&text);
}

TEST(an_expression_has_one_number_and_its_operands_come_first) {
    fixture f;
    EXPECT_OK(number(
        &f,
        "wrapper { symbol size s0 in [2, 64]"
        "  buffer b1 : input f32[2*s0 + 1] source 0 buffer b2 : output f32[2*s0 + 1] bytes(8*s0 + 4)"
        "  kernel k1 : object 0 name \"k\""
        "  input \"x\" : f32[2*s0 + 1] strides [1] in b1"
        "  call k1(b1 f32, out b2 f32) params [2*s0 + 1] extent(Max(s0, 8))"
        "  output tensor \"y\" : f32[2*s0 + 1] strides [1] in b2 }"));
    const hn_line *call = &f.w->lines.items[1]; /* behind the ALLOCATE line */
    EXPECT_INT(call->kind, HN_LINE_KERNEL);
    expect_node(&f, call->params[0], "2*s0 + 1");
    expect_node(&f, call->extent, "Max(8, s0)");
    expect_node(&f, f.w->buffers.items[2].bytes, "8*s0 + 4");
    expect_node(&f, hn_sym_int(f.sym, 12345), "?"); /* not of the program */
    EXPECT_INT(hn_wnumbering_node(&f.numbering, 0), 0);
    EXPECT_INT(hn_wnumbering_node(&f.numbering, f.w->inputs.items[0].sizes[0]),
               hn_wnumbering_node(&f.numbering, call->params[0]));
    for (uint32_t k = 1; k < f.numbering.nodes.count; k++) {
        const hnb_node *n = &f.numbering.nodes.items[k];
        if (n->op >= HNB_OP_ADD) EXPECT(n->a < k && n->b < k);
    }
    fixture_deinit(&f);
}

TEST(a_size_that_no_input_determines_is_named) {
    fixture f;
    EXPECT_ERROR(
        number(&f, "wrapper { symbol size s0 in [2, 64]"
                   "  buffer b1 : input f32[s0*s0] source 0 buffer b2 : output f32[s0] bytes(4*s0)"
                   "  kernel k1 : object 0 name \"k\""
                   "  input \"x\" : f32[s0*s0] strides [1] in b1"
                   "  call k1(b1 f32, out b2 f32) extent(1)"
                   "  output tensor \"y\" : f32[s0] strides [1] in b2 }"),
        HN_UNSUPPORTED, "size 's0' is not determined by the shape of any input");
    fixture_deinit(&f);
}

TEST(guards_of_symbols_that_nothing_defines_are_left_out) {
    fixture f;
    EXPECT_OK(number(&f, "wrapper { symbol data u0 in [0, 64] symbol data u1 in [0, 64]"
                         "  guard u0 < u1 \"both\" guard u0 != 13 \"one\""
                         "  buffer b1 : input i64[1] source 0 buffer b2 : output i64[1] bytes(8)"
                         "  kernel k1 : object 0 name \"k\""
                         "  input \"x\" : i64[1] strides [1] in b1"
                         "  define(b1 i64) symbol(u0)"
                         "  call k1(b1 i64, out b2 i64) extent(1)"
                         "  output tensor \"y\" : i64[1] strides [1] in b2 }"));
    EXPECT_INT(f.numbering.guards.count, 1);
    EXPECT_STR(f.numbering.guards.items[0].reason, "one");
    fixture_deinit(&f);
}

TEST(buffers_and_weights_have_places) {
    fixture f;
    EXPECT_OK(number(
        &f, "wrapper {"
            "  buffer b1 : input f32[4] source 0 buffer b2 : constant f32[8] source 1"
            "  buffer b3 : constant f32[2, 2] source 1 offset 16 buffer b4 : temp f32[4] bytes(16)"
            "  buffer b5 : output f32[4] bytes(16) buffer b6 : temp f32[100] bytes(400)"
            "  kernel k1 : object 0 name \"k\""
            "  input \"x\" : f32[4] strides [1] in b1"
            "  call k1(b1 f32, b2 f32, b3 f32, out b4 f32, out b5 f32) extent(1)"
            "  output tensor \"y\" : f32[4] strides [1] in b5"
            "  output mutation \"tail\" : f32[2, 2] strides [2, 1] in b4 }"));
    const hn_wplaces *places = &f.numbering.places;
    EXPECT_INT(places->storages.count, 2); /* both constants lie in one */
    EXPECT_INT(places->storages.items[1].storage, 1);
    EXPECT(places->storages.items[1].is_mutable);
    EXPECT_INT(hn_wnumbering_storage(&f.numbering, 1)->size_bytes, 32);
    EXPECT_INT(places->buffers[3].source, 1);
    EXPECT_INT(places->buffers[3].byte_offset, 16);
    EXPECT_INT(places->buffers[4].kind, HNB_BUFFER_TEMP);
    EXPECT(hn_sym_is_value(f.sym, places->buffers[4].bytes, 16));
    EXPECT(hn_sym_is_value(f.sym, places->buffers[6].bytes, 0)); /* no line mentions it */
    EXPECT_INT(places->targets[0].storage, 0);
    EXPECT_INT(places->targets[1].storage, 1);
    EXPECT(hn_sym_is_value(f.sym, places->targets[1].offset_elems, 4));
    EXPECT(hn_sym_is_value(f.sym, places->targets[1].strides[0], 2));
    fixture_deinit(&f);
}

/* Only bundles have the shapes of buffers. All other numbers are the same with and without. */
TEST(shapes_are_numbered_last) {
    fixture f;
    EXPECT_OK(number(&f,
                     "wrapper { symbol size s0 in [2, 64]"
                     "  buffer b1 : input f32[s0] source 0"
                     "  buffer b2 : temp f32[3, s0] strides [s0 + 77, 1] bytes(16*s0 + 1000)"
                     "  buffer b3 : output f32[s0] bytes(4*s0) buffer b4 : temp f32[99] bytes(396)"
                     "  kernel k1 : object 0 name \"k\""
                     "  input \"x\" : f32[s0] strides [1] in b1"
                     "  call k1(b1 f32, out b2 f32) extent(1) call k1(b2 f32, out b3 f32) extent(1)"
                     "  output tensor \"y\" : f32[s0] strides [1] in b3 }"));
    const uint32_t before = f.numbering.nodes.count;
    const hn_expr stride = f.w->buffers.items[2].strides[0];
    expect_node(&f, stride, "?");
    EXPECT_OK(hn_wnumbering_add_shapes(&f.numbering));
    expect_node(&f, stride, "s0 + 77");
    EXPECT(hn_wnumbering_node(&f.numbering, stride) >= before);
    expect_node(&f, hn_sym_int(f.sym, 99), "?"); /* no line mentions b4: it has no elements */
    EXPECT_INT(f.numbering.places.buffers[4].rank, 1);
    EXPECT(hn_sym_is_value(f.sym, f.numbering.places.buffers[4].sizes[0], 0));
    fixture_deinit(&f);
}

TEST(a_mutation_keeps_rank_and_dtype) {
    fixture f;
    EXPECT_ERROR(number(&f, "wrapper {"
                            "  buffer b1 : input f32[4] source 0 buffer b2 : temp f32[4] bytes(16)"
                            "  kernel k1 : object 0 name \"k\""
                            "  input \"x\" : f32[4] strides [1] in b1"
                            "  call k1(b1 f32, out b2 f32) extent(1)"
                            "  output mutation \"tail\" : f32[4] strides [1] in b2 }"),
                 HN_UNSUPPORTED, "changes the rank or dtype of buffer 'tail'");
    fixture_deinit(&f);
}

TEST_MAIN
