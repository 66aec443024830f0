/* lines.c: see the header. */
#include "bisect/lines.h"

#include "driver/sizes.h"

static hn_status find_lines(const hn_build *b, hn_arena *arena, hn_run_lines *out) {
    const hn_wrapper *w = b->wrapper;
    HN_NEW(arena, out->items, w->lines.count);
    for (uint32_t k = 0; k < w->lines.count; k++)
        if (hn_line_is_step(w->lines.items[k].kind)) out->items[out->count++] = &w->lines.items[k];
    if (out->count != hn_module_step_count(b->module)) out->count = 0;
    return NULL;
}

static hn_status find_sizes(const hn_subject *s, const hn_build *b, hn_arena *arena,
                            hn_run_lines *out) {
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
    out->sizes = (hn_ref_sizes){values.symbols, values.values, values.count};
    return NULL;
}

hn_status hn_run_lines_init(const hn_subject *s, const hn_build *b, hn_arena *arena,
                            hn_run_lines *out) {
    *out = (hn_run_lines){0};
    HN_TRY(find_lines(b, arena, out));
    return find_sizes(s, b, arena, out);
}
