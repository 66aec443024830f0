/* import.c: one model of an archive into a graph, step by step. */
#include "front/pt2/import.h"

static hn_status model_choose(const hn_pt2 *file, const char *wanted, hn_str *out) {
    hn_strbuf names;
    hn_strbuf_init(&names);
    for (uint32_t k = 0; k < file->models.count; k++) {
        hn_str name = file->models.items[k];
        if (wanted ? hn_str_eq(name, hn_str_of(wanted))
                   : (file->models.count == 1 || hn_str_eq(name, HN_STR("model")))) {
            *out = name;
            hn_strbuf_deinit(&names);
            return NULL;
        }
        hn_strbuf_printf(&names, "%s'" HN_STR_FMT "'", k ? ", " : "", HN_STR_ARG(name));
    }
    hn_status status = wanted ? HN_ERROR(HN_NOT_FOUND, "no model '%s' in the archive; it has %s",
                                         wanted, names.ptr)
                              : HN_ERROR(HN_INVALID_ARGUMENT,
                                         "archive has several models; choose one of %s", names.ptr);
    hn_strbuf_deinit(&names);
    return status;
}

static hn_zip_entry *program_record(hn_pt2_importer *im) {
    if (im->file->generation == HN_PT2_FLAT)
        return hn_pt2_record(im->file, "serialized_exported_program.json", HN_STR(""), "");
    return hn_pt2_record(im->file, "models/", im->model, ".json");
}

static hn_status program_open(hn_pt2_importer *im) {
    hn_zip_entry *record = program_record(im);
    hn_str text;
    hn_json json;
    if (!record)
        return HN_ERROR(HN_INTERNAL, "the record of model '" HN_STR_FMT "' is gone",
                        HN_STR_ARG(im->model));
    HN_TRY(hn_zip_read(&im->file->zip, record, HN_ZIP_CHECK_CRC, &text, NULL));
    hn_json_init(&json, im->scratch, text);
    return hn_pt2_program_read(&json, &im->program);
}

static hn_str copy_of(hn_pt2_importer *im, hn_str text) {
    char *copy = hn_arena_strndup(im->arena, text.ptr, text.len);
    return (hn_str){copy ? copy : "", copy ? text.len : 0};
}

static hn_status survey_fill(hn_pt2_importer *im, hn_import_survey *out) {
    uint32_t nodes = im->program.graph.nodes.count;
    HN_NEW(im->arena, out->targets, (size_t)nodes + 1);
    HN_NEW(im->arena, out->missing, (size_t)im->missing.count + 1);
    for (uint32_t k = 0; k < nodes; k++)
        out->targets[out->target_count++] =
            copy_of(im, hn_pt2_short_target(im->program.graph.nodes.items[k].target));
    for (uint32_t k = 0; k < im->missing.count; k++) {
        const hn_pt2_missing_op *op = &im->missing.items[k];
        out->missing[out->missing_count++] =
            (hn_import_missing){.target = copy_of(im, hn_pt2_short_target(op->target)),
                                .node = copy_of(im, op->first.node),
                                .source = copy_of(im, op->first.source),
                                .reason = copy_of(im, op->reason),
                                .count = op->count};
    }
    return NULL;
}

static hn_status graph_fill(hn_pt2_importer *im, hn_graph *graph) {
    hn_pt2_scope scope;
    HN_TRY(hn_pt2_scope_init(&scope, im, graph, &im->program.graph));
    HN_TRY(hn_pt2_inputs_read(&scope));
    HN_TRY(hn_pt2_guards_read(im, graph));
    HN_TRY(hn_pt2_nodes_read(&scope));
    if (im->survey) HN_TRY(survey_fill(im, im->survey));
    /* outputs need the values that nobody makes */
    if (im->survey && im->missing.count) return hn_sym_status(im->sym);
    HN_TRY(hn_pt2_missing_status(im));
    HN_TRY(hn_pt2_outputs_read(&scope));
    HN_TRY(hn_sym_status(im->sym));
    return hn_graph_status(graph);
}

static hn_status import_run(hn_pt2_importer *im, hn_graph **out) {
    hn_graph *graph = NULL;
    HN_TRY(program_open(im));
    HN_TRY(hn_pt2_symbols_init(im));
    HN_TRY(hn_pt2_payloads_read(im));
    hn_strmap_init(&im->missing_index, im->scratch);
    HN_TRY(hn_graph_create(im->arena, im->sym, &graph));
    const char *name = hn_arena_strndup(im->arena, im->model.ptr, im->model.len);
    hn_status status =
        name ? graph_fill(im, graph) : HN_ERROR(HN_OUT_OF_MEMORY, "no memory for a graph");
    if (status) {
        hn_graph_deinit(graph);
        return status;
    }
    graph->name = (hn_str){name, im->model.len};
    *out = graph;
    return NULL;
}

static hn_status import(hn_pt2 *file, const char *model, hn_arena *arena, hn_sym *sym,
                        hn_graph **out, hn_import_survey *survey) {
    hn_arena scratch;
    hn_pt2_importer im = {
        .file = file, .arena = arena, .scratch = &scratch, .sym = sym, .survey = survey};
    HN_TRY(model_choose(file, model, &im.model));
    hn_arena_init(&scratch);
    hn_status status = import_run(&im, out);
    hn_arena_deinit(&scratch);
    return hn_status_annotate(status, "cannot import model '" HN_STR_FMT "'", HN_STR_ARG(im.model));
}

hn_status hn_pt2_import(hn_model_file *file, const char *model, hn_arena *arena, hn_sym *sym,
                        hn_graph **out) {
    return import(hn_pt2_of(file), model, arena, sym, out, NULL);
}

hn_status hn_pt2_look(hn_model_file *file, const char *model, hn_arena *arena, hn_sym *sym,
                      hn_graph **out, hn_import_survey *out_survey) {
    *out_survey = (hn_import_survey){0};
    return import(hn_pt2_of(file), model, arena, sym, out, out_survey);
}
