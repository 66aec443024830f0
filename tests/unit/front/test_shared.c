/* Real files: every model of ../shared/models in both dialects, and the odd ones of
 * ../shared/pt2-cases. Skipped, with a line that says so, where that folder is missing. */
#include "unit/harness.h"

#include "front/importer.h"

#include <unistd.h>

typedef struct imported {
    hn_arena arena;
    hn_sym *sym;
    hn_model_file *file;
    hn_graph *graph;
} imported;

static hn_status import_file(imported *m, const char *path, const char *model) {
    *m = (imported){0};
    hn_arena_init(&m->arena);
    HN_TRY(hn_sym_create(&m->arena, &m->sym));
    HN_TRY(hn_model_open(path, &m->file));
    HN_TRY(m->file->importer->import(m->file, model, &m->arena, m->sym, &m->graph));
    return hn_graph_verify(m->graph, HN_LEGAL_ANY);
}
static void done(imported *m) {
    hn_graph_deinit(m->graph);
    hn_arena_deinit(&m->arena);
    hn_model_close(m->file);
}

static bool missing(const char *path) {
    if (access(path, R_OK) == 0) return false;
    hn_test_skip(path);
    return true;
}

/* Counts as PyTorch's own reader gives them: nodes without assertions and size queries, inputs
 * without those of dtypes that henry lacks. */
static const struct {
    const char *path, *model;
    uint32_t nodes, inputs, outputs, storages;
} files[] = {
    {"models/bert_tiny/core.pt2", NULL, 182, 43, 1, 41},
    {"models/bert_tiny/model.pt2", NULL, 85, 43, 1, 41},
    {"models/digits_cnn/core.pt2", NULL, 14, 19, 1, 18},
    {"models/digits_cnn/model.pt2", NULL, 13, 19, 1, 18},
    {"models/gpt2_tiny/core.pt2", NULL, 161, 31, 1, 29},
    {"models/gpt2_tiny/model.pt2", NULL, 136, 31, 1, 29},
    {"models/layer_norm_backward/core.pt2", NULL, 16, 4, 4, 0},
    {"models/layer_norm_backward/model.pt2", NULL, 2, 4, 4, 0},
    {"models/llama_tiny/core.pt2", NULL, 274, 24, 1, 23},
    {"models/llama_tiny/model.pt2", NULL, 178, 24, 1, 23},
    {"models/mlp/core.pt2", NULL, 10, 9, 1, 8},
    {"models/mlp/model.pt2", NULL, 7, 9, 1, 8},
    {"models/mobilenet_v3/core.pt2", NULL, 262, 245, 1, 244},
    {"models/mobilenet_v3/model.pt2", NULL, 158, 245, 1, 244},
    {"models/rms_norm_backward/core.pt2", NULL, 14, 3, 3, 0},
    {"models/rms_norm_backward/model.pt2", NULL, 14, 3, 3, 0},
    {"models/train_step_mlp/core.pt2", NULL, 100, 7, 5, 0},
    {"models/train_step_mlp/model.pt2", NULL, 39, 7, 5, 0},
    {"pt2-cases/cond.pt2", NULL, 3, 1, 2, 0},
    {"pt2-cases/consts.pt2", NULL, 6, 9, 6, 2},
    {"pt2-cases/convbn_eval.pt2", NULL, 3, 8, 1, 7},
    {"pt2-cases/convbn_train.pt2", NULL, 4, 8, 1, 7},
    {"pt2-cases/derived_dim.pt2", NULL, 5, 2, 2, 0},
    {"pt2-cases/input_mutation.pt2", NULL, 2, 2, 2, 0},
    {"pt2-cases/legacy_like.pt2", NULL, 42, 18, 1, 14},
    {"pt2-cases/mlp_dyn.pt2", NULL, 3, 5, 1, 4},
    {"pt2-cases/sdpa.pt2", NULL, 2, 3, 2, 0},
    {"pt2-cases/two.pt2", "a", 3, 5, 1, 4},
    {"pt2-cases/two.pt2", "b", 3, 5, 1, 4},
};

