/* test_hnir.c: a graph as text is a model: its name, what it needs, where its faults are, and its
 * key. */
#include "unit/harness.h"

#include "base/compiler.h"
#include "front/importer.h"

#define TEXT                                                                                       \
    "# by hand\n"                                                                                  \
    "graph @tiny {\n"                                                                              \
    "  storage 1 : 8 bytes record \"w0\" offset 64 hex 0000803f00000040\n"                         \
    "  input user %x : f32[2] example [2] hex 0000803f00000040 \"x\"\n"                            \
    "  input parameter %w : f32[2] storage 1 offset 0 \"w\"\n"                                     \
    "  %y = mul(%x, %w) : f32[2]\n"                                                                \
    "  output user %y \"y\"\n"                                                                     \
    "}\n"

/* Imports the only model. */
static hn_status import(const char *text, hn_arena *arena, hn_model_file **file, hn_graph **out) {
    hn_sym *sym = NULL;
    *file = NULL;
    *out = NULL;
    hn_arena_init(arena);
    HN_TRY(hn_model_open_memory(text, strlen(text), file));
    HN_TRY(hn_sym_create(arena, &sym));
    return (*file)->importer->import(*file, NULL, arena, sym, out);
}

static void release(hn_arena *arena, hn_model_file *file, hn_graph *graph) {
    if (graph) hn_graph_deinit(graph);
    hn_arena_deinit(arena);
    hn_model_close(file);
}

TEST(a_text_is_a_model) {
    hn_arena arena;
    hn_model_file *file;
    hn_graph *g;
    EXPECT_OK(import(TEXT, &arena, &file, &g));
    if (g) {
        EXPECT_STR(file->importer->name, "hnir");
        EXPECT_INT(file->model_count, 1);
        EXPECT(hn_str_eq(file->models[0], HN_STR("tiny")));
        EXPECT(file->has_examples && !file->has_checksums && !file->may_share);
        EXPECT_INT(g->inputs.items[0].example->sizes[0], 2);
        /* no program may look for them in the file */
        EXPECT_INT(g->storages.items[1].file_offset, 0);
        EXPECT_INT(g->storages.items[1].file_record.len, 0);
        EXPECT_INT(g->storages.items[1].data[7], 0x40);
    }
    release(&arena, file, g);
}

TEST(names_of_models) {
    static const struct {
        const char *text, *name;
    } cases[] = {
        {"graph {}", "model"}, {"graph @a.b {}", "a.b"}, {"graph @\"two words\" {}", "two words"}};
    for (size_t k = 0; k < HN_COUNT_OF(cases); k++) {
        hn_model_file *file = NULL;
        EXPECT_OK(hn_model_open_memory(cases[k].text, strlen(cases[k].text), &file));
        if (file) EXPECT(hn_str_eq(file->models[0], hn_str_of(cases[k].name)));
        hn_model_close(file);
    }
}

TEST(faults_have_their_place) {
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"graph @m {\n  %y = neg(%x)\n}", "line 2, column 13: the value is not defined"},
        {"graph @m {\n  input user %x : f32[2] \"x\"\n  %y = nag(%x)\n}",
         "line 3, column 8: unknown op"},
        {"graph @m {", "line 1, column 11: expected '}'"},
        {"graph @ {", "line 1, column 9: expected the name of the graph"},
        {"graph @m {\n  storage 1 : 8 bytes\n}",
         "storage 1 has 8 bytes, and the text lacks them: it needs 'hex'"},
        /* grammatical, and no graph */
        {"graph @m {\n  input user %x : f32[2] \"x\"\n  %y = neg(%x) : f32[3]\n}", "node"},
    };
    for (size_t k = 0; k < HN_COUNT_OF(cases); k++) {
        hn_arena arena;
        hn_model_file *file;
        hn_graph *g;
        EXPECT_ERROR(import(cases[k].text, &arena, &file, &g), HN_INVALID_ARGUMENT,
                     cases[k].message);
        release(&arena, file, g);
    }
}

static hn_digest key_of(const char *text) {
    hn_model_file *file = NULL;
    hn_model_key key = {.graph = {.records = 0}};
    EXPECT_OK(hn_model_open_memory(text, strlen(text), &file));
    if (file) EXPECT_OK(file->importer->key_parts(file, false, &key));
    hn_model_close(file);
    return key.graph.digest;
}

TEST(each_byte_counts_in_the_key) {
    char other[] = TEXT;
    *strstr(other, "3f") = '4';
    hn_digest one = key_of(TEXT), same = key_of(TEXT), two = key_of(other);
    EXPECT(memcmp(&one, &same, sizeof one) == 0);
    EXPECT(memcmp(&one, &two, sizeof one) != 0);
}

TEST_MAIN
