/* inputs.c: the tensors for a run: of .npy files, or those that the model file has recorded. */
#include "tool.h"

#include "front/importer.h"

/* --- files --- */

static hn_status count_inputs(const hn_module *module, uint32_t *out_tensors) {
    *out_tensors = 0;
    for (uint32_t k = 0; k < hn_module_input_count(module); k++) {
        hn_module_value_info info;
        HN_TRY(hn_module_input_info(module, k, &info));
        *out_tensors += info.kind == HN_VALUE_KIND_TENSOR;
    }
    return NULL;
}

static hn_status wrong_count(const hn_module *module, uint32_t given, uint32_t wanted) {
    hn_strbuf text;
    hn_strbuf_init(&text);
    for (uint32_t k = 0; k < hn_module_input_count(module); k++) {
        hn_module_value_info info;
        hn_status status = hn_module_input_info(module, k, &info);
        if (!status && info.kind == HN_VALUE_KIND_TENSOR) {
            hn_strbuf_printf(&text, "%s'%s' ", text.len ? ", " : "", info.name);
            tool_value_print(&info, &text);
        }
        hn_status_free(status);
    }
    hn_status status = HN_ERROR(
        HN_INVALID_ARGUMENT,
        "%u input%s given, the model takes %u%s%s; name an .npy file for each with --input", given,
        given == 1 ? "" : "s", wanted, text.len ? ": " : "", text.ptr ? text.ptr : "");
    hn_strbuf_deinit(&text);
    return status;
}

static hn_status read_files(const hn_module *module, const tool_list *files, hn_tensor **out) {
    uint32_t total = hn_module_input_count(module), tensors = 0, used = 0;
    HN_TRY(count_inputs(module, &tensors));
    bool all = files->count == total;
    if (!all && files->count != tensors) return wrong_count(module, files->count, tensors);
    for (uint32_t k = 0; k < total; k++) {
        hn_module_value_info info;
        HN_TRY(hn_module_input_info(module, k, &info));
        if (info.kind == HN_VALUE_KIND_STRING || info.kind == HN_VALUE_KIND_NONE) continue;
        if (all || info.kind == HN_VALUE_KIND_TENSOR)
            HN_TRY(tool_input_read(files->items[used++], &info, &out[k]));
    }
    return NULL;
}

/* --- what the file of the model has recorded (hn_input.example) --- */

static bool is_of_call(const hn_input *input) {
    return input->kind == HN_INPUT_USER || input->kind == HN_INPUT_SCALAR;
}

/* Inputs of a module are those of the call, in the order of the graph. `*out_all`: each tensor has
 * an example. */
static hn_status take_examples(const hn_graph *graph, const hn_module *module, hn_tensor **out,
                               bool *out_all) {
    uint32_t at = 0;
    for (uint32_t k = 0; k < graph->inputs.count; k++) {
        const hn_input *input = &graph->inputs.items[k];
        hn_module_value_info info;
        if (!is_of_call(input)) continue;
        HN_TRY(hn_module_input_info(module, at, &info));
        if (input->example) HN_TRY(tool_input_of(&info, input->example, &out[at]));
        else *out_all &= info.kind != HN_VALUE_KIND_TENSOR;
        at++;
    }
    return NULL;
}

static hn_status import_examples(hn_model_file *file, const char *model, const hn_module *module,
                                 hn_tensor **out, bool *out_all) {
    hn_arena arena;
    hn_sym *sym = NULL;
    hn_graph *graph = NULL;
    hn_arena_init(&arena);
    hn_status status = hn_sym_create(&arena, &sym);
    if (!status) status = file->importer->import(file, model, &arena, sym, &graph);
    if (!status) status = take_examples(graph, module, out, out_all);
    if (graph) hn_graph_deinit(graph);
    hn_arena_deinit(&arena);
    return status;
}

hn_status tool_examples_read(const tool_options *options, const char *path, const hn_module *module,
                             hn_tensor **out, bool *out_found) {
    hn_model_file *file;
    tool_kind kind;
    *out_found = false;
    HN_TRY(tool_kind_of(path, &kind));
    if (kind == TOOL_HNB) return NULL;
    HN_TRY(hn_model_open(path, &file));
    hn_status status = NULL;
    if (file->has_examples) {
        *out_found = true;
        status = import_examples(file, options->model_name, module, out, out_found);
    }
    hn_model_close(file);
    if (status || !*out_found)
        for (uint32_t k = 0; k < hn_module_input_count(module); k++) {
            hn_tensor_release(out[k]);
            out[k] = NULL;
        }
    return hn_status_annotate(status, "the inputs that '%s' has recorded", path);
}

hn_status tool_inputs_read(const tool_options *options, const char *path, const hn_module *module,
                           hn_tensor **out) {
    bool found = false;
    if (!options->inputs.count) HN_TRY(tool_examples_read(options, path, module, out, &found));
    return found ? NULL : read_files(module, &options->inputs, out);
}