TEST(all_files) {
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        char path[256];
        imported m;
        snprintf(path, sizeof path, "../shared/%s", files[k].path);
        if (missing(path)) continue;
        int before = hn_test_failures;
        EXPECT_OK(import_file(&m, path, files[k].model));
        if (m.graph) {
            EXPECT_INT(m.graph->nodes.count - 1, files[k].nodes);
            EXPECT_INT(m.graph->inputs.count, files[k].inputs);
            EXPECT_INT(m.graph->outputs.count, files[k].outputs);
            EXPECT_INT(m.graph->storages.count - 1, files[k].storages);
        }
        if (hn_test_failures != before) fprintf(stderr, "  in %s\n", path);
        done(&m);
    }
}

/* The text form of an imported graph parses back to the same text; the second has an inlined
 * graph. */
TEST(text_round_trip) {
    static const char *const paths[] = {"../shared/models/gpt2_tiny/model.pt2",
                                        "../shared/models/llama_tiny/model.pt2"};
    for (size_t k = 0; k < 2; k++) {
        imported m;
        if (missing(paths[k])) continue;
        EXPECT_OK(import_file(&m, paths[k], NULL));
        hn_strbuf first, second;
        hn_graph *again = NULL;
        hn_strbuf_init(&first);
        hn_strbuf_init(&second);
        hn_graph_print(m.graph, &first);
        EXPECT_OK(hn_graph_parse(&m.arena, m.sym, hn_strbuf_str(&first), &again));
        if (again) hn_graph_print(again, &second);
        EXPECT(again && strcmp(first.ptr, second.ptr) == 0);
        hn_graph_deinit(again);
        hn_strbuf_deinit(&first);
        hn_strbuf_deinit(&second);
        done(&m);
    }
}

/* A pickled archive: tied, transposed and sliced weights share one storage, and its place in the
 * file is right. */
TEST(legacy_weights) {
    static const char path[] = "../shared/pt2-cases/legacy_like.pt2";
    imported m;
    if (missing(path)) return;
    EXPECT_OK(import_file(&m, path, NULL));
    const hn_graph *g = m.graph;
    const hn_input *w = &g->inputs.items[0], *t = &g->inputs.items[1], *v = &g->inputs.items[3],
                   *h = NULL;
    EXPECT_INT(w->storage, t->storage);
    EXPECT_INT(w->storage, v->storage);
    EXPECT_INT(v->storage_offset_elems, 16);
    EXPECT(hn_sym_is_value(g->sym, hn_graph_value(g, t->value)->strides[0], 1));
    for (uint32_t k = 0; k < g->inputs.count; k++)
        if (hn_str_eq(g->inputs.items[k].name, HN_STR("b_i64"))) h = &g->inputs.items[k];
    static const int64_t expected[] = {0, 1, 2};
    EXPECT(h && memcmp(g->storages.items[h->storage].data, expected, sizeof expected) == 0);
    for (uint32_t k = 1; k < g->storages.count; k++) {
        const hn_storage *s = &g->storages.items[k];
        char bytes[256];
        FILE *file = fopen(path, "rb");
        EXPECT(s->size_bytes <= sizeof bytes &&
               (s->size_bytes == 0 || ((uintptr_t)s->data & 15) == 0));
        EXPECT(file && fseek(file, (long)s->file_offset, SEEK_SET) == 0 &&
               fread(bytes, 1, s->size_bytes, file) == s->size_bytes);
        EXPECT(memcmp(bytes, s->data, s->size_bytes) == 0);
        if (file) fclose(file);
    }
    done(&m);
}

TEST(half_written_file) {
    imported m;
    if (missing("../shared/pt2-cases/weights_odd.pt2")) return;
    EXPECT_ERROR(import_file(&m, "../shared/pt2-cases/weights_odd.pt2", NULL), HN_CORRUPT,
                 "written to the end");
    done(&m);
    EXPECT_ERROR(import_file(&m, "../shared/no/such.pt2", NULL), HN_NOT_FOUND, "no/such.pt2");
    done(&m);
}

TEST_MAIN
