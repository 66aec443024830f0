/* lines.c: see the header. */
#include "bisect/lines.h"

#include "driver/sizes.h"

#include <string.h>

static hn_status find_lines(const hn_driver *d, hn_module *module, const char *program,
                            hn_arena *arena, hn_run_lines *out) {
    const hn_wrapper *w = d->wrapper;
    *out = (hn_run_lines){.program = program, .d = d, .module = module};
    HN_NEW(arena, out->items, w->lines.count);
    for (uint32_t k = 0; k < w->lines.count; k++)
        if (hn_line_is_step(w->lines.items[k].kind)) out->items[out->count++] = &w->lines.items[k];
    if (out->count != hn_module_step_count(module)) out->count = 0;
    return NULL;
}

static hn_status find_sizes(const hn_subject *s, const hn_build *b, hn_arena *arena,
                            hn_ref_sizes *out) {
    hn_input_sizes *inputs;
    hn_size_values values;
    bool fit;
    HN_NEW(arena, inputs, s->input_count);
    for (uint32_t k = 0; k < s->input_count; k++) {
        const hn_tensor *t = s->inputs[k];
        inputs[k] = (hn_input_sizes){.rank = hn_tensor_rank(t), .sizes = hn_tensor_sizes(t)};
        inputs[k].has_value = t && !inputs[k].rank && hn_tensor_type(t) == HN_I64;
        if (inputs[k].has_value) HN_TRY(hn_tensor_copy_out(t, &inputs[k].value));
    }
    HN_TRY(hn_sizes_bind(b->d.graph, inputs, s->input_count, arena, &values, &fit));
    *out = (hn_ref_sizes){values.symbols, values.values, values.count};
    return NULL;
}

hn_status hn_run_lines_init(const hn_subject *s, const hn_build *b, hn_arena *arena,
                            hn_run_lines out[HN_RUN_PROGRAMS_MAX], uint32_t *out_count) {
    hn_module *of_weights = hn_module_weights_program(b->module);
    uint32_t count = 0;
    if (of_weights)
        HN_TRY(
            find_lines(hn_driver_weights_get(&b->d), of_weights, "weights", arena, &out[count++]));
    HN_TRY(find_lines(&b->d, b->module, "", arena, &out[count]));
    HN_TRY(find_sizes(s, b, arena, &out[count++].sizes));
    *out_count = count;
    return NULL;
}

const hn_run_lines *hn_run_lines_of(const hn_run_lines *lines, uint32_t count,
                                    const hn_step_info *step) {
    uint32_t k = 0;
    while (k + 1 < count && strcmp(lines[k].program, step->program) != 0) k++;
    return &lines[k];
}

static hn_status run_all(hn_subject *s, hn_build *b) {
    hn_arena arena;
    hn_results results;
    HN_TRY(hn_module_weights_recompute(b->module));
    hn_arena_init(&arena);
    hn_status status = hn_build_run(s, b, &arena, &results);
    hn_arena_deinit(&arena);
    return status;
}

hn_status hn_run_lines_run(hn_subject *s, hn_build *b, const hn_run_lines *lines, uint32_t count,
                           const hn_step_hook *hook) {
    hn_status status = NULL;
    uint32_t added = 0;
    while (!status && added < count) {
        status = hn_module_hook_add(lines[added].module, hook);
        added += !status;
    }
    if (!status) status = run_all(s, b);
    while (added-- > 0) {
        hn_status removed = hn_module_hook_remove(lines[added].module, hook);
        if (status) hn_status_free(removed);
        else status = removed;
    }
    return status;
}
