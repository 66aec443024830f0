/* subject.c: a model for the commands that compile and run it again and again: bisect, repro. */
#include "subject.h"

#include <stdlib.h>

static hn_status read_expected(tool_subject *s) {
    const tool_list *files = &s->options->expects;
    const uint32_t outputs = hn_module_output_count(s->whole.module);
    hn_ref_tensor *expected;
    if (files->count > outputs)
        return HN_ERROR(HN_INVALID_ARGUMENT,
                        "--expect is given %u times, and the model has %u output%s", files->count,
                        outputs, outputs == 1 ? "" : "s");
    if (!files->count) return NULL;
    HN_NEW(&s->arena, expected, files->count);
    for (uint32_t k = 0; k < files->count; k++) {
        hn_module_value_info info;
        HN_TRY(hn_module_output_info(s->whole.module, k, &info));
        HN_TRY(tool_array_read(&s->arena, files->items[k], info.type, &expected[k]));
    }
    s->subject.expected = expected;
    s->subject.expected_count = files->count;
    return NULL;
}

static uint64_t weight_bytes(const hn_graph *graph) {
    uint64_t bytes = 0;
    for (uint32_t k = 1; k < graph->storages.count; k++)
        bytes += graph->storages.items[k].size_bytes;
    return bytes;
}

static hn_status find_saved(void *user, hn_str node, hn_arena *arena, hn_ref_tensor *out,
                            bool *out_found) {
    return tool_compare_find(user, node, arena, out, out_found);
}

static hn_status open_saved(tool_subject *s) {
    HN_TRY(tool_compare_open(s->options, &s->saved));
    s->subject.saved = find_saved;
    s->subject.saved_user = s->saved;
    return NULL;
}

static hn_status open_model(tool_subject *s) {
    const hn_driver_limits all = {.pass = hn_driver_last_pass()};
    tool_compile_options(s->options, &s->compile);
    tool_load_options(s->options, &s->load);
    s->has_subject = true;
    HN_TRY(hn_subject_init(
        &s->subject, s->options->args.items[0],
        &(hn_subject_options){&s->compile, &s->load, s->options->rtol, s->options->atol}));
    s->has_build = true;
    HN_TRY(hn_build_graph(&s->subject, &all, &s->whole));
    s->subject.runs_programs = weight_bytes(s->whole.d.graph) > HN_INTERPRETED_BYTES;
    HN_TRY(hn_build_module(&s->subject, &s->whole));
    s->input_count = hn_module_input_count(s->whole.module);
    s->inputs = calloc(s->input_count + 1u, sizeof *s->inputs);
    if (!s->inputs) return HN_ERROR(HN_OUT_OF_MEMORY, "out of memory");
    HN_TRY(tool_inputs_read(s->options, s->options->args.items[0], s->whole.module, s->inputs));
    s->subject.inputs = s->inputs;
    s->subject.input_count = s->input_count;
    HN_TRY(read_expected(s));
    return s->options->compare ? open_saved(s) : NULL;
}

void tool_subject_deinit(tool_subject *s) {
    tool_compare_destroy(s->saved);
    if (s->has_build) hn_build_deinit(&s->whole);
    if (s->has_subject) hn_subject_deinit(&s->subject);
    if (s->inputs) tool_tensors_release(s->inputs, s->input_count);
    free(s->inputs);
    hn_arena_deinit(&s->arena);
}

hn_status tool_refuse_bundle(const tool_options *options) {
    tool_kind kind;
    HN_TRY(tool_kind_of(options->args.items[0], &kind));
    return kind == TOOL_HNB ? HN_ERROR(HN_INVALID_ARGUMENT,
                                       "'%s' is a bundle; name the model that it was compiled from",
                                       options->args.items[0])
                            : NULL;
}

hn_status tool_subject_open(const tool_options *options, tool_subject *out) {
    *out = (tool_subject){.options = options};
    hn_arena_init(&out->arena);
    HN_TRY(tool_device_check(options));
    HN_TRY(tool_refuse_bundle(options));
    return open_model(out);
}
