/* hnir.c: a graph in text form as a model: what `henry compile --emit graph` and `henry reduce`
 * write, and what somebody has written by hand. The text holds its weights (hn_graph_print_whole),
 * so a program of it holds them, too. */
#include "front/hnir/hnir.h"

#include "ir/lex.h"

#include <stdlib.h>

typedef struct hnir {
    hn_model_file base;
    hn_arena arena;
    hn_str text;
    hn_str model; /* behind "graph @"; "model" where the text has none */
    hn_digest digest;
} hnir;

static hnir *hnir_of(hn_model_file *file) { return (hnir *)file; }

/* The parser says more about every other beginning. */
static bool claims(const void *bytes, size_t len) {
    (void)bytes, (void)len;
    return false;
}

/* --- open --- */

static hn_status read_name(hnir *file) {
    hn_lex lex = {.arena = &file->arena,
                  .start = file->text.ptr,
                  .p = file->text.ptr,
                  .end = file->text.ptr + file->text.len};
    file->model = HN_STR("model");
    HN_TRY(hn_lex_expect_word(&lex, "graph"));
    if (!hn_lex_accept(&lex, '@')) return NULL;
    if (hn_lex_peek(&lex) == '"') return hn_lex_string(&lex, &file->model);
    return hn_lex_word(&lex, "expected the name of the graph", &file->model);
}

static void file_close(hn_model_file *base) {
    hnir *file = hnir_of(base);
    hn_arena_deinit(&file->arena);
    free(file);
}

static hn_status file_open(const void *bytes, size_t len, hn_model_file **out) {
    hnir *file = calloc(1, sizeof *file);
    if (!file) return HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a model");
    hn_arena_init(&file->arena);
    file->text = (hn_str){bytes, len};
    hn_status status = read_name(file);
    if (status) {
        file_close(&file->base);
        return status;
    }
    file->digest = hn_digest_of(bytes, len);
    file->base.models = &file->model;
    file->base.model_count = 1;
    file->base.has_examples = true;
    *out = &file->base;
    return NULL;
}

/* --- import --- */

/* The bytes lie in the text as digits, so a program cannot refer to them in the file. */
static hn_status take_storages(hn_graph *graph) {
    for (uint32_t k = 1; k < graph->storages.count; k++) {
        hn_storage *storage = &graph->storages.items[k];
        if (!storage->data && storage->size_bytes)
            return HN_ERROR(HN_INVALID_ARGUMENT,
                            "storage %u has %zu bytes, and the text lacks them: it needs 'hex'", k,
                            storage->size_bytes);
        storage->file_record = HN_STR("");
        storage->file_offset = 0;
    }
    return NULL;
}

/* What the verifier finds is a fault of the text, not of Henry. */
static hn_status verify(hn_graph *graph) {
    hn_status status = hn_graph_verify(graph, HN_LEGAL_ANY);
    if (hn_status_code(status) != HN_INTERNAL) return status;
    hn_status told = HN_ERROR(HN_INVALID_ARGUMENT, "%s", hn_status_message(status));
    hn_status_free(status);
    return told;
}

static hn_status import(hn_model_file *base, const char *model, hn_arena *arena, hn_sym *sym,
                        hn_graph **out) {
    hnir *file = hnir_of(base);
    hn_graph *graph = NULL;
    if (model && !hn_str_eq(file->model, hn_str_of(model)))
        return HN_ERROR(HN_NOT_FOUND, "no model '%s' in the text; it has '" HN_STR_FMT "'", model,
                        HN_STR_ARG(file->model));
    HN_TRY(hn_graph_parse(arena, sym, file->text, &graph));
    hn_status status = take_storages(graph);
    if (!status) status = verify(graph);
    if (!status) status = hn_sym_status(sym);
    if (status) {
        hn_graph_deinit(graph);
        return status;
    }
    *out = graph;
    return NULL;
}

/* An operator that Henry lacks is an error of the parser, with its place. */
static hn_status look(hn_model_file *base, const char *model, hn_arena *arena, hn_sym *sym,
                      hn_graph **out, hn_import_survey *survey) {
    *survey = (hn_import_survey){0};
    HN_TRY(import(base, model, arena, sym, out));
    const hn_graph *graph = *out;
    HN_TRY(hn_arena_array(arena, graph->nodes.count, sizeof *survey->targets, &survey->targets));
    for (hn_node n = 1; n < graph->nodes.count; n++)
        survey->targets[survey->target_count++] =
            hn_str_of(hn_op_facts(graph->nodes.items[n].op)->name);
    return NULL;
}

/* --- verify: a text has no checksums, and is read whole by each import --- */

static void forget_reads(hn_model_file *base) { (void)base; }

static hn_status verify_begin(hn_model_file *base, uint32_t threads) {
    (void)base, (void)threads;
    return NULL;
}

static hn_status verify_end(hn_model_file *base) {
    (void)base;
    return NULL;
}

static hn_status verify_all(hn_model_file *base, uint32_t threads) {
    (void)base, (void)threads;
    return HN_ERROR(HN_INVALID_ARGUMENT,
                    "a graph as text has no checksums: there is nothing to verify");
}

/* --- keys: the whole text counts --- */

static hn_status key_parts(hn_model_file *base, bool is_shared, hn_model_key *out) {
    (void)is_shared;
    const hnir *file = hnir_of(base);
    *out = (hn_model_key){.graph = {.records = 1, .bytes = file->text.len, .digest = file->digest},
                          .weights = {.digest = hn_digest_of("", 0)}};
    return NULL;
}

static hn_status key_check(const hn_model_file *base) {
    (void)base;
    return NULL;
}

static hn_status reads(hn_model_file *base, const uint32_t **out_records, uint32_t *out_count) {
    (void)base;
    *out_records = NULL;
    *out_count = 0;
    return NULL;
}

static hn_status values_digest(hn_model_file *base, const uint32_t *records, uint32_t count,
                               hn_digest *out) {
    (void)base;
    if (count) return HN_ERROR(HN_CORRUPT, "a list of records names number %u", records[0]);
    *out = hn_digest_of("", 0);
    return NULL;
}

static hn_status places_digest(hn_model_file *base, hn_digest *out) {
    (void)base;
    *out = hn_digest_of("", 0);
    return NULL;
}

const hn_importer hn_importer_hnir = {
    .name = "hnir",
    .kind = HN_KIND_GRAPH,
    .claims = claims,
    .open = file_open,
    .close = file_close,
    .import = import,
    .look = look,
    .forget_reads = forget_reads,
    .verify_begin = verify_begin,
    .verify_end = verify_end,
    .verify_all = verify_all,
    .key_parts = key_parts,
    .key_check = key_check,
    .reads = reads,
    .values_digest = values_digest,
    .places_digest = places_digest,
};
