/* test_part.c: parts of graphs are graphs: cut, without an output, and with smaller sizes. */
#include "unit/harness.h"

#include "base/compiler.h"
#include "reduce/part.h"
#include "reduce/sizes.h"
#include "reduce/slice.h"

#include <stdlib.h>

typedef struct part_test {
    hn_arena arena;
    hn_graph *g;
} part_test;

static void parse(part_test *t, const char *text) {
    hn_sym *sym = NULL;
    hn_arena_init(&t->arena);
    t->g = NULL;
    EXPECT_OK(hn_sym_create(&t->arena, &sym));
    EXPECT_OK(hn_graph_parse(&t->arena, sym, hn_str_of(text), &t->g));
}

static void release(part_test *t) {
    if (t->g) hn_graph_deinit(t->g);
    hn_arena_deinit(&t->arena);
}

static void expect_text(part_test *t, const char *wanted) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    EXPECT_OK(hn_graph_verify(t->g, HN_LEGAL_ANY));
    hn_graph_print_whole(t->g, &text);
    EXPECT_STR(hn_strbuf_str(&text).ptr, wanted);
    hn_strbuf_deinit(&text);
}

#define CHAIN                                                                                      \
    "graph @m {\n"                                                                                 \
    "  storage 1 : 8 bytes hex 0000803f00000040\n"                                                 \
    "  storage 2 : 8 bytes hex 0000404000008040\n"                                                 \
    "  input user %x : f32[2] example [2] hex 0000803f00000040 \"x\"\n"                            \
    "  input parameter %v : f32[2] storage 1 offset 0 \"v\"\n"                                     \
    "  input parameter %w : f32[2] storage 2 offset 0 \"w\"\n"                                     \
    "  %a = add(%x, %v) : f32[2]\n"                                                                \
    "  %b = mul(%a, %w) : f32[2]\n"                                                                \
    "  %c = neg(%b) : f32[2]\n"                                                                    \
    "  %d = sub(%a, %c) : f32[2]\n"                                                                \
    "  output user %d \"d\"\n"                                                                     \
    "}\n"

/* What others need becomes an output, what is needed of others an input with its value. */
TEST(nodes_are_cut_out) {
    static const uint8_t bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const int64_t sizes[] = {2};
    const hn_example example = {1, sizes, bytes, sizeof bytes};
    part_test t;
    parse(&t, CHAIN);
    if (t.g) {
        const bool kept[] = {false, false, true, false, false};
        const hn_example *items[8] = {NULL};
        items[t.g->nodes.items[1].results[0]] = &example;
        const hn_part_values values = {items, 8};
        EXPECT_OK(hn_part_cut(t.g, kept, &values, &t.arena));
        expect_text(&t, "graph @m {\n"
                        "  storage 1 : 8 bytes hex 0000404000008040\n"
                        "  input parameter %w : f32[2] storage 1 offset 0 \"w\"\n"
                        "  input user %a : f32[2] example [2] hex 0102030405060708 \"a\"\n"
                        "  %b = mul(%a, %w) : f32[2]\n"
                        "  output user %b \"b\"\n"
                        "}\n");
    }
    release(&t);
}

/* Without a value there is one all the same, the same each time. */
TEST(unknown_values_are_made_up) {
    part_test t, again;
    const bool kept[] = {false, false, false, true, true};
    const hn_part_values nothing = {.count = 0};
    parse(&t, CHAIN);
    parse(&again, CHAIN);
    if (t.g && again.g) {
        EXPECT_OK(hn_part_cut(t.g, kept, &nothing, &t.arena));
        EXPECT_OK(hn_part_cut(again.g, kept, &nothing, &again.arena));
        EXPECT_INT(t.g->inputs.count, 2);
        EXPECT_INT(t.g->storages.count, 1);
        for (uint32_t k = 0; k < t.g->inputs.count; k++) {
            const hn_example *one = t.g->inputs.items[k].example,
                             *two = again.g->inputs.items[k].example;
            EXPECT_INT(one->size_bytes, 8);
            EXPECT(memcmp(one->bytes, two->bytes, 8) == 0);
        }
    }
    release(&t);
    release(&again);
}

