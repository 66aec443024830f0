/* Whole models through the passes, in both dialects of torch.export, interpreted, against the
 * outputs stored beside them; and which patterns must have been found. The folder that holds
 * models/ is named by HENRY_TEST_MODELS, as for tests/models/run.sh. */
#include "unit/opt/equivalence.h"

#include "base/file.h"
#include "base/npy.h"
#include "front/importer.h"

typedef struct model {
    const char *name;
    uint32_t attentions; /* all of them causal or none */
    bool causal;
    uint32_t matmuls, convs;
} model;

static const model models[] = {
    {"mlp", .matmuls = 3},
    {"digits_cnn", .matmuls = 1, .convs = 3},
    {"gpt2_tiny", .attentions = 2, .causal = true, .matmuls = 9},
    {"bert_tiny", .attentions = 2, .matmuls = 12},
    {"llama_tiny", .attentions = 2, .causal = true, .matmuls = 15},
    {"mobilenet_v3", .matmuls = 2, .convs = 52},
    {.name = "layer_norm_backward"},
    {.name = "rms_norm_backward"},
    {"train_step_mlp", .matmuls = 5},
};

static const char *models_folder(void) {
    const char *folder = getenv("HENRY_TEST_MODELS");
    return folder ? folder : "../shared";
}

static hn_dtype dtype_of(const char *descr) {
    for (hn_dtype d = 1; d < HN_DTYPE_COUNT; d++)
        if (strcmp(hn_dtype_facts(d)->npy_descr, descr) == 0 && d != HN_DTYPE_BF16) return d;
    return HN_DTYPE_NONE;
}

/* False when there is no such file. */
static bool load(hn_arena *arena, const char *folder, const char *what, uint32_t k,
                 hn_ref_tensor *out) {
    char path[512];
    hn_file_map map;
    hn_npy npy;
    snprintf(path, sizeof path, "%s/%s_%u.npy", folder, what, k);
    if (!hn_file_exists(path)) return false;
    EXPECT_OK(hn_file_map_init(&map, path));
    EXPECT_OK(hn_npy_parse(map.data, map.size_bytes, &npy));
    EXPECT_OK(hn_ref_tensor_load(arena, dtype_of(npy.descr), npy.rank, npy.sizes, npy.strides,
                                 npy.data, out));
    hn_file_map_deinit(&map);
    return true;
}

/* Sums are taken in another order than PyTorch's: rtol 1e-4, and as much of the largest element,
 * since small ones are differences of large ones. */
static void expect_outputs(eq_graph *e, const char *folder, const char *what) {
    hn_ref_tensor inputs[EQ_MAX_INPUTS], outputs[EQ_MAX_OUTPUTS], want;
    uint32_t count = 0, user = 0;
    while (count < EQ_MAX_INPUTS && load(&e->arena, folder, "input", count, &inputs[count]))
        count++;
    hn_status status = hn_interpret(&e->arena, e->g, inputs, count, outputs);
    if (status) HN_TEST_FAIL("%s: %s", what, hn_status_message(status));
    for (uint32_t k = 0; !status && k < e->g->outputs.count; k++) {
        if (e->g->outputs.items[k].kind != HN_OUTPUT_USER ||
            !load(&e->arena, folder, "output", user++, &want))
            continue;
        double largest = 0;
        hn_strbuf why;
        hn_strbuf_init(&why);
        for (int64_t i = 0; hn_dtype_is_float(want.dtype) && i < want.numel; i++)
            largest = fmax(largest, fabs(want.data.f[i]));
        if (!hn_ref_compare(&outputs[k], &want, 1e-4, 1e-5 * largest, &why))
            HN_TEST_FAIL("%s, output %u: %s", what, k, why.ptr);
        hn_strbuf_deinit(&why);
    }
    EXPECT(status || user > 0);
    hn_status_free(status);
}

static void expect_found(const hn_graph *g, const model *m, const char *what) {
    uint32_t causal = 0;
    for (hn_node n = 1; n < g->nodes.count; n++)
        causal += g->nodes.items[n].op == HN_OP_ATTENTION && g->nodes.items[n].args[5].as.b;
    if (eq_count(g, HN_OP_ATTENTION) != m->attentions || causal != (m->causal ? m->attentions : 0))
        HN_TEST_FAIL("%s: %u attentions, %u of them causal", what, eq_count(g, HN_OP_ATTENTION),
                     causal);
    if (eq_count(g, HN_OP_MATMUL) != m->matmuls)
        HN_TEST_FAIL("%s: %u products", what, eq_count(g, HN_OP_MATMUL));
    if (eq_count(g, HN_OP_CONV) != m->convs)
        HN_TEST_FAIL("%s: %u convolutions", what, eq_count(g, HN_OP_CONV));
    if (m->convs && eq_count(g, HN_OP_RSQRT))
        HN_TEST_FAIL("%s: %u batch norms are left", what, eq_count(g, HN_OP_RSQRT));
}

static void run_model(const model *m, const char *file) {
    char folder[300], path[400];
    hn_model_file *model_file = NULL;
    eq_graph e;
    snprintf(folder, sizeof folder, "%s/models/%s", models_folder(), m->name);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    eq_begin(&e);
    hn_status status = hn_model_open(path, &model_file);
    if (!status) status = model_file->importer->import(model_file, NULL, &e.arena, e.sym, &e.g);
    hn_pass_context context = {.scratch = &e.scratch};
    if (!status) status = hn_pass_functionalize(e.g, &context);
    for (size_t k = 1; k < HN_COUNT_OF(eq_passes) && !status; k++)
        status = eq_run_pass(&e, eq_passes[k].run, false);
    if (status) HN_TEST_FAIL("%s: %s", path, hn_status_message(status));
    if (!status) {
        expect_found(e.g, m, path);
        expect_outputs(&e, folder, path);
    }
    hn_status_free(status);
    eq_end(&e);
    hn_model_close(model_file);
}

TEST(models_keep_their_outputs) {
    char path[300];
    snprintf(path, sizeof path, "%s/models/mlp/model.pt2", models_folder());
    if (!hn_file_exists(path)) {
        hn_test_skip("there are no models; HENRY_TEST_MODELS names the folder that holds models/");
        return;
    }
    for (size_t k = 0; k < HN_COUNT_OF(models); k++) {
        run_model(&models[k], "model.pt2");
        run_model(&models[k], "core.pt2");
    }
}

TEST_MAIN