TEST(an_output_takes_along_what_only_it_needs) {
    part_test t;
    parse(&t, "graph @m {\n"
              "  input user %x : f32[2] example [2] hex 0000803f00000040 \"x\"\n"
              "  %a = neg(%x) : f32[2]\n"
              "  %b = exp(%a) : f32[2]\n"
              "  output user %a \"a\"\n"
              "  output user %b \"b\"\n"
              "}\n");
    if (t.g) {
        EXPECT_OK(hn_part_drop_output(t.g, 1, &t.arena));
        expect_text(&t, "graph @m {\n"
                        "  input user %x : f32[2] example [2] hex 0000803f00000040 \"x\"\n"
                        "  %a = neg(%x) : f32[2]\n"
                        "  output user %a \"a\"\n"
                        "}\n");
    }
    release(&t);
}

/* Nobody reads %n, but without it the size has no value. */
TEST(inputs_that_tell_a_size_stay) {
    part_test t;
    parse(&t, "graph @m {\n"
              "  symbol size s0 in [2, 64] hint 8\n"
              "  input user %n : symint(s0) \"n\"\n"
              "  input user %unused : f32[3] \"unused\"\n"
              "  %a = full(value=1.0, sizes=[s0], dtype=f32) : f32[s0]\n"
              "  output user %a \"a\"\n"
              "}\n");
    if (t.g) {
        EXPECT_OK(hn_part_tidy(t.g, &t.arena));
        expect_text(&t, "graph @m {\n"
                        "  symbol size s0 in [2, 64] hint 8\n"
                        "  input user %n : symint(s0) example [] hex 0800000000000000 \"n\"\n"
                        "  %a = full(value=1.0, sizes=[s0], dtype=f32) : f32[s0]\n"
                        "  output user %a \"a\"\n"
                        "}\n");
    }
    release(&t);
}

/* A factor everywhere at once: sizes, strides, arguments; weights and values are cut, and indices
 * stay within what they point into. */
TEST(sizes_shrink_together) {
    part_test t;
    int64_t *sizes;
    uint32_t count;
    parse(&t, "graph @m {\n"
              "  storage 1 : 24 bytes hex 000102030405060708090a0b0c0d0e0f1011121314151617\n"
              "  input user %i : i64[1] example [1] hex 0200000000000000 \"i\"\n"
              "  input parameter %w : u8[3, 8] strides [1, 3] storage 1 offset 0 \"w\"\n"
              "  %r = gather(%w, %i, dim=0) : u8[1, 8]\n"
              "  %f = reshape(%w, sizes=[24]) : u8[24]\n"
              "  output user %r \"r\"\n"
              "  output user %f \"f\"\n"
              "}\n");
    if (t.g) {
        EXPECT_OK(hn_sizes_list(t.g, &t.arena, &sizes, &count));
        EXPECT_INT(count, 3);
        EXPECT_INT(sizes[0], 24);
        EXPECT_INT(sizes[2], 3);
        EXPECT_OK(hn_sizes_shrink(t.g, 3, 2, &t.arena));
        EXPECT_OK(hn_part_tidy(t.g, &t.arena));
        const hn_input *w = &t.g->inputs.items[1];
        const hn_storage *storage = &t.g->storages.items[w->storage];
        EXPECT_INT(storage->size_bytes, 16);
        EXPECT_INT(storage->data[1], 3); /* row 0: 0 3 6 ..., row-major now */
        EXPECT_INT(storage->data[8], 1);
        EXPECT_INT(t.g->inputs.items[0].example->bytes[0], 0); /* 2 of 3 rows: 2 % 2 */
        int64_t size = 0;
        const hn_value f = t.g->nodes.items[2].results[0];
        EXPECT(hn_sym_is_int(t.g->sym, hn_graph_value(t.g, f)->sizes[0], &size));
        EXPECT_INT(size, 16);
    }
    release(&t);
}

/* A slice is its graph, as often as one asks. */
TEST(slices_give_copies) {
    part_test t;
    hn_slice slice;
    hn_strbuf text;
    hn_strbuf_init(&text);
    parse(&t, CHAIN);
    if (t.g) {
        const char *const comments[] = {"one", "two\nlines"};
        EXPECT_OK(hn_slice_init(t.g, &slice));
        EXPECT_INT(slice.node_count, 4);
        EXPECT_INT(slice.weight_bytes, 16);
        EXPECT_OK(hn_slice_write(&slice, comments, 2, &text));
        EXPECT_STR(hn_strbuf_str(&text).ptr, "# one\n# two lines\n" CHAIN);
        hn_slice_deinit(&slice);
    }
    hn_strbuf_deinit(&text);
    release(&t);
}

TEST_MAIN
